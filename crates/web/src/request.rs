//! What can be asked.

use serde::Deserialize;

/// A question of the page, in JSON.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Reads a capture, and adds its transfers to the table.
    Read {
        /// Its number, by which its bytes are found.
        capture: u32,
        /// Its name.
        name: String,
    },
    /// Takes the transfers of a capture out of the table, as before it is read again.
    Forget {
        /// Its number.
        capture: u32,
    },
    /// The columns of the table.
    Columns,
    /// Sorts the table and leaves lines out; answers with how many are left.
    Arrange(Arrangement),
    /// Lines of the arranged table as texts.
    Lines {
        /// The first, from 0.
        from: usize,
        /// How many.
        count: usize,
    },
    /// The arranged table as CSV.
    Csv,
    /// The story of a transfer, and the panels of its picture.
    Explain(Place),
    /// The curves of a panel of that picture: the least and the greatest value that are in view, and for each curve how many points
    /// follow, and their times and values by turns.
    Panel {
        /// The panel's key.
        panel: String,
        /// What part of it, on how many pixels.
        view: View,
    },
    /// The packet of the transfer that was sent nearest to a time.
    Packet {
        /// Seconds since the transfer began.
        at: f64,
    },
    /// A packet of the transfer by its place in the order of time; the nearest where there is no such place.
    PacketAt {
        /// Its place, from 0.
        place: usize,
        /// The first that was lost, from this place on; else the packet at this place.
        lost: bool,
    },
    /// Chooses the windows of throughput and goodput; answers with their length in seconds.
    Window {
        /// Their length; else one that suits the transfer.
        seconds: Option<f64>,
    },
    /// The packets of a part of the transfer as CSV, with the columns of `tidegate detect --by packet`.
    Packets {
        /// Its beginning in seconds since the transfer began.
        from: f64,
        /// Its end.
        to: f64,
    },
    /// What happened in a part of the transfer.
    Measure {
        /// Its beginning in seconds since the transfer began.
        from: f64,
        /// Its end.
        to: f64,
    },
    /// What the lines that are shown say together: verdicts, rates and distributions.
    Summary,
    /// The curves of a panel of the summary, as those of [`Panel`](Self::Panel).
    SummaryPanel {
        /// The panel's key.
        panel: String,
        /// What part of it, on how many pixels.
        view: View,
    },
    /// Compares two captures of the same traffic that were taken at two places.
    Compare {
        /// Their numbers.
        captures: [u32; 2],
    },
    /// The curves of a panel of the comparison, as those of [`Panel`](Self::Panel).
    BetweenPanel {
        /// The panel's key.
        panel: String,
        /// What part of it, on how many pixels.
        view: View,
    },
    /// The packet of the comparison that the first place saw nearest to a time.
    BetweenPacket {
        /// Seconds since the pictures begin.
        at: f64,
    },
    /// What happened in a part of the comparison.
    BetweenMeasure {
        /// Its beginning in seconds since the pictures begin.
        from: f64,
        /// Its end.
        to: f64,
    },
    /// The packets of a part of the comparison as CSV.
    BetweenPackets {
        /// Its beginning in seconds since the pictures begin.
        from: f64,
        /// Its end.
        to: f64,
    },
    /// The scenarios that come with Tidegate.
    Examples,
    /// Reads a scenario, and says how much it is to simulate.
    Check {
        /// The text in TOML.
        scenario: String,
    },
    /// What may be written at a place of a scenario.
    Complete {
        /// The text in TOML, finished or not.
        scenario: String,
        /// The place, as JavaScript counts characters.
        at: usize,
    },
    /// The limiters of a scenario, and what they are set to.
    Limiters {
        /// The text in TOML.
        scenario: String,
    },
    /// The text of a scenario with another value of a limiter.
    Turn {
        /// The text in TOML.
        scenario: String,
        /// The limiter's number in the answer to [`Limiters`](Self::Limiters).
        number: usize,
        /// The key.
        key: String,
        /// Its value, without quotes.
        value: String,
    },
    /// How deep the literature has a limiter of this kind.
    Sizes {
        /// The kind of the limiter.
        kind: String,
        /// Its rate in bit/s.
        bps: u64,
        /// The longest round-trip time that is to be served well, in seconds.
        rtt_s: f64,
    },
    /// Runs a scenario, and keeps its curves and captures until the next one is run.
    Simulate {
        /// The text in TOML.
        scenario: String,
    },
    /// The curves of a point of the scenario that was run, as those of [`Panel`](Self::Panel).
    PointPanel {
        /// The point's number.
        point: usize,
        /// The panel's key.
        panel: String,
        /// What part of it, on how many pixels.
        view: View,
    },
    /// The points of the scenario that was run, as CSV.
    Results,
    /// A capture of the scenario that was run, in pcap format.
    Capture {
        /// Its name.
        name: String,
    },
}

/// How the table is shown.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Arrangement {
    /// The column to sort by; else in the order of the captures.
    pub sort: Option<String>,
    /// The greatest first.
    pub descending: bool,
    /// Text that a line must contain in one of its columns, in lower or upper case.
    pub find: String,
    /// The only cause to be shown.
    pub cause: Option<String>,
    /// Also transfers that are too short to be judged.
    pub all: bool,
}

/// Which transfer.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The capture's number.
    pub capture: u32,
    /// The flow's number in it.
    pub flow: u64,
    /// The segment's number in the flow.
    pub segment: u32,
    /// Whether the client sent it.
    pub from_client: bool,
}

/// A part of a panel and the pixels that it is drawn on.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct View {
    /// The left edge in seconds.
    pub from: f64,
    /// The right edge.
    pub to: f64,
    /// Pixels from left to right.
    pub columns: u32,
    /// Pixels from the lower to the upper edge.
    pub rows: u32,
}
