//! Every cause has a sentence and advice, whatever is known.

use std::net::SocketAddr;

use tidegate_trace::annotate::{FlowInfo, Handshake, Metrics, Path, Tally, TransferId};
use tidegate_trace::detect::{Estimate, Limit};

use super::*;
use crate::account::Kept;
use crate::advice::{Party, advice};

fn transfer(from_client: bool) -> TransferSummary {
    let endpoint = |text: &str| text.parse::<SocketAddr>().expect("an address").into();
    let (client, server) = (endpoint("10.0.0.1:10000"), endpoint("10.0.0.2:443"));
    let (sender, receiver) = if from_client {
        (client, server)
    } else {
        (server, client)
    };
    TransferSummary {
        id: TransferId {
            flow: 0,
            segment: 0,
            from_client,
        },
        flow: FlowInfo {
            number: 0,
            client,
            server,
            started_at: 0,
            syn_seen: true,
            roles_known: true,
            handshake: Handshake::default(),
        },
        sender,
        receiver,
        continues: false,
        under_way: 0,
        mss: 1448,
        path: Path::default(),
        tally: Tally {
            payload_bytes: 1448,
            ip_bytes: 1500,
            link_bytes: 1518,
            ..Tally::default()
        },
        metrics: Metrics {
            data_packets: 1000,
            lost_packets: 20,
            delivered_bytes: 1_000_000,
            duration: 8_000_000_000,
            ..Metrics::default()
        },
    }
}

fn limit(rate: f64) -> Limit {
    Limit {
        rate_bps: Estimate::exact(rate),
        layer: Layer::Link,
        depth_bytes: Some(Estimate::exact(100e3)),
        burst: None,
    }
}

#[test]
fn every_cause_has_a_sentence_and_advice() {
    for cause in Cause::ALL {
        for limit in [
            None,
            Some(limit(1.05e6)),
            Some(limit(4e6)),
            Some(limit(0.0)),
        ] {
            for from_client in [true, false] {
                let transfer = transfer(from_client);
                let mut judgement = Judgement::new(cause, "a reason");
                judgement.confidence = Some(0.9);
                judgement.limit = limit;
                judgement.shares = vec![
                    Share {
                        cause: Cause::Policer,
                        share: 0.45,
                    },
                    Share {
                        cause: Cause::Application,
                        share: 0.4,
                    },
                ];
                let sentence = sentence(&transfer, &judgement);
                assert!(
                    sentence.ends_with('.') && sentence.len() < 270,
                    "{sentence}"
                );
                for wrong in ["NaN", "inf", "\n", "  ", ".."] {
                    assert!(!sentence.contains(wrong), "{sentence}");
                }
                let sure = sentence.contains("very likely: 90 %");
                assert_eq!(sure, cause != Cause::Unclear, "{sentence}");
                let kept = Kept {
                    transfer,
                    sent: Vec::new(),
                    first_number: 0,
                    origin: 0,
                    judgement,
                };
                let given = advice(&kept);
                assert!(given.len() >= 2, "{cause}");
                assert!(
                    given.iter().any(|(party, _)| *party == Party::Operator),
                    "{cause}"
                );
                assert!(
                    given.iter().all(|(_, text)| text.ends_with('.')),
                    "{given:?}"
                );
            }
        }
    }
}

#[test]
fn a_transfer_far_below_the_limit_is_told_what_it_got() {
    let transfer = transfer(false);
    let mut judgement = Judgement::new(Cause::Policer, "a reason");
    judgement.limit = Some(limit(4e6));
    judgement.shared = Some(true);
    let told = sentence(&transfer, &judgement);
    assert!(
        told.starts_with(
            "A policer limited this transfer and other connections together to 4.00 Mbit/s"
        ),
        "{told}"
    );
    assert!(
        told.ends_with("2.0 % of all, and 1.00 Mbit/s of payload got through."),
        "{told}"
    );
    judgement.limit = Some(limit(1.05e6));
    assert!(!sentence(&transfer, &judgement).contains("got through"));
}

#[test]
fn a_wide_interval_shows_in_the_sentence_and_softens_the_advice() {
    let mut judgement = Judgement::new(Cause::Policer, "a reason");
    let rate_bps = Estimate {
        value: 7.57e6,
        low: 6.42e6,
        high: 21.7e6,
    };
    judgement.limit = Some(Limit {
        rate_bps,
        ..limit(0.0)
    });
    let told = sentence(&transfer(false), &judgement);
    let rates =
        "limited this transfer to between 6.42 and 21.7 Mbit/s (most likely 7.57): it dropped";
    assert!(told.contains(rates), "{told}");
    let given = advised(judgement);
    assert!(
        given.contains("Begin with 5.82 Mbit/s of payload"),
        "{given}"
    );
    assert!(!given.contains("Send at most"), "{given}");
}

/// 95 % of a limit of 1.05 Mbit/s are 0.95 Mbit/s of payload; the transfer got 1.00, so that it becomes no faster.
#[test]
fn the_advised_rate_is_compared_with_what_the_transfer_got() {
    for (rate, becomes) in [
        (1.05e6, "about as fast"),
        (2e6, "faster"),
        (0.8e6, "slower"),
    ] {
        let mut judgement = Judgement::new(Cause::Policer, "a reason");
        judgement.limit = Some(limit(rate));
        let told = format!("the transfer is {becomes}: it got 1.00 Mbit/s.");
        let given = advised(judgement.clone());
        assert!(given.contains(&told), "{given}");
        judgement.shared = Some(true);
        assert!(!advised(judgement).contains("the transfer is "));
    }
}

#[test]
fn a_transfer_that_took_no_time_is_told_without_a_time() {
    let mut transfer = transfer(false);
    let judgement = Judgement::new(Cause::RoundTrips, "a reason");
    transfer.metrics.duration = 30_000_000;
    let told = sentence(&transfer, &judgement);
    assert!(told.contains("it was over in 30.0 ms before"), "{told}");
    transfer.metrics.duration = 400;
    let told = sentence(&transfer, &judgement);
    assert!(told.contains("it was over before"), "{told}");
}

/// A queue whose rate is not known is described by what got through.
#[test]
fn a_queue_has_its_rate_or_the_goodput() {
    for cause in [Cause::Queue, Cause::Aqm] {
        let mut judgement = Judgement::new(cause, "a reason");
        let told = |judgement: &Judgement| sentence(&transfer(false), judgement);
        assert!(told(&judgement).contains(" to about 1.00 Mbit/s of payload"));
        judgement.limit = Some(limit(1.15e6));
        assert!(told(&judgement).contains(" to 1.15 Mbit/s"));
    }
}

fn advised(judgement: Judgement) -> String {
    let kept = Kept {
        transfer: transfer(false),
        sent: Vec::new(),
        first_number: 0,
        origin: 0,
        judgement,
    };
    let given = advice(&kept).into_iter().map(|(_, text)| text);
    given.collect::<Vec<_>>().join("\n")
}

#[test]
fn an_unclear_verdict_names_what_is_left() {
    let transfer = transfer(false);
    let mut judgement = Judgement::new(Cause::Unclear, "a reason");
    judgement.left = vec![Cause::Policer, Cause::RandomLoss];
    assert_eq!(
        sentence(&transfer, &judgement),
        "What limited this transfer is not certain: either a policer or random loss."
    );
}

#[test]
fn a_mixture_names_its_parts() {
    let mut judgement = Judgement::new(Cause::Mixed, "a reason");
    judgement.shares = [
        (Cause::Policer, 0.45),
        (Cause::Application, 0.4),
        (Cause::Sender, 0.15),
    ]
    .map(|(cause, share)| Share { cause, share })
    .to_vec();
    assert_eq!(
        sentence(&transfer(false), &judgement),
        "Several things limited this transfer in turn: a policer for 45 % of the time and the sending \
         application for 40 % of the time."
    );
    judgement.shares[2].share = 0.25;
    assert!(sentence(&transfer(false), &judgement).contains(" and the sender's TCP for 25 %"));
}

#[test]
fn a_second_cause_with_much_of_the_time_is_told() {
    let mut judgement = Judgement::new(Cause::ReceiveWindow, "a reason");
    judgement.confidence = Some(0.95);
    judgement.shares = [(Cause::ReceiveWindow, 0.6), (Cause::Application, 0.4)]
        .map(|(cause, share)| Share { cause, share })
        .to_vec();
    let told = sentence(&transfer(false), &judgement);
    assert!(
        told.ends_with("; the sending application for 40 % (very likely: 95 %)."),
        "{told}"
    );
    judgement.shares[1].share = 0.1;
    assert!(!sentence(&transfer(false), &judgement).contains("application"));
}
