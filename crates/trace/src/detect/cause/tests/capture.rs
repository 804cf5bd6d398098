//! A real capture, compressed with xz.

use crate::annotate::TransferSummary;
use crate::detect::{Basis, Cause, Judgement, Tidegate, Together};
use crate::read::{Capture, Frame};
use crate::{Analysis, Options, Sink, analyse};

#[derive(Default)]
struct Judged(Vec<(TransferSummary, Judgement)>);

impl Sink for Judged {
    fn verdict(&mut self, transfer: &TransferSummary, judgement: Judgement) {
        self.0.push((*transfer, judgement));
    }
}

#[test]
fn a_policer_in_a_real_capture_is_found_with_its_rate() {
    let capture =
        include_bytes!("../../../../../../corpus/policed-1500kbit/policed-1500kbit.pcap.xz");
    for basis in [Basis::Connection, Basis::Client] {
        let options = Options {
            detector: Some(Box::new(Tidegate::new(basis))),
            ..Options::default()
        };
        let mut judged = Judged::default();
        let outcome = analyse(&capture[..], options, &mut judged);
        assert!(outcome.error.is_none());
        let policed: Vec<_> = judged
            .0
            .iter()
            .filter(|(_, judgement)| judgement.cause == Cause::Policer)
            .collect();
        assert!(!policed.is_empty());
        for (transfer, judgement) in policed {
            assert!(!transfer.id.from_client);
            let rate = judgement
                .limit
                .and_then(|limit| limit.rate_bps.interval())
                .expect("a rate with an interval");
            assert!(rate.contains(&1.5e6), "{rate:?}");
            assert!(
                judgement.evidence(transfer).len() > 2 && !judgement.ruled_out(transfer).is_empty()
            );
        }
    }
}

/// What the detector says of the transfer with the most packets in the published capture, of which the capturing
/// system dropped some, in both directions; given the number of a packet and a random one.
fn judged_without(drops: impl Fn(u64, u64) -> bool) -> (TransferSummary, Judgement) {
    let capture =
        include_bytes!("../../../../../../corpus/policed-1500kbit/policed-1500kbit.pcap.xz");
    let mut analysis = Analysis::new(Options {
        detector: Some(Box::new(Tidegate::new(Basis::Client))),
        ..Options::default()
    });
    let mut judged = Judged::default();
    let mut frames = Capture::new(&capture[..]).expect("a capture");
    let (mut number, mut random) = (0, 1u64);
    while let Some(frame) = frames.frame().expect("a frame") {
        number += 1;
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        if !drops(number, random >> 33) {
            analysis.frame(&frame, &mut judged);
        }
    }
    analysis.finish(&mut judged);
    let packets = |(transfer, _): &(TransferSummary, Judgement)| transfer.metrics.data_packets;
    judged
        .0
        .into_iter()
        .max_by_key(packets)
        .expect("a transfer")
}

#[test]
fn packets_that_the_capture_missed_bias_neither_the_rate_nor_the_goodput() {
    let (whole, sure) = judged_without(|_, _| false);
    assert_eq!(whole.metrics.missed_bytes, 0);
    assert!(sure.confidence.is_some());
    let goodput = |transfer: &TransferSummary| transfer.metrics.goodput_bps().expect("a goodput");
    let thinned = judged_without(|_, random| random.is_multiple_of(10));
    let pierced = judged_without(|number, _| (700..1000).contains(&number));
    for (transfer, judgement) in [thinned, pierced] {
        assert!(transfer.metrics.missed_bytes > 100_000);
        let ratio = goodput(&transfer) / goodput(&whole);
        assert!((ratio - 1.0).abs() < 0.01, "{ratio}");
        assert_eq!(judgement.cause, Cause::Policer, "{}", judgement.reason);
        // Such captures were not in the study that confidences come from.
        assert_eq!(judgement.confidence, None);
        let limit = judgement.limit.expect("a limit");
        let rate = limit.rate_bps.interval().expect("an interval");
        assert!(rate.contains(&1.5e6), "{rate:?}");
        assert!(rate.end() / rate.start() < 1.05, "{rate:?}");
        let depth = limit.depth_bytes.and_then(|depth| depth.interval());
        assert!(depth.is_some_and(|depth| depth.contains(&100_000.0)));
    }
}

/// Adds to the numbers of a TCP packet over IPv4 and Ethernet what the client sent in more messages than it did.
fn shift(frame: &mut [u8], field: usize, by: u32) {
    let at = 34 + field;
    let number = u32::from_be_bytes(frame[at..at + 4].try_into().expect("four bytes"));
    frame[at..at + 4].copy_from_slice(&number.wrapping_add(by).to_be_bytes());
}

/// The client sends a message in each 50th acknowledgement, as HTTP/2 does to let a response go on: each begins a segment.
#[test]
fn messages_in_a_response_do_not_hide_what_limits_it() {
    const MESSAGE: u32 = 39;
    let capture =
        include_bytes!("../../../../../../corpus/policed-1500kbit/policed-1500kbit.pcap.xz");
    let mut analysis = Analysis::new(Options {
        detector: Some(Box::new(Tidegate::new(Basis::Client))),
        ..Options::default()
    });
    let mut judged = Judged::default();
    let mut frames = Capture::new(&capture[..]).expect("a capture");
    let (mut acknowledgements, mut added) = (0, 0);
    while let Some(frame) = frames.frame().expect("a frame") {
        let mut data = frame.data.to_vec();
        let mut wire_len = frame.wire_len;
        let from_client = data[29] == 1;
        shift(&mut data, if from_client { 4 } else { 8 }, added);
        if from_client && wire_len == 66 {
            acknowledgements += 1;
            if acknowledgements % 50 == 0 {
                data.extend([0; MESSAGE as usize]);
                data[16..18].copy_from_slice(&(52 + MESSAGE as u16).to_be_bytes());
                wire_len += MESSAGE;
                added += MESSAGE;
            }
        }
        let longer = Frame {
            data: &data,
            wire_len,
            ..frame
        };
        analysis.frame(&longer, &mut judged);
    }
    analysis.finish(&mut judged);
    let mut together = Together::default();
    let mut pieces = 0;
    for (transfer, judgement) in judged
        .0
        .iter()
        .filter(|(transfer, _)| !transfer.id.from_client)
    {
        together.add(transfer, judgement);
        pieces += 1;
    }
    assert!(pieces > 50, "{pieces}");
    let judgement = together.judgement();
    assert_eq!(judgement.cause, Cause::Policer, "{}", judgement.reason);
    let rate = judgement.limit.and_then(|limit| limit.rate_bps.interval());
    assert!(rate.is_some_and(|rate| rate.contains(&1.5e6)));
}
