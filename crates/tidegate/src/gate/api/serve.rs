//! Connections, with bounds on their number and time.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tidegate_serve::server::Certificate;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use super::Peer;
use super::listen::Socket;

/// Most connections at the same time on each socket. One more ends the oldest that waits for its client.
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
            accept_all(accept, &router, None, end).await;
        }
        Socket::Tcp(listener, certificate) => {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let accept = || async {
                let (stream, peer) = listener.accept().await?;
                Ok((stream, peer.to_string()))
            };
            accept_all(accept, &router, certificate, end).await;
        }
    }
    Ok(())
}

async fn accept_all<S, A, F>(
    accept: A,
    router: &Router,
    certificate: Option<Certificate>,
    end: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A: Fn() -> F,
    F: Future<Output = io::Result<(S, String)>>,
{
    let mut connections = JoinSet::new();
    let mut seats: VecDeque<Seat> = VecDeque::new();
    let mut ended = end.clone();
    let accepting = async {
        loop {
            match accept().await {
                Ok((stream, who)) => {
                    while connections.try_join_next().is_some() {}
                    make_room(&mut seats, &mut connections).await;
                    let answering = Arc::new(AtomicBool::new(false));
                    let router = router.clone().layer(Extension(Peer(who)));
                    let router = noting(router, Arc::clone(&answering));
                    let mut end = end.clone();
                    let acceptor = certificate.as_ref().map(Certificate::acceptor);
                    let task = connections.spawn(async move {
                        let Some(acceptor) = acceptor else {
                            return connection(stream, router, &mut end).await;
                        };
                        match tokio::time::timeout(HEAD, acceptor.accept(stream)).await {
                            Ok(Ok(stream)) => connection(stream, router, &mut end).await,
                            Ok(Err(error)) => tracing::debug!(%error, "no TLS"),
                            Err(_) => tracing::debug!("a client took too long for TLS"),
                        }
                    });
                    seats.push_back(Seat { answering, task });
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

/// How often to look whether an answer is done.
const LOOK: Duration = Duration::from_millis(50);

/// A connection.
struct Seat {
    /// Whether a request is being answered.
    answering: Arc<AtomicBool>,
    task: AbortHandle,
}

/// Waits for room for one more connection. Clients that send nothing, or little by little, must not keep
/// others from the API: the oldest of them has to go.
async fn make_room(seats: &mut VecDeque<Seat>, connections: &mut JoinSet<()>) {
    seats.retain(|seat| !seat.task.is_finished());
    while seats.len() >= CONNECTIONS {
        let waits = |seat: &Seat| !seat.answering.load(Ordering::Relaxed);
        if let Some(oldest) = seats.iter().position(waits) {
            if let Some(seat) = seats.remove(oldest) {
                seat.task.abort();
            }
        } else {
            // All are being answered: the first that is done makes room, whether its client hangs up or not.
            let _ = tokio::time::timeout(LOOK, connections.join_next()).await;
            seats.retain(|seat| !seat.task.is_finished());
        }
    }
}

/// Notes while a request is being answered.
fn noting(router: Router, answering: Arc<AtomicBool>) -> Router {
    router.layer(from_fn(move |request: Request, next: Next| {
        let answering = Arc::clone(&answering);
        async move {
            answering.store(true, Ordering::Relaxed);
            let answer = next.run(request).await;
            answering.store(false, Ordering::Relaxed);
            answer
        }
    }))
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
