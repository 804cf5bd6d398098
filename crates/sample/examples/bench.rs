//! What sampling costs beside `tcpdump -s 128`, on a veth: lines of a name, a value and its unit. Needs root and tcpdump.
//!
//! A generator sends TCP packets of many flows through a veth, first as fast as one core can. The packets are received in
//! the generator's system calls, so the filter's time is the generator's. A tool costs the additional processor time of the
//! generator, and that of its process, both per packet on the wire. `nothing` is the generator without a tool.
//! Tools take turns, and figures are medians of the turns.
//!
//! Then all flows are sampled at a paced rate, and the packets that are missing in the files are counted.

use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use tidegate_sample::{By, Choice, Event, Key, Options, Requests, Sampler, Source};
use tidegate_testbed::namespace::Namespace;
use tidegate_trace::wire::Flags;
use tidegate_trace::write::{Ends, TcpFrame};

type Failure = Box<dyn Error + Send + Sync>;

const FLOWS: u16 = 20_000;
/// Bytes of TCP in a packet.
const PAYLOAD: u32 = 1_000;
const ETHERNET: usize = 14;
const TURNS: usize = 7;
const TURN: Duration = Duration::from_secs(3);
/// All flows are sampled at this rate of packets, for this time.
const PACED: u64 = 100_000;
const PACED_TIME: Duration = Duration::from_secs(10);

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, role, folder, fraction] = &arguments[..]
        && role == "sampler"
    {
        return sample(folder, fraction);
    }
    let (server, client) = (Namespace::new()?, Namespace::new()?);
    server.veth("inside", &client, "outside")?;
    server.address("inside", "192.0.2.1".parse()?, 24)?;
    client.address("outside", "192.0.2.2".parse()?, 24)?;
    // The server forwards nothing, so it drops these packets and answers none.
    client.ip("route add 198.51.100.0/24 via 192.0.2.1")?;
    let folder = tempfile::tempdir()?;
    let folder = folder.path().to_str().ok_or("a path that is no text")?;
    let packets = packets();

    let tools = ["nothing", "tidegate", "tcpdump"];
    let mut rates: [Vec<f64>; 3] = Default::default();
    let mut costs: [Vec<f64>; 3] = Default::default();
    let mut own: [Vec<f64>; 3] = Default::default();
    let mut shares = Vec::new();
    for _ in 0..TURNS {
        for (tool, name) in tools.iter().enumerate() {
            let mut running = match *name {
                "tidegate" => Some(Running::sampler(&server, folder, "0.01")?),
                "tcpdump" => Some(Running::tcpdump(&server)?),
                _ => None,
            };
            let before = running.as_mut().map_or(Ok(0.0), Running::cpu)?;
            let run = client.enter(|| send(&packets, None, TURN))??;
            // What is still to be written belongs to it.
            thread::sleep(Duration::from_millis(300));
            let after = running.as_mut().map_or(Ok(0.0), Running::cpu)?;
            let sent = run.sent as f64;
            rates[tool].push(sent / run.seconds);
            costs[tool].push(run.cpu / sent);
            own[tool].push((after - before) / sent);
            if let Some(running) = running {
                let found = running.end()?;
                if *name == "tidegate" {
                    shares.push(found.packets as f64 / sent);
                }
            }
        }
    }
    // A sampler that sampled nothing would seem to cost nothing.
    let share = median(shares);
    println!("tidegate_sampled {:.2} %", share * 100.0);
    if !(0.005..0.015).contains(&share) {
        return Err("this is not the share that was asked for: the figures mean nothing".into());
    }
    let [rates, costs, own] = [rates, costs, own].map(|all| all.map(median));
    for (tool, name) in tools.iter().enumerate() {
        println!("{name}_packets {:.0} packets/s", rates[tool]);
        println!("{name}_generator {:.0} ns/packet", costs[tool]);
        println!("{name}_process {:.1} ns/packet", own[tool]);
    }
    let whole = |tool: usize| costs[tool] - costs[0] + own[tool];
    println!("tidegate_whole {:.0} ns/packet", whole(1));
    println!("tcpdump_whole {:.0} ns/packet", whole(2));
    println!("tidegate_to_tcpdump {:.2} times", whole(1) / whole(2));
    println!("tidegate_to_tcpdump_process {:.3} times", own[1] / own[2]);

    let running = Running::sampler(&server, folder, "1")?;
    let run = client.enter(|| send(&packets, Some(PACED), PACED_TIME))??;
    thread::sleep(Duration::from_millis(300));
    let found = running.end()?;
    println!("paced_rate {:.0} packets/s", run.sent as f64 / run.seconds);
    println!("paced_sent {} packets", run.sent);
    println!(
        "paced_missing {} packets",
        run.sent as i64 - found.packets as i64
    );
    println!("paced_dropped {} packets", found.dropped);
    println!("paced_lowered {} times", found.lowered);
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A packet of each flow, from IP on, with its receiver.
fn packets() -> Vec<(Vec<u8>, SockAddr)> {
    let packet = |flow: u16| {
        let to = Ipv4Addr::new(198, 51, 100, (flow % 200) as u8 + 1);
        let ends = Ends {
            src: SocketAddr::new(Ipv4Addr::new(192, 0, 2, 2).into(), 10_000 + flow),
            dst: SocketAddr::new(to.into(), 443),
        };
        let frame = TcpFrame {
            flags: Flags::ACK,
            payload: PAYLOAD,
            ..TcpFrame::new(ends)
        };
        let mut bytes = Vec::new();
        let length = frame.encode(&mut bytes);
        bytes.resize(length as usize, 0);
        bytes.drain(..ETHERNET);
        (bytes, SockAddr::from(ends.dst))
    };
    (0..FLOWS).map(packet).collect()
}

/// What a generator did.
struct Sent {
    sent: u64,
    seconds: f64,
    /// Processor time, in nanoseconds.
    cpu: f64,
}

/// Sends packets for this time, at a rate or as fast as it goes.
fn send(
    packets: &[(Vec<u8>, SockAddr)],
    rate: Option<u64>,
    time: Duration,
) -> Result<Sent, Failure> {
    // 255: the packet has its IP header.
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255)))?;
    socket.set_send_buffer_size(1 << 22)?;
    let mut flow = 0;
    let mut sent = 0;
    let before = run_time("/proc/thread-self/schedstat")?;
    let start = Instant::now();
    while start.elapsed() < time {
        let due = rate.map(|rate| (start.elapsed().as_secs_f64() * rate as f64) as u64);
        for _ in 0..due.map_or(64, |due| due.saturating_sub(sent).min(64)) {
            let (packet, to) = &packets[flow];
            // Not one behind the other, so that caches do not know what comes.
            flow = (flow + 7_919) % packets.len();
            socket.send_to(packet, to)?;
            sent += 1;
        }
    }
    Ok(Sent {
        sent,
        seconds: start.elapsed().as_secs_f64(),
        cpu: run_time("/proc/thread-self/schedstat")? - before,
    })
}

/// Nanoseconds on a processor, proc(5).
fn run_time(file: &str) -> Result<f64, Failure> {
    let text = fs::read_to_string(file)?;
    Ok(text.split(' ').next().unwrap_or_default().parse()?)
}

/// A tool that captures.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a sampler counted.
struct Found {
    packets: u64,
    dropped: u64,
    lowered: u64,
}

impl Running {
    fn sampler(space: &Namespace, folder: &str, fraction: &str) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["sampler", folder, fraction]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut running = Self(space.enter(|| command.spawn())??);
        let stdout = running.0.stdout.as_mut();
        stdout.ok_or("no output")?.read_exact(&mut [0])?;
        Ok(running)
    }

    /// It writes to nowhere, which costs it less than a disk would.
    fn tcpdump(space: &Namespace) -> Result<Self, Failure> {
        let mut command = Command::new("tcpdump");
        command.args(["-i", "inside", "-s", "128", "-w", "/dev/null", "tcp"]);
        command.stderr(Stdio::piped());
        let mut running = Self(space.enter(|| command.spawn())??);
        let stderr = running.0.stderr.take().ok_or("no output")?;
        let mut said = BufReader::new(stderr);
        let mut line = String::new();
        while !line.contains("listening on") {
            line.clear();
            if said.read_line(&mut line)? == 0 {
                return Err("tcpdump ended".into());
            }
        }
        running.0.stderr = Some(said.into_inner());
        Ok(running)
    }

    /// Its processor time so far, of all its threads, in nanoseconds.
    fn cpu(&mut self) -> Result<f64, Failure> {
        let mut all = 0.0;
        for task in fs::read_dir(format!("/proc/{}/task", self.0.id()))? {
            let file = task?.path().join("schedstat");
            all += run_time(file.to_str().unwrap_or_default())?;
        }
        Ok(all)
    }

    /// Ends it. A sampler says what it counted.
    fn end(mut self) -> Result<Found, Failure> {
        let child = &mut self.0;
        // A sampler waits for the end of its input, and tcpdump for a signal.
        drop(child.stdin.take());
        let mut text = String::new();
        if let Some(stdout) = child.stdout.as_mut() {
            stdout.read_to_string(&mut text)?;
        }
        let mut numbers = text
            .split_whitespace()
            .map(|word| word.parse().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        Ok(Found {
            packets: next(),
            dropped: next(),
            lowered: next(),
        })
    }
}

/// The sampler as a process, as `tidegate sample` runs it, until the end of standard input.
fn sample(folder: &str, fraction: &str) -> Result<(), Failure> {
    let choice = Choice {
        by: By::Flow,
        fraction: fraction.parse()?,
        key: Key::from_bytes([3; 32]),
    };
    let options = Options::new("inside", folder, choice);
    let source = Source::open(&options)?;
    let mut sampler = Sampler::new(source, options)?;
    let counters = sampler.counters();
    let requests = Requests::default();
    let stop = requests.stop.clone();
    thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        stop.store(true, Ordering::Relaxed);
    });
    std::io::stdout().write_all(b"\n")?;
    std::io::stdout().flush()?;
    sampler.run(&requests, &mut |event| {
        if let Event::Closed(closed) = event {
            let _ = fs::remove_file(closed.path);
        }
    })?;
    let get = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    let (packets, dropped) = (get(&counters.packets), get(&counters.dropped));
    println!("{packets} {dropped} {}", get(&counters.lowered));
    Ok(())
}
