//! Measures the programs by BPF_PROG_TEST_RUN, and loading and memory: lines of a name, a value and
//! its unit. Needs root.
//!
//! Each program first turns the one packet of a run into one of many subscribers, in no order, with
//! 16 flows each. `empty` does only this. `bare_bucket` is a token bucket under a lock in an array.
//! The others are programs of the gate that differ only in their plan.
//!
//! The programs get their time as an input. Subscribers of 25 Mbit/s get twice that rate, for any
//! number of subscribers. In the lines that begin with `light` they get half of it. The clock is still
//! read. At first, one subscriber after the other gets more than its queues hold during a period of
//! burst control, and another period passes. So all queues have a backlog then (of twice the rate), and
//! periods end all the time.
//! `watched` lines are of packets without a limit whose flows are watched, beside the same packets where they are not: runs
//! are short, since the machine may do something else in a long one, and the least of many counts.
//! A scheme and the policer take turns; the ratio is the median of all turns, costs are the
//! smallest. In the same way, BC-PQP below nodes of the network takes turns with BC-PQP without. The nodes carry all
//! that comes, so the decisions are the same.

use std::error::Error;
use std::fs;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

use libbpf_rs::{Map, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, ProgramInput};
use tidegate_gate::Kernel;
use tidegate_gate::table::{
    Accounting, Direction, Excess, LinkFrames, Match, OtherFrames, Plan, Seat, Settings, Sources,
    Unknown,
};
use tidegate_limiter::{
    BurstControl, HashKey, LimiterConfig, NetworkNode, PhantomQueuesConfig, PolicerConfig,
    PolicyTree, Rate,
};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bench.bpf.o"));
/// Packets that are measured at once.
const RUNS: u64 = 1_000_000;
const REPEATS: usize = 5;
/// Packets of a short run, and the number of runs of each kind, in as many turns.
const SHORT: u64 = 10_000;
const SHORT_TURNS: usize = 12;
/// Turns of a scheme and the policer.
const TURNS: usize = 9;
/// Bytes of a packet, as it is charged.
const BYTES: u64 = 1_514 + 24;
const FLOWS: u16 = 16;
/// Rate of a subscriber, in bit/s.
const RATE: u64 = 25_000_000;
/// Packets to each of a subscriber's queues at first, more than the period's share.
const FILL: u32 = 24;
/// Nodes between a subscriber and the network.
const DEPTHS: [u32; 3] = [1, 4, 8];
/// Period of burst control, in nanoseconds.
const PERIOD: f64 = 1e8;

fn main() -> Result<(), Box<dyn Error>> {
    let pins = PathBuf::from(format!("/sys/fs/bpf/tidegate-bench-{}", std::process::id()));
    let settings = settings();
    let started = Instant::now();
    let kernel = Kernel::create(&pins, &settings)?;
    println!("load_programs {:.3} s", started.elapsed().as_secs_f64());
    let result = measure(&pins);
    kernel.remove()?;
    result
}

fn settings() -> Settings {
    Settings {
        accounting: Accounting {
            layer: 2,
            overhead: 24,
        },
        unknown: Unknown::Pass,
        other_frames: OtherFrames::default(),
        link_frames: LinkFrames::default(),
        sources: Sources::Bound,
        beside: false,
        shadow: false,
        flows: 0,
        hash: HashKey::from_bytes(*b"a 16 byte secret"),
    }
}

fn measure(pins: &Path) -> Result<(), Box<dyn Error>> {
    let mut open = ObjectBuilder::default().open_memory(OBJECT)?;
    for mut map in open.maps_mut() {
        let pin = pins.join("maps").join(map.name());
        if pin.exists() {
            map.reuse_pinned_map(pin)?;
        }
    }
    for mut program in open.progs_mut() {
        let wanted = program.name().to_string_lossy().starts_with("bench");
        program.set_autoload(wanted);
    }
    for mut map in open.maps_mut() {
        if map.name().to_string_lossy().ends_with(".rodata")
            && let Some(value) = map.initial_value_mut()
        {
            value[0] = 1; // timed_by_test
        }
    }
    let object = open.load()?;
    let kernel = Kernel::open(pins)?;
    let mut bench = Bench {
        object,
        kernel,
        version: 0,
        node: 0,
    };
    // Each node is below the one before.
    for number in 1..=DEPTHS[2] {
        let node = NetworkNode {
            capacity: *Rate::LIMITABLE.end(),
            above: (number > 1).then_some(number as usize - 1),
        };
        bench.kernel.put_node(number, &node, true)?;
    }
    let given: Result<Vec<u32>, _> = std::env::args().skip(1).map(|text| text.parse()).collect();
    let mut counts = given?;
    if counts.is_empty() {
        counts = vec![1, 1_000, 100_000];
    }
    let most = counts.iter().copied().max().unwrap_or(1);
    let seats = MapHandle::from_pinned_path(pins.join("maps/seats4"))?;
    let empty = memlock(&seats)?;
    for subscribers in counts {
        bench.watched(subscribers)?;
        bench.with(subscribers, 2.0, "")?;
        bench.with(subscribers, 0.5, "light_")?;
    }
    memory(pins, empty, most)
}

struct Bench {
    object: Object,
    kernel: Kernel,
    /// Of the plan and the seats that were put last.
    version: u32,
    /// The node that subscribers of the second network are below.
    node: u32,
}

type Outcome<T> = Result<T, Box<dyn Error>>;

impl Bench {
    /// Measures all with this many subscribers of a rate.
    fn with(&mut self, subscribers: u32, load: f64, name: &str) -> Outcome<()> {
        let gap = BYTES as f64 * 8e9 / (RATE as f64 * load * f64::from(subscribers));
        self.pace(0, subscribers, gap, 0)?;
        for program in ["empty", "bare"] {
            let cost = self.least(&format!("bench_{program}"), RUNS)?;
            println!("{name}{program}_{subscribers} {cost:.1} ns");
        }
        let started = Instant::now();
        self.seat(0, subscribers, LimiterConfig::Unlimited)?;
        if subscribers == 100_000 && name.is_empty() {
            println!("load_100000 {:.3} s", started.elapsed().as_secs_f64());
        }
        self.fill(0, subscribers, LimiterConfig::Unlimited, gap)?;
        let cost = self.least("bench_gate", RUNS)?;
        println!("{name}unlimited_{subscribers} {cost:.1} ns");
        self.fill(0, subscribers, limiter("policer")?, gap)?;
        for scheme in ["pqp", "bcpqp", "boosted"] {
            self.fill(1, subscribers, limiter(scheme)?, gap)?;
            let before = [0, 1].map(|network| self.counted(network, subscribers));
            let (costs, ratio) = self.turns(subscribers, gap)?;
            for (network, before) in before.into_iter().enumerate() {
                let (before, after) = (before?, self.counted(network as u32, subscribers)?);
                let which = ["policer_beside_", ""][network];
                let (passed, excess) = (after.0 - before.0, after.1 - before.1);
                let part = 100.0 * passed as f64 / (passed + excess).max(1) as f64;
                println!(
                    "{name}{which}{scheme}_{subscribers} {:.1} ns",
                    costs[network]
                );
                println!("{name}{which}{scheme}_passed_{subscribers} {part:.1} %");
            }
            println!("{name}{scheme}_to_policer_{subscribers} {ratio:.2} times");
        }
        self.below(subscribers, gap, name)
    }

    /// Runs both networks in turn. Returns the least cost of a packet in each, and the median of the second one's over the
    /// first one's.
    fn turns(&mut self, subscribers: u32, gap: f64) -> Outcome<([f64; 2], f64)> {
        let (mut costs, mut ratios) = ([f64::MAX; 2], Vec::new());
        for _ in 0..TURNS {
            let mut turn = [0.0; 2];
            for (network, cost) in turn.iter_mut().enumerate() {
                self.pace(network as u32, subscribers, gap, 0)?;
                *cost = self.run("bench_gate", RUNS)?;
                costs[network] = costs[network].min(*cost);
            }
            ratios.push(turn[1] / turn[0]);
        }
        ratios.sort_by(f64::total_cmp);
        Ok((costs, ratios[TURNS / 2]))
    }

    /// Measures BC-PQP below nodes beside BC-PQP without.
    fn below(&mut self, subscribers: u32, gap: f64, name: &str) -> Outcome<()> {
        self.fill(0, subscribers, limiter("bcpqp")?, gap)?;
        for depth in DEPTHS {
            self.node = depth;
            let filled = self.fill(1, subscribers, limiter("bcpqp")?, gap);
            self.node = 0;
            filled?;
            let (costs, ratio) = self.turns(subscribers, gap)?;
            let [without, with] = costs;
            println!("{name}bcpqp_beside_nodes_{depth}_{subscribers} {without:.1} ns");
            println!("{name}bcpqp_below_nodes_{depth}_{subscribers} {with:.1} ns");
            println!("{name}bcpqp_below_nodes_{depth}_to_none_{subscribers} {ratio:.2} times");
        }
        Ok(())
    }

    /// What it costs to watch flows, of UDP and of TCP with timestamps.
    fn watched(&mut self, subscribers: u32) -> Outcome<()> {
        let gap = BYTES as f64 * 8e9 / (RATE as f64 * f64::from(subscribers));
        self.seat(0, subscribers, LimiterConfig::Unlimited)?;
        self.pace(0, subscribers, gap, 0)?;
        for (protocol, frame) in [("udp", datagram()), ("tcp", segment())] {
            let mut least = [f64::MAX; 2];
            for _ in 0..SHORT_TURNS {
                for (flows, least) in [0, 1 << 16].into_iter().zip(&mut least) {
                    let settings = Settings {
                        flows,
                        ..settings()
                    };
                    self.kernel.set_settings(&settings)?;
                    // The table begins empty.
                    self.test("bench_gate", &frame, 4 * SHORT)?;
                    for _ in 0..SHORT_TURNS {
                        *least = least.min(self.test("bench_gate", &frame, SHORT)?);
                    }
                }
            }
            let [without, with] = least;
            println!("unwatched_{protocol}_{subscribers} {without:.1} ns");
            println!("watched_{protocol}_{subscribers} {with:.1} ns");
        }
        Ok(self.kernel.set_settings(&settings())?)
    }

    /// Puts all subscribers of a network on a new plan, and has their queues filled.
    fn fill(
        &mut self,
        network: u32,
        subscribers: u32,
        limiter: LimiterConfig,
        gap: f64,
    ) -> Outcome<()> {
        self.seat(network, subscribers, limiter)?;
        let each = FILL * u32::from(FLOWS);
        let first = u64::from(each) * u64::from(subscribers);
        self.pace(network, subscribers, PERIOD / first as f64, each)?;
        self.run("bench_gate", first)?;
        self.pace(network, subscribers, gap, 0)?;
        self.run("bench_gate", (PERIOD / gap) as u64)?;
        Ok(())
    }

    /// Tells the programs how many subscribers there are, the nanoseconds between two packets, and how
    /// many come to one after the other, see `run` in bench.bpf.c.
    fn pace(&self, network: u32, subscribers: u32, gap: f64, each: u32) -> Outcome<()> {
        let is_it = |map: &Map<'_>| map.name().to_string_lossy().ends_with(".data");
        let globals = self.object.maps().find(is_it).ok_or("no globals")?;
        let key = 0u32.to_ne_bytes();
        let mut value = globals.lookup(&key, MapFlags::ANY)?.ok_or("no globals")?;
        let gap = ((gap * 65_536.0) as u64).to_ne_bytes();
        value[16..24].copy_from_slice(&gap);
        // None was drawn yet.
        for (at, number) in [network, subscribers, each, 0].into_iter().enumerate() {
            value[32 + 4 * at..][..4].copy_from_slice(&number.to_ne_bytes());
        }
        Ok(globals.update(&key, &value, MapFlags::ANY)?)
    }

    /// The smallest of several runs: other work on the machine can only add to it.
    fn least(&self, program: &str, packets: u64) -> Outcome<f64> {
        let mut least = f64::MAX;
        for _ in 0..REPEATS {
            least = least.min(self.run(program, packets)?);
        }
        Ok(least)
    }

    /// Runs a program on this many packets. Returns nanoseconds of one.
    fn run(&self, name: &str, packets: u64) -> Outcome<f64> {
        let frame = datagram();
        let (mut rest, mut total) = (packets, 0.0);
        while rest > 0 {
            let repeat = rest.min(RUNS);
            total += self.test(name, &frame, repeat)? * repeat as f64;
            rest -= repeat;
        }
        Ok(total / packets as f64)
    }

    /// Runs a program on a frame, this often. Returns nanoseconds of one.
    fn test(&self, name: &str, frame: &[u8], repeat: u64) -> Outcome<f64> {
        let program = self.object.progs_mut().find(|found| found.name() == name);
        let input = ProgramInput {
            data_in: Some(frame),
            repeat: repeat as u32,
            ..ProgramInput::default()
        };
        let output = program.ok_or("no such program")?.test_run(input)?;
        Ok(output.duration.as_nanos() as f64)
    }

    /// Packets that passed and packets that did not, of all subscribers of a network.
    fn counted(&self, network: u32, subscribers: u32) -> Outcome<(u64, u64)> {
        let first = network * subscribers;
        let counters = self.kernel.counters(first..first + subscribers)?;
        let passed = counters.iter().map(|counters| counters.passed_packets);
        let excess = counters.iter().map(|counters| counters.excess_packets);
        Ok((passed.sum(), excess.sum()))
    }

    /// Puts all subscribers of a network on a new plan.
    fn seat(&mut self, network: u32, subscribers: u32, limiter: LimiterConfig) -> Outcome<()> {
        self.version += 1;
        let (kernel, version) = (&mut self.kernel, self.version);
        let node = if network == 1 { self.node } else { 0 };
        let plan = Plan::new(limiter, Vec::new(), None, Excess::Drop)?.below(node);
        kernel.put_plan(version, &plan)?;
        kernel.reserve((network + 1) * subscribers)?;
        let seats = (0..subscribers).map(|subscriber| {
            let address = Ipv4Addr::from_bits((10 + network) << 24 | subscriber).to_string();
            let matched = Match::Prefix(address.parse()?);
            Ok((
                matched,
                Seat {
                    limiter: network * subscribers + subscriber,
                    plan: version,
                    version,
                    ..Seat::default()
                },
            ))
        });
        let seats = seats.collect::<Result<Vec<_>, tidegate_limiter::PrefixError>>()?;
        kernel.seat(Direction::Down, &seats)?;
        Ok(())
    }
}

/// A frame of UDP over IPv4.
fn datagram() -> Vec<u8> {
    let mut frame = vec![
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0x05, 0xdc,
    ];
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 198, 51, 100, 1]);
    frame.resize(1_514, 0);
    frame
}

/// A frame of TCP over IPv4, with timestamps.
fn segment() -> Vec<u8> {
    let mut frame = datagram();
    frame[23] = 6;
    frame[34 + 12..34 + 14].copy_from_slice(&[8 << 4, 16]);
    frame[34 + 20..34 + 32].copy_from_slice(&[1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9]);
    frame
}

/// Queues and bucket are so small that they are full as well. Queues with burst control are larger,
/// since burst control fills them.
fn limiter(name: &str) -> Outcome<LimiterConfig> {
    let (small, rate) = (30_000, Rate::from_bits_per_second(RATE));
    let policy = PolicyTree::fair(FLOWS)?;
    let queues = |size| PhantomQueuesConfig::new(&policy, rate, size);
    Ok(match name {
        "policer" => PolicerConfig::new(rate, small)?.into(),
        "pqp" => queues(small)?.into(),
        name => queues(RATE)?
            .with_burst_control(BurstControl::DEFAULT)
            .with_boost(if name == "boosted" { RATE } else { 0 })
            .into(),
    })
}

/// The memory that a map takes, as the kernel reports it.
fn memlock(map: &MapHandle) -> Result<u64, Box<dyn Error>> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", map.as_fd().as_raw_fd()))?;
    let line = info.lines().find_map(|line| line.strip_prefix("memlock:"));
    Ok(line.ok_or("no memlock")?.trim().parse()?)
}

/// `empty` is what the map of seats takes before any is in it. Now it has those of this number of subscribers in each of two networks.
/// Both directions of a subscriber share a seat.
fn memory(pins: &Path, empty: u64, subscribers: u32) -> Result<(), Box<dyn Error>> {
    let open = |name| MapHandle::from_pinned_path(pins.join("maps").join(name));
    let pages = open("pages")?;
    let id = pages
        .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)?
        .ok_or("no page")?;
    let page = MapHandle::from_map_id(u32::from_ne_bytes(id.as_slice().try_into()?))?;
    let limiter = memlock(&page)? as f64 / f64::from(page.max_entries());
    let directions = 2.0 * 2.0 * f64::from(subscribers);
    let entry = (memlock(&open("seats4")?)? - empty) as f64 / directions;
    println!("memory_of_seats_without_any {empty} bytes");
    println!("memory_of_limiter {limiter:.0} bytes");
    println!("memory_of_seat_of_direction {entry:.0} bytes");
    println!("memory_of_direction {:.0} bytes", limiter + entry);
    Ok(())
}
