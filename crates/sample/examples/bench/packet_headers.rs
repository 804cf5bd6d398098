//! The sampler of M-Lab as it comes: `packet-headers`, which saves the headers of all flows, a file for each flow.

use std::error::Error;
use std::fs;
use std::io::{BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_testbed::namespace::Namespace;
use tidegate_trace::read::Capture;

type Failure = Box<dyn Error + Send + Sync>;

/// A flow without packets is saved after one or two of these.
const TIMEOUT: Duration = Duration::from_secs(1);

/// It runs, and hears of its flows from this process, as it would from M-Lab's tcp-info.
pub struct PacketHeaders {
    folder: tempfile::TempDir,
    flows: usize,
}

/// Whether it is in `PATH`.
pub fn is_there() -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join("packet-headers").is_file())
}

impl PacketHeaders {
    /// Starts it at an interface. Flows are from any of `ports` at `from` to port 443 at `to`.
    pub fn start(
        space: &Namespace,
        interface: &str,
        [from, to]: [&str; 2],
        ports: impl Iterator<Item = u16>,
    ) -> Result<(Self, Child), Failure> {
        let folder = tempfile::tempdir()?;
        let events = folder.path().join("events");
        let listener = UnixListener::bind(&events)?;
        let mut command = Command::new("packet-headers");
        command.args(["-interface", interface, "-prometheusx.listen-address", ":0"]);
        command.args(["-flowtimeout", &format!("{}s", TIMEOUT.as_secs())]);
        command.arg("-tcpinfo.eventsocket").arg(&events);
        command.arg("-datadir").arg(folder.path());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = space.enter(|| command.spawn())??;
        let (mut tcp_info, _) = listener.accept()?;
        // Until it captures: it says so only among what it logs for each file.
        thread::sleep(TIMEOUT);
        let mut flows = 0;
        for port in ports {
            flows += 1;
            writeln!(
                tcp_info,
                r#"{{"Event":0,"Timestamp":"2026-01-01T00:00:00Z","UUID":"{port}","ID":{{"SPort":{port},"DPort":443,"SrcIP":"{from}","DstIP":"{to}"}}}}"#
            )?;
        }
        // It ends when nobody tells it of flows.
        thread::spawn(move || std::io::copy(&mut tcp_info, &mut std::io::sink()));
        Ok((Self { folder, flows }, child))
    }

    /// The packets in its files, once it has closed all of them.
    pub fn packets(&self) -> Result<u64, Failure> {
        let start = Instant::now();
        let files = self.folder.path().join("2026/01/01");
        loop {
            thread::sleep(TIMEOUT);
            let counts: Vec<u64> = fs::read_dir(&files)?
                .map(|file| count(file?.path()))
                .collect::<Result<_, Failure>>()
                .unwrap_or_default();
            if counts.len() == self.flows {
                return Ok(counts.iter().sum());
            }
            if start.elapsed() > TIMEOUT * 20 {
                return Err(format!("packet-headers saved {} flows whole", counts.len()).into());
            }
        }
    }
}

/// Fails if the file is not complete.
fn count(file: PathBuf) -> Result<u64, Failure> {
    let mut capture = Capture::new(BufReader::new(fs::File::open(file)?))?;
    let mut packets = 0;
    while capture.frame()?.is_some() {
        packets += 1;
    }
    Ok(packets)
}
