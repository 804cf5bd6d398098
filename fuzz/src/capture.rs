//! Captures: from bytes to verdicts.

use std::collections::HashSet;
use std::io::Cursor;

use tidegate_trace::annotate::{
    Layer, Marks, Metrics, Totals, Transfer, TransferId, TransferSummary,
};
use tidegate_trace::detect::pd::{Answer, Code};
use tidegate_trace::detect::{
    Basis, DETECTORS, Detector, Extent, Judgement, Verdicts, rate_clusters,
};
use tidegate_trace::flow::{Counters, FlowSummary, Settings};
use tidegate_trace::read::{Capture, Frame, LinkType};
use tidegate_trace::{Analysis, Options, Sink};

/// Frames that are looked at in a compressed capture: a few bytes can stand for millions.
const MAX_FRAMES: usize = 20_000;

/// More packets than a segment or a table has in these small runs: the limits must bite.
const SEGMENT_PACKETS: u64 = 64;
const KEPT_PACKETS: usize = 4096;

/// The reader: any bytes as a capture.
pub fn read(data: &[u8]) {
    let Ok(mut capture) = Capture::new(Cursor::new(data.to_vec())) else {
        return;
    };
    let mut frames = 0;
    let error = loop {
        match capture.frame() {
            Ok(Some(frame)) => {
                assert!(frame.wire_len as usize >= frame.data.len());
                assert!(frame.link.is_supported());
                frames += 1;
            }
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
        if is_compressed(data) {
            if frames == MAX_FRAMES {
                return;
            }
        } else {
            // A record is longer than its header, so reading comes to an end.
            assert!(frames <= data.len() / 16);
        }
    };
    let passed_over = capture.passed_over();
    assert_eq!(passed_over.first.is_some(), passed_over.unsupported > 0);
    if let Some(error) = error {
        assert!(!error.to_string().is_empty());
        assert!(error.decompressed == is_compressed(data));
        assert!(error.decompressed || error.offset <= data.len() as u64);
    } else {
        // The end is reached once.
        assert!(matches!(capture.frame(), Ok(None)));
    }
}

/// The decoder: two bytes of link type, two bytes that the frame was longer than what was kept,
/// and the frame.
pub fn wire(data: &[u8]) {
    let Some((&[a, b, c, d], data)) = data.split_first_chunk() else {
        return;
    };
    let frame = Frame {
        outbound: None,
        at: 1_000_000_000,
        link: LinkType(u16::from_be_bytes([a, b])),
        data,
        wire_len: data.len() as u32 + u32::from(u16::from_be_bytes([c, d])),
    };
    let Ok(packet) = tidegate_trace::wire::decode(&frame) else {
        return;
    };
    assert!(packet.payload <= 1 << 20);
    assert!(packet.headers >= 40);
    assert!(packet.options.sacks.blocks().len() <= 4);
    let (src, dst) = (packet.src.to_string(), packet.dst.to_string());
    assert!(src.ends_with(&packet.src.port().to_string()));
    assert!(dst.ends_with(&packet.dst.port().to_string()));
}

/// The whole way: any bytes as a capture, to verdicts.
pub fn analyse(data: &[u8]) {
    let Ok(mut capture) = Capture::new(Cursor::new(data.to_vec())) else {
        return;
    };
    let mut run = Run::new(small());
    for _ in 0..MAX_FRAMES {
        let Ok(Some(frame)) = capture.frame() else {
            break;
        };
        run.analysis.frame(&frame, &mut run.check);
        run.bounded();
    }
    let counters = *run.analysis.flow_table().counters();
    assert_eq!(
        counters.frames,
        counters.tcp
            + counters.not_ip
            + counters.not_tcp
            + counters.fragments
            + counters.cut
            + counters.malformed
    );
    run.finish();
}

/// Flows: a byte of settings, then records of 8 bytes, each a packet of one of four flows whose
/// sequence numbers are so few that every kind of overlap happens.
pub fn packets(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else {
        return;
    };
    let mut settings = small();
    settings.join_repeated_requests = choice & 1 != 0;
    if choice & 2 != 0 {
        settings.max_flows = 2;
    }
    // Sequence numbers that start before the wrap-around.
    let origin = if choice & 4 != 0 { u32::MAX - 3000 } else { 77 };
    // Pauses of a round trip, or long enough for time-outs.
    let unit = if choice & 8 != 0 { 50_000_000 } else { 300_000 };
    let mut run = Run::new(settings);
    let mut at = 1_500_000_000_000_000_000;
    let mut count = 0;
    for record in data.chunks_exact(8) {
        at += u64::from(record[0] & 0x7f) * unit;
        if record[0] == 0xff {
            // The clock is set back.
            at -= 20 * unit;
        }
        let frame = raw_ip(record, origin, choice);
        let frame = Frame {
            outbound: None,
            at,
            link: LinkType::RAW,
            data: &frame,
            wire_len: frame.len() as u32,
        };
        assert!(
            tidegate_trace::wire::decode(&frame).is_ok(),
            "a sound packet"
        );
        run.analysis.frame(&frame, &mut run.check);
        run.bounded();
        count += 1;
    }
    assert_eq!(run.analysis.flow_table().counters().tcp, count);
    run.finish();
}

/// Rates as text: what can be read can be written and read again.
pub fn rate(data: &[u8]) {
    use tidegate_limiter::Rate;
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match text.parse::<Rate>() {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(rate) => {
            let exact = format!("{}bit", rate.bits_per_second());
            assert_eq!(exact.parse(), Ok(rate));
            if let Ok(again) = rate.to_string().parse::<Rate>() {
                let (a, b) = (
                    rate.bits_per_second() as f64,
                    again.bits_per_second() as f64,
                );
                assert!((a - b).abs() <= a * 0.0051, "{a} printed as {rate}");
            } else {
                // Only what is at the very end of the range is rounded out of it.
                assert!(rate.bits_per_second() > u64::MAX / 1000 * 990, "{rate}");
            }
        }
    }
}

fn is_compressed(data: &[u8]) -> bool {
    data.starts_with(&[0x1f, 0x8b])
        || data.starts_with(&[0xfd, b'7', b'z', b'X', b'Z', 0])
        || data.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
}

/// Limits so low that they are reached.
fn small() -> Settings {
    Settings {
        idle_timeout: 30_000_000_000,
        linger: 1_000_000_000,
        max_flows: 8,
        max_packets: KEPT_PACKETS,
        max_segment_packets: SEGMENT_PACKETS,
        ..Settings::default()
    }
}

/// An IPv4 packet from 8 bytes: time, flow and direction, flags and options, sequence number,
/// acknowledgement number, payload (in units that give equal and odd boundaries), window, and
/// where a selective acknowledgement begins and how long it is.
pub fn raw_ip(record: &[u8], origin: u32, choice: u8) -> Vec<u8> {
    let [_, who, kind, seq, ack, len, window, sack] = *record else {
        unreachable!("chunks of 8")
    };
    let unit = |n: u8| u32::from(n & 0x3f) * 100 + u32::from(n >> 6) * 33;
    let server = who & 1 == 1;
    let mut flags = 0x10u8;
    let mut options = Vec::new();
    match kind & 7 {
        0 => flags = 2,
        1 => flags = 0x12,
        2 => flags |= 1,
        3 if who & 8 != 0 => flags |= 4,
        _ => {}
    }
    if flags & 2 != 0 {
        options.extend([2, 4, 5, 0xb4]);
        if kind & 0x40 != 0 {
            options.extend([1, 3, 3, 2]);
        }
    }
    if kind & 0x08 != 0 {
        options.extend([1, 1, 8, 10, 0, 0, 0, record[0], 0, 0, 0, sack]);
    }
    if kind & 0x30 != 0 && flags & 2 == 0 {
        let blocks = (kind >> 4) & 3;
        options.extend([1, 1, 5, 2 + 8 * blocks]);
        for block in 0..blocks {
            let start = origin.wrapping_add(unit(sack.wrapping_add(block.wrapping_mul(29))));
            options.extend(start.to_be_bytes());
            let end = start.wrapping_add(1 + u32::from(sack >> 4) * 100);
            options.extend(end.to_be_bytes());
        }
    }
    let payload = match len {
        0..0x60 => 0,
        0x60..0xf0 => unit(len & 0x4f),
        // Super-packets and probes.
        0xf0..0xfc => u32::from(len & 15) * 2920,
        _ => 1,
    };
    let tcp = 20 + options.len();
    let total = 20 + tcp + payload as usize;
    let mut packet = vec![0x45, 0];
    packet.extend((total as u16).to_be_bytes());
    // The identification is 0 for half of the choices, where duplicates are recognised otherwise.
    let id = if choice & 16 != 0 { record[0] } else { 0 };
    packet.extend([0, id, 0x40, 0, 64, 6, 0, 0]);
    let (client, far) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let (source, destination) = if server { (far, client) } else { (client, far) };
    packet.extend(source);
    packet.extend(destination);
    let flow = 40_000 + u16::from((who >> 1) & 3);
    let ports = if server { [443, flow] } else { [flow, 443] };
    packet.extend(ports.map(u16::to_be_bytes).as_flattened());
    packet.extend(origin.wrapping_add(unit(seq)).to_be_bytes());
    packet.extend(origin.wrapping_add(unit(ack)).to_be_bytes());
    packet.extend([(tcp as u8 / 4) << 4, flags]);
    packet.extend((u16::from(window) * 64).to_be_bytes());
    packet.extend([0; 4]);
    packet.extend(options);
    packet.resize(total, 0);
    packet
}

/// An analysis by every detector, and what checks all that it finds out.
struct Run {
    analysis: Analysis,
    check: Check,
}

impl Run {
    fn new(settings: Settings) -> Self {
        Self {
            analysis: Analysis::new(Options {
                detector: Some(Box::new(Every::new())),
                ..Options::measuring(settings)
            }),
            check: Check::default(),
        }
    }

    /// The limits hold; what is kept is summed up now and then only, so it may exceed its limit
    /// by what comes in between.
    fn bounded(&self) {
        let table = self.analysis.flow_table();
        let Counters { tcp, .. } = *table.counters();
        assert!(table.active_flows() <= small().max_flows);
        if tcp.is_multiple_of(1024) {
            let since = 1024 * 2 * (1 << 20) / 536;
            assert!(table.kept() <= KEPT_PACKETS + since);
        }
    }

    fn finish(mut self) {
        let counters = self.analysis.finish(&mut self.check);
        assert_eq!(self.analysis.flow_table().active_flows(), 0);
        assert_eq!(self.analysis.flow_table().kept(), 0);
        let check = self.check;
        assert!(check.unjudged.is_empty());
        assert_eq!(check.flows, counters.flows);
        assert_eq!(check.packets, check.flow_packets);
        for cluster in rate_clusters(&check.rates, 0.75) {
            assert!(cluster.centre_bps > 0.0);
        }
    }
}

/// The default detector, judging while the capture comes in.
fn causal(basis: Basis) -> Box<dyn Detector> {
    (DETECTORS[0].make)(Extent {
        basis,
        causal: true,
    })
}

/// Every detector. The first one's verdicts count, the others' are checked.
struct Every {
    detectors: Vec<Box<dyn Detector>>,
    unused: Verdicts,
}

impl Every {
    fn new() -> Self {
        Self {
            detectors: DETECTORS
                .iter()
                .map(|entry| entry.whole())
                .chain([Basis::Segment, Basis::Connection, Basis::Client].map(causal))
                .collect(),
            unused: Verdicts::default(),
        }
    }

    fn each(&mut self, first: &mut Verdicts, call: impl Fn(&mut dyn Detector, &mut Verdicts)) {
        for (i, detector) in self.detectors.iter_mut().enumerate() {
            call(
                &mut **detector,
                if i == 0 { first } else { &mut self.unused },
            );
        }
        for (_, judgement) in self.unused.take() {
            judged(&judgement);
        }
    }
}

impl Detector for Every {
    fn transfer(&mut self, transfer: &Transfer<'_>, metrics: &Metrics, verdicts: &mut Verdicts) {
        self.each(verdicts, |detector, verdicts| {
            detector.transfer(transfer, metrics, verdicts);
        });
    }

    fn flow(&mut self, summary: &FlowSummary, verdicts: &mut Verdicts) {
        self.each(verdicts, |detector, verdicts| {
            detector.flow(summary, verdicts)
        });
    }

    fn finish(&mut self, verdicts: &mut Verdicts) {
        self.each(verdicts, |detector, verdicts| detector.finish(verdicts));
    }
}

/// Checks every transfer and every flow.
#[derive(Default)]
struct Check {
    unjudged: HashSet<TransferId>,
    rates: Vec<f64>,
    flows: u64,
    packets: u64,
    flow_packets: u64,
}

impl Sink for Check {
    fn transfer(&mut self, transfer: &Transfer<'_>, metrics: &Metrics) {
        packet_facts(transfer);
        measures(transfer, metrics);
        self.packets += metrics.data_packets;
        assert!(self.unjudged.insert(transfer.id()));
    }

    fn verdict(&mut self, transfer: &TransferSummary, judgement: Judgement) {
        assert!(self.unjudged.remove(&transfer.id));
        judged(&judgement);
        let rate = judgement.policed_rate(&transfer.tally, Layer::Payload);
        self.rates.extend(rate);
    }

    fn flow(&mut self, summary: FlowSummary) {
        self.flows += 1;
        assert!(
            self.unjudged
                .iter()
                .all(|id| id.flow != summary.info.number)
        );
        for totals in summary.senders() {
            self.flow_packets += totals.metrics.data_packets;
            sums(totals);
        }
    }
}

fn packet_facts(transfer: &Transfer<'_>) {
    assert!(!transfer.sent.is_empty());
    assert!(transfer.mss > 0);
    let n = transfer.sent.len();
    for (i, sent) in transfer.sent.iter().enumerate() {
        assert!(sent.len > 0 && sent.len <= transfer.mss.max(1 << 20));
        assert!(!(sent.lost() && sent.marks.has(Marks::DELIVERED)));
        if sent.repeats != 0 {
            assert!(sent.is_retransmission());
        }
        // Links name packets that are there, and agree.
        if let Some(before) = i.checked_sub(sent.repeats as usize)
            && sent.repeats != 0
        {
            assert!(transfer.sent[before].repeated != 0);
        }
        let behind = i + sent.repeated as usize;
        if sent.repeated != 0 && behind < n {
            assert!(transfer.sent[behind].is_retransmission());
        }
        if sent.rtt().is_some() {
            assert!(sent.acked_at != 0);
        }
    }
}

fn measures(transfer: &Transfer<'_>, metrics: &Metrics) {
    let n = metrics.data_packets;
    assert_eq!(n, transfer.sent.len() as u64);
    assert!(metrics.lost_packets + metrics.spurious_packets <= n);
    assert!(metrics.retransmitted_packets <= n);
    assert!((0.0..=1.0).contains(&metrics.loss_rate()));
    assert!(metrics.delivered_bytes <= metrics.unique_bytes);
    assert!(metrics.unique_bytes <= transfer.tally.payload_bytes);
    assert_eq!(
        metrics.bytes_before_loss.is_some(),
        metrics.lost_packets > 0
    );
    assert!(
        metrics
            .bytes_before_loss
            .is_none_or(|bytes| bytes < transfer.tally.payload_bytes)
    );
    assert!(
        metrics
            .goodput_bps()
            .is_none_or(|bps| bps.is_finite() && bps >= 0.0)
    );
    let tally = transfer.tally;
    assert!(tally.payload_bytes <= tally.ip_bytes && tally.ip_bytes <= tally.link_bytes);
    let sum: u64 = transfer.sent.iter().map(|sent| u64::from(sent.len)).sum();
    assert_eq!(sum, tally.payload_bytes);
    if let Some(rtt) = metrics.rtt {
        let order = [
            rtt.min, rtt.p10, rtt.median, rtt.p90, rtt.p95, rtt.p99, rtt.max,
        ];
        assert!(order.is_sorted());
        assert!(rtt.samples > 0 && rtt.samples as u64 <= n);
    }
    if let Some(growth) = metrics.growth {
        assert!(growth.correlation.abs() <= 1.0 + 1e-6);
        assert!(growth.ns_per_byte.is_finite());
    }
    assert!(metrics.rtt.is_some() || !metrics.bufferbloat);
    if let Some(capacity) = metrics.capacity {
        assert!(capacity.bps.is_finite() && capacity.bps > 0.0 && capacity.trains > 0);
    }
    let evidence = metrics.evidence;
    assert!(u64::from(evidence.loss_episodes) <= metrics.lost_packets);
    assert!((0.0..=1.0).contains(&evidence.stalled));
    assert!(evidence.overshoot >= 0.0 && evidence.flight_packets >= 0.0);
}

fn sums(totals: &Totals) {
    assert!(totals.segments > 0);
    assert!(totals.metrics.lost_packets <= totals.metrics.data_packets);
    let percentiles = [1, 10, 50, 90, 99].map(|percent| totals.rtt_percentile(percent));
    assert!(percentiles.is_sorted());
}

fn judged(judgement: &Judgement) {
    assert!(!judgement.reason.is_empty());
    assert!(
        judgement
            .confidence
            .is_none_or(|sure| (0.0..=1.0).contains(&sure))
    );
    if let Some(limit) = &judgement.limit {
        for estimate in [Some(limit.rate_bps), limit.depth_bytes]
            .into_iter()
            .flatten()
        {
            assert!(0.0 <= estimate.low && estimate.low <= estimate.value);
            assert!(estimate.value <= estimate.high && estimate.high.is_finite());
        }
    }
    let total: f64 = judgement.shares.iter().map(|share| share.share).sum();
    assert!((0.0..=1.0 + 1e-6).contains(&total));
    let Some(answer) = judgement.details::<Answer>() else {
        return;
    };
    for verdict in [&answer.all, &answer.cut] {
        assert_eq!(verdict.is_policed(), verdict.rate_bps.is_some());
        assert_eq!(verdict.is_policed(), verdict.burst_bytes.is_some());
        assert!(
            verdict
                .rate_bps
                .is_none_or(|bps| bps.is_finite() && bps >= 0.0)
        );
        match verdict.checks.split_last() {
            Some((last, before)) => {
                assert!(before.iter().all(|check| check.holds));
                assert_eq!(last.holds, verdict.is_policed());
                assert!(last.holds || last.rules_out == verdict.code);
            }
            None => assert_ne!(verdict.code, Code::Policed),
        }
    }
}
