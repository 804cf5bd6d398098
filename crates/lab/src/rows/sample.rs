//! A row for each sample of a queue's occupancy.

use tidegate_table::convert::seconds;
use tidegate_table::{Column, Row};

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

const SAMPLE: &[Column<LabSampleRow>] = element_columns! { LabSampleRow;
    at_s: Real ["s"] "The time." = |r| seconds(r.at);
    queue: Integer [""] "The queue's number in the element, from 0." = |r| r.queue;
    bytes: Integer ["B"] "Bytes in the queue, or tokens missing from the bucket; phantom bytes for phantom queues, magic ones included." = |r| r.bytes;
    magic_bytes: Integer ["B"] "Of these, magic bytes; missing without burst control." = |r| r.magic;
};
