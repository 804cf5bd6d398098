use std::io::Cursor;
use std::net::SocketAddr;
use std::sync::Mutex;

use super::*;
use crate::detect::Pd;
use crate::read::LinkType;
use crate::testing::{MS, START, client, pcapng, server};
use crate::wire::Flags;
use crate::write::pcapng::Marks;
use crate::write::{Ends, TcpFrame};

/// What a sink gets, in order.
#[derive(Debug, PartialEq, Eq)]
enum Event {
    Begin(Nanos),
    Transfer(TransferId),
    Verdict(TransferId, Cause),
    Flow(u64),
}
use Event::{Begin, Flow, Transfer as Sent, Verdict};

#[derive(Default)]
struct Events(Vec<Event>);

impl Sink for Events {
    fn begin(&mut self, at: Nanos) {
        self.0.push(Begin(at));
    }

    fn transfer(&mut self, transfer: &Transfer<'_>, _: &Metrics) {
        self.0.push(Sent(transfer.id()));
    }

    fn verdict(&mut self, transfer: &TransferSummary, judgement: Judgement) {
        self.0.push(Verdict(transfer.id, judgement.cause));
    }

    fn flow(&mut self, summary: FlowSummary) {
        self.0.push(Flow(summary.info.number));
    }
}

/// One packet with data on each of two connections, which are then reset.
fn two_connections(analysis: &mut Analysis, sink: &mut Events) {
    let mut bytes = Vec::new();
    for (i, flags) in [Flags::ACK, Flags::RST].into_iter().enumerate() {
        for port in [50_000, 50_001] {
            let client = SocketAddr::new(client().ip(), port);
            let wire_len = TcpFrame {
                flags,
                payload: if flags == Flags::ACK { 100 } else { 0 },
                seq: 1 + 100 * i as u32,
                ..TcpFrame::new(Ends {
                    src: client,
                    dst: server(),
                })
            }
            .encode(&mut bytes);
            let frame = Frame {
                outbound: None,
                at: START + i as u64 * MS,
                link: LinkType::ETHERNET,
                data: &bytes,
                wire_len,
            };
            analysis.frame(&frame, sink);
        }
    }
}

fn events(detector: Option<Box<dyn Detector>>) -> Vec<Event> {
    let options = Options {
        detector,
        ..Options::default()
    };
    let mut analysis = Analysis::new(options);
    let mut sink = Events::default();
    two_connections(&mut analysis, &mut sink);
    assert_eq!(analysis.finish(&mut sink).frames, 4);
    sink.0
}

fn id(flow: u64) -> TransferId {
    TransferId {
        flow,
        segment: 0,
        from_client: true,
    }
}

#[test]
fn verdicts_follow_their_transfers_at_once() {
    let unclear = |flow| Verdict(id(flow), Cause::Unclear);
    assert_eq!(
        events(Some(Box::new(Pd::published()))),
        [
            Begin(START),
            Sent(id(0)),
            unclear(0),
            Flow(0),
            Sent(id(1)),
            unclear(1),
            Flow(1),
        ]
    );
}

#[test]
fn without_a_detector_there_are_no_verdicts() {
    assert_eq!(
        events(None),
        [Begin(START), Sent(id(0)), Flow(0), Sent(id(1)), Flow(1)]
    );
}

/// Judges all transfers when the capture ends, the last first, and some twice or never.
struct Late {
    seen: Vec<TransferId>,
    misses: Option<TransferId>,
}

impl Detector for Late {
    fn transfer(&mut self, transfer: &Transfer<'_>, _: &Metrics, _: &mut Verdicts) {
        self.seen.push(transfer.id());
    }

    fn finish(&mut self, verdicts: &mut Verdicts) {
        for &id in self.seen.iter().rev() {
            if self.misses != Some(id) {
                verdicts.give(id, Judgement::new(Cause::Queue, "a queue"));
                verdicts.give(id, Judgement::new(Cause::Policer, "said too late"));
            }
        }
    }
}

#[test]
fn flows_wait_for_verdicts_that_come_late() {
    let late = Late {
        seen: Vec::new(),
        misses: None,
    };
    assert_eq!(
        events(Some(Box::new(late))),
        [
            Begin(START),
            Sent(id(0)),
            Sent(id(1)),
            Verdict(id(1), Cause::Queue),
            Flow(1),
            Verdict(id(0), Cause::Queue),
            Flow(0),
        ]
    );
}

#[test]
fn what_is_never_judged_is_unclear() {
    let late = Late {
        seen: Vec::new(),
        misses: Some(id(1)),
    };
    assert_eq!(
        events(Some(Box::new(late)))[3..],
        [
            Verdict(id(0), Cause::Queue),
            Flow(0),
            Verdict(id(1), Cause::Unclear),
            Flow(1),
        ]
    );
}

/// Keeps what it is told of clients.
struct Told(Arc<Mutex<Vec<Clients>>>);

impl Detector for Told {
    fn clients(&mut self, clients: Clients, _: &mut Verdicts) {
        self.0.lock().expect("no panic").push(clients);
    }

    fn transfer(&mut self, _: &Transfer<'_>, _: &Metrics, _: &mut Verdicts) {}
}

/// A capture of one packet with this comment.
fn one_packet(comment: &str) -> Cursor<Vec<u8>> {
    let mut out = pcapng(comment);
    let mut bytes = Vec::new();
    let ends = Ends {
        src: client(),
        dst: server(),
    };
    let wire_len = TcpFrame::new(ends).encode(&mut bytes);
    out.frame(START, &bytes, wire_len, Marks::default())
        .expect("memory");
    Cursor::new(out.into_inner())
}

#[test]
fn a_detector_hears_from_each_piece_which_addresses_are_one_client() {
    let told = Arc::default();
    let options = Options {
        detector: Some(Box::new(Told(Arc::clone(&told)))),
        ..Options::default()
    };
    let pieces = [
        "tidegate sample: fraction=0.1 by=client prefixes=32,56 addresses=keep",
        "tidegate sample: fraction=0.1 by=client prefixes=32,56 addresses=keep",
        "",
    ];
    let outcome = analyse_pieces(pieces.map(one_packet), options, &mut Events::default());
    assert_eq!((outcome.error, outcome.counters.frames), (None, 3));
    let household = Clients::new((32, 56), Clients::ADDRESSES);
    let told = told.lock().expect("no panic");
    assert_eq!(told[..], [household, Clients::default()]);
}

#[cfg(feature = "xz")]
#[test]
fn a_capture_that_cannot_be_read_says_so_and_what_was_read_counts() {
    let mut sink = Events::default();
    let outcome = analyse(
        &b"nothing like a capture"[..],
        Options::default(),
        &mut sink,
    );
    assert!(outcome.error.is_some() && outcome.counters.frames == 0);
    assert!(outcome.whole().is_err());

    let capture = include_bytes!("../../../../corpus/policed-1500kbit/policed-1500kbit.pcap.xz");
    let cut = &capture[..capture.len() / 2];
    let outcome = analyse(cut, Options::default(), &mut sink);
    assert!(outcome.error.is_some() && outcome.counters.frames > 0);
    assert!(sink.0.iter().any(|event| matches!(event, Flow(_))));
}

#[test]
fn a_cancelled_analysis_is_no_error() {
    let capture = include_bytes!("../../../../corpus/policed-1500kbit/policed-1500kbit.pcap.xz");
    let options = Options {
        cancel: Some(Arc::new(AtomicBool::new(true))),
        ..Options::default()
    };
    let outcome = analyse(&capture[..100], options, &mut Events::default());
    assert!(outcome.cancelled && outcome.error.is_none());
    assert_eq!(outcome.counters.frames, 0);
}

/// Live traffic has no end, and may pause: flows end by the clock, and transfers are judged when asked for.
#[test]
fn live_traffic_is_judged_without_an_end() {
    let mut analysis = Analysis::new(Options {
        detector: Some(DETECTORS[0].whole()),
        ..Options::default()
    });
    let mut sink = Events::default();
    two_connections(&mut analysis, &mut sink);
    let linger = Settings::default().linger;
    analysis.time(START + MS + linger, &mut sink);
    assert_eq!(sink.0, [Begin(START)]);
    // Both were reset, and no late packets came.
    analysis.time(START + MS + 3 * linger, &mut sink);
    let flows = sink.0.iter().filter(|event| matches!(event, Flow(_)));
    assert_eq!(flows.count(), 2, "{:?}", sink.0);
    let before = sink.0.len();
    analysis.judge(&mut sink);
    assert_eq!(analysis.finish(&mut sink).frames, 4);
    assert_eq!(sink.0.len(), before, "{:?}", sink.0);
}
