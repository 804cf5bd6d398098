//! A real capture, compressed with xz.

use crate::annotate::TransferSummary;
use crate::detect::{Basis, Cause, Judgement, Tidegate};
use crate::{Options, Sink, analyse};

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
