//! Bulk transfers by `iperf3`, and the counts of their receivers.

use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::TestbedError;
use crate::namespace::{Namespace, Process};
use crate::site::Site;

#[cfg(test)]
mod tests;

/// The first control port; connections of an entry are to one port.
const PORT: u16 = 5201;
/// How long servers may take to listen.
const PATIENCE: Duration = Duration::from_secs(10);

/// Equal connections, from the server of a [`Site`] to its client.
#[derive(Debug, Clone)]
pub struct Bulk {
    /// The client's address.
    pub to: IpAddr,
    /// The sender's congestion control: `reno`, `cubic`, `bbr`.
    pub algorithm: &'static str,
    /// The number of connections.
    pub connections: u32,
    /// When they begin.
    pub after: Duration,
    /// How long they last.
    pub lasting: Duration,
}

impl Bulk {
    /// One connection from the beginning on.
    pub fn new(to: IpAddr, algorithm: &'static str, lasting: Duration) -> Self {
        Self {
            to,
            algorithm,
            connections: 1,
            after: Duration::ZERO,
            lasting,
        }
    }
}

/// The result of one connection.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// Index of the entry that it belongs to.
    pub bulk: usize,
    /// Bytes of data that the application got in each second since the transfers were started. A
    /// connection that begins late begins with zeros.
    pub seconds: Vec<f64>,
    /// Segments that the sender retransmitted.
    pub retransmitted: u64,
}

/// Whether iperf3 is installed.
pub fn is_installed() -> bool {
    let version = Command::new("iperf3").arg("--version").output();
    version.is_ok_and(|output| output.status.success())
}

type Printed = thread::JoinHandle<Result<std::process::Output, TestbedError>>;

/// Transfers that are running.
#[derive(Debug)]
pub struct Transfers {
    /// Seconds since 1970.
    began: f64,
    servers: Vec<Process>,
    /// How much later each begins, and what it prints.
    clients: Vec<(Duration, Printed)>,
}

/// Runs all of them at once. Returns their connections in order, when the last one has ended.
///
/// # Errors
/// If iperf3 fails.
pub fn run(site: &Site, transfers: &[Bulk]) -> Result<Vec<Received>, TestbedError> {
    start(site, transfers)?.finish()
}

/// Starts them.
///
/// # Errors
/// If iperf3 cannot be started.
pub fn start(site: &Site, transfers: &[Bulk]) -> Result<Transfers, TestbedError> {
    let mut servers = Vec::new();
    for index in 0..transfers.len() {
        let port = (PORT + index as u16).to_string();
        let mut server = Command::new("iperf3");
        server.args(["--server", "--one-off", "--port", &port]);
        server.stdout(Stdio::null()).stderr(Stdio::null());
        servers.push(site.server.start(&mut server)?);
    }
    listening(&site.server, transfers.len())?;
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    let began = since_1970.unwrap_or_default().as_secs_f64();
    let mut clients = Vec::new();
    for (index, bulk) in transfers.iter().enumerate() {
        let mut client = Command::new("iperf3");
        let server: IpAddr = if bulk.to.is_ipv4() {
            Site::SERVER.into()
        } else {
            Site::SERVER6.into()
        };
        let port = (PORT + index as u16).to_string();
        client.args(["--client", &server.to_string(), "--port", &port]);
        client.args(["--bind", &bulk.to.to_string(), "--reverse", "--json"]);
        client.args(["--congestion", bulk.algorithm]);
        client.args(["--parallel", &bulk.connections.to_string()]);
        client.args(["--time", &bulk.lasting.as_secs().to_string()]);
        client.stdout(Stdio::piped()).stderr(Stdio::piped());
        let after = bulk.after;
        let printed = if after.is_zero() {
            let process = site.client.start(&mut client)?;
            thread::spawn(move || process.output())
        } else {
            let space = site.client.try_clone()?;
            thread::spawn(move || {
                thread::sleep(after);
                space.output(&mut client)
            })
        };
        clients.push((after, printed));
    }
    Ok(Transfers {
        began,
        servers,
        clients,
    })
}

impl Transfers {
    /// Waits for the end.
    ///
    /// # Errors
    /// If one fails.
    pub fn finish(self) -> Result<Vec<Received>, TestbedError> {
        let mut received = Vec::new();
        for (bulk, (after, client)) in self.clients.into_iter().enumerate() {
            let output = client.join();
            let output = output.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            let what = || "iperf3".to_owned();
            let report: Value = serde_json::from_slice(&output.stdout)
                .map_err(|error| TestbedError::Command(what(), error.to_string()))?;
            if let Some(error) = report["error"].as_str() {
                return Err(TestbedError::Command(what(), error.to_owned()));
            }
            received.extend(connections((bulk, after), &report, self.began));
        }
        drop(self.servers);
        Ok(received)
    }
}

/// The connections of a report, of transfers that began at a time in seconds since 1970, or this much later.
fn connections((bulk, after): (usize, Duration), report: &Value, began: f64) -> Vec<Received> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let ends = list(&report["end"]["streams"]);
    // The report gives its start in whole seconds, cut off. It was not before its time.
    let came = report["start"]["timestamp"]["timesecs"].as_f64();
    let late = came.map_or(0.0, |came| came - began);
    let late = late.max(after.as_secs_f64()).round();
    let mut connections: Vec<Received> = (ends.iter())
        .map(|end| Received {
            bulk,
            seconds: vec![0.0; late as usize],
            retransmitted: end["sender"]["retransmits"].as_u64().unwrap_or(0),
        })
        .collect();
    for interval in list(&report["intervals"]) {
        for (connection, part) in connections.iter_mut().zip(list(&interval["streams"])) {
            let number = |key: &str| part[key].as_f64().unwrap_or(0.0);
            // The last interval may have only milliseconds.
            if number("seconds") > 0.5 {
                (connection.seconds).push(number("bytes") / number("seconds"));
            }
        }
    }
    connections
}

/// Waits until this many sockets listen.
fn listening(space: &Namespace, sockets: usize) -> Result<(), TestbedError> {
    let file = Path::new("/proc/thread-self/net/tcp6");
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        let table = space.enter(|| std::fs::read_to_string(file))?;
        let table = table.map_err(TestbedError::system("list sockets"))?;
        // TCP_LISTEN is 10.
        let listen = |line: &&str| line.split_whitespace().nth(3) == Some("0A");
        if table.lines().filter(listen).count() >= sockets {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(10));
    }
    let why = "does not listen".to_owned();
    Err(TestbedError::Command("iperf3 --server".into(), why))
}
