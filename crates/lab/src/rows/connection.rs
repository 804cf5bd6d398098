//! A row for the state of a connection at a time.

use tidegate_table::convert::{millis, seconds};
use tidegate_table::{Column, Row};

use super::{Flow, Simulation};
use crate::experiment::Finished;
use crate::outcome::State;
use crate::tcp::cc::LossState;

/// The state of a connection's sender at a time.
#[derive(Debug, Clone)]
pub struct LabConnectionRow {
    flow: Flow,
    state: State,
}

impl LabConnectionRow {
    /// The states of a simulation's connections, flow by flow.
    pub fn of(of: &Simulation, finished: &Finished) -> Vec<Self> {
        let mut rows = Vec::new();
        for (index, outcome) in finished.outcome.flows.iter().enumerate() {
            let flow = Flow::new(of, finished, index);
            rows.extend(outcome.states.iter().map(|&state| Self {
                flow: flow.clone(),
                state,
            }));
        }
        rows
    }
}

impl Row for LabConnectionRow {
    const TITLE: &'static str = "the state of a connection's sender at a time";

    fn columns() -> &'static [Column<Self>] {
        CONNECTION
    }
}

const CONNECTION: &[Column<LabConnectionRow>] = flow_columns! { LabConnectionRow;
    connection: Integer32 [""] "The connection's number in the flow, from 0." = |r| r.state.connection;
    at_s: Real ["s"] "The time." = |r| seconds(r.state.at);
    cwnd_segments: Integer32 ["segments"] "Congestion window." = |r| r.state.snapshot.cwnd;
    ssthresh_segments: Integer32 ["segments"] "Threshold of slow start; missing before the first loss." = |r| Some(r.state.snapshot.ssthresh).filter(|&ssthresh| ssthresh < u32::MAX);
    in_flight_segments: Integer32 ["segments"] "Segments that the sender believes to be in the network." = |r| r.state.snapshot.in_flight;
    srtt_ms: Real ["ms"] "Smoothed round-trip time." = |r| r.state.snapshot.srtt.map(millis);
    rtt_min_ms: Real ["ms"] "The smallest round-trip time of the last five minutes." = |r| r.state.snapshot.min_rtt.map(millis);
    pacing_bps: Integer ["bit/s"] "Rate at which payload leaves; missing if segments are not paced." = |r| r.state.snapshot.pacing_rate.map(|rate| rate.saturating_mul(8));
    state: Text [""] "The sender's state of loss repair, as Linux names it: open, disorder, cwr, recovery or loss." = |r| state(r.state.snapshot.state);
    phase: Text [""] "The phase of the congestion control, if it has phases: startup, drain, probe-bw or probe-rtt of BBR." = |r| r.state.snapshot.phase;
    sent_packets: Integer ["packets"] "Packets with payload sent on the connection so far, retransmissions included." = |r| r.state.snapshot.counts.sent;
    retransmitted_packets: Integer ["packets"] "Of these, the retransmissions." = |r| r.state.snapshot.counts.retransmitted;
    lost_packets: Integer ["packets"] "Packets that the sender held for lost so far." = |r| r.state.snapshot.counts.lost;
    recoveries: Integer [""] "Fast recoveries begun so far." = |r| r.state.snapshot.counts.recoveries;
    timeouts: Integer [""] "Retransmission timeouts so far." = |r| r.state.snapshot.counts.timeouts;
    probes: Integer [""] "Tail loss probes sent so far." = |r| r.state.snapshot.counts.probes;
    undone: Integer [""] "Reductions of the window that were taken back so far, because nothing was lost." = |r| r.state.snapshot.counts.undone;
    reduced: Integer [""] "Reductions of the window for ECN marks so far." = |r| r.state.snapshot.counts.reduced;
};

fn state(state: LossState) -> &'static str {
    match state {
        LossState::Open => "open",
        LossState::Disorder => "disorder",
        LossState::Cwr => "cwr",
        LossState::Recovery => "recovery",
        LossState::Loss => "loss",
    }
}
