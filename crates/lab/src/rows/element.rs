//! A row for each element of a simulation.

use tidegate_table::convert::rounded;
use tidegate_table::{Column, Row, columns};

use super::{Element, Simulation};
use crate::experiment::Finished;
use crate::outcome::ElementOutcome;

/// What an element did.
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
                // They have rows of their own.
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

const ELEMENT: &[Column<LabElementRow>] = columns! { LabElementRow;
    point: Integer [""] "The point of the sweep." = |r| r.element.of.point;
    parameters: Text [""] "What is varied, and its values at the point." = |r| r.element.of.parameters.to_string();
    seed: Integer [""] "The seed." = |r| r.element.of.seed;
    element: Text [""] "The element's name in the scenario." = |r| r.element.name.clone();
    aggregate: Text [""] "The aggregate that it belongs to; missing if it is shared." = |r| r.element.aggregate.clone();
    packets: Integer ["packets"] "Packets that arrived." = |r| r.outcome.packets;
    bytes: Integer ["B"] "Their bytes, as the element counts them." = |r| r.outcome.bytes;
    dropped_packets: Integer ["packets"] "Packets that it dropped." = |r| r.outcome.dropped;
    dropped_bytes: Integer ["B"] "Bytes of these." = |r| r.outcome.dropped_bytes;
    drop_rate: Real [""] "Packets dropped over packets that arrived, 0 to 1." = |r| (r.outcome.packets > 0).then(|| rounded(r.outcome.dropped as f64 / r.outcome.packets as f64, 6));
    marked_packets: Integer ["packets"] "Packets that it re-marked." = |r| r.outcome.marked;
};
