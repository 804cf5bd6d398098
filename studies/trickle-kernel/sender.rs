//! A paced transfer over this machine's TCP: the server's side.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use socket2::SockRef;
use tidegate_limiter::{Bytes, Rate};
use tidegate_pace::{Hold, Pacer, Phase, Ready, Target, Way, Writer};
use tidegate_testbed::namespace::Namespace;

/// Both kinds of pacing that the kernel has, for all transfers.
pub struct Kernel {
    /// The clamp.
    pub clamp: Pacer,
    /// `SO_MAX_PACING_RATE`.
    pub pacing: Pacer,
}

impl Kernel {
    /// Loads the clamp.
    ///
    /// # Errors
    /// If it cannot be had.
    pub fn new() -> Result<Self> {
        let clamp = Pacer::open();
        if let tidegate_pace::Mode::Fallback { why } = clamp.mode() {
            let why = why.as_ref().map_or_else(String::new, ToString::to_string);
            anyhow::bail!("the clamp cannot be had: {why}");
        }
        let mut options = tidegate_pace::Options::default();
        options.without_kernel = true;
        Ok(Self {
            clamp,
            pacing: Pacer::open_with(&options),
        })
    }

    /// Spreads a socket's packets over its round trip, at this rate of payload at most.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn spread(&self, socket: &TcpStream, most: Rate) -> Result<()> {
        Ok(self
            .pacing
            .pace(socket, &Target::new(most)?.headroom(1000)?)?)
    }
}

/// A video as a server sends it.
#[derive(Debug, Clone, Copy)]
pub struct Video {
    /// Rate of the throttling phase, bit/s.
    pub rate: u64,
    /// Bytes in all.
    pub bytes: u64,
    /// Of these, what is sent at full speed.
    pub startup: u64,
    pub way: Way,
    /// The application does not pause for less.
    pub least_wait: Duration,
    /// Of Trickle, thousandths.
    pub headroom: u32,
    /// Packets are spread from the beginning, at this rate of payload at most.
    pub spread: Option<Rate>,
}

/// Sends a video over an accepted connection. Returns how often the goodput fell behind, if there
/// was a clamp.
///
/// # Errors
/// If the connection breaks.
pub fn send(kernel: &Kernel, mut socket: TcpStream, video: &Video, origin: Instant) -> Result<u32> {
    // The request.
    socket.read_exact(&mut [0; 1])?;
    let mut writer = Writer::new(
        video.way,
        Rate::from_bits_per_second(video.rate),
        Bytes::new(video.startup),
    )
    .length(Bytes::new(video.bytes))
    .least_wait(video.least_wait.as_nanos() as u64);
    let zeros = vec![0; 1 << 17];
    let mut left = video.bytes;
    let mut clamped = false;
    if let Some(most) = video.spread {
        kernel.spread(&socket, most)?;
    }
    let mut set = false;
    while left > 0 {
        if !set && writer.phase() == Phase::Throttling {
            set = true;
            let wanted = writer.settings();
            if let Some(rate) = wanted.clamp {
                kernel
                    .clamp
                    .pace(&socket, &Target::new(rate)?.headroom(video.headroom)?)?;
                clamped = true;
            }
            if let Some(rate) = wanted.max_pacing_rate {
                kernel.spread(&socket, rate)?;
            }
        }
        let state: Option<Hold> = clamped.then(|| kernel.clamp.hold(&socket)).transpose()?;
        let now = origin.elapsed().as_nanos() as u64;
        match writer.ready(now, state) {
            Ready::Write(most) => {
                let most = most.min(left).min(zeros.len() as u64);
                socket.write_all(&zeros[..most as usize])?;
                writer.wrote(Bytes::new(most), origin.elapsed().as_nanos() as u64);
                left -= most;
            }
            Ready::Wait(time) => thread::sleep(Duration::from_nanos(time)),
        }
    }
    // All has come when the client closes.
    while socket.read(&mut [0; 64])? > 0 {}
    let lifts = if clamped {
        kernel.clamp.stats(&socket)?.lifts
    } else {
        0
    };
    Ok(lifts)
}

/// Listens in a namespace. Connections use CUBIC.
///
/// # Errors
/// If the address cannot be had, or there is no CUBIC.
pub fn listen(namespace: &Namespace, host: &str, port: u16) -> Result<TcpListener> {
    let listener = namespace.enter(|| TcpListener::bind((host, port)))?;
    let listener = listener.with_context(|| format!("listen at {host}:{port}"))?;
    SockRef::from(&listener)
        .set_tcp_congestion(b"cubic")
        .context("choose CUBIC")?;
    Ok(listener)
}

/// Accepts one connection.
///
/// # Errors
/// If it does not come.
pub fn accept(listener: &TcpListener) -> Result<TcpStream> {
    let (socket, _) = listener.accept().context("no viewer came")?;
    socket.set_nodelay(true)?;
    Ok(socket)
}
