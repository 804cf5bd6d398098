//! A line of the table: what is kept of a transfer.

use std::sync::Arc;

use tidegate_story::{brief, units};
use tidegate_table::Value;
use tidegate_table::convert::{bits, millis, rounded, seconds};
use tidegate_trace::annotate::{Layer, TransferId, TransferSummary};
use tidegate_trace::detect::{Cause, Judgement};
use tidegate_trace::read::Nanos;
use tidegate_trace::wire::Endpoint;

/// A transfer in the table.
#[derive(Debug, Clone)]
pub struct Line {
    pub capture: u32,
    pub file: Arc<str>,
    pub id: TransferId,
    pub sender: Endpoint,
    pub receiver: Endpoint,
    /// Since the capture began.
    pub begins: Nanos,
    pub duration: Nanos,
    pub data_packets: u64,
    pub loss_rate: f64,
    pub goodput_bps: Option<f64>,
    pub rtt: Option<Nanos>,
    pub cause: Cause,
    pub verdict: Box<str>,
    pub confidence: Option<f32>,
    /// Of the limiter, in bit/s of frames on the link.
    pub rate_bps: Option<f64>,
    /// In bytes of frames on the link.
    pub depth_bytes: Option<f64>,
}

impl Line {
    pub fn new(
        (capture, file): (u32, &Arc<str>),
        start: Nanos,
        transfer: &TransferSummary,
        judgement: &Judgement,
    ) -> Self {
        let metrics = &transfer.metrics;
        let limit = judgement.limit;
        let limit = limit.map(|limit| limit.at(Layer::Link, &transfer.tally));
        Self {
            capture,
            file: Arc::clone(file),
            id: transfer.id,
            sender: transfer.sender,
            receiver: transfer.receiver,
            begins: metrics.first_sent.saturating_sub(start),
            duration: metrics.duration,
            data_packets: metrics.data_packets,
            loss_rate: metrics.loss_rate(),
            goodput_bps: metrics.goodput_bps(),
            rtt: metrics.rtt.map(|rtt| rtt.median),
            cause: judgement.cause,
            verdict: brief::verdict(judgement).into(),
            confidence: judgement.confidence.map(|share| share as f32),
            rate_bps: limit.map(|limit| limit.rate_bps.value),
            depth_bytes: limit
                .and_then(|limit| limit.depth_bytes)
                .map(|depth| depth.value),
        }
    }
}

/// What a column is sorted by.
pub enum Key {
    /// By the endpoints' addresses and ports.
    Ends,
    Number(fn(&Line) -> Option<f64>),
    Text(fn(&Line) -> &str),
}

/// A column's name and value in files.
pub type Saved = (&'static str, fn(&Line) -> Value);

/// A column of the table.
pub struct Column {
    pub key: &'static str,
    pub title: &'static str,
    pub doc: &'static str,
    pub sort: Key,
    /// As `tidegate detect` writes it.
    pub text: fn(&Line) -> String,
    /// In files, where that is a column of `tidegate detect`; else it has its key and its text there.
    pub saved: Option<Saved>,
}

/// Every column, in the order of the table.
pub const COLUMNS: &[Column] = &[
    Column {
        key: "file",
        title: "Capture",
        doc: "The capture that the transfer is in.",
        sort: Key::Text(|line| &line.file),
        text: |line| line.file.to_string(),
        saved: None,
    },
    Column {
        key: "flow",
        title: "Flow",
        doc: "The connection's number in the capture, from 0, in the order of first packets.",
        sort: Key::Number(|line| Some(line.id.flow as f64)),
        text: |line| line.id.flow.to_string(),
        saved: None,
    },
    Column {
        key: "segment",
        title: "Segment",
        doc: "The segment's number in the flow, from 0: a request and its response.",
        sort: Key::Number(|line| Some(f64::from(line.id.segment))),
        text: |line| line.id.segment.to_string(),
        saved: None,
    },
    Column {
        key: "from",
        title: "From",
        doc: "Which endpoint sent the data.",
        sort: Key::Text(|line| side(line)),
        text: |line| side(line).to_owned(),
        saved: None,
    },
    Column {
        key: "ends",
        title: "Sender and receiver",
        doc: "Address and port of the endpoint that sent the data, and of the other.",
        sort: Key::Ends,
        text: |line| format!("{} > {}", line.sender, line.receiver),
        saved: None,
    },
    Column {
        key: "begins",
        title: "Begins",
        doc: "When the first data packet was sent, since the capture began.",
        sort: Key::Number(|line| Some(line.begins as f64)),
        text: |line| units::time(line.begins),
        saved: Some(("start_offset_s", |line| seconds(line.begins).into())),
    },
    Column {
        key: "time",
        title: "Time",
        doc: "From the first data packet to the last acknowledgement of one.",
        sort: Key::Number(|line| Some(line.duration as f64)),
        text: |line| units::time(line.duration),
        saved: Some(("duration_s", |line| seconds(line.duration).into())),
    },
    Column {
        key: "packets",
        title: "Packets",
        doc: "Data packets, retransmissions among them.",
        sort: Key::Number(|line| Some(line.data_packets as f64)),
        text: |line| units::count(line.data_packets),
        saved: Some(("data_packets", |line| line.data_packets.into())),
    },
    Column {
        key: "loss",
        title: "Loss",
        doc: "Lost packets over data packets.",
        sort: Key::Number(|line| Some(line.loss_rate)),
        text: |line| units::percent(line.loss_rate),
        saved: Some(("loss_rate", |line| rounded(line.loss_rate, 6).into())),
    },
    Column {
        key: "goodput",
        title: "Goodput",
        doc: "Payload delivered over the time.",
        sort: Key::Number(|line| line.goodput_bps),
        text: |line| or_dash(line.goodput_bps.map(units::rate)),
        saved: Some(("goodput_bps", |line| line.goodput_bps.map(bits).into())),
    },
    Column {
        key: "rtt",
        title: "RTT",
        doc: "Median round-trip time.",
        sort: Key::Number(|line| line.rtt.map(|rtt| rtt as f64)),
        text: |line| or_dash(line.rtt.map(units::time)),
        saved: Some(("rtt_median_ms", |line| line.rtt.map(millis).into())),
    },
    Column {
        key: "sure",
        title: "Sure",
        doc: "How sure the detector is of the verdict.",
        sort: Key::Number(|line| line.confidence.map(f64::from)),
        text: |line| {
            or_dash(
                line.confidence
                    .map(|share| brief::whole_percent(share.into())),
            )
        },
        saved: Some(("verdict_confidence", |line| {
            let share = line.confidence.map(f64::from);
            share.map(|share| rounded(share, 3)).into()
        })),
    },
    Column {
        key: "verdict",
        title: "Verdict",
        doc: "What limited the transfer, and the limiter's rate.",
        sort: Key::Text(|line| &line.verdict),
        text: |line| line.verdict.to_string(),
        saved: None,
    },
    Column {
        key: "rate",
        title: "Limit",
        doc: "The limiter's rate, counted in frames on the link.",
        sort: Key::Number(|line| line.rate_bps),
        text: |line| or_dash(line.rate_bps.map(units::rate)),
        saved: Some(("limit_rate_bps", |line| line.rate_bps.map(bits).into())),
    },
    Column {
        key: "depth",
        title: "Depth",
        doc: "What the limiter's bucket or queue holds, counted in frames on the link.",
        sort: Key::Number(|line| line.depth_bytes),
        text: |line| {
            or_dash(
                line.depth_bytes
                    .map(|depth| units::bytes(depth.round() as u64)),
            )
        },
        saved: Some(("limit_depth_bytes", |line| {
            line.depth_bytes.map(bits).into()
        })),
    },
];

fn side(line: &Line) -> &'static str {
    if line.id.from_client {
        "client"
    } else {
        "server"
    }
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}
