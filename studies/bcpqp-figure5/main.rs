//! Prints what [BCPQP §6.2, figure 5] is about: cycles that limiters spend on a packet, on DPDK. See README.md.

use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use tidegate_gate::measure::{Bench, Cost, Load};
use tidegate_gate::table::{
    Accounting, Excess, LinkFrames, Match, OtherFrames, PerDirection, Plan, Seat, Settings,
    Sources, Unknown,
};
use tidegate_gate::{DataPath, Devices};
use tidegate_limiter::{
    BurstControl, FairPolicerConfig, HashKey, LimiterConfig, PhantomQueuesConfig, PolicerConfig,
    PolicyTree, Program, Rate, Rule, ShaperConfig,
};

/// Bytes of a packet on the wire.
const BYTES: u32 = 1_514;
const FLOWS: u16 = 16;
/// Of each aggregate, in bit/s. It gets 1.25 times as much.
const RATE: u64 = 25_000_000;
const LOAD: f64 = 1.25;
/// Packets to each queue at first, more than a policer or a queue without burst control takes.
const FILL: u32 = 24;
/// Nanoseconds that the first packets of all aggregates are spread over.
const PERIOD: f64 = 1e8;
/// Bytes of a bucket, and of phantom queues: without burst control so few that they are full as well.
const BURST: u64 = 312_500;
const QUEUE: u64 = 36_000_000;
const SMALL_QUEUE: u64 = 30_000;
/// Packets that shapers hold, of all aggregates together.
const HELD: u32 = 400_000;
/// Packets that are measured at once.
const PACKETS: u64 = 2_000_000;

const SCHEMES: [&str; 6] = ["wire", "policer", "FairPolicer", "PQP", "BC-PQP", "shaper"];

/// How each aggregate's rate is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sharing {
    /// Evenly between 16 flows
    Fair,
    /// Eight flows before eight others
    Priority,
    /// Two times four flows by 4 to 1, and both before eight others
    Nested,
}

impl Sharing {
    fn policy(self) -> Result<PolicyTree> {
        let fair = |part: u16| PolicyTree::fair(FLOWS / part);
        Ok(match self {
            Self::Fair => fair(1)?,
            Self::Priority => PolicyTree::priority(vec![fair(2)?, fair(2)?])?,
            Self::Nested => {
                let first = PolicyTree::weighted(vec![(4, fair(4)?), (1, fair(4)?)])?;
                PolicyTree::priority(vec![first, fair(2)?])?
            }
        })
    }
}

/// Options.
#[derive(Debug, Parser)]
struct Options {
    /// Arguments for DPDK
    #[arg(
        long,
        allow_hyphen_values = true,
        default_value = "--no-huge -m 1024 -l 0"
    )]
    eal: String,
    /// How often each scheme is measured
    #[arg(long, default_value_t = 7)]
    turns: u32,
    /// Measure only this scheme, such as BC-PQP
    #[arg(long, value_parser = SCHEMES)]
    only: Option<String>,
    /// How each aggregate's rate is shared, by those that can
    #[arg(long, value_enum, default_value_t = Sharing::Fair)]
    policy: Sharing,
    /// Numbers of aggregates
    #[arg(default_values_t = [1, 10, 100, 1_000, 10_000])]
    aggregates: Vec<u32>,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bcpqp-figure5: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    let device = |name: &str| format!("{name}=net_null_{name},size=64").parse();
    let eal = format!("--log-level=error {}", options.eal);
    let devices = Devices::new(&[device("wan")?, device("lan")?], &eal)?;
    let bench = Bench::new(devices, &settings(), HELD)?;
    let mut study = Study {
        bench,
        turns: options.turns,
        policy: options.policy.policy()?,
        version: 0,
    };
    let schemes = match &options.only {
        Some(only) => std::slice::from_ref(only),
        None => &SCHEMES.map(str::to_owned),
    };
    println!(
        "cycles of the time stamp counter ({:.2} GHz) a packet, least of {} turns; in brackets: % of packets sent\n\
         {:>10} {}",
        study.bench.hertz() as f64 / 1e9,
        study.turns,
        "aggregates",
        schemes
            .iter()
            .map(|name| format!("{name:>14}"))
            .collect::<String>()
    );
    for &aggregates in &options.aggregates {
        study.measure(aggregates, schemes)?;
    }
    Ok(())
}

fn settings() -> Settings {
    Settings {
        accounting: Accounting {
            layer: 2,
            overhead: 0,
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

struct Study {
    bench: Bench,
    turns: u32,
    policy: PolicyTree,
    /// Of the plan and the seats that were put last.
    version: u32,
}

impl Study {
    /// Measures schemes in turn, and prints a line, and ratios if it measured all.
    fn measure(&mut self, aggregates: u32, schemes: &[String]) -> Result<()> {
        let mut least = vec![f64::MAX; schemes.len()];
        let mut sent = vec![0.0; schemes.len()];
        for _ in 0..self.turns {
            for (at, name) in schemes.iter().enumerate() {
                let cost = self.scheme(name, aggregates)?;
                least[at] = f64::min(least[at], cost.cycles as f64 / cost.packets as f64);
                sent[at] = 100.0 * cost.sent as f64 / cost.packets as f64;
            }
        }
        let cells = least.iter().zip(sent);
        let cells: String = cells
            .map(|(cycles, sent)| format!("{:>14}", format!("{cycles:.0} ({sent:.0})")))
            .collect();
        println!("{aggregates:>10} {cells}");
        let [wire, policer, fair, pqp, bc_pqp, shaper] = least[..] else {
            return Ok(());
        };
        let packets = self.bench.hertz() as f64 / bc_pqp / 1e6;
        println!(
            "{:>10} FairPolicer, PQP, BC-PQP over policer {:.2} {:.2} {:.2}; shaper over BC-PQP {:.2}; without the wire's {:.2} and {:.2}; \
             BC-PQP {packets:.1} M packets/s",
            "",
            fair / policer,
            pqp / policer,
            bc_pqp / policer,
            shaper / bc_pqp,
            (bc_pqp - wire) / (policer - wire),
            (shaper - wire) / (bc_pqp - wire),
        );
        Ok(())
    }

    /// What a packet costs when queues are full.
    fn scheme(&mut self, name: &str, aggregates: u32) -> Result<Cost> {
        let rate = Rate::from_bits_per_second(RATE);
        let policy = self.policy.clone();
        let queues = |size| PhantomQueuesConfig::new(&policy, rate, size);
        let held = (aggregates * u32::from(FLOWS) * 48).min(HELD);
        let limiter: LimiterConfig = match name {
            "policer" => PolicerConfig::new(rate, BURST)?.into(),
            "FairPolicer" => FairPolicerConfig::new(rate, BURST)?
                .with_flows(FLOWS)
                .into(),
            "PQP" => queues(SMALL_QUEUE)?.into(),
            "BC-PQP" => queues(QUEUE)?
                .with_burst_control(BurstControl::DEFAULT)
                .into(),
            // Deficit round robin with its buffers, in DPDK's memory.
            "shaper" => ShaperConfig::new(Arc::new(Program::new(&policy)), rate)?
                .with_burst(BYTES.into())
                .with_queue_packets(48)?
                .into(),
            _ => LimiterConfig::Unlimited,
        };
        let fill = match name {
            "shaper" => held / (aggregates * u32::from(FLOWS)),
            _ => FILL,
        };
        let limits = name != "wire";
        self.seat(aggregates, limiter)?;
        let mut load = self.first(aggregates, fill);
        let (first, steady, gap) = self.packets(aggregates, fill);
        self.bench.run(&mut load, first, limits)?;
        load.pace(gap, 0);
        self.bench.run(&mut load, steady, limits)?;
        let cost = self.bench.run(&mut load, PACKETS, limits)?;
        if name == "shaper" {
            // All packets leave, so that the next scheme finds their buffers free.
            self.bench
                .run(&mut Load::new(aggregates, BYTES, 1e7), 30_000, limits)?;
        }
        Ok(cost)
    }

    /// Packets that fill all queues, spread over a period.
    fn first(&self, aggregates: u32, fill: u32) -> Load {
        let (first, ..) = self.packets(aggregates, fill);
        let mut load = Load::new(aggregates, BYTES, 0.0);
        load.pace(PERIOD / first as f64, fill * u32::from(FLOWS));
        load
    }

    /// The numbers of packets that fill the queues and that come in the next period, and the gap between two.
    fn packets(&self, aggregates: u32, fill: u32) -> (u64, u64, f64) {
        let gap = f64::from(BYTES) * 8e9 / (RATE as f64 * LOAD * f64::from(aggregates));
        let first = u64::from(fill) * u64::from(FLOWS) * u64::from(aggregates);
        (first, (6.0 * PERIOD / gap) as u64, gap)
    }

    /// Puts all aggregates on a new plan, with limiters that begin empty.
    fn seat(&mut self, aggregates: u32, limiter: LimiterConfig) -> Result<()> {
        self.version += 1;
        let rules = limiter.program().map_or_else(Vec::new, rules);
        let (path, version) = (&mut self.bench.path, self.version);
        let plan = Plan::new(limiter, rules, None, Excess::Drop)?;
        path.put_plan(version, &plan)?;
        path.reserve(aggregates)?;
        let seats = (0..aggregates).map(|limiter| {
            let address = Ipv4Addr::from_bits(10 << 24 | limiter).to_string();
            let seat = Seat {
                limiter,
                plan: version,
                version,
                ..Seat::default()
            };
            let both = PerDirection::new(|_| seat);
            Ok((Match::Prefix(address.parse()?), both))
        });
        let seats = seats.collect::<Result<Vec<_>>>()?;
        path.seat(&seats)?;
        for limiter in 0..aggregates {
            path.forget(limiter)?;
        }
        Ok(())
    }
}

/// Rules that give each class as many flows as it has queues: flows have the source ports from 0 on. One class needs none.
fn rules(program: &Program) -> Vec<Rule> {
    let classes = program.classes();
    if classes.len() == 1 {
        return Vec::new();
    }
    let rules = (0..).zip(classes).map(|(number, class)| Rule {
        source_ports: class.first..=class.first + class.queues - 1,
        class: number,
        ..Rule::default()
    });
    rules.collect()
}
