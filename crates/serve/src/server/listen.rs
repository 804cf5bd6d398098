//! Connections: accepted within the limits, served, watched, and ended in good order.

use std::convert::Infallible;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rand::RngCore;
use rand_pcg::Pcg64;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;

use super::connection::Connection;
use super::files::Folder;
use super::handler;
use super::kernel::Sockets;
use super::log::Log;
use super::metrics::Metrics;
use super::places::{Kind, Place};
use super::socket::Watched;
use super::{Config, LogTo, ServeError, Shared, tls};

#[cfg(test)]
mod tests;

/// Bytes of a request's header, or of what is written at once without a body's block.
const HEADER: usize = 16 << 10;
/// Bytes in the socket that were not sent yet: enough to keep TCP busy, and little enough that a client that leaves wastes little, and that
/// the phases follow each other without megabytes of the first in the way of the second.
const NOT_SENT: u32 = 128 << 10;
/// Responses at a time on one connection of HTTP/2.
const STREAMS: u32 = 16;
/// Bytes of one of them that wait for the client's window, and a frame more.
const STREAM_BUFFER: usize = 16 << 10;
/// How long a connection without a request may take to end when it is told to.
const FAREWELL: Duration = Duration::from_secs(1);

/// How often a timeout's time is looked whether the client took something.
const LOOKS: u32 = 8;

/// Longer than anything is waited for.
const A_YEAR: Duration = Duration::from_secs(365 * 86_400);

/// What connections are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Serve,
    /// No new requests.
    Finish,
    /// At once.
    Leave,
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    metrics: Option<TcpListener>,
    tls: Option<TlsAcceptor>,
    shared: Arc<Shared>,
}

async fn bind(address: SocketAddr) -> Result<TcpListener, ServeError> {
    let listen = TcpListener::bind(address).await;
    listen.map_err(|error| ServeError::Listen { address, error })
}

impl Server {
    /// Opens all that it needs, and begins to listen.
    pub async fn bind(mut config: Config, log: Option<LogTo>) -> Result<Self, ServeError> {
        if config.groups.is_empty() {
            return Err(ServeError::Config("there is no way to pace"));
        }
        if config.throttle_percent < 100 {
            return Err(ServeError::Config(
                "below 100 % of the encoding rate no video plays through",
            ));
        }
        if config.rate.is_some_and(|rate| rate.bits_per_second() == 0) {
            return Err(ServeError::Config("no video has an encoding rate of 0"));
        }
        // Times are added to the clock, which does not reach for ever.
        let limits = &mut config.limits;
        if limits.header_timeout.is_zero() || limits.stall_timeout.is_zero() {
            return Err(ServeError::Config(
                "a timeout of 0 leaves clients no time: give one of 1ms or more",
            ));
        }
        for time in [
            &mut limits.header_timeout,
            &mut limits.stall_timeout,
            &mut limits.grace,
        ] {
            *time = (*time).min(A_YEAR);
        }
        let folder = Folder::open(&config.folder, config.rate).map_err(|error| {
            let path = config.folder.clone();
            ServeError::Folder { path, error }
        })?;
        let tls = match &config.tls {
            Some((certificate, key)) => Some(tls::acceptor(certificate, key)?),
            None => None,
        };
        let sockets = Sockets::new(config.groups.iter().map(|group| group.way));
        let log = match log {
            Some((format, to)) => Some(
                Log::new(format, to)
                    .map_err(|error| ServeError::System("cannot start a thread", error))?,
            ),
            None => None,
        };
        let listener = bind(config.listen).await?;
        let metrics = match config.metrics {
            Some(address) => Some(bind(address).await?),
            None => None,
        };
        let shared = Arc::new(Shared {
            metrics: Metrics::new(&config.groups),
            folder,
            sockets,
            log,
            open: Default::default(),
            config,
        });
        Ok(Self {
            listener,
            metrics,
            tls,
            shared,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Where its metrics are.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref()?.local_addr().ok()
    }

    /// What was asked for and cannot be had on this machine, and what is done instead.
    pub fn remark(&self) -> Option<String> {
        self.shared.sockets.remark()
    }

    /// Serves until `shutdown` is done, and then until all responses are, or their time is up.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Self {
            listener,
            metrics,
            tls,
            shared,
        } = self;
        let metrics = metrics.map(|listener| tokio::spawn(serve_metrics(listener, shared.clone())));
        let (orders, order) = watch::channel(Order::Serve);
        let mut tasks = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        let mut split = Pcg64::new(u128::from(shared.config.seed), 0xa02b_dbf7_bb3c_0a7a);
        let mut number = 0;
        let mut admit = |tasks: &mut JoinSet<()>, socket: TcpStream, peer: SocketAddr| {
            let Some(place) = Place::take(&shared, peer.ip(), Kind::Connection) else {
                // It is told nothing: an answer would cost what is short.
                return;
            };
            let groups = shared.config.groups.len() as u64;
            let group = (split.next_u64() % groups) as usize;
            let connection = prepare(&shared, number, group, socket, peer);
            number += 1;
            let (tls, order) = (tls.clone(), order.clone());
            tasks.spawn(async move {
                let _place = place;
                let mut counted = Counted::new(connection, group);
                counted.why = serve(&counted.connection, tls, order).await;
            });
        };
        // Said once, not again until something was accepted.
        let mut failing = false;
        loop {
            let accepted = tokio::select! {
                () = &mut shutdown => break,
                Some(_) = tasks.join_next() => continue,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((socket, peer)) => {
                    failing = false;
                    admit(&mut tasks, socket, peer);
                }
                // Of one connection that is gone again; or of all, until some end.
                Err(error) => {
                    shared.metrics.refused("accept");
                    if !failing {
                        tracing::warn!("cannot accept connections: {error}");
                    }
                    failing = true;
                    sleep(Duration::from_millis(50)).await;
                }
            }
        }
        // Whoever was connected by then may have sent a request already. The kernel is asked itself: tokio may not have heard of them yet.
        if let Ok(listener) = listener.into_std() {
            while let Ok((socket, peer)) = listener.accept() {
                if socket.set_nonblocking(true).is_ok()
                    && let Ok(socket) = TcpStream::from_std(socket)
                {
                    admit(&mut tasks, socket, peer);
                }
            }
        }
        // Without receivers there is nobody to tell.
        let _ = orders.send(Order::Finish);
        let finish = async { while tasks.join_next().await.is_some() {} };
        if timeout(shared.config.limits.grace, finish).await.is_err() {
            let _ = orders.send(Order::Leave);
            let leave = async { while tasks.join_next().await.is_some() {} };
            if timeout(FAREWELL, leave).await.is_err() {
                tasks.abort_all();
                let _ = timeout(FAREWELL, async {
                    while tasks.join_next().await.is_some() {}
                })
                .await;
            }
        }
        if let Some(metrics) = metrics {
            metrics.abort();
        }
    }
}

fn prepare(
    shared: &Arc<Shared>,
    number: u64,
    group: usize,
    socket: TcpStream,
    peer: SocketAddr,
) -> Arc<Connection> {
    // Whoever left already shows so at the first read.
    let _ = socket.set_nodelay(true);
    let _ = socket2::SockRef::from(&socket).set_tcp_notsent_lowat(NOT_SENT);
    Arc::new(Connection::new(shared.clone(), number, group, socket, peer))
}

/// A connection that is counted as open; counted and logged as ended when it is dropped, even by a panic.
struct Counted {
    connection: Arc<Connection>,
    group: usize,
    why: &'static str,
}

impl Counted {
    fn new(connection: Arc<Connection>, group: usize) -> Self {
        connection.shared.metrics.opened(group);
        Self {
            connection,
            group,
            why: "broken",
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let (connection, why) = (&self.connection, self.why);
        let shared = &connection.shared;
        shared
            .metrics
            .closed(self.group, why, &connection.account());
        shared.log_connection(connection, why);
    }
}

/// Serves a connection; says why it ended.
async fn serve(
    connection: &Arc<Connection>,
    tls: Option<TlsAcceptor>,
    mut order: watch::Receiver<Order>,
) -> &'static str {
    let socket = Watched(Arc::clone(connection));
    let why = match tls {
        None => speak(connection, socket, order).await,
        Some(tls) => {
            let time = connection.shared.config.limits.header_timeout;
            let accepted = tokio::select! {
                accepted = timeout(time, tls.accept(socket)) => accepted,
                // Whoever has no connection yet has no response that could be waited for.
                Ok(()) = order.changed() => return "shutdown",
            };
            match accepted {
                Ok(Ok(stream)) => speak(connection, stream, order).await,
                Ok(Err(error)) => {
                    tracing::debug!("{}: TLS: {error}", connection.peer);
                    "tls"
                }
                Err(_) => "header timeout",
            }
        }
    };
    let socket = socket2::SockRef::from(connection.socket());
    if why == "stall timeout" {
        // What it does not take is not kept for it.
        let _ = socket.set_linger(Some(Duration::ZERO));
    } else {
        let _ = socket.shutdown(std::net::Shutdown::Both);
    }
    why
}

/// Gives each stream of HTTP/2 a task that its connection can end.
#[derive(Clone)]
struct Streams(Arc<Connection>);

impl<F> Executor<F> for Streams
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, stream: F) {
        self.0.spawned(tokio::spawn(stream).abort_handle());
    }
}

/// Speaks HTTP until the connection ends, or the client is too slow.
async fn speak(
    connection: &Arc<Connection>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    mut order: watch::Receiver<Order>,
) -> &'static str {
    let mut http = auto::Builder::new(Streams(Arc::clone(connection)));
    // Only header and one block wait for the socket: pacing begins where bytes are made.
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_buf_size(HEADER);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEADER as u32)
        .max_send_buf_size(STREAM_BUFFER);
    let service = |request| handler::answer(Arc::clone(connection), request);
    let mut speaking = pin!(http.serve_connection(TokioIo::new(stream), service_fn(service)));
    let mut farewell = None;
    let mut finishing = false;
    let limits = connection.shared.config.limits;
    let shortest = limits.header_timeout.min(limits.stall_timeout);
    let why = |result: Result<(), Box<dyn Error + Send + Sync>>, finishing: bool, leaving: bool| {
        match result {
            Ok(()) if !finishing && !leaving && connection.was_cut() => "client left",
            Ok(()) => "done",
            Err(error) => {
                tracing::debug!("{}: {error}", connection.peer);
                match reason(&*error) {
                    // Told to end before HTTP began, it ends with an error.
                    "broken" if finishing => "shutdown",
                    "broken" if leaving => "header timeout",
                    reason => reason,
                }
            }
        }
    };
    loop {
        // A deadline may come nearer when a response begins or ends. What was acknowledged counts from when that is seen.
        let (deadline, _) = connection.deadline();
        let look = deadline.min(Instant::now() + shortest / LOOKS);
        tokio::select! {
            biased;
            result = speaking.as_mut() => return why(result, finishing, farewell.is_some()),
            Ok(()) = order.changed() => {
                if *order.borrow_and_update() == Order::Leave {
                    return "shutdown";
                }
                // A request that waits in the socket is read first: HTTP that has not begun ends without it.
                if connection.has_unread() {
                    let _ = connection.socket().readable().await;
                    let once = |cx: &mut Context<'_>| Poll::Ready(speaking.as_mut().poll(cx));
                    if let Poll::Ready(result) = poll_fn(once).await {
                        return why(result, true, farewell.is_some());
                    }
                }
                finishing = true;
                speaking.as_mut().graceful_shutdown();
            }
            () = sleep_until(farewell.unwrap_or(look)) => {
                connection.look();
                let (deadline, sending) = connection.deadline();
                if deadline > Instant::now() || sending && connection.reset_stalled() {
                    farewell = None;
                } else if sending {
                    return "stall timeout";
                } else if farewell.is_some() {
                    return "header timeout";
                } else {
                    farewell = Some(Instant::now() + FAREWELL);
                    speaking.as_mut().graceful_shutdown();
                }
            }
        }
    }
}

/// Why HTTP ended with an error: most clients that have seen enough just leave.
fn reason(error: &(dyn Error + Send + Sync + 'static)) -> &'static str {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let left = if let Some(error) = error.downcast_ref::<io::Error>() {
            use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
            let gone = [
                BrokenPipe,
                ConnectionAborted,
                ConnectionReset,
                UnexpectedEof,
            ];
            gone.contains(&error.kind())
        } else {
            let error = error.downcast_ref::<hyper::Error>();
            if error.is_some_and(hyper::Error::is_parse) {
                return "bad request";
            }
            error.is_some_and(|error| error.is_incomplete_message() || error.is_closed())
        };
        if left {
            return "client left";
        }
        cause = error.source();
    }
    "broken"
}

/// Answers requests for metrics.
async fn serve_metrics(listener: TcpListener, shared: Arc<Shared>) {
    const AT_ONCE: usize = 16;
    let places = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let Ok((socket, _)) = listener.accept().await else {
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            continue;
        };
        let shared = shared.clone();
        tokio::spawn(async move {
            let _place = place;
            let page = |request: Request<Incoming>| {
                let found = request.uri().path() == "/metrics";
                let (status, page) = if found {
                    (StatusCode::OK, shared.metrics.text())
                } else {
                    (StatusCode::NOT_FOUND, "metrics are at /metrics\n".into())
                };
                let mut response = Response::new(page);
                *response.status_mut() = status;
                let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
                let kind = hyper::header::HeaderValue::from_static(kind);
                response.headers_mut().insert(CONTENT_TYPE, kind);
                async { Ok::<_, Infallible>(response) }
            };
            let _ = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(Duration::from_secs(10))
                .keep_alive(false)
                .serve_connection(TokioIo::new(socket), service_fn(page))
                .await;
        });
    }
}
