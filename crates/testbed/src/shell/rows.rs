//! Rows of a shell's results.

use tidegate_table::convert::{rounded, seconds};
use tidegate_table::{Column, Row, columns};

/// The packets of one direction in a window of time.
#[derive(Debug, Clone, PartialEq)]
pub struct ShellWindowRow {
    /// When the window ends, in nanoseconds since the shell was opened.
    pub end: u64,
    /// How long it is, in nanoseconds.
    pub length: u64,
    /// Whether packets go to the shell.
    pub down: bool,
    /// Packets that came.
    pub packets: u64,
    /// Packets that left.
    pub passed: u64,
    /// Their bytes at the IP layer.
    pub bytes: u64,
    /// Packets that elements dropped.
    pub dropped: u64,
    /// Bytes that wait in links and shapers at the end of the window.
    pub queue: u64,
}

impl ShellWindowRow {
    /// The mean rate of the packets that left, in bit/s.
    pub fn rate(&self) -> f64 {
        self.bytes as f64 * 8e9 / self.length.max(1) as f64
    }
}

impl Row for ShellWindowRow {
    const TITLE: &'static str = "the packets of one direction of a shell in a window of time";

    fn columns() -> &'static [Column<Self>] {
        WINDOW
    }
}

const WINDOW: &[Column<ShellWindowRow>] = columns! { ShellWindowRow;
    time_s: Real ["s"] "When the window begins, since the shell was opened." = |r| seconds(r.end.saturating_sub(r.length));
    length_s: Real ["s"] "How long it is." = |r| seconds(r.length);
    direction: Text [""] "down: to the shell; up: from it." = |r| direction(r.down);
    packets: Integer [""] "Packets that came." = |r| r.packets;
    passed: Integer [""] "Packets that left." = |r| r.passed;
    rate_bps: Real ["bit/s"] "Rate of the packets that left, at the IP layer." = |r| rounded(r.rate(), 0);
    dropped: Integer [""] "Packets that elements dropped." = |r| r.dropped;
    queue_bytes: Integer ["B"] "Bytes that wait in links and shapers at the end of the window." = |r| r.queue;
};

/// What an element did while the shell was open.
#[derive(Debug, Clone, PartialEq)]
pub struct ShellElementRow {
    /// The element as it was written.
    pub element: String,
    /// Whether packets go to the shell.
    pub down: bool,
    /// Its counts.
    pub outcome: tidegate_lab::outcome::ElementOutcome,
}

impl Row for ShellElementRow {
    const TITLE: &'static str = "an element of a shell, in one direction";

    fn columns() -> &'static [Column<Self>] {
        ELEMENT
    }
}

const ELEMENT: &[Column<ShellElementRow>] = columns! { ShellElementRow;
    element: Text [""] "The element as it was written, or its name in the scenario." = |r| r.element.clone();
    direction: Text [""] "down: to the shell; up: from it." = |r| direction(r.down);
    packets: Integer [""] "Packets that came." = |r| r.outcome.packets;
    bytes: Integer ["B"] "Their bytes as the element counts them." = |r| r.outcome.bytes;
    dropped: Integer [""] "Packets that it dropped." = |r| r.outcome.dropped;
    dropped_bytes: Integer ["B"] "Bytes of these." = |r| r.outcome.dropped_bytes;
    marked: Integer [""] "Packets whose code point or ECN field it changed." = |r| r.outcome.marked;
};

fn direction(down: bool) -> &'static str {
    if down { "down" } else { "up" }
}
