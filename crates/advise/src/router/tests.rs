mod below;
mod found;
mod removed;
mod shape;

use proptest::prelude::*;

use super::*;
use crate::setting::{ETHERNET, Kind, Setting};

/// Something of this text is assumed.
fn assert_assumed(found: &Reading, text: &str) {
    let notes = &found.assumed;
    assert!(notes.iter().any(|note| note.contains(text)), "{notes:?}");
}

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
            1_514,
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
        // Above both rates packets are dropped, also where the line does not say so.
        (
            "police cir 10m bc 100000 pir 20m be 200000 conform-action transmit exceed-action set-dscp-transmit af11",
            Vendor::Ios,
            20 * MBIT,
            200_000,
        ),
        (
            "police rate 10 mbps burst 100000 peak-rate 20 mbps peak-burst 200000\n conform-action transmit\n exceed-action transmit",
            Vendor::IosXr,
            20 * MBIT,
            200_000,
        ),
        // A class whose name is a word of tc's.
        (
            "policy-map X\n class FILTER\n  police cir 10m bc 312500\n",
            Vendor::Ios,
            10 * MBIT,
            312_500,
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
        // A comment, another policer of the `set` form, and what stands behind a policer.
        (
            "/* was bandwidth-limit 5m;\n burst-size-limit 1k; */ bandwidth-limit /* now */ 10m; burst-size-limit 15k; /* open",
            Vendor::Junos,
            10 * MBIT,
            15_000,
        ),
        (
            "set firewall policer Q if-exceeding bandwidth-limit 10m\nset firewall policer P if-exceeding burst-size-limit 1k\nset firewall policer Q if-exceeding burst-size-limit 15k",
            Vendor::Junos,
            10 * MBIT,
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
        // What tc prints, and what follows a limit.
        (
            "action order 1:  police 0x1 rate 10Mbit burst 15Kb mtu 2Kb action drop overhead 0b \n\tref 1 bind 1",
            Vendor::Tc,
            10 * MBIT,
            15_360,
        ),
        (
            "police 0x1 rate 10Mbit burst 15Kb mtu 2Kb action drop/pipe overhead 0b",
            Vendor::Tc,
            10 * MBIT,
            15_360,
        ),
        (
            "tc filter add dev eth0 ingress matchall action police rate 10mbit burst 32k conform-exceed drop/pipe action mirred egress redirect dev ifb0",
            Vendor::Tc,
            10 * MBIT,
            32_768,
        ),
        (
            "tc filter add dev eth0 ingress matchall action police rate 10mbit burst 32k conform-exceed drop/pipe action ok",
            Vendor::Tc,
            10 * MBIT,
            32_768,
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
    // The same as without `over`.
    let line = "limit rate until 1250 kbytes/second accept";
    assert_eq!(policer(line), (Vendor::Nft, second * 8, second));
    assert_eq!(read(line), read(&line.replace(" until", "")));
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
    let htb = "tc class add dev eth0 parent 1: classid 1:1 htb rate 5mbit ceil 10mbit burst 15k cburst 3k";
    assert_eq!(shaper(htb), (10 * MBIT, Some(1000 * 1514), 3_072));
    let htb = "tc class add dev eth0 parent 1: classid 1:1 htb rate 10mbit burst 15k cburst 30k";
    assert_eq!(shaper(htb), (10 * MBIT, Some(1000 * 1514), 15_360));
}

#[test]
fn a_queue_of_cisco_has_units_and_belongs_to_its_class() {
    let queue = |limit: &str| {
        let text = format!("shape average 8m\n queue-limit {limit}\n");
        let found = read(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        (found.vendor, shaper(&text).1)
    };
    for (limit, vendor, bytes) in [
        ("200", Vendor::Ios, 200 * 1514),
        ("200 packets", Vendor::Ios, 200 * 1514),
        ("5000 bytes", Vendor::Ios, 5_000),
        ("50 ms", Vendor::Ios, 50_000),
        ("50000 us", Vendor::Ios, 50_000),
        ("60 kbytes", Vendor::IosXr, 60_000),
        ("2 mbytes", Vendor::IosXr, 2_000_000),
        ("1 gbytes", Vendor::IosXr, 1_000_000_000),
    ] {
        assert_eq!(queue(limit), (vendor, Some(bytes)), "{limit}");
    }
    // Packets of IOS XR have 256 bytes, and its default differs between devices.
    let xr = "shape average 8 mbps\n queue-limit 100 packets";
    assert_eq!(shaper(xr), (8 * MBIT, Some(25_600), 1514));
    assert_eq!(read(xr).unwrap().vendor, Vendor::IosXr);
    assert_eq!(shaper("shape average 8 mbps").1, None);
    for next in ["class B", "policy-map B", "class B\n  police 10m"] {
        let text = format!("class A\n  shape average 8m\n {next}\n  queue-limit 200 packets");
        assert_eq!(shaper(&text).1, Some(83 * 1514), "{text}");
    }
}

#[test]
fn limits_that_tc_prints() {
    let tbf = "qdisc tbf 8001: root refcnt 2 rate 10Mbit burst 32Kb lat 50ms \n Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0) \n backlog 0b 0p requeues 0\n";
    assert_eq!(shaper(tbf), (10 * MBIT, Some(62_500 + 32_768), 32_768));
    let htb = "qdisc htb 1: root refcnt 2 r2q 10 default 0x10 direct_packets_stat 0 direct_qlen 1000\nclass htb 1:10 parent 1:1 leaf 20: prio 0 rate 5Mbit ceil 10Mbit burst 15Kb cburst 1600b level 0 \n";
    assert_eq!(shaper(htb), (10 * MBIT, Some(1000 * 1514), 1_600));
    // The queue has no rate of its own.
    let two = "tc qdisc add dev eth0 root handle 1: htb default 10\ntc class add dev eth0 parent 1: classid 1:10 htb rate 10mbit\n";
    assert_eq!(shaper(two), (10 * MBIT, Some(1000 * 1514), 1514));
    assert_eq!(read(two).unwrap().line, 2);
}

#[test]
fn a_policer_of_junos_has_its_own_then() {
    let set = |then: &str| {
        let limits = "set firewall policer discard if-exceeding bandwidth-limit 10m\nset firewall policer discard if-exceeding burst-size-limit 625k\n";
        read(&format!(
            "{limits}{then}\nset firewall filter F term 1 then policer discard\nset routing-options static route 192.0.2.0/24 discard\n"
        ))
    };
    let marks = set("set firewall policer discard then loss-priority high").unwrap_err();
    assert!(marks.message.contains("drops nothing"), "{marks}");
    let drops = set("set firewall policer discard then discard").unwrap();
    assert_eq!(drops.assumed, Vec::<String>::new());
    let silent = set("").unwrap();
    assert!(silent.assumed[0].contains("no `then`"));
    // In braces, what follows the policer is not its own either.
    let text = "policer A { if-exceeding { bandwidth-limit 10m; burst-size-limit 15k; } then loss-priority high; }\nroute 192.0.2.0/24 { discard; }";
    let marks = read(text).unwrap_err();
    assert!(marks.message.contains("drops nothing"), "{marks}");
}

#[test]
fn a_long_text_is_read_in_its_length() {
    let begun = std::time::Instant::now();
    for word in ["police ", "htb ", "limit ", "/* ", "policer a "] {
        let _ = read(&word.repeat(100_000));
        let _ = read(&format!("set {} bandwidth-limit 1", word.repeat(100_000)));
    }
    for line in [
        "delete a b c\n",
        "set a ",
        "class a parent 1:1 classid 1:1 htb rate 1mbit ",
        "qdisc del cake bandwidth ",
    ] {
        let _ = read(&line.repeat(LONGEST / line.len()));
    }
    let removed = (0..20_000).map(|number| format!("delete a {number}\nset a b {number}\n"));
    let _ = read(&removed.collect::<String>());
    // A hundred times as long as it takes.
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}

#[test]
fn mistakes_have_a_place_and_a_remedy() {
    let cases = [
        ("", "1:1: there is no limit here"),
        ("\n  bandwidth 10m", "2:3: there is no limit here"),
        ("no police 10000000", "1:4: `no police` removes a limit"),
        ("no shape average 10m", "1:4: `no shape` removes a limit"),
        ("police cir percent 10", "1:12: a rate in percent"),
        (
            "police cir 10 m bc 1500",
            "1:12: the unit of a rate is in the same word: write `10m`",
        ),
        (
            "shape average 10m\nqueue-limit 200 cells",
            "2:17: `cells` is not a unit of `queue-limit`",
        ),
        (
            "tc qdisc add dev eth0 root handle 1: htb default 10",
            "1:38: `htb` needs `rate`",
        ),
        ("police 10x", "1:8: `10x` is not a rate"),
        ("police cir 10mbit bc 1500", "1:12: `10mbit` is not a rate"),
        (
            "police 10mbit 1500 conform-action transmit exceed-action drop",
            "1:8: `10mbit` is not a rate",
        ),
        (
            "rate-limit input 8000000 15000 20000 conform-action transmit exceed-action drop",
            "1:1: there is no limit here that is understood (`rate-limit` in line 1 is not)",
        ),
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
    assert_assumed(&found, "1 more limit");
    let policer = |name: &str| {
        format!(
            "policer {name} {{ if-exceeding {{ bandwidth-limit 10m; burst-size-limit 15k; }} then discard; }}\n"
        )
    };
    let found = read(&(policer("A") + &policer("B"))).unwrap();
    let more = "This is the limit in line 1. The text has 1 more limit, which is left out.";
    assert_eq!(found.assumed, [more]);
    assert_eq!(read(&policer("A")).unwrap().assumed, Vec::<String>::new());
}

#[test]
fn a_text_that_is_too_long_is_refused() {
    let text = "x ".repeat(LONGEST / 2 + 1);
    assert!(read(&text).unwrap_err().message.contains("at most"));
}

/// Words that limits are made of.
const WORDS: [&str; 57] = [
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
    "/*",
    "*/",
    "set",
    "policer",
    "action",
    "mbps",
    "\\\n",
    "99999999999999999999999",
    "delete",
    "qdisc",
    "del",
    "class",
    "parent",
    "hierarchical-policer",
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
        prop_assert_eq!(shaper(&line), (rate, Some(size), 1600.max(rate / 8 / 250)), "{}", line);
        let line = write(Vendor::IosXr, &setting(Kind::Shaper { queue: size, burst: 1514 })).expect("a line");
        prop_assert_eq!(shaper(&line), (rate, Some(size), 1514), "{}", line);
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
