//! Lines that remove or disable limits.

use super::*;

const SET: &str = "set firewall policer P if-exceeding bandwidth-limit 10m\nset firewall policer P if-exceeding burst-size-limit 15k\nset firewall policer P then discard\n";

/// The rate and the line of what is read.
fn found(text: &str) -> (u64, usize) {
    let found = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    (found.rate.bits_per_second(), found.line)
}

#[test]
fn what_is_removed_or_disabled_does_not_count() {
    let after = |line: &str| format!("{SET}{line}\n");
    for text in [
        "delete firewall policer P if-exceeding bandwidth-limit 10m".to_owned(),
        after("deactivate firewall policer P"),
        after("deactivate firewall"),
        after("delete firewall policer P"),
        "tc qdisc del dev eth0 root tbf rate 10mbit burst 32k latency 50ms".to_owned(),
        "tc filter del dev eth0 ingress matchall action police rate 10mbit burst 32k drop"
            .to_owned(),
        "tc class delete dev eth0 parent 1: classid 1:10 htb rate 10mbit".to_owned(),
        "nft delete rule inet f forward limit rate over 1250 kbytes/second drop".to_owned(),
        "inactive: policer P { if-exceeding { bandwidth-limit 10m; burst-size-limit 15k; } }"
            .to_owned(),
    ] {
        let error = read(&text).expect_err(&text);
        assert!(error.message.contains("does not count"), "{text}: {error}");
        // What is left is found.
        let second = format!("{text}\npolice cir 20m bc 312500");
        assert_eq!(found(&second).0, 20 * MBIT, "{text}");
    }
}

#[test]
fn what_is_not_removed_counts() {
    for (text, line) in [
        // Another policer, a filter that names it, what came before, and what is active again.
        (format!("{SET}deactivate firewall policer PQ\n"), 1),
        (format!("{SET}delete firewall filter F term 1 then policer P\n"), 1),
        (format!("delete firewall policer P\n{SET}"), 2),
        (format!("{SET}deactivate firewall policer P\nactivate firewall policer P\n"), 1),
        (
            "tc qdisc del dev eth0 root; tc qdisc add dev eth0 root tbf rate 10mbit burst 32k latency 50ms\n"
                .to_owned(),
            1,
        ),
        (
            "tc qdisc del dev eth0 root 2>/dev/null\ntc qdisc add dev eth0 root tbf rate 10mbit burst 32k latency 50ms\ntc qdisc del dev eth0 root\n"
                .to_owned(),
            2,
        ),
    ] {
        assert_eq!(found(&text), (10 * MBIT, line), "{text}");
    }
}
