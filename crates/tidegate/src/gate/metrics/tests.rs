use tidegate_gate::PerDirection;
use tidegate_gate::reading::NodeStatus;
use tidegate_gate::table::NodeState;

use super::*;
use crate::gate::testing::Fake;

fn gate(subscribers: u32) -> SharedGate {
    SharedGate::new(Box::new(Fake::new(subscribers)))
}

fn lines<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
    text.lines()
        .filter(|line| line.starts_with(start))
        .collect()
}

#[test]
fn tells_of_the_whole_of_subscribers_and_of_queues() {
    let bounds = Bounds {
        subscribers: 10,
        queues: 1,
    };
    let text = scrape(&gate(2), bounds, None, None).expect("metrics");
    for line in [
        "# TYPE tidegate_gate_packets counter",
        "# UNIT tidegate_gate_subscriber_bytes bytes",
        r#"tidegate_gate_attached{interface="eth0",hook="tc-egress",direction="down"} 1"#,
        r#"tidegate_gate_bytes_total{direction="down",verdict="passed"} 3000000"#,
        r#"tidegate_gate_bytes_total{direction="down",verdict="excess"} 300000"#,
        r#"tidegate_gate_marked_packets_total{direction="down"} 60"#,
        r#"tidegate_gate_subscriber_marked_packets_total{subscriber="s000001",direction="down"} 40"#,
        r#"tidegate_gate_unlimited_packets_total{reason="no_subscriber"} 7"#,
        r#"tidegate_gate_subscriber_rate{subscriber="s000000",plan="gold",direction="down"} 50000000"#,
        r#"tidegate_gate_subscriber_bytes_total{subscriber="s000001",direction="down",verdict="passed"} 2000000"#,
        r#"tidegate_gate_queue_length_bytes{subscriber="s000001",direction="down",queue="0"} 3000"#,
        r#"tidegate_gate_round_trip_seconds{side="access",quantile="0.95"} 0.06"#,
        r#"tidegate_gate_subscriber_round_trip_seconds{subscriber="s000001",side="core",quantile="0.5"} 0.008"#,
        // 3 % of segments sent again, of the way from 1 to 10 %.
        r#"tidegate_gate_subscriber_score{subscriber="s000000"} 77.8"#,
        r#"tidegate_gate_subscriber_segments_total{subscriber="s000000",direction="down",sent="again"} 30"#,
        r#"tidegate_gate_subscriber_segments_total{subscriber="s000000",direction="down",sent="new"} 970"#,
        r#"tidegate_gate_queue_magic_bytes{subscriber="s000001",direction="up",queue="1"} 500"#,
        r#"tidegate_gate_queue_bytes_total{subscriber="s000001",direction="up",queue="2",verdict="passed"} 3"#,
    ] {
        assert!(
            text.lines().any(|has| has == line),
            "{line} is not in\n{text}"
        );
    }
    assert!(text.ends_with("# EOF\n"));
    // Queues of the heavier one only.
    assert!(!text.contains(r#"queue_length_bytes{subscriber="s000000""#));
}

#[test]
fn series_are_bounded_and_the_heaviest_are_listed() {
    let bounds = Bounds {
        subscribers: 3,
        queues: 1000,
    };
    let text = scrape(&gate(1000), bounds, None, None).expect("metrics");
    let rates = lines(&text, "tidegate_gate_subscriber_rate{");
    assert_eq!(rates.len(), 6);
    assert!(rates[0].contains("s000997"), "{rates:?}");
    assert_eq!(lines(&text, "tidegate_gate_queue_length_bytes{").len(), 18);
    // All are in the totals.
    let total = r#"tidegate_gate_bytes_total{direction="down",verdict="passed"} 500500000000"#;
    assert!(text.contains(total), "{text}");

    let none = Bounds {
        subscribers: 0,
        queues: 0,
    };
    let text = scrape(&gate(1000), none, None, None).expect("metrics");
    assert!(lines(&text, "tidegate_gate_subscriber_rate{").is_empty());
    assert!(text.contains(total));
}

/// A gate that is followed, and was asked this number of seconds ago.
fn pair(asked_s: Option<f64>) -> PairJson {
    PairJson {
        peer: "192.0.2.2:9642".into(),
        age_s: Some(1.5),
        follows_s: Some(90.0),
        asked_s,
        unknown_limiters: 3,
        error: None,
    }
}

#[test]
fn the_other_gate_of_a_pair_and_what_is_saved_have_metrics() {
    let bounds = Bounds {
        subscribers: 2,
        queues: 2,
    };
    let mut fake = Fake::new(2);
    let roster = std::sync::Arc::make_mut(&mut fake.roster);
    roster.subscribers[1].limits.down.boost = 10_000_000;
    let gate = SharedGate::new(Box::new(fake));
    let text = scrape(&gate, bounds, Some(pair(None)), Some(false)).expect("metrics");
    for line in [
        r#"tidegate_gate_pair_follows{peer="192.0.2.2:9642"} 1"#,
        r#"tidegate_gate_pair_age_seconds{peer="192.0.2.2:9642"} 1.5"#,
        r#"tidegate_gate_pair_unknown_limiters{peer="192.0.2.2:9642"} 3"#,
        "tidegate_gate_stands_by 0.0",
        r#"tidegate_gate_subscriber_saved_bytes{subscriber="s000001",direction="down"} 2000000"#,
    ] {
        assert!(
            text.lines().any(|has| has == line),
            "{line} is not in\n{text}"
        );
    }
    // It never asked, and the others save nothing.
    assert!(lines(&text, "tidegate_gate_pair_asked_age_seconds{").is_empty());
    assert_eq!(
        lines(&text, "tidegate_gate_subscriber_saved_bytes{").len(),
        1
    );
}

#[test]
fn names_cannot_break_out_of_their_labels() {
    let mut fake = Fake::new(1);
    std::sync::Arc::make_mut(&mut fake.roster).subscribers[0].name = "a\"} 1\nb\\".into();
    let bounds = Bounds {
        subscribers: 1,
        queues: 0,
    };
    let text = scrape(&SharedGate::new(Box::new(fake)), bounds, None, None).expect("metrics");
    assert!(text.contains(r#"{subscriber="a\"} 1\nb\\","#), "{text}");
}

#[test]
fn a_scrape_takes_as_long_as_what_it_lists() {
    let time = |subscribers: u32, listed: usize| {
        let bounds = Bounds {
            subscribers: listed,
            queues: 100,
        };
        let gate = gate(subscribers);
        let began = Instant::now();
        let text = scrape(&gate, bounds, None, None).expect("metrics");
        (began.elapsed(), text.len())
    };
    let (few, _) = time(1000, 1000);
    let (many, length) = time(100_000, 1000);
    // One reading and one pass for each of them, and no text. A hundred times as many subscribers.
    assert!(
        many < 20 * few + Duration::from_secs(1),
        "{few:?}, {many:?}"
    );
    assert!(length < 3_000_000, "{length}");
}

/// Every metric that the dashboard asks for is there, with the labels that it names.
#[test]
fn the_dashboard_asks_for_metrics_that_are_there() {
    let dashboard = include_str!("../../../../../packaging/grafana/tidegate-gate.json");
    let dashboard: serde_json::Value = serde_json::from_str(dashboard).expect("JSON");
    let bounds = Bounds {
        subscribers: 10,
        queues: 1,
    };
    let mut fake = Fake::new(2);
    fake.nodes.push(NodeStatus {
        name: "site".into(),
        parent: None,
        capacity: PerDirection {
            down: 100_000_000,
            up: 50_000_000,
        },
        state: PerDirection::new(|_| NodeState::default()),
    });
    let gate = SharedGate::new(Box::new(fake));
    let text = scrape(&gate, bounds, Some(pair(Some(0.2))), None).expect("metrics");
    let mut asked = 0;
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().expect("targets") {
            let query = target["expr"].as_str().expect("a query");
            for part in query.split("tidegate_gate").skip(1) {
                let (name, rest) = part.split_once('{').expect("a selector");
                let (labels, _) = rest.split_once('}').expect("its end");
                let metric = format!("tidegate_gate{name}");
                let is_it = |line: &&str| {
                    let end = line.strip_prefix(&*metric);
                    end.is_some_and(|end| end.starts_with(['{', ' ']))
                };
                let labels: Vec<&str> = labels.split(',').skip(1).collect();
                let found = text.lines().filter(is_it);
                let fits = |line: &str| labels.iter().all(|label| line.contains(label));
                assert!(
                    found.into_iter().any(fits),
                    "{query}: {metric} is not in\n{text}"
                );
                asked += 1;
            }
        }
    }
    assert!(asked > 10, "{asked}");
}
