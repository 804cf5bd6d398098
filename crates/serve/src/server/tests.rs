//! The server over loopback. All requests are small, so that the tests take little time.

mod adaptive;
mod hostile;
#[cfg(feature = "http3")]
mod http3;
pub(super) mod phases;
mod protocols;
mod requests;
mod sending;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{Config, LogFormat, LogTo, Server};
use crate::media::make::{self, Layout};
use tidegate_pace::Way;

/// A server that runs, and ends with the test.
struct Running {
    address: SocketAddr,
    metrics: Option<SocketAddr>,
    folder: tempfile::TempDir,
    stop: Option<oneshot::Sender<()>>,
    ended: JoinHandle<()>,
}

/// A video of 10 s and 1 MB, `v.mp4`, served without pacing unless a test changes this.
async fn start(change: impl FnOnce(&mut Config)) -> Running {
    start_with(change, |_| None).await
}

async fn start_with(
    change: impl FnOnce(&mut Config),
    log: impl FnOnce(&Path) -> Option<LogTo>,
) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let video = folder.path().join("v.mp4");
    make::video(&video, Layout::Mp4, Duration::from_secs(10), 1_000_000).unwrap();
    fs::write(folder.path().join("abc.txt"), "abcdefghij").unwrap();
    let mut config = Config::new(folder.path().to_owned());
    config.groups = vec![Way::None.into()];
    change(&mut config);
    let log = log(folder.path());
    let server = Server::bind(config, log).await.unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    Running {
        address: server.addresses().unwrap()[0].0,
        metrics: server.metrics_address(),
        folder,
        stop: Some(stop),
        ended: tokio::spawn(server.run(async {
            let _ = stopped.await;
        })),
    }
}

fn log_to(name: &'static str, format: LogFormat) -> impl FnOnce(&Path) -> Option<LogTo> {
    move |folder| {
        let file = fs::File::create(folder.join(name)).unwrap();
        Some((format, Box::new(file)))
    }
}

impl Running {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes, and returns all bytes that arrive until the server hangs up.
    async fn raw(&self, request: &[u8]) -> Vec<u8> {
        let mut socket = self.connect().await;
        socket.write_all(request).await.unwrap();
        let mut response = Vec::new();
        // A rejected connection may be reset before all of it was read.
        let _ = socket.read_to_end(&mut response).await;
        response
    }

    /// A request with these header lines; the answer's status, head and body.
    async fn ask(&self, method: &str, target: &str, lines: &[&str]) -> (u16, String, Vec<u8>) {
        let mut request = format!("{method} {target} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n");
        for line in lines {
            request.push_str(line);
            request.push_str("\r\n");
        }
        request.push_str("\r\n");
        split(&self.raw(request.as_bytes()).await)
    }

    async fn stop(&mut self) {
        let _ = self.stop.take().map(|stop| stop.send(()));
        (&mut self.ended).await.unwrap();
    }
}

/// Status, head in small letters, body.
fn split(response: &[u8]) -> (u16, String, Vec<u8>) {
    let end = response
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap_or_else(|| panic!("no head: {:?}", String::from_utf8_lossy(response)));
    let head = String::from_utf8_lossy(&response[..end]).to_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head, response[end + 4..].to_vec())
}
