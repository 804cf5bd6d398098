//! One cell under one scheme, with the kernel's TCP over the gate, in real time between namespaces.
//!
//! Only this process holds the namespaces, so they end with it, however it ends.

use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use tidegate_lab::MILLISECOND;
use tidegate_lab::plan::{ElementKind, Plan, QueueKind};
use tidegate_limiter::{Nanos, Rate};
use tidegate_studies::schemes;
use tidegate_testbed::link::LinkPlan;
use tidegate_testbed::site::{LinkPosition, Site};

use crate::cells::{Cell, WIDE};
use crate::measure::{Measures, SETTLED, fairness};
use crate::transfer::{self, Client, Clock};

/// Windows of throughput.
const WINDOW: Duration = Duration::from_millis(250);
/// Time for threads to start.
const LEAD: Duration = Duration::from_millis(50);
/// The last byte of the first client's address, and the first server's port; the others' follow.
const HOST: u8 = 16;
const PORT: u16 = 5001;
/// Bytes of data of a full packet with timestamps.
const MSS: u64 = 1448;

/// What came of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gated {
    /// What the scheme did.
    pub measures: Measures,
    /// How late the link's packets were at the 99th percentile.
    pub late: Nanos,
    /// Packets that were lost beside the gate.
    pub strays: u64,
}

/// Runs the flows of the lab's plan of a cell.
///
/// # Errors
/// If rights, programs or kernel features are missing.
pub fn run(cell: Cell, kind: &str, plan: &Plan, tidegate: &Path) -> Result<Gated> {
    let link = LinkPlan {
        forward: vec![ElementKind::Link {
            rate: Rate::from_bits_per_second(cell.access * 1_000_000),
            queue: QueueKind::DropTail {
                bytes: Some(cell.access_queue()),
                packets: None,
            },
        }],
        round_trips: vec![("192.0.2.0/24".parse()?, cell.rtt * MILLISECOND)],
        ..LinkPlan::default()
    };
    let site = Site::new(&link, LinkPosition::Core)?;
    let hosts: Vec<u8> = (HOST..).take(plan.flows.len()).collect();
    let addresses = hosts
        .iter()
        .map(|&host| site.client_address(host))
        .collect::<Result<Vec<_>, _>>()?;
    if cell.window != WIDE {
        // A receiver of Linux cannot be held to a window, only to a buffer. So the sender is: as much is on its way.
        let packets = cell.window / MSS;
        site.server.ip(&format!(
            "route replace 192.0.2.0/24 dev eth0 cwnd lock {packets}"
        ))?;
    }
    let _kept = schemes::gate_up(&site.middle, tidegate, &cell.gate_file(kind, &hosts))?;
    let ports = || (PORT..).take(plan.flows.len());
    let listeners = site.server.enter(|| {
        let flows = plan.flows.iter().zip(ports());
        flows
            .map(|(flow, port)| transfer::listen(flow, port))
            .collect::<Result<Vec<_>>>()
    })??;
    let (senders, receivers): (Vec<_>, Vec<_>) = plan.flows.iter().map(|_| mpsc::channel()).unzip();
    let settled = WINDOW * SETTLED as u32;
    let before = site.link.report()?;
    let clock = Clock {
        origin: Instant::now() + LEAD,
        duration: Duration::from_nanos(plan.duration),
    };
    let clients =
        (plan.flows.iter().zip(senders).enumerate()).zip(addresses.into_iter().zip(ports()));
    let clients = clients.map(|((number, (flow, sizes)), (address, port))| Client {
        flow,
        number,
        seed: plan.seed,
        address,
        port,
        sizes,
    });
    let clients: Vec<_> = clients.collect();
    // Threads are in the namespace of the thread that starts them.
    let (got, windows) = thread::scope(|scope| {
        let served = scope.spawn(|| {
            site.server.enter(|| {
                let flows = listeners.iter().zip(receivers);
                all(flows.map(|(listener, sizes)| move || transfer::serve(listener, &sizes, clock)))
            })
        });
        let fetched = scope.spawn(|| {
            site.client.enter(|| {
                all(clients
                    .into_iter()
                    .map(|client| move || client.fetch(settled, clock)))
            })
        });
        let windows = windows(&site, cell, clock);
        let ended = |_| anyhow!("a thread panicked");
        served.join().map_err(ended)???;
        Ok::<_, anyhow::Error>((fetched.join().map_err(ended)???, windows?))
    })?;
    let passed = site.client.counters("eth0")?.received_packets;
    let report = site.link.finish()?;
    let came = report.passed[0] - before.passed[0];
    ensure!(came > 0, "nothing came to the gate");
    let got: Vec<f64> = got.into_iter().map(|bytes| bytes as f64).collect();
    Ok(Gated {
        measures: Measures {
            drops: came.saturating_sub(passed) as f64 / came as f64,
            jain: fairness(plan, &got),
            ..Measures::of_windows(windows)
        },
        late: report.lateness.p99,
        strays: report.strays,
    })
}

/// Throughput at the client's device over the plan's rate, in windows of 250 ms.
fn windows(site: &Site, cell: Cell, clock: Clock) -> Result<Vec<f64>> {
    // Looks that come late smear windows. The applications have no real-time priority: the links come before them.
    tidegate_testbed::real_time();
    let look = || {
        let bytes = site.client.counters("eth0")?.received_bytes as f64;
        Ok::<_, anyhow::Error>((clock.origin.elapsed().as_secs_f64(), bytes))
    };
    let mut last = look()?;
    let (mut windows, mut begin, mut end) = (Vec::new(), last.1, WINDOW);
    while end <= clock.duration {
        clock.sleep_until(end);
        let now = look()?;
        // A look comes late: what had come at the end of the window lies between two of them.
        let part = (end.as_secs_f64() - last.0) / (now.0 - last.0);
        let bytes = last.1 + (now.1 - last.1) * part;
        windows.push((bytes - begin) * 8.0 / WINDOW.as_secs_f64() / (cell.rate * 1000) as f64);
        (last, begin) = ((end.as_secs_f64(), bytes), bytes);
        end += WINDOW;
    }
    Ok(windows)
}

/// Does all of it at the same time.
fn all<T: Send>(work: impl Iterator<Item = impl FnOnce() -> Result<T> + Send>) -> Result<Vec<T>> {
    thread::scope(|scope| {
        let threads: Vec<_> = work.map(|one| scope.spawn(one)).collect();
        let ended = |_| anyhow!("a thread panicked");
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(ended)?)
            .collect()
    })
}
