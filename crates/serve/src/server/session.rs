//! A connection of TCP from its handshake to its end: TLS, HTTP, and clients that are too slow.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::io;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;

use super::behind::{Behind, Sent, Taken};
use super::connection::Connection;
use super::disk::Shortened;
use super::handler::{self, Entrance};
use super::log::BAD_REQUEST;
use super::memory;
use super::patience::{FAREWELL, Patience, STALLED, Verdict, rests_until};
use super::rest::{Kept, REST};
use super::resting::Rested;
use super::sending::{push, send};
use super::slots::Slot;
use super::socket::Watched;

#[cfg(test)]
mod tests;

/// Bytes of a request's header, or of data that is written at once without a body's block.
pub(super) const HEADER: usize = 16 << 10;
/// Responses at a time on one connection of HTTP/2 or HTTP/3.
pub(super) const STREAMS: u32 = 16;
/// Bytes of a stream that wait for the client's window, and a frame more.
const STREAM_BUFFER: usize = 16 << 10;

/// An instruction to all connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Serve,
    /// No new requests.
    Finish,
    /// At once.
    Leave,
}

/// An open connection for the counters. It is counted and logged as ended when it is dropped, even by a
/// panic.
pub(super) struct Counted {
    /// None: it rests, and is still open.
    connection: Option<Arc<Connection>>,
    why: &'static str,
}

impl Counted {
    /// A connection that begins.
    pub fn new(connection: Arc<Connection>) -> Self {
        connection.log_begin();
        Self::again(connection)
    }

    /// A connection that rested.
    pub fn again(connection: Arc<Connection>) -> Self {
        Self {
            connection: Some(connection),
            why: "broken",
        }
    }

    /// Ends it for this reason.
    pub fn end(mut self, why: &'static str) {
        self.why = why;
    }

    /// Lets it rest in this slot.
    fn rest(mut self, slot: Slot) -> Option<Rested> {
        let connection = self.connection.take()?;
        let (until, shared) = (rests_until(&connection), Arc::clone(&connection.shared));
        match Arc::try_unwrap(connection) {
            Ok(connection) => {
                let (past, socket) = connection.rest()?;
                shared.metrics.rested();
                Some(Rested {
                    socket,
                    past,
                    slot,
                    until,
                })
            }
            Err(connection) => {
                self.connection = Some(connection);
                None
            }
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(connection) = &self.connection {
            connection.log_end(self.why);
        }
    }
}

/// Serves a connection until it ends or rests, in its slot.
pub(super) async fn serve(
    counted: Counted,
    tcp: Arc<TcpStream>,
    tls: Option<TlsAcceptor>,
    order: watch::Receiver<Order>,
    slot: Slot,
) -> Option<Rested> {
    let connection = counted.connection.clone()?;
    let why = speak(&connection, tcp, tls, order).await;
    drop(connection);
    match why {
        Some(why) => {
            counted.end(why);
            None
        }
        None => counted.rest(slot),
    }
}

/// Speaks with the client until the connection ends or rests. Returns why it ends, if it does.
async fn speak(
    connection: &Arc<Connection>,
    tcp: Arc<TcpStream>,
    tls: Option<TlsAcceptor>,
    mut order: watch::Receiver<Order>,
) -> Option<&'static str> {
    let behind = Arc::default();
    let socket = Watched {
        connection: Arc::clone(connection),
        socket: Arc::clone(&tcp),
        behind: Arc::clone(&behind),
    };
    let client = (connection, &*tcp);
    let why = match tls {
        None => speak_plainly(client, (Kept::new(socket), behind), order).await?,
        Some(tls) => {
            let time = connection.shared.config.limits.header_timeout;
            let accepted = tokio::select! {
                accepted = timeout(time, Box::pin(tls.accept(socket))) => accepted,
                // A handshake that is not complete has no response to wait for.
                Ok(()) = order.changed() => return Some("shutdown"),
            };
            match accepted {
                // In memory of its own, which connections without TLS do not need.
                Ok(Ok(stream)) => {
                    let stream = (Kept::new(stream), behind);
                    Box::pin(speak_tls(client, stream, order)).await
                }
                Ok(Err(error)) => {
                    tracing::debug!("{}: TLS: {error}", connection.peer());
                    "tls"
                }
                Err(_) => "header timeout",
            }
        }
    };
    let socket = socket2::SockRef::from(&*tcp);
    match why {
        STALLED => {
            // Data that the client does not take is dropped.
            let _ = socket.set_linger(Some(Duration::ZERO));
        }
        "done" | BAD_REQUEST if has_unread(&tcp) => {
            let _ = socket.shutdown(std::net::Shutdown::Write);
            let _ = timeout(FAREWELL, discard(&tcp)).await;
        }
        _ => {
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
    }
    Some(why)
}

/// Discards what the client still sends, until it ends. If the server closes a socket with bytes that nobody has read, the kernel resets the
/// connection, and the client loses the end of its last response (RFC 9112, section 9.6).
async fn discard(socket: &TcpStream) {
    while socket.readable().await.is_ok() {
        match socket.try_read(&mut [0; 1 << 10]) {
            Ok(1..) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(0) | Err(_) => return,
        }
    }
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

/// Whether bytes from the client wait in the socket.
fn has_unread(socket: &TcpStream) -> bool {
    let mut byte = [MaybeUninit::uninit()];
    socket2::SockRef::from(socket)
        .peek(&mut byte)
        .is_ok_and(|count| count > 0)
}

/// Speaks HTTP without TLS until the connection ends or rests. Returns why it ends, if it does.
async fn speak_plainly(
    client: (&Arc<Connection>, &TcpStream),
    stream: Stream<Watched>,
    mut order: watch::Receiver<Order>,
) -> Option<&'static str> {
    let mut patience = Patience::new(client.0);
    loop {
        let waited = timeout(REST, wait(client, &mut patience, &mut order));
        if let Some(why) = waited.await.ok()? {
            return Some(why);
        }
        let orders = (&mut patience, &mut order);
        // In memory of its own, which a connection that waits or sends does not need.
        let conversing = Box::pin(converse(client, &stream, Entrance::Plain, orders));
        let taken = match conversing.await {
            Next::Ends(why) => return Some(why),
            Next::Rests => return None,
            Next::Sends(taken) => taken,
        };
        let orders = (&mut patience, &mut order);
        if let Some(why) = send_behind(client, taken, orders).await {
            return Some(why);
        }
    }
}

/// Sends a response that was taken behind its head. Returns why the connection ends, if it does.
async fn send_behind(
    (connection, socket): (&Arc<Connection>, &TcpStream),
    Taken { answer, persists }: Taken,
    (patience, order): (&mut Patience, &mut watch::Receiver<Order>),
) -> Option<&'static str> {
    let mut sending = pin!(send(answer, socket));
    let mut check = pin!(sleep_until(patience.next(connection)));
    let mut left = pin!(has_left(socket));
    let mut finishes = false;
    loop {
        tokio::select! {
            biased;
            sent = sending.as_mut() => match sent {
                Ok(()) if persists => break,
                Ok(()) => return Some("done"),
                Err(error) => {
                    tracing::debug!("{}: {error}", connection.peer());
                    return Some(reason(&error));
                }
            },
            () = left.as_mut() => return Some("client left"),
            Ok(()) = order.changed() => {
                if *order.borrow_and_update() == Order::Leave {
                    return Some("shutdown");
                }
                finishes = true;
            }
            () = check.as_mut() => match patience.check(connection) {
                Verdict::Wait | Verdict::Ask => check.as_mut().reset(patience.next(connection)),
                Verdict::End(why) => return Some(why),
            },
        }
    }
    if finishes {
        // Who waits for the next request must see it.
        order.mark_changed();
    }
    None
}

/// Waits for the client's end, unless it sends another request before.
async fn has_left(socket: &TcpStream) {
    if socket.peek(&mut [0]).await.is_ok_and(|count| count > 0) {
        std::future::pending().await
    }
}

/// Speaks HTTP within TLS until the connection ends. The client is told of the end within TLS too (RFC 8446, section 6.1), unless it takes
/// nothing any more. Without that it cannot tell the end from an attack.
async fn speak_tls(
    client: (&Arc<Connection>, &TcpStream),
    stream: Stream<impl AsyncRead + AsyncWrite + Unpin + Send + 'static>,
    order: watch::Receiver<Order>,
) -> &'static str {
    let mut kept = stream.0.clone();
    let why = speak_within(client, stream, order).await;
    if why != STALLED {
        // Once, as far as the socket has room: nobody waits for it.
        let told = |cx: &mut Context<'_>| Poll::Ready(Pin::new(&mut kept).poll_shutdown(cx));
        let _ = poll_fn(told).await;
    }
    why
}

/// Speaks HTTP within TLS. The state of TLS stays with the connection when it rests.
async fn speak_within(
    client: (&Arc<Connection>, &TcpStream),
    stream: Stream<impl AsyncRead + AsyncWrite + Unpin + Send + 'static>,
    mut order: watch::Receiver<Order>,
) -> &'static str {
    let mut patience = Patience::new(client.0);
    loop {
        // The handshake may have read the first request.
        let orders = (&mut patience, &mut order);
        let speaking = converse(client, &stream, Entrance::Tls, orders);
        if let Next::Ends(why) = Box::pin(speaking).await {
            return why;
        }
        if memory::is_left_by(client.0.shared.metrics.rested() + 1) {
            memory::give_back_soon();
        }
        if let Some(why) = wait(client, &mut patience, &mut order).await {
            return why;
        }
    }
}

/// What HTTP is spoken on, and its response that is behind its head.
type Stream<S> = (Kept<S>, Arc<Behind>);

/// What comes after HTTP was spoken.
enum Next {
    /// The connection ends, for this reason.
    Ends(&'static str),
    /// There was no request for a while.
    Rests,
    /// A response is to be sent.
    Sends(Taken),
}

/// Answers requests until there was none for a while, or a response is taken behind its head.
async fn converse(
    (connection, socket): (&Arc<Connection>, &TcpStream),
    (stream, behind): &Stream<impl AsyncRead + AsyncWrite + Unpin + Send + 'static>,
    entrance: Entrance,
    (patience, order): (&mut Patience, &mut watch::Receiver<Order>),
) -> Next {
    let mut http = auto::Builder::new(Streams(Arc::clone(connection)));
    if behind.has_begun() {
        // The version is known. To find it out takes a call of its own.
        http = http.http1_only();
    }
    // Only the header and one block wait for the socket, because pacing begins where bytes are
    // made.
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_buf_size(HEADER);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEADER as u32)
        .max_send_buf_size(STREAM_BUFFER);
    let service = |request: hyper::Request<Incoming>| {
        let persists = match entrance {
            Entrance::Plain => behind.asked(&request),
            _ => None,
        };
        let asked = connection.asked();
        let answer = handler::answer(Arc::clone(connection), request, entrance);
        let behind = Arc::clone(behind);
        async move {
            let answer = answer.await;
            drop(asked);
            answer.map(|response| {
                response.map(Box::new).map(|answer| match persists {
                    Some(persists) if answer.is_long() => behind.hold(answer, persists),
                    _ => Sent::Whole(answer),
                })
            })
        }
    };
    let io = TokioIo::new(stream.clone());
    let mut speaking = pin!(http.serve_connection(io, service_fn(service)));
    let mut finishing = false;
    // The server told the library to end the connection.
    let mut ends = false;
    let mut timer = pin!(sleep_until(Instant::now()));
    loop {
        // Both are asked after the future that answers requests, and so see when that has written a head, or become idle.
        let taken = poll_fn(
            |_| match behind.take(|| stream.requests(), || push(socket)) {
                Some(taken) => Poll::Ready(taken),
                None => Poll::Pending,
            },
        );
        let rests = poll_fn(|cx| {
            let at = connection.rests_at();
            let Some(at) = at.filter(|_| stream.requests().is_some()) else {
                return Poll::Pending;
            };
            if timer.deadline() != at {
                timer.as_mut().reset(at);
            }
            timer.as_mut().poll(cx)
        });
        tokio::select! {
            biased;
            result = speaking.as_mut() => {
                return Next::Ends(why(connection, result, finishing, patience.is_over()));
            }
            mut taken = taken => {
                // The head may say that the connection ends, or the next one must not be answered.
                taken.persists &= !ends && *order.borrow() == Order::Serve;
                return Next::Sends(taken);
            }
            Ok(()) = order.changed() => {
                if *order.borrow_and_update() == Order::Leave {
                    return Next::Ends("shutdown");
                }
                // A request that waits in the socket is read first. Otherwise HTTP that has not begun would
                // end without it.
                if has_unread(socket) {
                    let _ = socket.readable().await;
                    let once = |cx: &mut Context<'_>| Poll::Ready(speaking.as_mut().poll(cx));
                    if let Poll::Ready(result) = poll_fn(once).await {
                        return Next::Ends(why(connection, result, true, patience.is_over()));
                    }
                }
                finishing = true;
                ends = true;
                speaking.as_mut().graceful_shutdown();
            }
            () = rests, if !finishing && !patience.is_over() => return Next::Rests,
            () = sleep_until(patience.next(connection)) => match patience.check(connection) {
                Verdict::Wait => {}
                Verdict::Ask => {
                    ends = true;
                    speaking.as_mut().graceful_shutdown();
                }
                Verdict::End(why) => return Next::Ends(why),
            },
        }
    }
}

/// Waits for a request, or the client's end, without anything that speaks HTTP. Returns why the connection ends, if it does.
async fn wait(
    (connection, socket): (&Arc<Connection>, &TcpStream),
    patience: &mut Patience,
    order: &mut watch::Receiver<Order>,
) -> Option<&'static str> {
    let ends = |otherwise| match connection.was_used() {
        true => "done",
        false => otherwise,
    };
    loop {
        tokio::select! {
            biased;
            _ = socket.readable() => return None,
            Ok(()) = order.changed() => {
                if *order.borrow_and_update() == Order::Leave {
                    return Some("shutdown");
                }
                if !has_unread(socket) {
                    return Some(ends("shutdown"));
                }
                // A request that has just come is answered first.
                order.mark_changed();
                return None;
            }
            () = sleep_until(patience.next(connection)) => match patience.check(connection) {
                Verdict::Wait => {}
                // A request that has just come is answered.
                Verdict::Ask if has_unread(socket) => {
                    let _ = socket.readable().await;
                    return None;
                }
                Verdict::Ask => return Some(ends("header timeout")),
                Verdict::End(why) => return Some(why),
            },
        }
    }
}

/// Why a connection ends whose HTTP ended with this result.
fn why(
    connection: &Connection,
    result: Result<(), Box<dyn Error + Send + Sync>>,
    finishing: bool,
    leaving: bool,
) -> &'static str {
    match result {
        Ok(()) if !finishing && !leaving && connection.was_cut() => "client left",
        Ok(()) => "done",
        Err(error) => {
            tracing::debug!("{}: {error}", connection.peer());
            match reason(&*error) {
                // If hyper should end before HTTP began, it ends with an error.
                "broken" if finishing => "shutdown",
                "broken" if leaving => "header timeout",
                reason => reason,
            }
        }
    }
}

/// Why HTTP ended with an error. Most clients that have seen enough just leave.
fn reason(error: &(dyn Error + Send + Sync + 'static)) -> &'static str {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let left = if let Some(error) = error.downcast_ref::<io::Error>() {
            if error.get_ref().is_some_and(|error| error.is::<Shortened>()) {
                return "file shortened";
            }
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
                return BAD_REQUEST;
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
