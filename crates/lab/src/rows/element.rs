//! A row for each element of a simulation.

use tidegate_table::convert::rounded;
use tidegate_table::{Column, Row};

use super::{Element, Simulation};
use crate::experiment::Finished;
use crate::outcome::ElementOutcome;

/// The results of an element.
#[derive(Debug, Clone)]
pub struct LabElementRow {
    element: Element,
    outcome: ElementOutcome,
}

impl LabElementRow {
    /// The elements of a simulation.
    pub fn of(of: &Simulation, finished: &Finished) -> Vec<Self> {
        let row = |(index, outcome): (usize, &ElementOutcome)| Self {
            element: Element::new(of, finished, index),
            outcome: ElementOutcome {
                // Samples have separate rows.
                samples: Vec::new(),
                ..outcome.clone()
            },
        };
        finished
            .outcome
            .elements
            .iter()
            .enumerate()
            .map(row)
            .collect()
    }
}

impl Row for LabElementRow {
    const TITLE: &'static str = "an element of a simulation";

    fn columns() -> &'static [Column<Self>] {
        ELEMENT
    }
}

const ELEMENT: &[Column<LabElementRow>] = element_columns! { LabElementRow;
    packets: Integer ["packets"] "Packets that arrived." = |r| r.outcome.packets;
    bytes: Integer ["B"] "Their bytes, as the element counts them." = |r| r.outcome.bytes;
    dropped_packets: Integer ["packets"] "Packets that it dropped." = |r| r.outcome.dropped;
    dropped_bytes: Integer ["B"] "Bytes of these." = |r| r.outcome.dropped_bytes;
    drop_rate: Real [""] "Packets dropped over packets that arrived, 0 to 1." = |r| (r.outcome.packets > 0).then(|| rounded(r.outcome.dropped as f64 / r.outcome.packets as f64, 6));
    marked_packets: Integer ["packets"] "Packets that it re-marked." = |r| r.outcome.marked;
};
