//! A row for each sample of a queue's occupancy.

use tidegate_table::convert::seconds;
use tidegate_table::{Column, Row, columns};

use super::{Element, Simulation};
use crate::Nanos;
use crate::experiment::Finished;

/// The occupancy of a queue at a time.
#[derive(Debug, Clone)]
pub struct LabSampleRow {
    element: Element,
    at: Nanos,
    queue: u64,
    bytes: u64,
    magic: Option<u64>,
}

impl LabSampleRow {
    /// The samples of a simulation.
    pub fn of(of: &Simulation, finished: &Finished) -> Vec<Self> {
        let mut rows = Vec::new();
        for (index, outcome) in finished.outcome.elements.iter().enumerate() {
            let element = Element::new(of, finished, index);
            for sample in &outcome.samples {
                for (queue, &bytes) in sample.queues.iter().enumerate() {
                    rows.push(Self {
                        element: element.clone(),
                        at: sample.at,
                        queue: queue as u64,
                        bytes,
                        magic: sample.magic.get(queue).copied(),
                    });
                }
            }
        }
        rows
    }
}

impl Row for LabSampleRow {
    const TITLE: &'static str = "the occupancy of a queue at a time";

    fn columns() -> &'static [Column<Self>] {
        SAMPLE
    }
}

const SAMPLE: &[Column<LabSampleRow>] = columns! { LabSampleRow;
    point: Integer [""] "The point of the sweep." = |r| r.element.of.point;
    parameters: Text [""] "What is varied, and its values at the point." = |r| r.element.of.parameters.to_string();
    seed: Integer [""] "The seed." = |r| r.element.of.seed;
    element: Text [""] "The element's name in the scenario." = |r| r.element.name.clone();
    aggregate: Text [""] "The aggregate that it belongs to; missing if it is shared." = |r| r.element.aggregate.clone();
    at_s: Real ["s"] "The time." = |r| seconds(r.at);
    queue: Integer [""] "The queue's number in the element, from 0." = |r| r.queue;
    bytes: Integer ["B"] "Bytes in the queue, or tokens missing from the bucket; phantom bytes for phantom queues, magic ones included." = |r| r.bytes;
    magic_bytes: Integer ["B"] "Of these, magic bytes; missing without burst control." = |r| r.magic;
};
