//! Connections, with bounds on their number and time.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::Peer;
use super::listen::Socket;

/// Most connections at the same time on each socket. Others wait.
const CONNECTIONS: usize = 64;
/// Longest time in which a client sends the head of a request.
const HEAD: Duration = Duration::from_secs(10);
/// Longest time of a connection.
const CONNECTION: Duration = Duration::from_secs(300);
/// Longest time for the last requests when the daemon ends.
const FAREWELL: Duration = Duration::from_secs(5);

/// Answers until `end` changes, and completes the requests that it is answering then.
pub async fn serve(socket: Socket, router: Router, end: watch::Receiver<bool>) -> io::Result<()> {
    match socket {
        Socket::Unix(listener, _name) => {
            let listener = tokio::net::UnixListener::from_std(listener)?;
            let accept = || async {
                let (stream, _) = listener.accept().await?;
                let who = stream.peer_cred().map_or("unix".into(), |who| {
                    let pid = who.pid().map_or(String::new(), |pid| format!(" pid {pid}"));
                    format!("uid {}{pid}", who.uid())
                });
                Ok((stream, who))
            };
            accept_all(accept, &router, end).await;
        }
        Socket::Tcp(listener) => {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let accept = || async {
                let (stream, peer) = listener.accept().await?;
                Ok((stream, peer.to_string()))
            };
            accept_all(accept, &router, end).await;
        }
    }
    Ok(())
}

async fn accept_all<S, A, F>(accept: A, router: &Router, end: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A: Fn() -> F,
    F: Future<Output = io::Result<(S, String)>>,
{
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    let mut ended = end.clone();
    let accepting = async {
        loop {
            // The semaphore is never closed.
            let Ok(seat) = Arc::clone(&room).acquire_owned().await else {
                return;
            };
            match accept().await {
                Ok((stream, who)) => {
                    let router = router.clone().layer(Extension(Peer(who)));
                    let mut end = end.clone();
                    connections.spawn(async move {
                        connection(stream, router, &mut end).await;
                        drop(seat);
                    });
                    // Forgets connections that ended.
                    while connections.try_join_next().is_some() {}
                }
                // Descriptors ran out, or the client is gone already: the next one may succeed.
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    };
    tokio::select! {
        () = accepting => {}
        _ = ended.wait_for(|&end| end) => {}
    }
    let _ = tokio::time::timeout(FAREWELL, async {
        while connections.join_next().await.is_some() {}
    })
    .await;
}

async fn connection<S>(stream: S, router: Router, end: &mut watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_headers(64)
        .max_buf_size(64 << 10)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    let served = async {
        tokio::select! {
            result = connection.as_mut() => return result,
            _ = end.wait_for(|&end| end) => connection.as_mut().graceful_shutdown(),
        }
        connection.await
    };
    match tokio::time::timeout(CONNECTION, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a connection failed"),
        Err(_) => tracing::debug!("a connection took too long"),
    }
}
