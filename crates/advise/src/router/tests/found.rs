//! What is found in a configuration, and what is said of it.

use super::*;

#[test]
fn a_limit_is_found_among_others_that_are_none() {
    let line = |text: &str| {
        let found = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        (found.line, found.rate.bits_per_second())
    };
    for (text, expected) in [
        (
            "policy-map POLICE\n class class-default\n  police cir 10000000 bc 312500\n",
            3,
        ),
        ("class police\n police 10m", 2),
        (
            "interface Gi0/1\n description link to police 2 HQ\n service-policy input POLICE\n!\npolicy-map A\n class B\n  police 10m",
            7,
        ),
        ("policy-map A class B police cir 10m bc 312500", 1),
        ("no police 5m\npolice 10m", 2),
        (
            "police rate 1000 pps\npolice rate 10 mbps burst 100 kbytes",
            2,
        ),
        (
            "policer OLD {\n inactive: if-exceeding { bandwidth-limit 1m; burst-size-limit 15k; }\n if-exceeding { bandwidth-limit 10m; burst-size-limit 15k; } then discard; }",
            3,
        ),
        (
            "inactive: policer OLD { if-exceeding { bandwidth-limit 1m; burst-size-limit 15k; } then discard; }\npolicer NEW { if-exceeding { bandwidth-limit 10m; burst-size-limit 15k; } then discard; }",
            2,
        ),
    ] {
        assert_eq!(line(text), (expected, 10 * MBIT), "{text}");
    }
    let nft = "icmp type echo-request limit rate 5/second accept\nudp dport 53 limit rate 9/second accept\nlimit rate over 1250 kbytes/second drop";
    let found = read(nft).unwrap();
    assert_eq!(found.line, 3);
    for line in 1..=2 {
        let note = format!("Line {line} is left out, for it is not understood");
        assert_assumed(&found, &note);
    }
    // What is wrong with the first one, if none is understood.
    let error = read("police rate 1000 pps\npolice 10q").unwrap_err();
    assert_eq!(error.line, 1);
}

#[test]
fn a_rule_that_drops_what_is_within_its_limit_is_refused() {
    for text in [
        "limit rate 10 mbytes/second drop",
        "limit rate until 10 mbytes/second drop",
    ] {
        assert!(
            read(text).unwrap_err().message.contains("without `over`"),
            "{text}"
        );
    }
}

#[test]
fn what_a_line_does_besides_is_not_lost_without_a_word() {
    let text = "police cir 400k bc 20000 pir 500k be 20000 conform-action set-mpls-experimental-imposition-transmit 5 exceed-action policed-dscp-transmit violate-action drop";
    let found = read(text).unwrap();
    assert_eq!(found.rate.bits_per_second(), 500_000);
    assert_assumed(&found, "add what else");
    // tc prints its default so.
    let printed =
        read("police 0x1 rate 1Mbit burst 100Kb mtu 2Kb action reclassify overhead 0b").unwrap();
    assert_assumed(&printed, "reclassify");
}

#[test]
fn rates_of_ios_xr_have_units_in_which_they_are_short() {
    let setting = |rate| Setting {
        rate: Rate::from_bits_per_second(rate),
        kind: Kind::Policer { burst: 100_000 },
        overhead: ETHERNET,
    };
    let line = |rate| write(Vendor::IosXr, &setting(rate)).expect("a line");
    assert_eq!(
        line(10_000_000_000),
        "police rate 10 gbps burst 100000 bytes"
    );
    assert_eq!(line(1_500_000), "police rate 1500 kbps burst 100000 bytes");
    assert_eq!(
        line(1_500_001),
        "police rate 1500001 bps burst 100000 bytes"
    );
}

#[test]
fn limits_of_other_kinds_are_named() {
    let police = "police cir 10m bc 312500\n";
    for (text, named) in [
        (
            "rate-limit input 8000000 15000 20000 conform-action transmit exceed-action drop",
            "`rate-limit` in line 1",
        ),
        ("traffic-shape rate 8000000", "`traffic-shape` in line 1"),
        (
            "set firewall three-color-policer T two-rate committed-information-rate 5m",
            "`three-color-policer` in line 1",
        ),
        (
            "tc qdisc add dev eth0 root cake bandwidth 20mbit",
            "`cake` in line 1",
        ),
        (
            "tc class add dev eth0 parent 1: classid 1:1 hfsc sc rate 5mbit ul rate 5mbit",
            "`hfsc` in line 1",
        ),
    ] {
        let found =
            read(&format!("{text}\n{police}")).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(found.line, 2, "{text}");
        assert_assumed(&found, &format!("not understood are left out: {named}."));
    }
    let many = read(&format!(
        "{}{police}",
        "traffic-shape rate 8000000\n".repeat(6)
    ))
    .unwrap();
    assert_assumed(&many, "`traffic-shape` in line 4, 2 more.");
    // What names them or removes them is none.
    for text in [
        "no rate-limit input 8000000 15000 20000",
        "then three-color-policer { two-rate T; }",
        "description rate-limit input",
    ] {
        let found = read(&format!("{text}\n{police}")).unwrap();
        let named = |note: &String| note.contains("not understood");
        assert!(
            !found.assumed.iter().any(named),
            "{text}: {:?}",
            found.assumed
        );
    }
}

#[test]
fn a_hierarchical_policer_is_called_that() {
    let limits = "if-exceeding { bandwidth-limit 10m; burst-size-limit 15k; } then { discard; }";
    let text =
        format!("hierarchical-policer H {{ aggregate {{ {limits} }} premium {{ {limits} }} }}");
    assert_assumed(
        &read(&text).unwrap(),
        "the `aggregate` limit of a `hierarchical-policer`",
    );
    let set = "set firewall hierarchical-policer H aggregate if-exceeding bandwidth-limit 10m burst-size-limit 15k";
    assert_assumed(&read(set).unwrap(), "`hierarchical-policer`");
    assert_eq!(
        read(&format!("policer P {{ {limits} }}")).unwrap().assumed,
        Vec::<String>::new()
    );
}

#[test]
fn a_policer_that_is_not_understood_is_named_once() {
    let percent = "policer P { if-exceeding { bandwidth-percent 10; burst-size-limit 15k; } then discard; }\n";
    let found = read(&format!("{percent}police cir 10m bc 312500")).unwrap();
    let left_out = found
        .assumed
        .iter()
        .filter(|note| note.contains("is left out"));
    assert_eq!(left_out.count(), 1, "{:?}", found.assumed);
}

#[test]
fn packets_that_arrive_have_no_ethernet_headers() {
    let overhead = |filter: &str| {
        let text = format!(
            "tc filter add dev eth0 {filter} matchall action police rate 10mbit burst 32k drop"
        );
        read(&text)
            .unwrap_or_else(|error| panic!("{text}: {error}"))
            .overhead
    };
    assert_eq!(
        ["ingress", "parent ffff:", "parent ffff:fff2"].map(overhead),
        [0; 3]
    );
    assert_eq!(
        ["egress", "parent 1:", "parent ffff:fff3"].map(overhead),
        [ETHERNET; 3]
    );
}
