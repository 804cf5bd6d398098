//! Clients over TCP without TLS: those that fetch, those that watch, and those that only wait.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::program::{Server, machine};

/// Clients that fetch one object after the other.
const CLIENTS: usize = 8;
/// For how long they do.
const FETCHING: Duration = Duration::from_secs(4);
/// Viewers that are paced, and for how long they are measured.
pub const VIEWERS: usize = 200;
const WATCHING: Duration = Duration::from_secs(12);

/// A connection, whose client waits for data, but not for ever.
fn connect(address: SocketAddr) -> Result<TcpStream> {
    let socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(Duration::from_secs(20)))?;
    Ok(socket)
}

/// A connection that sent a request.
pub fn ask(address: SocketAddr, path: &str) -> Result<TcpStream> {
    let mut socket = connect(address)?;
    request(&mut socket, path)?;
    Ok(socket)
}

fn request(socket: &mut TcpStream, path: &str) -> Result<()> {
    Ok(socket.write_all(format!("GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n").as_bytes())?)
}

/// Reads an answer, whose body has this length.
pub fn answer(socket: &mut TcpStream, buffer: &mut [u8], length: usize) -> Result<()> {
    let (mut got, mut head) = (0, None);
    loop {
        let count = socket.read(&mut buffer[got.min(64 << 10)..])?;
        if count == 0 {
            bail!("the server hung up");
        }
        got += count;
        if head.is_none() {
            let end = buffer[..got]
                .windows(4)
                .position(|four| four == b"\r\n\r\n");
            head = end.map(|end| end + 4);
            if head.is_some() && !buffer.starts_with(b"HTTP/1.1 200") {
                bail!(
                    "the server answers {}",
                    String::from_utf8_lossy(&buffer[..got.min(60)])
                );
            }
        }
        if head.is_some_and(|head| got >= head + length) {
            return Ok(());
        }
    }
}

/// Fetches objects as fast as they come: how many a second, and processor time of each in µs.
pub fn fetch(server: &Server, path: &str, length: usize) -> Result<(f64, f64)> {
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let client = || -> Result<()> {
        let mut socket = connect(server.address)?;
        let mut buffer = vec![0; 512 << 10];
        while !stop.load(Ordering::Relaxed) {
            request(&mut socket, path)?;
            answer(&mut socket, &mut buffer, length)?;
            count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        thread::sleep(FETCHING / 8);
        let before = (server.cpu(), count.load(Ordering::Relaxed), Instant::now());
        thread::sleep(FETCHING);
        let objects = (count.load(Ordering::Relaxed) - before.1) as f64;
        let (cpu, time) = (server.cpu() - before.0, before.2.elapsed().as_secs_f64());
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().expect("clients do not panic")?;
        }
        Ok((objects / time, cpu / objects * 1e6))
    })
}

/// What paced viewers get and cost.
pub struct Watched {
    /// What each gets, in bit/s.
    pub rate: f64,
    /// Processor time of the server, in ms for a megabyte.
    pub cpu: f64,
    /// Processor time of the machine with the viewers in it, in ms for a megabyte.
    pub machine: f64,
}

/// Paced viewers.
pub fn watch(server: &Server) -> Result<Watched> {
    let (stop, bytes) = (AtomicBool::new(false), AtomicU64::new(0));
    let viewer = || -> Result<()> {
        let mut socket = ask(server.address, "/v.mp4")?;
        let mut buffer = vec![0; 64 << 10];
        while !stop.load(Ordering::Relaxed) {
            let count = socket.read(&mut buffer)?;
            bytes.fetch_add(count as u64, Ordering::Relaxed);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let viewers: Vec<_> = (0..VIEWERS)
            .map(|_| {
                // They do not come all at once.
                thread::sleep(Duration::from_millis(5));
                scope.spawn(viewer)
            })
            .collect();
        thread::sleep(Duration::from_secs(2));
        let before = (server.cpu(), machine(), bytes.load(Ordering::Relaxed));
        let began = Instant::now();
        thread::sleep(WATCHING);
        let bytes = (bytes.load(Ordering::Relaxed) - before.2) as f64;
        let (cpu, machine) = (server.cpu() - before.0, machine() - before.1);
        let time = began.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        for viewer in viewers {
            viewer.join().expect("viewers do not panic")?;
        }
        Ok(Watched {
            rate: bytes * 8.0 / time / VIEWERS as f64,
            cpu: cpu * 1e9 / bytes,
            machine: machine * 1e9 / bytes,
        })
    })
}

/// Memory that each of these connections takes in bytes, and what stays of them all when they are gone.
pub fn hold(
    server: &Server,
    count: usize,
    open: impl Fn() -> Result<TcpStream>,
) -> Result<(f64, f64)> {
    let before = server.memory();
    let held: Vec<_> = (0..count).map(|_| open()).collect::<Result<_>>()?;
    thread::sleep(Duration::from_secs(2));
    let each = (server.memory() - before) / count as f64;
    drop(held);
    thread::sleep(Duration::from_secs(4));
    Ok((each, server.memory() - before))
}
