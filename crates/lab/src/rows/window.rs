//! A row for each window of time of an aggregate or a flow.

use tidegate_table::convert::{bits, rounded, seconds};
use tidegate_table::{Column, Row};

use super::Simulation;
use crate::Nanos;
use crate::experiment::Finished;
use crate::summary;

/// A window of an aggregate, or of one of its flows.
#[derive(Debug, Clone)]
pub struct LabWindowRow {
    of: Simulation,
    aggregate: String,
    /// Name and number of the flow; `None`: all flows together.
    flow: Option<(String, u64)>,
    start: Nanos,
    width: Nanos,
    bytes: u64,
    normalised: Option<f64>,
    jain: Option<f64>,
}

impl LabWindowRow {
    /// The windows of a simulation: of its aggregates, then of its flows.
    pub fn of(of: &Simulation, finished: &Finished) -> Vec<Self> {
        let (group, outcome) = (&finished.group, &finished.outcome);
        let row =
            |aggregate: usize, flow: Option<(String, u64)>, (index, &bytes): (usize, &u64)| Self {
                of: of.clone(),
                aggregate: group.plan.aggregates[aggregate].clone(),
                flow,
                start: index as u64 * outcome.window,
                width: summary::width(&group.plan, index),
                bytes,
                normalised: None,
                jain: None,
            };
        let mut rows = Vec::new();
        for (index, aggregate) in outcome.aggregates.iter().enumerate() {
            let mut fairness = summary::fairness(&group.plan, outcome, index)
                .into_iter()
                .peekable();
            let limit = group.limits[index].map(|rate| rate.bits_per_second() as f64);
            for window in aggregate.windows.iter().enumerate() {
                let mut row = row(index, None, window);
                row.normalised = limit.map(|limit| {
                    summary::Throughput {
                        bytes: row.bytes,
                        time: row.width,
                    }
                    .bits_per_second()
                        / limit
                });
                row.jain = fairness
                    .next_if(|one| one.window == window.0)
                    .map(|one| one.index);
                rows.push(row);
            }
        }
        for (index, flow) in outcome.flows.iter().enumerate() {
            let name = (flow.name.clone(), u64::from(group.numbers[index]));
            let windows = flow.windows.iter().enumerate();
            rows.extend(windows.map(|window| row(flow.aggregate, Some(name.clone()), window)));
        }
        rows
    }
}

impl Row for LabWindowRow {
    const TITLE: &'static str = "a window of time of an aggregate, or of a flow";

    fn columns() -> &'static [Column<Self>] {
        WINDOW
    }
}

const WINDOW: &[Column<LabWindowRow>] = simulation_columns! { LabWindowRow, |r| r.of;
    aggregate: Text [""] "The aggregate." = |r| r.aggregate.clone();
    flow: Text [""] "The flow's name; missing: all flows of the aggregate." = |r| r.flow.as_ref().map(|flow| flow.0.clone());
    number: Integer [""] "The flow's number among those of its name in the aggregate, from 0." = |r| r.flow.as_ref().map(|flow| flow.1);
    start_s: Real ["s"] "When the window begins." = |r| seconds(r.start);
    bytes: Integer ["B"] "Bytes at the IP layer that reached the clients." = |r| r.bytes;
    throughput_bps: Integer ["bit/s"] "The same as a rate; the last window ends with the simulation." = |r| bits(summary::Throughput { bytes: r.bytes, time: r.width }.bits_per_second());
    normalised: Real [""] "Of an aggregate: throughput over the rate of its slowest limiter." = |r| r.normalised.map(|share| rounded(share, 6));
    jain: Real [""] "Of an aggregate: Jain's fairness index among flows with something to send, if there are two." = |r| r.jain.map(|index| rounded(index, 6));
};
