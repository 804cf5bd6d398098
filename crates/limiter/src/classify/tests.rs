use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;
use crate::PolicyTree;

const KEY: HashKey = secret(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);

const fn secret(low: u64, high: u64) -> HashKey {
    HashKey::from_bytes(((high as u128) << 64 | low as u128).to_le_bytes())
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

fn ports(source: u16, destination: u16) -> Option<Ports> {
    Some(Ports {
        source,
        destination,
    })
}

fn key(source: &str, destination: &str) -> FlowKey {
    let headers = Headers {
        source: ip(source),
        destination: ip(destination),
        protocol: 6,
        ports: ports(443, 50_000),
        dscp: 0,
    };
    headers.into()
}

/// A queue, then eight fair ones, then another queue.
fn program() -> Program {
    let parts = vec![
        PolicyTree::queue(),
        PolicyTree::fair(8).unwrap(),
        PolicyTree::queue(),
    ];
    Program::new(&PolicyTree::priority(parts).unwrap())
}

fn queue(rules: Vec<Rule>, key: &FlowKey) -> u16 {
    let classifier = Classifier::new(&program(), rules, None, KEY).unwrap();
    classifier.classify(key, 1).queue
}

/// Words and hashes that the definition gives where it is written with Python's integers; the
/// first words of the key of zeros are those that SplitMix64 is known by.
#[test]
fn known_hashes() {
    let bytes = |from: u8| std::array::from_fn(|at| from + at as u8);
    let counting = FlowKey {
        source: bytes(0),
        destination: bytes(16),
        ports: ports(0x2021, 0x2223),
        protocol: 0x24,
        dscp: 9,
    };
    let https = key("192.0.2.1", "198.51.100.7");
    let nothing = FlowKey {
        source: [0; 16],
        destination: [0; 16],
        ports: None,
        protocol: 0,
        dscp: 0,
    };
    let everything = FlowKey {
        source: [0xff; 16],
        destination: [0xff; 16],
        ports: ports(0xffff, 0xffff),
        protocol: 0xff,
        dscp: 63,
    };
    let flows = [counting, https, nothing, everything];
    for (secret, hashes) in [
        (
            secret(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908),
            [0x8543_46e8, 0x7dc4_4363, 0x04fd_916f, 0x8d98_35f2],
        ),
        (
            secret(0, 0),
            [0xf37a_a371, 0x9c43_347d, 0x06d7_9fd8, 0xd6d2_5d52],
        ),
        (
            secret(u64::MAX, 1),
            [0xbbce_de71, 0x22e5_0cbb, 0xa356_cb77, 0xe8fb_0c91],
        ),
    ] {
        assert_eq!(flows.map(|flow| flow.hash(secret)), hashes);
    }
    let words = *secret(0, 0).words();
    assert_eq!(
        [words[0], words[1], words[10]],
        [
            0xe220_a839_7b1d_cdaf,
            0x6e78_9e6a_a1b9_65f5,
            0x657e_ecdd_3cb1_3d09
        ]
    );
    assert_eq!(format!("{:?}", secret(1, 2)), "HashKey(..)");
}

proptest! {
    /// Flows that differ in one bit, or in one bit each of two parts, hash to what chance gives:
    /// for no key is there a bit of the flow that leaves a bit of the hash as it is.
    #[test]
    fn every_bit_counts(low: u64, high: u64, one in 0usize..296, other in 0usize..296) {
        let flip = |flow: &mut FlowKey, bit: usize| {
            let (byte, mask) = (bit / 8, 1u8 << (bit % 8));
            let Ports { source, destination } = flow.ports.unwrap();
            match byte {
                0..16 => flow.source[byte] ^= mask,
                16..32 => flow.destination[byte - 16] ^= mask,
                32 | 33 => flow.ports = ports(source ^ u16::from(mask) << (8 * (byte - 32)), destination),
                34 | 35 => flow.ports = ports(source, destination ^ u16::from(mask) << (8 * (byte - 34))),
                _ => flow.protocol ^= mask,
            }
        };
        let secret = secret(low, high);
        // Each bit of the hash changes about every other time, of 256 flows.
        let mut changed = [0u32; 32];
        for flow in 0..256u32 {
            let mut flow = FlowKey {
                source: mapped(Ipv4Addr::from_bits(0x0a00_0000 + flow * 77).into()),
                ..key("192.0.2.1", "198.51.100.7")
            };
            let before = flow.hash(secret);
            flip(&mut flow, one);
            if other != one {
                flip(&mut flow, other);
            }
            let differs = flow.hash(secret) ^ before;
            prop_assert_ne!(differs, 0);
            for (bit, count) in changed.iter_mut().enumerate() {
                *count += differs >> bit & 1;
            }
        }
        // Seven standard deviations of 8.
        prop_assert!(changed.iter().all(|count| (72..=184).contains(count)), "{changed:?}");
    }

    #[test]
    fn a_prefix_says_what_it_is(address: u128, bits in 0u32..=128) {
        let kept = address & u128::MAX.checked_shl(128 - bits).unwrap_or(0);
        let prefix: Prefix = format!("{}/{bits}", Ipv6Addr::from_bits(kept)).parse().unwrap();
        prop_assert_eq!((prefix.address(), prefix.bits()), (kept, bits));
        let bits = bits.min(32);
        let kept = address as u32 & u32::MAX.checked_shl(32 - bits).unwrap_or(0);
        let prefix: Prefix = format!("{}/{bits}", Ipv4Addr::from_bits(kept)).parse().unwrap();
        prop_assert_eq!((prefix.address(), prefix.bits()), (0xffff_0000_0000 | u128::from(kept), 96 + bits));
        prop_assert!(prefix.is_ipv4());
    }

    #[test]
    fn a_prefix_contains_what_shares_its_bits(address: u128, other: u128, bits in 0u32..=128, flip in 0u32..128) {
        let kept = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
        let text = format!("{}/{bits}", Ipv6Addr::from_bits(address & kept));
        let prefix: Prefix = text.parse().unwrap();
        let inside = (address & kept) | (other & !kept);
        prop_assert!(prefix.contains(inside.to_be_bytes()));
        let flipped = inside ^ (1 << (127 - flip));
        prop_assert_eq!(prefix.contains(flipped.to_be_bytes()), flip >= bits);
    }

    #[test]
    fn no_text_panics(text in "[0-9a-f:./,]{0,30}|\\PC{0,20}") {
        let _ = text.parse::<Prefix>();
        let _ = text.parse::<DscpSet>();
    }
}

/// Pearson's statistic over the queues of flows that differ in little.
fn chi_squared(queues: u16, flows: u32, secret: HashKey) -> f64 {
    let program = Program::new(&PolicyTree::fair(queues).unwrap());
    let classifier = Classifier::new(&program, Vec::new(), None, secret).unwrap();
    let mut counts = vec![0u32; usize::from(queues)];
    for flow in 0..flows {
        // One client, one server, the ports one after the other, as a client opens them.
        let mut key = key("192.0.2.1", "198.51.100.7");
        key.ports = ports(1_024 + flow as u16, 443);
        counts[usize::from(classifier.classify(&key, 1).queue)] += 1;
    }
    let expected = f64::from(flows) / f64::from(queues);
    let off = |&count: &u32| (f64::from(count) - expected).powi(2) / expected;
    counts.iter().map(off).sum()
}

#[test]
fn flows_are_spread_evenly() {
    // Bounds that chance exceeds once in ten thousand, for queues − 1 degrees of freedom; also for
    // numbers of queues that are no powers of two.
    for (queues, bound) in [(16, 44.3), (10, 33.7), (1_000, 1_173.0)] {
        for seed in 0..3 {
            let off = chi_squared(queues, 30_000, secret(seed, !seed));
            assert!(off < bound, "{queues} queues, seed {seed}: {off}");
        }
    }
}

#[test]
fn another_seed_spreads_otherwise() {
    let program = Program::new(&PolicyTree::fair(16).unwrap());
    let [one, two] =
        [1, 2].map(|seed| Classifier::new(&program, Vec::new(), None, secret(seed, 0)).unwrap());
    let mut both = 0;
    for port in 0..16_000 {
        let mut key = key("192.0.2.1", "198.51.100.7");
        key.ports = ports(port, 443);
        both += u32::from(one.classify(&key, 1).queue == two.classify(&key, 1).queue);
    }
    // One in 16 by chance: 1000, with a standard deviation of 31.
    assert!((850..1_150).contains(&both), "{both}");
}

#[test]
fn each_part_of_the_key_counts_but_the_code_point() {
    let base = key("192.0.2.1", "198.51.100.7");
    let hash = base.hash(KEY);
    let changed = [
        FlowKey {
            source: mapped(ip("192.0.2.2")),
            ..base
        },
        FlowKey {
            destination: mapped(ip("198.51.100.8")),
            ..base
        },
        FlowKey {
            source: base.destination,
            destination: base.source,
            ..base
        },
        FlowKey {
            ports: ports(444, 50_000),
            ..base
        },
        FlowKey {
            ports: ports(50_000, 443),
            ..base
        },
        FlowKey {
            ports: None,
            ..base
        },
        FlowKey {
            protocol: 17,
            ..base
        },
    ];
    for key in changed {
        assert_ne!(key.hash(KEY), hash, "{key:?}");
    }
    assert_eq!(FlowKey { dscp: 46, ..base }.hash(KEY), hash);
}

#[test]
fn the_first_rule_that_fits_gives_the_class() {
    let rule = |class, source| Rule {
        class,
        source: prefix(source),
        ..Rule::default()
    };
    let rules = vec![
        rule(0, "192.0.2.0/25"),
        rule(2, "192.0.2.0/24"),
        rule(0, "192.0.2.128/25"),
    ];
    assert_eq!(queue(rules.clone(), &key("192.0.2.127", "2001:db8::1")), 0);
    assert_eq!(queue(rules.clone(), &key("192.0.2.128", "2001:db8::1")), 9);
    // No rule: the last class, unless another is given.
    assert_eq!(queue(rules.clone(), &key("192.0.3.1", "2001:db8::1")), 9);
    let classifier = Classifier::new(&program(), rules, Some(1), KEY).unwrap();
    let meta = classifier.classify(&key("192.0.3.1", "2001:db8::1"), 700);
    assert!((1..9).contains(&meta.queue));
    assert_eq!((meta.bytes, meta.dscp), (700, 0));
    assert_eq!(meta.flow, key("192.0.3.1", "2001:db8::1").hash(KEY));
}

#[test]
fn rules_match_ports_protocols_and_code_points() {
    let mut packet = key("192.0.2.1", "2001:db8::1");
    let fits = |rule: &Rule, packet: &FlowKey| queue(vec![rule.clone()], packet) == 0;
    let https = Rule {
        source_ports: 443..=443,
        protocol: Some(6),
        ..Rule::default()
    };
    assert!(fits(&https, &packet));
    let high = Rule {
        destination_ports: 50_000..=65_535,
        ..Rule::default()
    };
    assert!(fits(&high, &packet));
    packet.ports = ports(442, 49_999);
    assert!(!fits(&https, &packet));
    assert!(!fits(&high, &packet));
    packet.ports = ports(443, 65_535);
    assert!(fits(&https, &packet) && fits(&high, &packet));
    // A fragment fits no rule about ports, and any other.
    packet.ports = None;
    assert!(!fits(&https, &packet) && !fits(&high, &packet));
    assert!(fits(
        &Rule {
            protocol: Some(6),
            ..Rule::default()
        },
        &packet
    ));
    assert!(!fits(
        &Rule {
            protocol: Some(17),
            ..Rule::default()
        },
        &packet
    ));
    packet.dscp = 34;
    let video = Rule {
        dscp: "af41, cs4".parse().unwrap(),
        ..Rule::default()
    };
    assert!(fits(&video, &packet));
    packet.dscp = 46;
    assert!(!fits(&video, &packet));
}

#[test]
fn prefixes_of_both_families() {
    let inside = |text, address| prefix(text).contains(mapped(ip(address)));
    assert!(inside("::/0", "2001:db8::1") && inside("::/0", "192.0.2.1"));
    assert!(inside("0.0.0.0/0", "255.255.255.255") && !inside("0.0.0.0/0", "2001:db8::1"));
    assert!(inside("2001:db8::1/128", "2001:db8::1"));
    assert!(!inside("2001:db8::1/128", "2001:db8::"));
    assert!(inside("2001:db8::1", "2001:db8::1") && !inside("2001:db8::1", "2001:db8::2"));
    assert!(inside("192.0.2.7", "192.0.2.7") && !inside("192.0.2.7", "192.0.2.6"));
    assert!(inside("192.0.2.6/31", "192.0.2.7") && !inside("192.0.2.6/31", "192.0.2.8"));
    // Mapped addresses are the IPv4 ones, however they are written.
    assert_eq!(prefix("::ffff:192.0.2.0/120"), prefix("192.0.2.0/24"));
    assert!(inside("192.0.2.0/24", "::ffff:192.0.2.9"));
    assert_eq!(Prefix::default(), prefix("::/0"));
    for (text, is) in [
        ("0.0.0.0/0", true),
        ("::ffff:0:0/96", true),
        ("::fffe:0:0/95", false),
        ("::/0", false),
        ("::/96", false),
        ("2001:db8::/32", false),
    ] {
        assert_eq!(prefix(text).is_ipv4(), is, "{text}");
    }
    let address = Ipv4Addr::new(192, 0, 2, 1);
    assert_eq!(mapped(address.into()), mapped(ip("::ffff:c000:201")));
}

#[test]
fn prefixes_are_written_as_they_are_read() {
    for text in [
        "192.0.2.0/24",
        "0.0.0.0/0",
        "2001:db8::/56",
        "::/0",
        "192.0.2.7/32",
    ] {
        assert_eq!(prefix(text).to_string(), text);
    }
    assert_eq!(prefix("192.0.2.7").to_string(), "192.0.2.7/32");
}

#[test]
fn what_is_no_prefix_says_why() {
    for text in [
        "",
        "/",
        "/8",
        "10.0.0.0/",
        "10.0.0.0/x",
        "10.0.0/8",
        "10.0.0.0/-1",
        "a/8",
    ] {
        assert!(
            matches!(text.parse::<Prefix>(), Err(PrefixError::Syntax(_))),
            "{text}"
        );
    }
    for text in ["10.0.0.0/33", "::/129", "::/4294967295"] {
        assert!(
            matches!(text.parse::<Prefix>(), Err(PrefixError::Length(_))),
            "{text}"
        );
    }
    let error = |text: &str| text.parse::<Prefix>().unwrap_err().to_string();
    assert_eq!(
        error("10.1.2.3/8"),
        "'10.1.2.3/8' has bits set beyond its length: did you mean 10.0.0.0/8?"
    );
    assert!(error("2001:db8::1/32").ends_with("did you mean 2001:db8::/32?"));
    assert!(error("0.0.0.1/0").ends_with("did you mean 0.0.0.0/0?"));
}

#[test]
fn code_points_by_name_and_number() {
    let names = [
        ("cs0", 0),
        ("default", 0),
        ("LE", 1),
        ("cs1", 8),
        ("af11", 10),
        ("AF23", 22),
        ("af41", 34),
        ("af43", 38),
        ("va", 44),
        ("EF", 46),
        ("cs7", 56),
        ("63", 63),
    ];
    for (name, dscp) in names {
        assert_eq!(name.parse(), Ok(DscpSet::from_iter([dscp])), "{name}");
    }
    let set: DscpSet = "ef, af41,0".parse().unwrap();
    let members: Vec<u8> = (0..=255).filter(|&dscp| set.contains(dscp)).collect();
    assert_eq!(members, [0, 34, 46]);
    assert_eq!(set.bits(), 1 | 1 << 34 | 1 << 46);
    assert!((0..64).all(|dscp| DscpSet::ALL.contains(dscp)) && !DscpSet::ALL.contains(64));
    for text in ["", "64", "af14", "af51", "cs8", "ef,", "voice", "256"] {
        assert!(text.parse::<DscpSet>().is_err(), "{text}");
    }
}

#[test]
fn a_class_that_is_not_there_is_refused() {
    let new = |rules, default| Classifier::new(&program(), rules, default, KEY).err();
    let missing = Some(ClassifyError::Class {
        class: 3,
        classes: 3,
    });
    assert_eq!(
        new(
            vec![Rule {
                class: 3,
                ..Rule::default()
            }],
            None
        ),
        missing
    );
    assert_eq!(new(Vec::new(), Some(3)), missing);
    assert_eq!(new(vec![Rule::default(); 256], Some(2)), None);
    assert_eq!(
        new(vec![Rule::default(); 257], None),
        Some(ClassifyError::Rules(257))
    );
}
