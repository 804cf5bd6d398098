//! The flows of the experiment: this kernel's TCP, with a thread for each end of a connection.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use socket2::{Domain, SockRef, Socket, Type};
use tidegate_testbed::site::Site;

/// Of goodput.
pub const WINDOW: Duration = Duration::from_millis(250);
const PORT: u16 = 5000;
/// What a client asks for: bytes, and a congestion control by its number.
const REQUEST: usize = 9;
/// How long a call waits before it looks whether the run is over.
const PATIENCE: Duration = Duration::from_millis(100);

/// A flow of an aggregate.
#[derive(Debug, Clone)]
pub struct Flow {
    pub aggregate: usize,
    /// The client's address, which has a round-trip time.
    pub address: Ipv6Addr,
    /// A number in the list of congestion controls.
    pub algorithm: u8,
    /// Bytes of each transfer, and the pauses between; a flow without any is backlogged.
    pub transfers: Vec<(u64, Duration)>,
    /// After the beginning.
    pub starts: Duration,
}

/// Bytes that came in each window, of each flow.
pub struct Received {
    windows: usize,
    bytes: Vec<AtomicU64>,
}

impl Received {
    fn new(flows: usize, lasting: Duration) -> Self {
        let windows = (lasting.as_nanos() / WINDOW.as_nanos()) as usize;
        let bytes = (0..flows * windows).map(|_| AtomicU64::new(0)).collect();
        Self { windows, bytes }
    }

    /// The number of windows.
    pub fn windows(&self) -> usize {
        self.windows
    }

    /// Of a flow, from a window on.
    pub fn of(&self, flow: usize, from: usize) -> impl Iterator<Item = u64> + '_ {
        let all = &self.bytes[flow * self.windows..(flow + 1) * self.windows];
        all[from..]
            .iter()
            .map(|bytes| bytes.load(Ordering::Relaxed))
    }

    fn add(&self, flow: usize, after: Duration, bytes: usize) {
        let window = (after.as_nanos() / WINDOW.as_nanos()) as usize;
        if window < self.windows {
            self.bytes[flow * self.windows + window].fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }
}

/// Runs the flows for a time. `beside` runs in the present thread meanwhile, and gets the beginning.
pub fn run<T>(
    site: &Site,
    algorithms: &[&str],
    flows: &[Flow],
    lasting: Duration,
    beside: impl FnOnce(Instant) -> Result<T>,
) -> Result<(Received, T)> {
    let received = Received::new(flows.len(), lasting);
    let origin = Instant::now() + Duration::from_millis(500);
    let end = origin + lasting;
    let found = thread::scope(|scope| {
        let server = scope.spawn(|| site.server.enter(|| serve(algorithms, end))?);
        let client = scope.spawn(|| site.client.enter(|| fetch(flows, &received, origin, end))?);
        let found = beside(origin);
        for side in [server, client] {
            side.join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        found
    })?;
    Ok((received, found))
}

/// Starts a thread of a scope. There are many, so each gets a small stack.
fn small<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<thread::ScopedJoinHandle<'scope, T>> {
    thread::Builder::new()
        .stack_size(1 << 17)
        .spawn_scoped(scope, work)
}

/// Whether a call only ended because of its timeout.
fn waits(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

/// Answers requests until the end.
fn serve(algorithms: &[&str], end: Instant) -> Result<()> {
    let socket = Socket::new(Domain::IPV6, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((Site::SERVER6, PORT)).into())?;
    socket.listen(1024)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let listener = TcpListener::from(socket);
    thread::scope(|scope| {
        while Instant::now() < end {
            match listener.accept() {
                // A client that goes away ends its transfer.
                Ok((stream, _)) => drop(small(scope, move || answer(&stream, algorithms, end))?),
                Err(error) if waits(&error) => {}
                Err(error) => return Err(error).context("accept"),
            }
        }
        Ok(())
    })
}

fn answer(mut stream: &TcpStream, algorithms: &[&str], end: Instant) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = [0; REQUEST];
    stream.read_exact(&mut request)?;
    let [bytes @ .., algorithm] = request;
    let algorithm = algorithms[usize::from(algorithm)];
    SockRef::from(stream).set_tcp_congestion(algorithm.as_bytes())?;
    let mut left = u64::from_be_bytes(bytes);
    let block = [0; 1 << 14];
    while left > 0 && Instant::now() < end {
        let piece = left.min(block.len() as u64);
        match stream.write(&block[..piece as usize]) {
            Ok(written) => left -= written as u64,
            Err(error) if waits(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Begins all flows, and reads what comes until the end.
fn fetch(flows: &[Flow], received: &Received, origin: Instant, end: Instant) -> Result<()> {
    let follow = |number: usize| {
        let flow = &flows[number];
        sleep_until(origin + flow.starts);
        for &(bytes, pause) in flow.transfers.iter().cycle() {
            if Instant::now() >= end {
                return Ok(());
            }
            transfer(flow, bytes, number, received, origin, end)?;
            sleep_until(end.min(Instant::now() + pause));
        }
        transfer(flow, u64::MAX, number, received, origin, end)
    };
    thread::scope(|scope| {
        let all: Vec<_> = (0..flows.len())
            .map(|number| small(scope, move || follow(number)))
            .collect::<io::Result<_>>()?;
        for flow in all {
            flow.join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                .context("a transfer failed")?;
        }
        Ok(())
    })
}

fn sleep_until(at: Instant) {
    thread::sleep(at.saturating_duration_since(Instant::now()));
}

fn transfer(
    flow: &Flow,
    bytes: u64,
    number: usize,
    received: &Received,
    origin: Instant,
    end: Instant,
) -> io::Result<()> {
    let socket = Socket::new(Domain::IPV6, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((flow.address, 0)).into())?;
    socket.connect(&SocketAddr::from((Site::SERVER6, PORT)).into())?;
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut request = bytes.to_be_bytes().to_vec();
    request.push(flow.algorithm);
    stream.write_all(&request)?;
    let mut block = vec![0; 1 << 16];
    while Instant::now() < end {
        match stream.read(&mut block) {
            Ok(0) => break,
            Ok(count) => received.add(number, origin.elapsed(), count),
            Err(error) if waits(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
