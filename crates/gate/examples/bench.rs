//! Measures the programs by BPF_PROG_TEST_RUN, and loading and memory: lines of a name, a value and
//! its unit. Needs root.
//!
//! Each program first makes the one packet of a run into one of many subscribers, with 16 flows each,
//! which `empty` does and nothing else. `bare_bucket` is a token bucket under a lock in an array;
//! the others go through the gate, and differ in their plan alone.

use std::error::Error;
use std::fs;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use libbpf_rs::{MapCore, MapFlags, MapHandle, ObjectBuilder, ProgramInput, ProgramMut};
use tidegate_gate::kernel::{Kernel, Seat};
use tidegate_gate::table::{Accounting, Direction, Excess, Match, Plan, Scheme, Settings, Unknown};
use tidegate_limiter::{BurstControl, HashKey, PolicyTree, Program, Rate};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bench.bpf.o"));
const RUNS: u32 = 1_000_000;
const REPEATS: usize = 4;

fn main() -> Result<(), Box<dyn Error>> {
    let pins = PathBuf::from(format!("/sys/fs/bpf/tidegate-bench-{}", std::process::id()));
    let settings = Settings {
        accounting: Accounting {
            layer: 2,
            overhead: 24,
        },
        unknown: Unknown::Pass,
        hash: HashKey::new(1, 2),
    };
    let started = Instant::now();
    let kernel = Kernel::create(&pins, &settings)?;
    println!("load_programs {:.3} s", started.elapsed().as_secs_f64());
    let result = measure(&pins);
    kernel.remove()?;
    result
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
    let object = open.load()?;
    let mut kernel = Kernel::open(pins)?;
    let globals = object
        .maps()
        .find(|map| map.name().to_string_lossy().ends_with(".data"))
        .ok_or("no globals")?;
    let mut version = 0;
    for subscribers in [1u32, 1_000, 100_000] {
        let mut value = subscribers.to_ne_bytes().to_vec();
        value.resize(globals.value_size() as usize, 0);
        globals.update(&0u32.to_ne_bytes(), &value, MapFlags::ANY)?;
        let run = |name: &str, runs| -> Result<f64, Box<dyn Error>> {
            let program = object.progs_mut().find(|program| program.name() == name);
            time(&program.ok_or("no such program")?, runs)
        };
        let empty = best(|| run("bench_empty", RUNS))?;
        println!("empty_{subscribers} {empty:.1} ns");
        println!(
            "bare_bucket_{subscribers} {:.1} ns",
            best(|| run("bench_bare", RUNS))?
        );
        let (mut policer, mut total) = (0.0, 60_000_000_000);
        for name in ["unlimited", "policer", "pqp", "bcpqp"] {
            version += 1;
            let started = Instant::now();
            let rate = total / u64::from(subscribers);
            seat(&mut kernel, rate, subscribers, version, scheme(name, rate))?;
            if version == 9 {
                println!("load_100000 {:.3} s", started.elapsed().as_secs_f64());
            }
            // What fills and settles at first.
            run("bench_gate", RUNS)?;
            let cost = best(|| run("bench_gate", RUNS))?;
            println!("{name}_{subscribers} {cost:.1} ns");
            match name {
                // About half of what comes is to pass, so that all queues are busy.
                "unlimited" => total = (1_538.0 * 8e9 / cost * 0.4) as u64,
                "policer" => policer = cost,
                _ => {}
            }
            if name.ends_with("pqp") {
                println!(
                    "{name}_to_policer_{subscribers} {:.2} times",
                    cost / policer
                );
                let counters = kernel.counters(0..subscribers)?;
                let sum = |of: fn(&tidegate_gate::table::Counters) -> u64| -> f64 {
                    counters.iter().map(of).sum::<u64>() as f64
                };
                let passed = sum(|counters| counters.passed_packets);
                let all = passed + sum(|counters| counters.excess_packets);
                println!("{name}_passed_{subscribers} {:.1} %", 100.0 * passed / all);
            }
        }
    }
    memory(pins)
}

fn scheme(name: &str, rate: u64) -> Scheme {
    let size = (rate / 8 / 20).max(30_000);
    let queues = |control| Scheme::PhantomQueues { size, control };
    match name {
        "unlimited" => Scheme::Unlimited,
        "policer" => Scheme::Policer { burst: size },
        "pqp" => queues(None),
        _ => queues(Some(BurstControl::default())),
    }
}

fn seat(
    kernel: &mut Kernel,
    rate: u64,
    subscribers: u32,
    version: u32,
    scheme: Scheme,
) -> Result<(), Box<dyn Error>> {
    let plan = Plan {
        rate: Rate::from_bits_per_second(rate.max(8_000)),
        scheme,
        program: Arc::new(Program::new(&PolicyTree::fair(16)?)),
        rules: Vec::new(),
        default_class: None,
        excess: Excess::Drop,
    };
    kernel.put_plan(version, &plan)?;
    kernel.reserve(subscribers)?;
    let seats = (0..subscribers).map(|limiter| {
        let address = Ipv4Addr::from_bits(0x0a00_0000 | limiter).to_string();
        let matched = Match::Prefix(address.parse()?);
        Ok((
            matched,
            Seat {
                limiter,
                plan: version,
                version,
            },
        ))
    });
    let seats = seats.collect::<Result<Vec<_>, tidegate_limiter::PrefixError>>()?;
    kernel.seat(Direction::Down, &seats)?;
    Ok(())
}

/// The least of some runs: what else the machine does only adds to it.
fn best(run: impl Fn() -> Result<f64, Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let mut least = f64::MAX;
    for _ in 0..REPEATS {
        least = least.min(run()?);
    }
    Ok(least)
}

fn time(program: &ProgramMut<'_>, runs: u32) -> Result<f64, Box<dyn Error>> {
    let mut frame = vec![
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0x05, 0xdc,
    ];
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 198, 51, 100, 1]);
    frame.resize(1_514, 0);
    let input = ProgramInput {
        data_in: Some(&frame),
        repeat: runs,
        ..ProgramInput::default()
    };
    Ok(program.test_run(input)?.duration.as_nanos() as f64)
}

/// What the kernel says that a map takes.
fn memlock(map: &MapHandle) -> Result<u64, Box<dyn Error>> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", map.as_fd().as_raw_fd()))?;
    let line = info.lines().find_map(|line| line.strip_prefix("memlock:"));
    Ok(line.ok_or("no memlock")?.trim().parse()?)
}

fn memory(pins: &Path) -> Result<(), Box<dyn Error>> {
    let open = |name| MapHandle::from_pinned_path(pins.join("maps").join(name));
    let pages = open("pages")?;
    let id = pages
        .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)?
        .ok_or("no page")?;
    let page = MapHandle::from_map_id(u32::from_ne_bytes(id.as_slice().try_into()?))?;
    let limiter = memlock(&page)? as f64 / f64::from(page.max_entries());
    let entry = memlock(&open("seats4")?)? as f64 / 100_000.0;
    println!("memory_of_limiter {limiter:.0} bytes");
    println!("memory_of_seat {entry:.0} bytes");
    println!("memory_of_subscriber {:.0} bytes", limiter + entry);
    Ok(())
}
