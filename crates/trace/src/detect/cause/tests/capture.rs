//! A real capture, compressed with xz.

use crate::annotate::TransferSummary;
use crate::detect::{Basis, Cause, Judgement, Tidegate};
use crate::read::Capture;
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
            assert!(judgement.evidence.len() > 2 && !judgement.ruled_out.is_empty());
        }
    }
}

/// A capturing system that is too slow drops packets, in both directions.
#[test]
fn packets_that_the_capture_missed_bias_neither_the_rate_nor_the_goodput() {
    let capture =
        include_bytes!("../../../../../../corpus/policed-1500kbit/policed-1500kbit.pcap.xz");
    let goodput = |one_in: u64| {
        let mut analysis = Analysis::new(Options {
            detector: Some(Box::new(Tidegate::new(Basis::Client))),
            ..Options::default()
        });
        let mut judged = Judged::default();
        let mut frames = Capture::new(&capture[..]).expect("a capture");
        let mut random = 1u64;
        while let Some(frame) = frames.frame().expect("a frame") {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            if !(random >> 33).is_multiple_of(one_in) {
                analysis.frame(&frame, &mut judged);
            }
        }
        analysis.finish(&mut judged);
        let (transfer, judgement) = judged
            .0
            .iter()
            .max_by_key(|(transfer, _)| transfer.metrics.data_packets)
            .expect("a transfer");
        assert_eq!(judgement.cause, Cause::Policer, "{}", judgement.reason);
        let rate = judgement
            .limit
            .and_then(|limit| limit.rate_bps.interval())
            .expect("a rate with an interval");
        assert!(rate.contains(&1.5e6), "{rate:?}");
        assert!(rate.end() / rate.start() < 1.05, "{rate:?}");
        (
            transfer.metrics.goodput_bps().expect("a goodput"),
            transfer.metrics.missed_bytes,
        )
    };
    let (whole, none) = goodput(1 << 40);
    let (thinned, missed) = goodput(10);
    assert_eq!(none, 0);
    assert!(missed > 100_000, "{missed}");
    assert!((thinned / whole - 1.0).abs() < 0.01, "{thinned} {whole}");
}
