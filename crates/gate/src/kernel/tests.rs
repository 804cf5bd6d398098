use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tidegate_limiter::{
    BurstControl, HashKey, LimiterConfig, PhantomQueuesConfig, PolicerConfig, PolicyTree,
    Program as Policy, Rate,
};

use super::*;
use crate::table::{Accounting, Excess, LinkFrames, OtherFrames, Sources, Unknown};

mod attach;
mod binding;
mod cores;
mod maps;
mod mark;
mod nat;
mod parse;
mod recorded;
mod renew;
mod room;
mod same;
mod segments;
mod shadow;
mod watch;

/// A gate for one test, removed with it.
struct Gate {
    kernel: Option<Kernel>,
    pins: PathBuf,
}

impl Drop for Gate {
    fn drop(&mut self) {
        if let Some(kernel) = self.kernel.take() {
            let _ = kernel.remove();
        }
    }
}

fn settings() -> Settings {
    Settings {
        accounting: Accounting {
            layer: 3,
            overhead: 0,
        },
        unknown: Unknown::Pass,
        other_frames: OtherFrames::Pass,
        link_frames: LinkFrames::default(),
        sources: Sources::Bound,
        beside: false,
        shadow: false,
        flows: 0,
        hash: HashKey::from_bytes(*b"a 16 byte secret"),
    }
}

/// A gate whose time the test sets; `None` without rights, which is reported past the harness.
fn gate(test: &str) -> Option<Gate> {
    gate_with(test, true)
}

fn gate_with(test: &str, timed: bool) -> Option<Gate> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let pins = PathBuf::from(format!(
        "/sys/fs/bpf/tidegate-test-{}-{number}",
        std::process::id()
    ));
    match Kernel::create_with(&pins, &settings(), timed) {
        Ok(kernel) => Some(Gate {
            kernel: Some(kernel),
            pins,
        }),
        Err(error) if !nix::unistd::Uid::effective().is_root() => {
            let mut stderr = std::io::stderr();
            writeln!(stderr, "skipped TEST: {test}: needs root: {error}").unwrap();
            None
        }
        Err(error) => panic!("{error}: {:?}", std::error::Error::source(&error)),
    }
}

impl Gate {
    fn kernel(&mut self) -> &mut Kernel {
        self.kernel.as_mut().unwrap()
    }

    fn program(&self, name: &str) -> OwnedFd {
        load::program(&self.pins, name).unwrap()
    }

    fn offer(&mut self, program: &str, now: u64, frame: &[u8]) -> u32 {
        self.kernel()
            .update("test_time", &0u32.to_ne_bytes(), &now.to_ne_bytes())
            .unwrap();
        run(&self.program(program), frame)
    }
}

fn run(fd: &OwnedFd, frame: &[u8]) -> u32 {
    use std::os::fd::AsRawFd;
    sys::test_run(fd.as_raw_fd(), frame, 1).unwrap().0
}

/// UDP over IPv4 over Ethernet: from 198.51.100.1 to this address, with this many bytes from the IP header on.
fn frame(to: [u8; 4], port: u16, bytes: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0]);
    frame.extend(bytes.to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 198, 51, 100, 1]);
    frame.extend(to);
    frame.extend(port.to_be_bytes());
    frame.extend(443u16.to_be_bytes());
    frame.resize(14 + usize::from(bytes), 0);
    frame
}

/// A plan whose parts tests change.
#[derive(Debug)]
struct Draft {
    rate: Rate,
    means: Means,
    program: Arc<Policy>,
    rules: Vec<tidegate_limiter::Rule>,
    default_class: Option<u16>,
    excess: Excess,
    /// What phantom queues may save, in bytes.
    boost: u64,
}

/// The limiters, with their bytes.
#[derive(Debug, Clone, Copy)]
enum Means {
    PhantomQueues {
        size: u64,
        control: Option<BurstControl>,
    },
    Policer {
        burst: u64,
    },
    Unlimited,
}

impl Draft {
    fn plan(&self) -> Plan {
        let limiter = match self.means {
            Means::PhantomQueues { size, control } => {
                let config = PhantomQueuesConfig::new(self.program.clone(), self.rate, size);
                let config = config.unwrap().with_boost(self.boost);
                match control {
                    Some(control) => config.with_burst_control(control).into(),
                    None => config.into(),
                }
            }
            Means::Policer { burst } => PolicerConfig::new(self.rate, burst).unwrap().into(),
            Means::Unlimited => LimiterConfig::Unlimited,
        };
        Plan::new(limiter, self.rules.clone(), self.default_class, self.excess).unwrap()
    }
}

/// A draft at 8 Mbit/s.
fn draft(means: Means, policy: &PolicyTree) -> Draft {
    Draft {
        rate: Rate::from_bits_per_second(8_000_000),
        means,
        program: Arc::new(Policy::new(policy)),
        rules: Vec::new(),
        default_class: None,
        excess: Excess::Drop,
        boost: 0,
    }
}

#[test]
fn a_policer_and_phantom_queues_limit() {
    let Some(mut gate) = gate("a_policer_and_phantom_queues_limit") else {
        return;
    };
    let fair = PolicyTree::fair(16).unwrap();
    let policer = draft(Means::Policer { burst: 10_000 }, &fair);
    let control = Some(BurstControl::default());
    let queues = draft(
        Means::PhantomQueues {
            size: 10_000,
            control,
        },
        &fair,
    );
    let kernel = gate.kernel();
    kernel.put_plan(0, &policer.plan()).unwrap();
    kernel.put_plan(1, &queues.plan()).unwrap();
    let seat = |address: &str, limiter, plan| {
        let version = 1;
        let matched = Match::Prefix(address.parse().unwrap());
        (
            matched,
            Seat {
                limiter,
                plan,
                version,
                ..Seat::default()
            },
        )
    };
    let seats = [seat("192.0.2.1/32", 0, 0), seat("192.0.2.0/24", 1, 1)];
    kernel.seat(Direction::Down, &seats).unwrap();
    for (host, limiter) in [(1, 0), (2, 1)] {
        let mut passed = 0;
        // 20 Mbit/s for 1 s: a million bytes may pass, and a bucket or queue.
        for packet in 0..2_500u64 {
            let frame = frame([192, 0, 2, host], 1_000, 1_000);
            if gate.offer("tc_down", 1_000_000 + packet * 400_000, &frame) != 2 {
                passed += 1;
            }
        }
        assert!((990..=1_011).contains(&passed), "{passed}");
        let state = gate.kernel().read(limiter).unwrap();
        assert_eq!(state.counters.passed_packets, passed);
        assert_eq!(state.counters.passed_bytes, passed * 1_000);
        assert_eq!(state.counters.excess_packets, 2_500 - passed);
    }
}

#[test]
fn several_cores_pass_no_more_than_the_rate_together() {
    use std::os::fd::AsRawFd;
    let Some(mut gate) = gate_with("several_cores_pass_no_more_than_the_rate_together", false)
    else {
        return;
    };
    let fair = PolicyTree::fair(16).unwrap();
    let size = 1_000_000;
    let control = Some(BurstControl::default());
    for (number, means) in [
        (0, Means::Policer { burst: size }),
        (1, Means::PhantomQueues { size, control }),
        (
            2,
            Means::PhantomQueues {
                size,
                control: None,
            },
        ),
    ] {
        let mut plan = draft(means, &fair);
        plan.rate = Rate::from_bits_per_second(2_000_000_000);
        let matched = Match::Prefix("192.0.2.1".parse().unwrap());
        let seat = Seat {
            limiter: number,
            plan: number,
            version: 1,
            ..Seat::default()
        };
        gate.kernel().put_plan(number, &plan.plan()).unwrap();
        gate.kernel()
            .seat(Direction::Down, &[(matched, seat)])
            .unwrap();
        let program = &gate.program("xdp_down");
        let started = std::time::Instant::now();
        std::thread::scope(|scope| {
            for thread in 0..4u16 {
                scope.spawn(move || {
                    // Several flows each, and a few of the same.
                    for round in 0..200 {
                        let frame = frame([192, 0, 2, 1], thread + round % 8, 1_500);
                        sys::test_run(program.as_raw_fd(), &frame, 1_000).unwrap();
                    }
                });
            }
        });
        let elapsed = started.elapsed().as_nanos() as u64;
        let state = gate.kernel().read(number).unwrap();
        let (counters, offered) = (state.counters, 4 * 200 * 1_000);
        assert_eq!(counters.passed_packets + counters.excess_packets, offered);
        assert_eq!(counters.passed_bytes, counters.passed_packets * 1_500);
        // One size for a bucket, or one for each queue in use.
        let most = elapsed / 4 + size * if number == 0 { 1 } else { 16 };
        assert!(
            counters.passed_bytes <= most,
            "{number}: {counters:?} of {most}"
        );
        // More arrived than the rate.
        assert!(counters.excess_packets > 0 && counters.passed_bytes > size);
        let sum: u64 = state.queues.iter().map(|queue| queue.passed_bytes).sum();
        assert!(number == 0 || sum == counters.passed_bytes);
    }
}

#[test]
fn who_takes_over_keeps_the_secret_of_the_hash() {
    let Some(mut gate) = gate("who_takes_over_keeps_the_secret_of_the_hash") else {
        return;
    };
    use layout::settings as fields;
    let live = |gate: &mut Gate| {
        let kernel = gate.kernel();
        let read = |map, key: u32| {
            let found = kernel.map(map).lookup(&key.to_ne_bytes(), MapFlags::ANY);
            found.unwrap().unwrap()
        };
        let current = read("current", 0)[0];
        let settings = read("settings", current.into());
        let accounting = (fields::OVERHEAD.of(&settings), fields::LAYER.of(&settings));
        (current, fields::HASH.of(&settings), accounting)
    };
    let plan = draft(Means::Unlimited, &PolicyTree::queue());
    gate.kernel().put_plan(0, &plan.plan()).unwrap();
    let (before, words, accounting) = live(&mut gate);
    assert_eq!(words, *settings().hash.words());
    assert_eq!(accounting, (0, 3));
    gate.kernel = Some(Kernel::open(&gate.pins).unwrap());
    let matched = Match::Prefix("192.0.2.0/27".parse().unwrap());
    let seat = Seat {
        limiter: 0,
        plan: 0,
        version: 1,
        ..Seat::default()
    };
    gate.kernel()
        .seat(Direction::Down, &[(matched, seat)])
        .unwrap();
    // Another length is in use.
    assert_eq!(live(&mut gate), (1 - before, words, accounting));
}
