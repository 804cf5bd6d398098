//! What sampling costs beside `tcpdump -s 128`, on a veth: lines of a name, a value and its unit. Needs root and tcpdump.
//!
//! The kernel makes packets of many flows that arrive at an interface, by running a program of XDP on frames that go on into the
//! network stack (`BPF_F_TEST_XDP_LIVE_FRAMES`). Nothing else makes as many on one core. They are dropped behind the place where
//! tools see them, or leave through another interface. All of this happens in one thread, so the time that a tool costs the
//! kernel is the additional processor time of this thread. The time of the tool's process is added.
//!
//! Tools take turns, and figures are medians of the turns. `nothing` is the generator without a tool, and `refusing` a packet socket
//! whose filter takes no packet: no tool that has one costs less than that. `passing` is a program of traffic control that does
//! nothing.
//!
//! If the sampler of M-Lab, `packet-headers`, is in `PATH`, the same is measured at a rate that it keeps up with, beside it. It saves
//! all flows, and takes about a megabyte for each, so it gets packets of few flows.
//!
//! Then all flows are sampled at a paced rate, and the packets that are missing in the files are counted.
//!
//! Arguments choose parts of it: `arrives`, `leaves`, `slow` (both, beside `packet-headers`), `paced`.
#![allow(unsafe_code)]

mod live;
mod packet_headers;

use std::error::Error;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use tidegate_sample::{By, Choice, Event, Key, Options, Place, Requests, Sampler, Source};
use tidegate_testbed::namespace::Namespace;
use tidegate_trace::wire::Flags;
use tidegate_trace::write::{Ends, TcpFrame};

use packet_headers::PacketHeaders;

type Failure = Box<dyn Error + Send + Sync>;

const FLOWS: u16 = 20_000;
/// Bytes of TCP in a packet.
const PAYLOAD: u32 = 1_000;
const ETHERNET: usize = 14;
const TURNS: usize = 7;
/// Packets in a turn.
const PACKETS: u32 = 500_000;
/// The same beside `packet-headers`.
const SLOW_TURNS: usize = 3;
const SLOW_PACKETS: u32 = 50_000;
/// Packets that come together then, and how often: 50,000 packets/s.
const SLOW_BATCH: u32 = 1_000;
const SLOW_PAUSE: Duration = Duration::from_millis(20);
/// The ends of the flows that the kernel makes, at which `packet-headers` looks too.
const FLOW_ENDS: [&str; 2] = ["192.0.2.9", "192.0.2.1"];
/// All flows are sampled at this rate of packets, for this time.
const PACED: u64 = 100_000;
const PACED_TIME: Duration = Duration::from_secs(10);

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, role, interface, place, folder, fraction] = &arguments[..]
        && role == "sampler"
    {
        return sample(interface, place, folder, fraction);
    }
    let (server, client) = (Namespace::new()?, Namespace::new()?);
    server.veth("inside", &client, "outside")?;
    server.veth("away", &client, "far")?;
    server.address("inside", FLOW_ENDS[1].parse()?, 24)?;
    server.address("away", FLOW_ENDS[0].parse()?, 32)?;
    client.address("outside", "192.0.2.2".parse()?, 24)?;
    // The server forwards nothing, so it drops these packets and answers none.
    client.ip("route add 198.51.100.0/24 via 192.0.2.1")?;
    let folder = tempfile::tempdir()?;
    let folder = folder.path().to_str().ok_or("a path that is no text")?;
    let packets = packets();
    let [from, to] = FLOW_ENDS.map(str::parse::<Ipv4Addr>);
    let frame = [&[2; 12][..], &[8, 0], &packet(from?, 0, to?).0].concat();
    let wanted =
        |part: &str| arguments.len() == 1 || arguments[1..].iter().any(|name| name == part);
    for (direction, interface) in [("arrives", "inside"), ("leaves", "away")] {
        let packets = server.enter(|| live::Packets::new("inside", interface, &frame))??;
        if wanted(direction) {
            compare(direction, interface, &server, folder, &packets)?;
        }
        if wanted("slow") && packet_headers::is_there() {
            compare_slowly(direction, interface, &server, folder, &packets)?;
        }
    }
    for place in [Place::Socket, Place::TrafficControl] {
        if !wanted("paced") {
            break;
        }
        let running = Running::sampler(&server, "inside", place, folder, "1")?;
        let run = client.enter(|| send(&packets, Some(PACED), PACED_TIME))??;
        thread::sleep(Duration::from_millis(300));
        let found = running.end()?;
        let missing = run.sent as i64 - found.packets as i64;
        println!(
            "paced_{place}_rate {:.0} packets/s",
            run.sent as f64 / run.seconds
        );
        println!("paced_{place}_sent {} packets", run.sent);
        println!("paced_{place}_missing {missing} packets");
        println!("paced_{place}_dropped {} packets", found.dropped);
        println!("paced_{place}_lowered {} times", found.lowered);
    }
    Ok(())
}

/// What each tool costs in one direction.
fn compare(
    direction: &str,
    interface: &str,
    server: &Namespace,
    folder: &str,
    generator: &live::Packets,
) -> Result<(), Failure> {
    let tools = ["nothing", "socket", "tc", "tcpdump", "refusing", "passing"];
    let make = |_: &str, packets| generator.send(packets, live::Flows::Many);
    let costs = turns(TURNS, PACKETS, &tools, interface, server, folder, &make)?;
    costs.print(direction, &tools);
    costs.compare(direction, &tools, &["socket", "tc"], "tcpdump");
    Ok(())
}

/// The same beside `packet-headers`, at a rate that it keeps up with.
fn compare_slowly(
    direction: &str,
    interface: &str,
    server: &Namespace,
    folder: &str,
    generator: &live::Packets,
) -> Result<(), Failure> {
    let tools = ["nothing", "socket", "tc", "tcpdump", "packet-headers"];
    let make = |tool: &str, packets: u32| {
        let flows = match tool {
            "packet-headers" => live::Flows::Few,
            _ => live::Flows::Many,
        };
        for _ in 0..packets / SLOW_BATCH {
            let start = Instant::now();
            generator.send(SLOW_BATCH, flows)?;
            thread::sleep(SLOW_PAUSE.saturating_sub(start.elapsed()));
        }
        Ok(())
    };
    let direction = format!("{direction}_slow");
    let costs = turns(
        SLOW_TURNS,
        SLOW_PACKETS,
        &tools,
        interface,
        server,
        folder,
        &make,
    )?;
    costs.print(&direction, &tools);
    costs.compare(&direction, &tools, &["socket", "tc"], "tcpdump");
    costs.compare(&direction, &tools, &["socket", "tc"], "packet-headers");
    Ok(())
}

/// Nanoseconds of a packet, of each tool.
struct Costs {
    /// With what the generator costs without a tool, which is the first.
    kernel: Vec<f64>,
    process: Vec<f64>,
    /// The share of the packets that samplers took.
    sampled: f64,
    /// The share that `packet-headers` saved.
    saved: Option<f64>,
}

/// Measures each tool in turn, while packets are made.
fn turns(
    turns: usize,
    packets: u32,
    tools: &[&str],
    interface: &str,
    server: &Namespace,
    folder: &str,
    make: &(dyn Fn(&str, u32) -> io::Result<()> + Sync),
) -> Result<Costs, Failure> {
    let mut kernel = vec![Vec::new(); tools.len()];
    let mut process = vec![Vec::new(); tools.len()];
    let (mut shares, mut saved) = (Vec::new(), Vec::new());
    for _ in 0..turns {
        for (tool, name) in tools.iter().enumerate() {
            let sampler = |place| Running::sampler(server, interface, place, folder, "0.01");
            let mut go = None;
            let mut running = match *name {
                "socket" => Some(sampler(Place::Socket)?),
                "tc" => Some(sampler(Place::TrafficControl)?),
                "tcpdump" => Some(Running::tcpdump(server, interface, "tcp")?),
                "refusing" => Some(Running::tcpdump(server, interface, "ether proto 1")?),
                "packet-headers" => {
                    let ports = live::few_ports();
                    let started = PacketHeaders::start(server, interface, FLOW_ENDS, ports)?;
                    go = Some(started.0);
                    Some(Running(started.1))
                }
                _ => None,
            };
            let _passing = match *name {
                "passing" => Some(server.enter(|| live::passing(interface, interface == "away"))??),
                _ => None,
            };
            server.enter(|| make(name, packets / 10))??;
            thread::sleep(Duration::from_millis(100));
            let before = running.as_mut().map_or(Ok(0.0), Running::cpu)?;
            let used = server.enter(|| -> Result<f64, Failure> {
                let before = run_time("/proc/thread-self/schedstat")?;
                make(name, packets)?;
                Ok(run_time("/proc/thread-self/schedstat")? - before)
            })??;
            // What is still to be written belongs to it.
            thread::sleep(Duration::from_millis(300));
            let after = running.as_mut().map_or(Ok(0.0), Running::cpu)?;
            kernel[tool].push(used / f64::from(packets));
            process[tool].push((after - before) / f64::from(packets));
            if let Some(go) = go {
                saved.push(go.packets()? as f64 / (f64::from(packets) * 1.1));
            }
            if let Some(running) = running {
                let found = running.end()?;
                if ["socket", "tc"].contains(name) {
                    shares.push(found.packets as f64 / (f64::from(packets) * 1.1));
                }
            }
        }
    }
    // A sampler that sampled nothing would seem to cost nothing.
    if let Some(share) = shares.iter().find(|share| !(0.005..0.015).contains(*share)) {
        return Err(format!("{share} of the packets were sampled, not 0.01").into());
    }
    let [kernel, process] = [kernel, process].map(|all| all.into_iter().map(median).collect());
    Ok(Costs {
        kernel,
        process,
        sampled: median(shares),
        saved: (!saved.is_empty()).then(|| median(saved)),
    })
}

impl Costs {
    fn print(&self, direction: &str, tools: &[&str]) {
        println!("{direction}_sampled {:.2} %", self.sampled * 100.0);
        if let Some(saved) = self.saved {
            println!("{direction}_packet-headers_saved {:.2} %", saved * 100.0);
        }
        println!("{direction}_nothing {:.0} ns/packet", self.kernel[0]);
        for (tool, name) in tools.iter().enumerate().skip(1) {
            let kernel = self.kernel[tool] - self.kernel[0];
            println!("{direction}_{name}_kernel {kernel:.0} ns/packet");
            let process = self.process[tool];
            println!("{direction}_{name}_process {process:.1} ns/packet");
            println!("{direction}_{name}_whole {:.0} ns/packet", self.whole(tool));
        }
    }

    fn whole(&self, tool: usize) -> f64 {
        self.kernel[tool] - self.kernel[0] + self.process[tool]
    }

    /// How much tools cost beside another one.
    fn compare(&self, direction: &str, tools: &[&str], ours: &[&str], other: &str) {
        let cost = |name: &str| {
            let tool = tools.iter().position(|tool| *tool == name);
            tool.map_or(f64::NAN, |tool| self.whole(tool))
        };
        for name in ours {
            let times = cost(name) / cost(other);
            println!("{direction}_{name}_to_{other} {times:.3} times");
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A packet of each flow, from IP on, with its receiver.
fn packets() -> Vec<(Vec<u8>, SockAddr)> {
    let to = |flow: u16| Ipv4Addr::new(198, 51, 100, (flow % 200) as u8 + 1);
    let from = Ipv4Addr::new(192, 0, 2, 2);
    (0..FLOWS)
        .map(|flow| packet(from, 10_000 + flow, to(flow)))
        .collect()
}

fn packet(from: Ipv4Addr, port: u16, to: Ipv4Addr) -> (Vec<u8>, SockAddr) {
    let ends = Ends {
        src: SocketAddr::new(from.into(), port),
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
}

/// What a generator did.
struct Sent {
    sent: u64,
    seconds: f64,
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
    fn sampler(
        space: &Namespace,
        interface: &str,
        place: Place,
        folder: &str,
        fraction: &str,
    ) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["sampler", interface, &place.to_string(), folder, fraction]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut running = Self(space.enter(|| command.spawn())??);
        let stdout = running.0.stdout.as_mut();
        stdout.ok_or("no output")?.read_exact(&mut [0])?;
        Ok(running)
    }

    /// It writes to nowhere, which costs it less than a disk would. Its buffer holds all packets of a turn: what it lost would cost
    /// it nothing.
    fn tcpdump(space: &Namespace, interface: &str, filter: &str) -> Result<Self, Failure> {
        let mut command = Command::new("tcpdump");
        command.args([
            "-i",
            interface,
            "-s",
            "128",
            "-B",
            "131072",
            "-w",
            "/dev/null",
            filter,
        ]);
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
fn sample(interface: &str, place: &str, folder: &str, fraction: &str) -> Result<(), Failure> {
    let choice = Choice {
        by: By::Flow,
        fraction: fraction.parse()?,
        key: Key::from_bytes([3; 32]),
    };
    let mut options = Options::new(interface, folder, choice);
    options.place = place.parse()?;
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
