//! A connection of HTTP/3 from its handshake to its end.

use std::sync::Arc;
use std::time::Duration;

use quinn::ConnectionError;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::bounded::Bounded;
use super::{Handshake, NO_ERROR, request};
use crate::server::connection::{Connection, Past};
use crate::server::log::BAD_REQUEST;
use crate::server::patience::{FAREWELL, Patience, Verdict};
use crate::server::quic::Quic;
use crate::server::session::{Counted, HEADER, Order};
use crate::server::shared::Shared;
use crate::server::transport::Transport;

/// How often a connection that is to end checks whether its client has everything.
const FINISH_CHECK: Duration = Duration::from_millis(100);

/// GOAWAY names the first request that is not served: the next one after those that came (RFC 9114, section 5.2). h3 counts from the last of these.
const NEXT: usize = 1;

/// Serves a client. `number` and `group`: those of the connection.
pub(in crate::server) async fn serve(
    shared: Arc<Shared>,
    (number, group): (u64, usize),
    handshake: Handshake,
    mut order: watch::Receiver<Order>,
) {
    let time = shared.config.limits.header_timeout;
    let (peer, window) = (handshake.peer, handshake.window);
    let accepted = tokio::select! {
        accepted = timeout(time, handshake.connecting) => accepted,
        // A handshake that is not complete has no response to wait for.
        Ok(()) = order.changed() => return,
    };
    let Ok(Ok(quic)) = accepted else {
        if let Ok(Err(error)) = accepted {
            tracing::debug!("{peer}: handshake: {error}");
        }
        return shared.metrics.refused("handshake");
    };
    drop(handshake.unproved);
    let transport = Transport::Quic(Quic::new(quic.clone(), window));
    let connection = Connection::new(shared, Past::new(number, group, peer), transport);
    let connection = Arc::new(connection);
    let counted = Counted::new(Arc::clone(&connection));
    counted.end(speak(&connection, &quic, order).await);
    quic.close(NO_ERROR.into(), b"");
}

/// Speaks HTTP until the connection ends, or the client is too slow.
async fn speak(
    connection: &Arc<Connection>,
    quic: &quinn::Connection,
    mut order: watch::Receiver<Order>,
) -> &'static str {
    let mut http = h3::server::builder();
    http.max_field_section_size(HEADER as u64)
        .send_grease(false);
    let time = connection.shared.config.limits.header_timeout;
    // It waits for the client to allow the streams that HTTP/3 needs.
    let mut http = match timeout(time, http.build(Bounded::new(quic.clone()))).await {
        Ok(Ok(http)) => http,
        Ok(Err(_)) => return ended(connection, quic),
        Err(_) => return "header timeout",
    };
    // They end with this.
    let mut answers = JoinSet::new();
    let mut patience = Patience::new(connection);
    let mut finishing = false;
    // The client will send no more requests.
    let mut is_last = false;
    loop {
        let check = match finishing {
            true => Instant::now() + FINISH_CHECK,
            false => patience.next(connection),
        };
        tokio::select! {
            accepted = http.accept(), if !is_last => match accepted {
                Ok(Some(request)) => {
                    let answer = request::answer(Arc::clone(connection), request);
                    connection.spawned(answers.spawn(answer));
                }
                // What quinn took may still be on its way.
                Ok(None) if quic.close_reason().is_none() => {
                    (is_last, finishing) = (true, true);
                }
                Ok(None) => return ended(connection, quic),
                Err(error) => {
                    tracing::debug!("{}: {error}", connection.peer());
                    return ended(connection, quic);
                }
            },
            Some(_) = answers.join_next() => {}
            Ok(()) = order.changed() => {
                if *order.borrow_and_update() == Order::Leave {
                    return "shutdown";
                }
                // Requests that have come are answered.
                while let Ok(Ok(Some(request))) = timeout(Duration::ZERO, http.accept()).await {
                    let answer = request::answer(Arc::clone(connection), request);
                    connection.spawned(answers.spawn(answer));
                }
                finishing = true;
                let _ = timeout(FAREWELL, http.shutdown(NEXT)).await;
            }
            () = sleep_until(check) => match patience.check(connection) {
                // What quinn took is lost if the connection ends before the client has it.
                Verdict::Wait if finishing && answers.is_empty() && connection.is_quiet(FAREWELL) => {
                    return "done";
                }
                Verdict::Wait => {}
                Verdict::Ask => {
                    let _ = timeout(FAREWELL, http.shutdown(NEXT)).await;
                }
                Verdict::End("header timeout") if connection.was_used() => return "done",
                Verdict::End(why) => return why,
            },
        }
    }
}

/// Why a connection ended that the server did not end.
fn ended(connection: &Connection, quic: &quinn::Connection) -> &'static str {
    let cut = connection.was_cut();
    match quic.close_reason() {
        Some(ConnectionError::TimedOut) if cut => "stall timeout",
        Some(
            ConnectionError::ApplicationClosed(_)
            | ConnectionError::ConnectionClosed(_)
            | ConnectionError::Reset,
        ) if cut => "client left",
        // h3 ended it, because the client did not keep to HTTP/3.
        Some(ConnectionError::LocallyClosed) => BAD_REQUEST,
        Some(
            ConnectionError::TransportError(_)
            | ConnectionError::VersionMismatch
            | ConnectionError::CidsExhausted,
        ) => "broken",
        _ => "done",
    }
}
