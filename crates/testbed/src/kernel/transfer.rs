//! The applications at both ends of a flow.

use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use socket2::Socket;
use tidegate_lab::outcome::Completion;
use tidegate_lab::plan::{FlowPlan, Traffic};
use tidegate_limiter::Nanos;

use super::host::{Host, SERVER, port};
use crate::TestbedError;

/// Bytes read or written at once.
const CHUNK: usize = 1 << 16;
/// How long a call may wait before it checks whether time is up.
pub(super) const PATIENCE: Duration = Duration::from_millis(50);

/// Time since the run began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock<'a> {
    pub(super) origin: Instant,
    /// When it ends.
    pub(super) duration: Nanos,
    /// Raised to end it earlier.
    stop: &'a AtomicBool,
}

impl<'a> Clock<'a> {
    pub(super) fn new(origin: Instant, duration: Nanos, stop: &'a AtomicBool) -> Self {
        Self {
            origin,
            duration,
            stop,
        }
    }

    /// The time; 0 before the run begins.
    pub(super) fn now(&self) -> Nanos {
        let elapsed = Instant::now().saturating_duration_since(self.origin);
        elapsed.as_nanos() as Nanos
    }

    /// Whether the run is over.
    pub(super) fn is_over(&self) -> bool {
        self.is_stopped() || self.now() >= self.duration
    }

    /// Whether it was ended early.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The rest of the run; never exactly 0, because sockets would then wait for ever.
    pub(super) fn time_left(&self) -> Duration {
        Duration::from_nanos(self.duration.saturating_sub(self.now())).max(Duration::from_millis(1))
    }

    /// Sleeps until this time, or the end of the run.
    fn sleep_until(&self, time: Nanos) {
        while !self.is_over() && self.now() < time {
            let left = Duration::from_nanos(time.saturating_sub(self.now()));
            thread::sleep(left.min(PATIENCE));
        }
    }
}

/// The data that a flow's client got.
#[derive(Debug, Clone, Copy)]
pub(super) struct Received {
    pub(super) bytes: u64,
    /// When the last of it came, or when the run ended if the server had more.
    pub(super) end: Nanos,
    /// For a transfer that has an end: when it reached it.
    pub(super) completion: Option<Completion>,
}

/// A call that found nothing to do in its time, or a connection that ended with the run.
fn in_vain(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// The server's part of a flow: sends until everything is sent or time is up.
pub(super) fn serve(
    host: &Host,
    flow: usize,
    plan: &FlowPlan,
    clock: &Clock<'_>,
) -> Result<(), TestbedError> {
    let listener = &host.sockets[flow];
    let mut socket = loop {
        if clock.is_over() {
            return Ok(());
        }
        let accepted = listener
            .set_read_timeout(Some(clock.time_left().min(PATIENCE)))
            .and_then(|()| listener.accept());
        match accepted {
            Ok((socket, _)) => break socket,
            Err(error) if in_vain(&error) => {}
            Err(error) => return Err(TestbedError::system("accept a connection")(error)),
        }
    };
    let mut left = match plan.traffic {
        Traffic::Bulk { bytes } => bytes.unwrap_or(u64::MAX),
        _ => 0,
    };
    let failed = TestbedError::system("send");
    socket.set_write_timeout(Some(PATIENCE)).map_err(&failed)?;
    let zeros = vec![0; CHUNK];
    while left > 0 && !clock.is_over() {
        let chunk = left.min(CHUNK as u64) as usize;
        match socket.write(&zeros[..chunk]) {
            Ok(sent) => left -= sent as u64,
            Err(error) if in_vain(&error) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    if left == 0 {
        // Closing at once would discard data on its way.
        socket.shutdown(Shutdown::Write).map_err(&failed)?;
        socket.set_read_timeout(Some(PATIENCE)).map_err(&failed)?;
        let mut nothing = [MaybeUninit::uninit(); 1];
        while !clock.is_over() {
            match socket.recv(&mut nothing) {
                Err(error) if in_vain(&error) => {}
                _ => break,
            }
        }
    }
    Ok(())
}

/// The client's part of a flow: asks for a connection when it is time, and reads.
pub(super) fn fetch(
    host: &Host,
    flow: usize,
    plan: &FlowPlan,
    clock: &Clock<'_>,
) -> Result<Received, TestbedError> {
    let mut received = Received {
        bytes: 0,
        end: clock.duration,
        completion: None,
    };
    if plan.start >= clock.duration {
        return Ok(received);
    }
    clock.sleep_until(plan.start);
    if clock.is_over() {
        return Ok(received);
    }
    let mut socket: &Socket = &host.sockets[flow];
    let server = SocketAddrV4::new(SERVER, port(flow));
    match socket.connect_timeout(&server.into(), clock.time_left()) {
        Ok(()) => {}
        Err(error) if in_vain(&error) => return Ok(received),
        Err(error) => return Err(TestbedError::system("connect")(error)),
    }
    let failed = TestbedError::system("receive");
    socket.set_read_timeout(Some(PATIENCE)).map_err(&failed)?;
    let mut buffer = vec![0; CHUNK];
    let mut last = plan.start;
    while !clock.is_over() {
        match socket.read(&mut buffer) {
            Ok(0) => {
                received.end = last;
                received.completion = Some(Completion {
                    start: plan.start,
                    end: last,
                    bytes: received.bytes,
                });
                // This ends the waiting of both ends.
                let _ = socket.shutdown(Shutdown::Both);
                break;
            }
            Ok(bytes) => {
                last = clock.now();
                received.bytes += bytes as u64;
            }
            Err(error) if in_vain(&error) => {}
            // The server closes when its time is up, which may be a moment earlier.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(received)
}
