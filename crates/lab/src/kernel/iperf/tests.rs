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
    assert_eq!(connections(7, &report), expected);
    assert_eq!(connections(0, &json!({})), []);
}
