//! A row for each point of a sweep.

use tidegate_table::convert::{bits, millis, rounded, seconds};
use tidegate_table::{Column, Row, columns};

use super::label;
use crate::scenario::Parameter;
use crate::summary::Summary;

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
