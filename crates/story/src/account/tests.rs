//! Long-lived connections, and captures with holes.

use std::net::SocketAddr;

use tidegate_trace::annotate::{Handshake, Path, Tally};

use super::*;
use crate::blind;

const MILLISECOND: Nanos = 1_000_000;

fn info() -> FlowInfo {
    let endpoint = |text: &str| text.parse::<SocketAddr>().expect("an address").into();
    FlowInfo {
        number: 0,
        client: endpoint("10.0.0.1:10000"),
        server: endpoint("10.0.0.2:443"),
        started_at: 0,
        syn_seen: true,
        roles_known: true,
        handshake: Handshake::default(),
    }
}

/// Has a keeper see the response of this number, which takes this long, and judge it.
fn judges(keeper: &mut Keeper, segment: u32, duration: Nanos, tally: &Tally) {
    let flow = info();
    let sent = Sent {
        len: 1000,
        ..Sent::default()
    };
    let transfer = Transfer {
        flow: &flow,
        segment,
        continues: false,
        sender: flow.server,
        receiver: flow.client,
        sent: &[sent],
        first_number: 0,
        origin: 0,
        begun_at: 0,
        started_at: 0,
        mss: 1448,
        path: Path::default(),
        tally,
    };
    let metrics = Metrics {
        duration,
        ..Metrics::default()
    };
    keeper.transfer(&transfer, &metrics);
    let judgement = Judgement::new(Cause::Unclear, "a reason");
    keeper.verdict(&TransferSummary::new(&transfer, &metrics), judgement);
}

fn account(mut keeper: Keeper) -> Account {
    keeper.flow(FlowSummary {
        info: info(),
        ended: Ended::Closed,
        segments: 1,
        client: None,
        server: None,
    });
    let account = keeper.account("capture", "detector", None);
    account.unwrap_or_else(|absent| panic!("{absent}"))
}

/// Transfers with losses are judged last.
#[test]
fn of_too_many_transfers_the_shortest_are_left_out() {
    let mut keeper = Keeper::new(0, None);
    let last = MOST_TRANSFERS as u32 + 1;
    for segment in 0..last {
        let duration = if segment == 7 { 1 } else { 5 * MILLISECOND };
        judges(&mut keeper, segment, duration, &Tally::default());
    }
    judges(&mut keeper, last, 900 * MILLISECOND, &Tally::default());
    assert_eq!(keeper.packets, MOST_TRANSFERS);
    let account = account(keeper);
    assert_eq!(account.chosen().transfer.id.segment, last);
    assert_eq!(
        (account.transfers.len(), account.left_out),
        (MOST_TRANSFERS, 2)
    );
    let segments = account
        .transfers
        .iter()
        .map(|kept| kept.transfer.id.segment);
    assert!(!segments.clone().any(|segment| segment == 7) && segments.is_sorted());
    let unknown = blind::unknown(&account, account.chosen());
    let said = "2 segments of the flow that took less time are not looked at";
    assert!(
        unknown.iter().any(|text| text.starts_with(said)),
        "{unknown:?}"
    );
}

#[test]
fn bytes_that_are_missing_count_as_delivered_or_are_said_not_to() {
    for (unseen_bytes, counted) in [(900, "They count as delivered"), (1100, "a lower bound")] {
        let mut keeper = Keeper::new(0, None);
        let tally = Tally {
            payload_bytes: 1000,
            unseen_bytes,
            ..Tally::default()
        };
        judges(&mut keeper, 0, MILLISECOND, &tally);
        let account = account(keeper);
        let unknown = blind::unknown(&account, account.chosen());
        assert!(
            unknown.iter().any(|text| text.contains(counted)),
            "{unknown:?}"
        );
    }
}
