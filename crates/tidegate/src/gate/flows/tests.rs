use super::*;
use crate::gate::testing::flow;

#[test]
fn the_fastest_flow_is_first_with_what_passed_in_between() {
    let before = FlowsJson::new(&[flow(1, 1_000_000), flow(2, 5_000_000)], 10);
    // The second flow has more bytes, and the first one is faster. The third one is new.
    let flows = [flow(1, 3_000_000), flow(2, 5_500_000), flow(3, 250_000)];
    let now = FlowsJson::new(&flows, 10);
    assert_eq!(now.flows[0].remote, "203.0.113.2");
    let rows = rows(&before, now, Duration::from_secs(2));
    let found: Vec<_> = rows
        .iter()
        .map(|row| (row.flow.remote.as_str(), row.rates[0]))
        .collect();
    assert_eq!(
        found,
        [
            ("203.0.113.1", 8e6),
            ("203.0.113.2", 2e6),
            ("203.0.113.3", 1e6)
        ]
    );
    let mut text = Vec::new();
    table(
        &mut text,
        &rows,
        2,
        Paint::for_stdout(crate::cli::Color::Never, true),
    )
    .unwrap();
    let text = String::from_utf8(text).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[1].starts_with("tcp   192.0.2.7:50000"), "{text}");
    for part in [
        "203.0.113.1:443",
        "8.00 Mbit/s",
        "3.00 MB",
        "9.1%",
        "21.0ms",
    ] {
        assert!(lines[1].contains(part), "{part} in {text}");
    }
    assert_eq!(lines[3], "1 flow not shown: --limit shows more");
}

#[test]
fn flows_that_are_over_are_not_listed() {
    let mut over = flow(1, 1_000);
    over.idle = 61_000_000_000;
    let found = FlowsJson::new(&[over, flow(2, 10)], 10);
    assert_eq!((found.matched, found.flows.len()), (1, 1));
    assert_eq!(FlowsJson::new(&[flow(1, 1), flow(2, 2)], 1).flows.len(), 1);
}

#[test]
fn ports_of_ipv6_are_told_from_addresses() {
    assert_eq!(end("2001:db8::1", 443), "[2001:db8::1]:443");
    assert_eq!(end("192.0.2.1", 0), "192.0.2.1");
}
