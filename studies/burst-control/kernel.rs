//! Cells with the kernel's TCP over the gate, several side by side, and the lab's values for the same.

use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::Result;
use tidegate_lab::MILLISECOND;
use tidegate_limiter::Nanos;

use crate::cells::{Cell, Policy, WIDE};
use crate::gated::{self, Gated};
use crate::measure::measure_plan;
use crate::{Found, KINDS, SECONDS};

use Policy::{Fair, Nested, Priority, Weighted};

/// Rates of the plans of all gates that run at a time, in kbit/s, and how many gates.
const TOGETHER: u64 = 200_000;
const GATES: usize = 12;

/// A run is repeated once if the link was this late, or later than a 40th of the round trip.
const LATE: Nanos = tidegate_testbed::compare::LATE;

const CUBIC: &[&str] = &["cubic"];
const RENO: &[&str] = &["reno"];
const BBR: &[&str] = &["bbr"];
/// What most kernels have: Vegas is missing.
const MIXED: &[&str] = &["cubic", "reno", "bbr"];

/// A cell: kbit/s, policy, senders, round trip in ms, congestion controls, and whether every other sender pauses.
type Row = (u64, Policy, u64, u64, &'static [&'static str], bool);

/// The gate has at most 24 queues, so there are no more senders.
const CELLS: [Row; 28] = [
    (1_000, Fair, 1, 50, CUBIC, false),
    (1_000, Fair, 4, 20, MIXED, false),
    (1_000, Weighted, 4, 100, RENO, false),
    (1_000, Priority, 4, 10, CUBIC, true),
    (4_000, Fair, 2, 0, RENO, false),
    (4_000, Fair, 8, 50, MIXED, false),
    (4_000, Fair, 4, 20, CUBIC, true),
    (4_000, Weighted, 8, 200, CUBIC, false),
    (4_000, Nested, 6, 100, BBR, false),
    (20_000, Fair, 8, 0, CUBIC, false),
    (20_000, Fair, 8, 2, CUBIC, false),
    (20_000, Fair, 1, 20, BBR, false),
    (20_000, Fair, 16, 10, MIXED, false),
    (20_000, Fair, 2, 300, CUBIC, false),
    (20_000, Weighted, 6, 50, MIXED, false),
    (20_000, Priority, 4, 20, CUBIC, true),
    (20_000, Nested, 8, 5, RENO, true),
    (60_000, Fair, 16, 1, CUBIC, false),
    (60_000, Fair, 2, 200, CUBIC, true),
    (60_000, Weighted, 8, 10, BBR, false),
    (60_000, Priority, 2, 2, MIXED, true),
    (60_000, Nested, 4, 50, CUBIC, false),
    (100_000, Fair, 1, 100, CUBIC, false),
    (100_000, Fair, 8, 0, CUBIC, false),
    (100_000, Fair, 4, 20, MIXED, true),
    (100_000, Weighted, 16, 5, RENO, false),
    (200_000, Fair, 8, 0, CUBIC, false),
    (200_000, Fair, 4, 50, MIXED, false),
];
/// Seed 003's streams, as in `policer-or-shaper`.
const STREAMS: [&[&str]; 2] = [CUBIC, RENO];

/// All cells. The access link is slower than in the lab's own cells: 20 times the plan, from 100 to 400 Mbit/s, so that the first
/// burst of PQP does not fill this machine's processors.
fn cells() -> Vec<Cell> {
    let cell = |(rate, policy, flows, rtt, controls, pauses): Row| Cell {
        rate,
        policy,
        flows,
        rtt,
        controls,
        pauses,
        udp: false,
        access: (rate / 50).clamp(100, 400),
        window: WIDE,
    };
    let streams = STREAMS.map(|controls| Cell {
        window: 64_512,
        ..cell((20_000, Fair, 4, 5, controls, false))
    });
    CELLS.into_iter().map(cell).chain(streams).collect()
}

/// What a cell came to.
pub struct Beside {
    /// With the kernel's TCP.
    pub kernel: Found,
    /// In the lab.
    pub lab: Found,
    /// The latest link at the 99th percentile, and all packets that were lost beside a gate.
    pub late: Nanos,
    pub strays: u64,
}

/// Runs all cells whose line in the table contains `only`, and says on the way what it has.
///
/// # Errors
/// If rights, programs or kernel features are missing.
pub fn run(tidegate: &Path, only: &str) -> Result<Vec<Beside>> {
    let cells = cells()
        .into_iter()
        .filter(|cell| cell.line().contains(only));
    let lab = cells
        .map(|cell| {
            measure_plan(cell, SECONDS, &KINDS).map(|(plan, by_kind)| (cell, plan, by_kind))
        })
        .collect::<Result<Vec<_>>>()?;
    let runs: Vec<_> = (0..lab.len())
        .flat_map(|at| (0..KINDS.len()).map(move |kind| (at, kind)))
        .collect();
    let began = Instant::now();
    let (found, count) = (Mutex::new(Vec::new()), runs.len());
    side_by_side(
        runs,
        |&(at, _)| lab[at].0.rate,
        |(at, kind)| {
            let (cell, plan, _) = &lab[at];
            let once = || gated::run(*cell, KINDS[kind], plan, tidegate);
            let mut result = once();
            let late = LATE.max(cell.rtt * MILLISECOND / 40);
            if (result.as_ref()).is_ok_and(|one| one.late >= late || one.strays > 0) {
                result = once();
            }
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            found.push((at, kind, result));
            eprintln!(
                "{:>4} s: {} of {count}: {} {}",
                began.elapsed().as_secs(),
                found.len(),
                cell.line(),
                KINDS[kind],
            );
        },
    );
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|&(at, kind, _)| (at, kind));
    let mut found = found.into_iter();
    lab.into_iter()
        .map(|(cell, _, by_kind)| {
            let runs = found.by_ref().take(KINDS.len());
            let gated = runs
                .map(|(_, _, result)| result)
                .collect::<Result<Vec<Gated>>>()?;
            Ok(Beside {
                late: gated.iter().map(|one| one.late).max().unwrap_or(0),
                strays: gated.iter().map(|one| one.strays).sum(),
                kernel: Found {
                    cell,
                    by_kind: gated.into_iter().map(|one| one.measures).collect(),
                },
                lab: Found { cell, by_kind },
            })
        })
        .collect()
}

/// Works on all of them, on as many at a time as [`TOGETHER`] and [`GATES`] allow.
fn side_by_side<T: Send>(mut items: Vec<T>, rate: impl Fn(&T) -> u64, work: impl Fn(T) + Sync) {
    let (busy, freed) = (Mutex::new((0, 0)), Condvar::new());
    // The fastest first, which fit beside few others.
    items.sort_by_key(|item| std::cmp::Reverse(rate(item)));
    thread::scope(|scope| {
        let mut taken = busy.lock().unwrap_or_else(PoisonError::into_inner);
        while !items.is_empty() {
            let fits =
                |item: &T| taken.1 == 0 || (taken.0 + rate(item) <= TOGETHER && taken.1 < GATES);
            let Some(at) = items.iter().position(fits) else {
                taken = freed.wait(taken).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let item = items.remove(at);
            let load = rate(&item);
            taken.0 += load;
            taken.1 += 1;
            let (busy, freed, work) = (&busy, &freed, &work);
            scope.spawn(move || {
                work(item);
                let mut taken = busy.lock().unwrap_or_else(PoisonError::into_inner);
                taken.0 -= load;
                taken.1 -= 1;
                freed.notify_one();
            });
        }
    });
}
