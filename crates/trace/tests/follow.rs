//! While a capture comes in, transfers are judged when they end.

use std::fs::File;
use std::path::Path;

use tidegate_trace::annotate::{Metrics, Transfer, TransferId, TransferSummary};
use tidegate_trace::detect::{Basis, Cause, DETECTORS, Extent, Judgement};
use tidegate_trace::flow::Settings;
use tidegate_trace::{Options, Sink, analyse};

/// What a sink was told, in order.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    Transfer(TransferId),
    Verdict(TransferId, Cause, Basis),
}

#[derive(Default)]
struct Events(Vec<Event>);

impl Sink for Events {
    fn transfer(&mut self, transfer: &Transfer<'_>, _: &Metrics) {
        self.0.push(Event::Transfer(transfer.id()));
    }

    fn verdict(&mut self, transfer: &TransferSummary, judgement: Judgement) {
        let Judgement { cause, basis, .. } = judgement;
        self.0.push(Event::Verdict(transfer.id, cause, basis));
    }
}

/// Five policed transfers of one connection, which follow each other within a second.
fn events(basis: Basis, causal: bool) -> Vec<Event> {
    let path = "../../corpus/policed-1500kbit/policed-1500kbit.pcap.xz";
    let capture =
        File::open(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("the capture");
    let options = Options {
        detector: Some((DETECTORS[0].make)(Extent { basis, causal })),
        ..Options::measuring(Settings::default())
    };
    let mut events = Events::default();
    let outcome = analyse(capture, options, &mut events);
    assert_eq!(outcome.error, None);
    events.0
}

/// How many transfers ended between the end of a transfer of the server and its verdict.
fn waited(events: &[Event]) -> Vec<usize> {
    let ends = events.iter().enumerate();
    ends.filter_map(|(i, event)| {
        let Event::Transfer(id) = *event else {
            return None;
        };
        let rest = &events[i + 1..];
        let verdict = |event: &Event| matches!(event, Event::Verdict(other, ..) if *other == id);
        let place = rest.iter().position(verdict).expect("a verdict");
        let others = &rest[..place];
        let transfers = others
            .iter()
            .filter(|event| matches!(event, Event::Transfer(_)));
        (!id.from_client).then_some(transfers.count())
    })
    .collect()
}

#[test]
fn a_transfer_is_judged_when_it_ends() {
    for basis in [Basis::Segment, Basis::Connection, Basis::Client] {
        assert_eq!(waited(&events(basis, true)), [0; 5], "{basis:?}");
    }
}

#[test]
fn otherwise_it_waits_for_all_that_is_judged_with_it() {
    // Four segments come behind the first one, each with a request and a response.
    assert_eq!(waited(&events(Basis::Client, false)), [8, 6, 4, 2, 0]);
    assert_eq!(waited(&events(Basis::Segment, false)), [0; 5]);
}

#[test]
fn the_verdict_rests_on_what_was_asked_for() {
    for basis in [Basis::Segment, Basis::Connection, Basis::Client] {
        for causal in [false, true] {
            let policed = events(basis, causal)
                .into_iter()
                .filter(|event| {
                    matches!(event, Event::Verdict(_, Cause::Policer, found) if *found == basis)
                })
                .count();
            assert_eq!(policed, 5, "{basis:?}");
        }
    }
}
