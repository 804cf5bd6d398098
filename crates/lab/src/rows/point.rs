//! A row for each point of a sweep.

use tidegate_table::convert::{bits, millis, rounded, seconds};
use tidegate_table::{Column, Row, Value, columns};

use super::{LabParameters, label};
use crate::experiment::Finished;
use crate::scenario::{Parameter, Scenario};
use crate::summary::{Collector, Summary};

/// The results of a point of a sweep.
#[derive(Debug, Clone)]
pub struct LabPointRow {
    /// Its number.
    pub point: u64,
    /// The varied keys, and their values at this point.
    pub parameters: Vec<Parameter>,
    /// Its results.
    pub summary: Summary,
}

/// The points of a sweep, as they are completed.
pub struct LabPoints<'a> {
    scenario: &'a Scenario,
    rows: Vec<LabPointRow>,
    current: Option<(usize, Collector)>,
}

impl LabPointRow {
    /// The values of the columns that are its scenario's, not those of all points: the parameters, and the shares.
    pub fn extras(&self, parameters: &LabParameters, scenario: &Scenario) -> Vec<Value> {
        let shares = scenario.flows().into_iter();
        let shares = shares.map(|name| self.summary.share(name).map(|share| rounded(share, 6)));
        let parameters = parameters.values(self.point as usize).iter().cloned();
        parameters.chain(shares.map(Value::from)).collect()
    }
}

impl<'a> LabPoints<'a> {
    /// No simulation was run yet.
    pub fn new(scenario: &'a Scenario) -> Self {
        Self {
            scenario,
            rows: Vec::new(),
            current: None,
        }
    }

    /// Adds a simulation. They come in the order of points.
    pub fn add(&mut self, finished: &Finished) {
        let current = self.current.as_ref();
        if current.is_none_or(|(point, _)| *point != finished.point) {
            self.complete();
            self.current = Some((finished.point, Collector::default()));
        }
        if let Some((_, collector)) = &mut self.current {
            collector.add(finished);
        }
    }

    fn complete(&mut self) {
        if let Some((point, collector)) = self.current.take() {
            self.rows.push(LabPointRow {
                point: point as u64,
                parameters: self.scenario.parameters(point),
                summary: collector.finish(),
            });
        }
    }

    /// The rows of the points with at least one simulation.
    pub fn finish(mut self) -> Vec<LabPointRow> {
        self.complete();
        self.rows
    }
}

impl Row for LabPointRow {
    const TITLE: &'static str = "a point of a sweep, over all its seeds";

    fn columns() -> &'static [Column<Self>] {
        POINT
    }
}

const POINT: &[Column<LabPointRow>] = columns! { LabPointRow;
    point: Integer [""] "The point's number, from 0. The last key of the sweep changes fastest." = |r| r.point;
    parameters: Text [""] "What is varied, and its values at the point: `gate.rate=5mbit, gate.kind=policer`." = |r| label(&r.parameters).to_string();
    simulations: Integer [""] "Complete simulations: seeds times groups of aggregates that share nothing." = |r| r.summary.simulations;
    aggregates: Integer [""] "Aggregates. They are counted for each seed." = |r| r.summary.aggregates;
    flows: Integer [""] "Flows. They are counted for each seed." = |r| r.summary.flows;
    throughput_bps: Integer ["bit/s"] "Mean throughput of an aggregate at the IP layer, from its first flow's start to its last one's end." = |r| r.summary.throughput.map(bits);
    normalised_mean: Real [""] "Mean over aggregates and windows of throughput over the rate of the aggregate's slowest limiter; missing without one." = |r| r.summary.normalised_mean.map(|share| rounded(share, 6));
    normalised_p99: Real [""] "99th percentile of it." = |r| r.summary.normalised_p99.map(|share| rounded(share, 6));
    drop_rate: Real [""] "Data packets dropped on the way over data packets sent, 0 to 1." = |r| r.summary.drop_rate.map(|share| rounded(share, 6));
    jain_median: Real [""] "Median over aggregates and windows of Jain's fairness index among flows with something to send." = |r| r.summary.jain.map(|index| rounded(index, 6));
    rtt_p50_ms: Real ["ms"] "Median over flows of their median round-trip time." = |r| r.summary.rtt_p50.map(millis);
    rtt_p95_ms: Real ["ms"] "Median over flows of their 95th percentile." = |r| r.summary.rtt_p95.map(millis);
    transfers: Integer [""] "Transfers that were completed." = |r| r.summary.completions;
    transfer_p50_s: Real ["s"] "Median time of a transfer." = |r| r.summary.completion_p50.map(seconds);
    transfer_p95_s: Real ["s"] "95th percentile of it." = |r| r.summary.completion_p95.map(seconds);
    packets: Integer ["packets"] "Packets sent by all endpoints, acknowledgements included." = |r| r.summary.packets;
};
