//! Stands for QUIC where it was not built: there are no such connections.

use tidegate_pace::{Hold, Way};

use super::kernel::Snapshot;

/// A connection of QUIC.
#[derive(Debug)]
pub(super) enum Quic {}

impl Quic {
    pub fn snapshot(&self) -> Snapshot {
        match *self {}
    }

    pub fn took(&self, _: usize, _: u32) {
        match *self {}
    }

    pub fn hold(&self, _: Way) -> Option<Hold> {
        match *self {}
    }

    pub fn set(&self, _: Way, _: Option<u64>) {
        match *self {}
    }

    pub fn by(_: Way) -> &'static str {
        "nothing"
    }
}
