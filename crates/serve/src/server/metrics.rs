//! The server's counters, for Prometheus.

use std::fmt::Write;
use std::sync::atomic::AtomicU64;

use hyper::Version;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::account::Account;
use super::config::Group;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfGroup {
    group: String,
    way: String,
}

/// The same as `OfGroup`, with the way in which the connection is really paced.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PacedBy {
    group: String,
    way: String,
    paced_by: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Status {
    code: u16,
    protocol: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

/// All counters.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    groups: Vec<PerGroup>,
    throttled: Family<PacedBy, Counter>,
    requests: Family<Status, Counter>,
    refused: Family<Reason, Counter>,
    ended: Family<Reason, Counter>,
    log_dropped: Counter,
    rested: Counter,
    open: Gauge,
}

#[derive(Debug)]
struct PerGroup {
    label: OfGroup,
    connections: Counter,
    unpaced: Counter,
    bytes: Counter<u64, AtomicU64>,
    segments: Counter,
    retransmitted: Counter,
    srtt: Histogram,
}

impl Metrics {
    /// `overfull` counts folders with more manifests than are remembered.
    pub fn new(groups: &[Group], overfull: &Counter) -> Self {
        let mut registry = Registry::with_prefix("tidegate_serve");
        let connections = Family::<OfGroup, Counter>::default();
        let throttled = Family::<PacedBy, Counter>::default();
        let unpaced = Family::<OfGroup, Counter>::default();
        let bytes = Family::<OfGroup, Counter<u64, AtomicU64>>::default();
        let segments = Family::<OfGroup, Counter>::default();
        let retransmitted = Family::<OfGroup, Counter>::default();
        // 1 ms to 4 s.
        let buckets = || Histogram::new((0..13).map(|power| f64::from(1 << power) * 1e-3));
        let srtt = Family::<OfGroup, Histogram>::new_with_constructor(buckets);
        let requests = Family::default();
        let refused = Family::default();
        let ended = Family::default();
        let log_dropped = Counter::default();
        let rested = Counter::default();
        let open = Gauge::default();
        let all = &mut registry;
        all.register("connections", "Connections accepted", connections.clone());
        all.register(
            "connections_throttled",
            "Connections that came to the throttling phase, and what paced them in fact",
            throttled.clone(),
        );
        all.register(
            "connections_open",
            "Connections that are open",
            open.clone(),
        );
        all.register(
            "connections_refused",
            "Connections refused",
            refused.clone(),
        );
        all.register("connections_ended", "Connections that ended", ended.clone());
        all.register(
            "connections_rested",
            "Times that a connection without a request gave up its buffers",
            rested.clone(),
        );
        all.register("requests", "Requests answered", requests.clone());
        all.register("written_bytes", "Bytes written to sockets", bytes.clone());
        all.register(
            "segments",
            "Segments with data sent, of connections that ended",
            segments.clone(),
        );
        all.register(
            "segments_retransmitted",
            "Segments retransmitted, of connections that ended",
            retransmitted.clone(),
        );
        all.register(
            "srtt_seconds",
            "Smoothed round-trip time at a connection's end",
            srtt.clone(),
        );
        all.register(
            "log_lines_dropped",
            "Lines of the access log that were dropped because too many waited for the disk",
            log_dropped.clone(),
        );
        all.register(
            "folders_overfull",
            "Folders with more manifests than are remembered, so that the segments of the others are not paced by them",
            overfull.clone(),
        );
        all.register(
            "pacing_failures",
            "Times that the kernel did not pace a socket as asked",
            unpaced.clone(),
        );
        let per_group = |group: &Group| {
            let label = OfGroup {
                group: group.name.clone(),
                way: group.way.to_string(),
            };
            PerGroup {
                connections: connections.get_or_create_owned(&label),
                unpaced: unpaced.get_or_create_owned(&label),
                bytes: bytes.get_or_create_owned(&label),
                segments: segments.get_or_create_owned(&label),
                retransmitted: retransmitted.get_or_create_owned(&label),
                srtt: srtt.get_or_create_owned(&label),
                label,
            }
        };
        Self {
            groups: groups.iter().map(per_group).collect(),
            registry,
            throttled,
            requests,
            refused,
            ended,
            log_dropped,
            rested,
            open,
        }
    }

    pub fn opened(&self, group: usize) {
        self.open.inc();
        self.groups[group].connections.inc();
    }

    pub fn closed(&self, group: usize, why: &'static str, account: &Account<'_>) {
        self.open.dec();
        self.ended.get_or_create(&Reason { reason: why }).inc();
        let group = &self.groups[group];
        group.segments.inc_by(account.now.segments.into());
        group.retransmitted.inc_by(account.now.retransmitted.into());
        if account.now.srtt_us > 0 {
            group.srtt.observe(f64::from(account.now.srtt_us) / 1e6);
        }
    }

    pub fn throttled(&self, group: usize, paced_by: &'static str) {
        let OfGroup { group, way } = self.groups[group].label.clone();
        let label = PacedBy {
            group,
            way,
            paced_by,
        };
        self.throttled.get_or_create(&label).inc();
    }

    pub fn unpaced(&self, group: usize) {
        self.groups[group].unpaced.inc();
    }

    pub fn written(&self, group: usize, bytes: u64) {
        self.groups[group].bytes.inc_by(bytes);
    }

    pub fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&Reason { reason }).inc();
    }

    pub fn request(&self, code: u16, version: Version) {
        let protocol = format!("{version:?}");
        let label = Status { code, protocol };
        self.requests.get_or_create(&label).inc();
    }

    /// A connection gave up its buffers. Returns how many did so before.
    pub fn rested(&self) -> u64 {
        self.rested.inc()
    }

    pub fn log_dropped(&self) {
        self.log_dropped.inc();
    }

    /// All counters, in the text format.
    pub fn text(&self) -> String {
        let mut page = String::new();
        if text::encode(&mut page, &self.registry).is_err() {
            let _ = writeln!(page, "# could not be written");
        }
        page
    }
}
