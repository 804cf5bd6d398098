//! The applications at both ends of a cell's flows, with the kernel's TCP.

use std::io::{self, ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr};
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use socket2::{Domain, Socket, Type};
use tidegate_lab::plan::{FlowPlan, Traffic};
use tidegate_lab::random::{BoundedPareto, Owner, Random};
use tidegate_testbed::site::Site;

/// Bytes read or written at once.
const CHUNK: usize = 1 << 16;
/// How long a call may wait before it checks whether time is up.
const PATIENCE: Duration = Duration::from_millis(50);

/// When a run began, and how long it takes.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    pub origin: Instant,
    pub duration: Duration,
}

impl Clock {
    fn is_over(self) -> bool {
        self.origin.elapsed() >= self.duration
    }

    /// Sleeps until this time of the run, or its end.
    pub fn sleep_until(self, time: Duration) {
        thread::sleep(
            (self.origin + time.min(self.duration)).saturating_duration_since(Instant::now()),
        );
    }
}

/// A socket that leaves nothing behind: data that was not sent by the end would keep its namespace for minutes.
fn socket() -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_linger(Some(Duration::ZERO))?;
    Ok(socket)
}

fn address(host: Ipv4Addr, port: u16) -> socket2::SockAddr {
    SocketAddr::from((host, port)).into()
}

/// The server's socket of a flow, made in the server's namespace.
///
/// # Errors
/// If the kernel has no such congestion control, or refuses anything else.
pub fn listen(flow: &FlowPlan, port: u16) -> Result<Socket> {
    let listener = socket()?;
    let algorithm = flow.tcp.algorithm.name();
    // Connections inherit it, so it is in force from the first packet on.
    listener
        .set_tcp_congestion(algorithm.as_bytes())
        .with_context(|| format!("the kernel has no {algorithm}"))?;
    listener.bind(&address(Site::SERVER, port))?;
    listener.listen(1)?;
    listener.set_read_timeout(Some(PATIENCE))?;
    Ok(listener)
}

/// A call that found nothing to do in its time.
fn in_vain(error: &io::Error) -> bool {
    use ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// The server's part: sends as many bytes over each connection as `sizes` says.
///
/// # Errors
/// If the kernel refuses anything.
pub fn serve(listener: &Socket, sizes: &Receiver<u64>, clock: Clock) -> Result<()> {
    let zeros = vec![0; CHUNK];
    while !clock.is_over() {
        let mut socket = match listener.accept() {
            Ok((socket, _)) => socket,
            Err(error) if in_vain(&error) => continue,
            Err(error) => return Err(error).context("accept a connection"),
        };
        let Ok(mut left) = sizes.recv() else { break };
        socket.set_write_timeout(Some(PATIENCE))?;
        while left > 0 && !clock.is_over() {
            match socket.write(&zeros[..left.min(CHUNK as u64) as usize]) {
                Ok(sent) => left -= sent as u64,
                Err(error) if in_vain(&error) => {}
                // The client leaves when its time is up, which may be a moment earlier.
                Err(_) => break,
            }
        }
        // Closing at once would discard data on its way. The client may be gone, as above.
        let _ = socket.shutdown(Shutdown::Write);
        socket.set_read_timeout(Some(PATIENCE))?;
        while !clock.is_over() {
            match socket.recv(&mut [MaybeUninit::uninit()]) {
                Err(error) if in_vain(&error) => {}
                _ => break,
            }
        }
    }
    Ok(())
}

/// The client of a flow.
pub struct Client<'a> {
    pub flow: &'a FlowPlan,
    /// Its number in the plan, and the plan's seed: transfers and pauses are those that it draws in the lab.
    pub number: usize,
    pub seed: u64,
    pub address: IpAddr,
    pub port: u16,
    pub sizes: Sender<u64>,
}

impl Client<'_> {
    /// Reads until the end. Returns the bytes that came after the time `settled`.
    ///
    /// # Errors
    /// If the kernel refuses anything.
    pub fn fetch(self, settled: Duration, clock: Clock) -> Result<u64> {
        let mut random = Random::new(self.seed, Owner::Application(self.number));
        let mut got = 0;
        let mut next = Duration::from_nanos(self.flow.start);
        loop {
            clock.sleep_until(next);
            if clock.is_over() {
                return Ok(got);
            }
            let size = match self.flow.traffic {
                Traffic::OnOff {
                    mean, shape, max, ..
                } => (BoundedPareto::with_mean(mean, shape, max).sample(&mut random) as u64).max(1),
                _ => u64::MAX,
            };
            // The server takes it once there is a connection.
            let _ = self.sizes.send(size);
            got += self.transfer(settled, clock)?;
            let Traffic::OnOff { pause, .. } = self.flow.traffic else {
                return Ok(got);
            };
            let pause = Duration::from_nanos((pause as f64 * random.exponential()) as u64);
            next = clock.origin.elapsed() + pause;
        }
    }

    /// One connection.
    fn transfer(&self, settled: Duration, clock: Clock) -> Result<u64> {
        let mut socket = socket()?;
        socket.bind(&SocketAddr::new(self.address, 0).into())?;
        let left = clock.duration.saturating_sub(clock.origin.elapsed());
        let server = address(Site::SERVER, self.port);
        match socket.connect_timeout(&server, left.max(PATIENCE)) {
            Ok(()) => {}
            Err(error) if in_vain(&error) => return Ok(0),
            Err(error) => return Err(error).context("connect"),
        }
        socket.set_read_timeout(Some(PATIENCE))?;
        let (mut got, mut buffer) = (0, vec![0; CHUNK]);
        while !clock.is_over() {
            match socket.read(&mut buffer) {
                Ok(0) => break,
                Ok(bytes) if clock.origin.elapsed() >= settled => got += bytes as u64,
                Ok(_) => {}
                Err(error) if in_vain(&error) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                Err(error) => return Err(error).context("receive"),
            }
        }
        Ok(got)
    }
}
