//! What packets cost whose nodes two cores share.

use std::os::fd::AsRawFd;
use std::time::Instant;

use tidegate_limiter::NetworkNode;

use super::*;

/// Packets of a run, and runs of each kind, in turn: the least is taken.
const RUN: i32 = 200_000;
const TURNS: usize = 15;
/// Nodes between a subscriber and the network.
const DEPTH: u32 = 4;
/// Bytes from the IP header on.
const BYTES: u16 = 1_500;

/// Nanoseconds a packet, where these subscribers send at once, each on a thread of its own.
fn run_together(program: &OwnedFd, subscribers: &[u8]) -> f64 {
    let begin = &std::sync::Barrier::new(subscribers.len());
    let runs: Vec<_> = std::thread::scope(|scope| {
        let threads = subscribers.iter().map(|&subscriber| {
            scope.spawn(move || {
                let frame = frame([10, 0, 0, subscriber], 9, BYTES);
                begin.wait();
                let before = Instant::now();
                sys::test_run(program.as_raw_fd(), &frame, RUN).unwrap();
                before.elapsed().as_nanos() as f64 / f64::from(RUN)
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|run| run.join().unwrap()).collect()
    });
    runs.into_iter().fold(0.0, f64::max)
}

#[test]
#[ignore = "measures: two cores must be free"]
fn the_cost_of_nodes_that_two_cores_share() {
    let Some(mut gate) = gate_with("the_cost_of_nodes_that_two_cores_share", false) else {
        return;
    };
    let kernel = gate.kernel();
    let fastest = *Rate::LIMITABLE.end();
    // Two ways to the network, of nodes that carry all that comes.
    for number in 1..=2 * DEPTH {
        let above = (number != 1 && number != DEPTH + 1).then(|| number as usize - 1);
        let node = NetworkNode {
            capacity: fastest,
            above,
        };
        kernel.put_node(number, &node, true).unwrap();
    }
    // Subscribers 0 and 1 are below no node, 2 and 3 below the same ones, 4 and 5 below different ones.
    let places = [0, 0, DEPTH, DEPTH, DEPTH, 2 * DEPTH];
    for (number, node) in places.into_iter().enumerate() {
        let mut plan = draft(
            Means::PhantomQueues {
                size: 1 << 30,
                control: Some(BurstControl::DEFAULT),
            },
            &PolicyTree::fair(16).unwrap(),
        );
        plan.rate = fastest;
        let plan = plan.plan().below(node);
        kernel.put_plan(number as u32, &plan).unwrap();
        let seat = Seat {
            limiter: number as u32,
            plan: number as u32,
            version: 1,
            ..Seat::default()
        };
        let matched = Match::Prefix(format!("10.0.0.{number}").parse().unwrap());
        kernel.seat(Direction::Down, &[(matched, seat)]).unwrap();
    }
    let program = gate.program("tc_down");
    let kinds: [(&str, &[u8]); 6] = [
        ("no nodes, one core", &[0]),
        ("no nodes, two cores", &[0, 1]),
        ("four nodes, one core", &[2]),
        ("the same four nodes, two cores", &[2, 3]),
        ("four nodes each, two cores", &[4, 5]),
        ("one subscriber, two cores", &[0, 0]),
    ];
    let mut least = [f64::MAX; 6];
    for _ in 0..TURNS {
        for ((_, subscribers), least) in kinds.iter().zip(&mut least) {
            *least = least.min(run_together(&program, subscribers));
        }
    }
    for ((what, _), cost) in kinds.iter().zip(least) {
        println!("{what}: {cost:.1} ns");
    }
    for number in 0..6 {
        let counters = gate.kernel().read(number).unwrap().counters;
        let all = counters.passed_packets + counters.excess_packets;
        println!(
            "subscriber {number}: {:.1} % passed",
            100.0 * counters.passed_packets as f64 / all.max(1) as f64
        );
    }
}
