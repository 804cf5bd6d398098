use std::time::Duration;

use serde_json::json;

use super::{Received, connections};

#[test]
fn a_report_s_whole_seconds_are_read() {
    let part = |bytes: u64, seconds: f64| json!({"bytes": bytes, "seconds": seconds});
    let report = json!({
        "intervals": [
            {"streams": [part(1000, 1.0), part(500, 1.0)]},
            {"streams": [part(3000, 2.0), part(500, 0.8)]},
            {"streams": [part(10, 0.01), part(0, 0.01)]},
        ],
        "end": {"streams": [
            {"sender": {"retransmits": 3}},
            {"sender": {}},
        ]},
    });
    let expected = [
        Received {
            bulk: 7,
            seconds: vec![1000.0, 1500.0],
            retransmitted: 3,
        },
        Received {
            bulk: 7,
            seconds: vec![500.0, 625.0],
            retransmitted: 0,
        },
    ];
    assert_eq!(connections((7, Duration::ZERO), &report, 1000.9), expected);
    assert_eq!(connections((0, Duration::ZERO), &json!({}), 0.0), []);
}

#[test]
fn seconds_count_from_when_all_transfers_began() {
    let report = json!({
        "start": {"timestamp": {"timesecs": 1003}},
        "intervals": [{"streams": [{"bytes": 1000, "seconds": 1.0}]}],
        "end": {"streams": [{"sender": {}}]},
    });
    let seconds = |after, began| {
        let after = Duration::from_secs(after);
        connections((0, after), &report, began).remove(0).seconds
    };
    assert_eq!(seconds(0, 1003.7), [1000.0]);
    // At 1003.0, just after it was asked to.
    assert_eq!(seconds(0, 1002.98), [1000.0]);
    // It may have begun at 1003.1, or at 1003.9.
    assert_eq!(seconds(2, 1001.2), [0.0, 0.0, 1000.0]);
    assert_eq!(seconds(3, 1000.9), [0.0, 0.0, 0.0, 1000.0]);
    // Later than it was asked to.
    assert_eq!(seconds(0, 1001.2), [0.0, 0.0, 1000.0]);
}
