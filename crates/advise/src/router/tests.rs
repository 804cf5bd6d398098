use proptest::prelude::*;

use super::*;
use crate::setting::{ETHERNET, Kind, Setting};

fn policer(text: &str) -> (Vendor, u64, u64) {
    let found = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    match found.limit {
        Limit::Policer { burst } => (
            found.vendor,
            found.rate.bits_per_second(),
            burst.unwrap_or(0),
        ),
        Limit::Shaper { .. } => panic!("{text} is read as a shaper"),
    }
}

fn shaper(text: &str) -> (u64, Option<u64>, u64) {
    let found = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    match found.limit {
        Limit::Shaper { queue, burst } => (found.rate.bits_per_second(), queue, burst),
        Limit::Policer { .. } => panic!("{text} is read as a policer"),
    }
}

const MBIT: u64 = 1_000_000;

#[test]
fn each_vendor_in_its_units() {
    let lines = [
        // IOS: bits per second and bytes, k, m and g as powers of ten.
        (
            "police 10000000 312500 625000 conform-action transmit exceed-action drop",
            Vendor::Ios,
            10 * MBIT,
            312_500,
        ),
        ("police cir 10m bc 312500", Vendor::Ios, 10 * MBIT, 312_500),
        (
            "police cir 1.5m bc 64k be 128k conform-action set-dscp-transmit ef exceed-action drop",
            Vendor::Ios,
            1_500_000,
            64_000,
        ),
        (
            "policy-map Policer_20\n class class-default\n  police 20000000\ninterface Gi0/0/1\n",
            Vendor::Ios,
            20 * MBIT,
            625_000,
        ),
        (
            "police cir 8000 conform-action transmit\n exceed-action drop",
            Vendor::Ios,
            8_000,
            1_500,
        ),
        // Both buckets hold what passes if only violating packets are dropped.
        (
            "police 10m 100000 50000 conform-action transmit exceed-action set-dscp-transmit 8 violate-action drop",
            Vendor::Ios,
            10 * MBIT,
            150_000,
        ),
        (
            "police cir 10m bc 100000 pir 20m be 200000 conform-action transmit exceed-action transmit violate-action drop",
            Vendor::Ios,
            20 * MBIT,
            200_000,
        ),
        // IOS XR: units are words.
        (
            "police rate 10 mbps burst 312500 bytes",
            Vendor::IosXr,
            10 * MBIT,
            312_500,
        ),
        (
            "police rate 10 mbps burst 100 ms",
            Vendor::IosXr,
            10 * MBIT,
            125_000,
        ),
        ("police rate 10 mbps", Vendor::IosXr, 10 * MBIT, 0),
        // Junos: powers of ten.
        (
            "if-exceeding { bandwidth-limit 10m; burst-size-limit 625k; }",
            Vendor::Junos,
            10 * MBIT,
            625_000,
        ),
        (
            "set firewall policer P if-exceeding bandwidth-limit 1g burst-size-limit 15k\nset firewall policer P then discard",
            Vendor::Junos,
            1_000 * MBIT,
            15_000,
        ),
        (
            "set firewall policer P if-exceeding burst-size-limit 15k\nset firewall policer P if-exceeding bandwidth-limit 32k",
            Vendor::Junos,
            32_000,
            15_000,
        ),
        // tc: rates in powers of ten, sizes in powers of 1024.
        (
            "tc filter add dev eth0 parent ffff: protocol ip prio 1 u32 match ip src 0.0.0.0/0 police rate 10mbit burst 32k drop flowid :1",
            Vendor::Tc,
            10 * MBIT,
            32_768,
        ),
        (
            "police rate 10mbit burst 32kb mtu 2kb drop",
            Vendor::Tc,
            10 * MBIT,
            32_768,
        ),
        (
            "tc filter add dev eth0 ingress matchall action police rate 1250kbps burst 256kbit conform-exceed drop",
            Vendor::Tc,
            10 * MBIT,
            32_768,
        ),
        (
            "tc filter add dev eth0 ingress matchall \\\n action police rate 10000000 burst 40000/8 conform-exceed drop/pipe",
            Vendor::Tc,
            10 * MBIT,
            40_000,
        ),
        (
            "police rate 8mibit burst 1m drop",
            Vendor::Tc,
            8 << 20,
            1 << 20,
        ),
    ];
    for (line, vendor, rate, burst) in lines {
        assert_eq!(policer(line), (vendor, rate, burst), "{line}");
    }
}

#[test]
fn a_bucket_of_nftables_holds_a_unit_of_time_more() {
    let second = 1250 * 1024;
    let line = "limit rate over 1250 kbytes/second burst 32 kbytes drop";
    assert_eq!(policer(line), (Vendor::Nft, second * 8, second + 32 * 1024));
    let line = "ip daddr 192.0.2.1 limit rate over 1 mbytes/second counter drop";
    assert_eq!(policer(line), (Vendor::Nft, 8 << 20, 1 << 20));
    let minute = 60 * second;
    let line = "limit rate over 75000 kbytes/minute burst 1 mbytes drop";
    assert_eq!(policer(line), (Vendor::Nft, second * 8, minute + (1 << 20)));
}

#[test]
fn shapers() {
    let article = "shape average 20000000\n queue-limit 200 packets";
    assert_eq!(shaper(article), (20 * MBIT, Some(200 * 1514), 1514));
    assert_eq!(shaper("shape average 20m").1, Some(83 * 1514));
    let tbf = "tc qdisc add dev eth0 root tbf rate 10mbit burst 32kbit latency 50ms";
    assert_eq!(shaper(tbf), (10 * MBIT, Some(62_500 + 4_096), 4_096));
    let tbf = "tc qdisc add dev eth0 root tbf rate 10mbit burst 10k limit 100k";
    assert_eq!(shaper(tbf), (10 * MBIT, Some(102_400), 10_240));
    let htb = "tc class add dev eth0 parent 1: classid 1:1 htb rate 5mbit ceil 10mbit burst 15k";
    assert_eq!(shaper(htb), (10 * MBIT, Some(1000 * 1514), 15_360));
}

#[test]
fn mistakes_have_a_place_and_a_remedy() {
    let cases = [
        ("", "1:1: there is no limit here"),
        ("\n  bandwidth 10m", "2:3: there is no limit here"),
        ("no police 10000000", "1:4: `no police` removes a limit"),
        ("police cir percent 10", "1:12: a rate in percent"),
        ("police 10x", "1:8: `10x` is not a rate"),
        ("police", "1:1: `police` has no value"),
        (
            "police 10000000 conform-action transmit exceed-action transmit",
            "1:1: this line drops nothing",
        ),
        (
            "police 10000000 312500 frobnicate",
            "1:24: `frobnicate` is not understood here",
        ),
        (
            "police 10000000 1 2 3",
            "1:21: there are more than two bursts",
        ),
        (
            "police rate 1000 pps",
            "1:18: a limit in `pps` counts packets",
        ),
        ("police 10m bc 0", "1:15: a burst of 0 bytes"),
        ("police 100", "1:1: a rate of 100 bit/s is out of range"),
        (
            "burst-size-limit 10k;",
            "1:1: there is no `bandwidth-limit`",
        ),
        ("bandwidth-percent 10;", "1:1: `bandwidth-percent` depends"),
        (
            "bandwidth-limit 10q;",
            "1:17: `10q` is not a value of `bandwidth-limit`",
        ),
        (
            "bandwidth-limit 10m; burst-size-limit 15k; then { loss-priority high; }",
            "1:1: this policer drops nothing",
        ),
        (
            "tc filter x police rate 10mbit",
            "1:13: `police` needs `burst`",
        ),
        (
            "tc filter x police rate 10% burst 1k",
            "1:25: a rate in percent",
        ),
        (
            "tc filter x police rate 10mbit burst 32k pipe",
            "1:13: this policer does not drop",
        ),
        (
            "tc qdisc add dev eth0 root tbf rate 10mbit burst 32k",
            "1:28: `tbf` needs `latency`",
        ),
        (
            "police rate 10mbit burst 32k colour red",
            "1:30: `colour` is not a key",
        ),
        (
            "limit rate over 100/second drop",
            "1:17: this limit counts packets",
        ),
        (
            "limit rate over 100 kbytes/fortnight drop",
            "1:21: the time of a rate",
        ),
        (
            "limit rate over 100 kbytes/second accept",
            "1:1: this rule does not drop",
        ),
    ];
    for (text, expected) in cases {
        let error = read(text).expect_err(text).to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
}

#[test]
fn comments_and_other_limits() {
    let text = "! the old one: police 1000000\npolice 10m 20000 # was police 5m\n exceed-action drop\n!\n police 30m\n";
    let found = read(text).unwrap();
    assert_eq!((found.rate.bits_per_second(), found.line), (10 * MBIT, 2));
    assert!(
        found
            .assumed
            .iter()
            .any(|note| note.contains("1 more limit")),
        "{:?}",
        found.assumed
    );
}

#[test]
fn a_text_that_is_too_long_is_refused() {
    let text = "x ".repeat(LONGEST / 2 + 1);
    assert!(read(&text).unwrap_err().message.contains("at most"));
}

/// Words that limits are made of.
const WORDS: [&str; 44] = [
    "police",
    "rate",
    "cir",
    "10m",
    "10000000",
    "bc",
    "be",
    "pir",
    "conform-action",
    "exceed-action",
    "violate-action",
    "transmit",
    "drop",
    "set-dscp-transmit",
    "if-exceeding",
    "bandwidth-limit",
    "burst-size-limit",
    "{",
    "}",
    ";",
    "625k;",
    "then",
    "discard",
    "tc",
    "filter",
    "tbf",
    "htb",
    "ceil",
    "burst",
    "32k",
    "32kbit",
    "latency",
    "50ms",
    "limit",
    "over",
    "1250",
    "kbytes/second",
    "kbytes",
    "/",
    "shape",
    "average",
    "queue-limit",
    "\n",
    "99999999999999999999999",
];

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        let _ = read(&text);
    }

    #[test]
    fn no_order_of_words_panics(order in prop::collection::vec(0..WORDS.len(), 0..40)) {
        let text: Vec<&str> = order.iter().map(|&word| WORDS[word]).collect();
        if let Ok(found) = read(&text.join(" ")) {
            prop_assert!(Rate::LIMITABLE.contains(&found.rate));
            prop_assert!(found.line >= 1);
        }
    }

    #[test]
    fn what_is_written_is_read(rate in 8_000u64..400_000_000_000, size in 1_600u64..1_000_000_000) {
        let setting = |kind| Setting { rate: Rate::from_bits_per_second(rate), kind, overhead: ETHERNET };
        for vendor in [Vendor::Ios, Vendor::IosXr, Vendor::Junos, Vendor::Tc] {
            let line = write(vendor, &setting(Kind::Policer { burst: size })).expect("a line");
            prop_assert_eq!(policer(&line), (vendor, rate, size), "{}", line);
        }
        let line = write(Vendor::Tc, &setting(Kind::Shaper { queue: size, burst: 1514 })).expect("a line");
        prop_assert_eq!(shaper(&line), (rate, Some(size), 1600), "{}", line);
        let line = write(Vendor::Ios, &setting(Kind::Shaper { queue: size, burst: 1514 })).expect("a line");
        let packets = size.div_ceil(1514);
        prop_assert_eq!(shaper(&line), (rate, Some(packets * 1514), 1514), "{}", line);
        // A bucket of nftables holds a second of the rate at least.
        let line = write(Vendor::Nft, &setting(Kind::Policer { burst: size }));
        prop_assert_eq!(line.is_some(), size >= rate / 8);
        if let Some(line) = line {
            prop_assert_eq!(policer(&line), (Vendor::Nft, rate / 8 * 8, size), "{}", line);
        }
    }

    #[test]
    fn ios_reads_what_is_written(rate in 8_000u64..400_000_000_000, burst in 1u64..1_000_000_000) {
        prop_assert_eq!(policer(&format!("police {rate} {burst}")), (Vendor::Ios, rate, burst));
        prop_assert_eq!(policer(&format!("bandwidth-limit {rate}; burst-size-limit {burst};")), (Vendor::Junos, rate, burst));
        prop_assert_eq!(policer(&format!("tc filter police rate {rate} burst {burst} drop")), (Vendor::Tc, rate, burst));
    }
}
