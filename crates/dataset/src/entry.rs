//! The record of a capture that is in the dataset.

use serde::{Deserialize, Serialize};

use crate::content::Piece;

/// How the analysis of a capture went, as the caller counts it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Packets in the capture.
    pub packets: u64,
    /// Flows in it.
    pub flows: u64,
    /// What was wrong with it: the rows cover what could be read.
    pub problems: Vec<String>,
    /// What the user said of the capture. Entries of earlier programs do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<Given>,
}

/// What a user says of a capture, which its rows have from then on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Given {
    /// The share of all flows that it holds.
    pub sampled: Option<f64>,
    /// Whether there were tables of networks.
    pub networks: bool,
}

/// Why a capture is not added: the dataset holds it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Held {
    /// What was wrong with the capture that holds it, when that was added: its rows cover what could be read.
    pub problems: Vec<String>,
    /// If it is not that capture, but its beginning, as a copy that was made while the capture was written: the name of
    /// the longer file when that was added.
    pub longer: Option<String>,
    /// What the user said of the capture that holds it, if that is known.
    pub given: Option<Given>,
}

/// Why a capture is not begun.
pub(crate) enum Refused {
    Known(Held),
    Drafted,
    Overlaps(Overlap),
}

/// Pieces that a capture has in common with one of the dataset, while each has others too: their rows would count twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlap {
    /// The name of a file of this capture, …
    pub piece: String,
    /// … and the names of the files of the other one.
    pub other: Vec<String>,
}

/// A capture that is in the dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) id: String,
    /// The version of Tidegate that analysed it.
    pub(crate) program: String,
    pub(crate) pieces: Vec<Piece>,
    /// What the rows are of, where there are no files: a period of traffic that was analysed at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) live: Option<String>,
    pub(crate) report: Report,
    /// How many rows it has.
    pub(crate) rows: u64,
    /// The folders of its files, below `segments`: `date=…/hour=…`. The files are numbered in this order.
    pub(crate) partitions: Vec<String>,
    /// Captures that this one replaces: earlier states of its files.
    pub(crate) replaces: Vec<String>,
}

impl Entry {
    /// The files, as paths below `segments`.
    pub(crate) fn files(&self) -> impl Iterator<Item = String> + '_ {
        let name =
            |(number, folder): (usize, &String)| format!("{folder}/{}-{number}.parquet", self.id);
        self.partitions.iter().enumerate().map(name)
    }
}
