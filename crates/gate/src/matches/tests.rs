use proptest::prelude::*;

use super::*;

#[test]
fn what_is_written_is_read() {
    for text in [
        "192.0.2.0/24",
        "2001:db8::/56",
        "vlan 1",
        "qinq 4094.7",
        "pppoe 65534",
    ] {
        assert_eq!(parse(text).expect("sound").to_string(), text);
    }
    assert_eq!(parse("192.0.2.7"), parse("192.0.2.7/32"));
    assert_eq!(parse("::ffff:192.0.2.7"), parse("192.0.2.7/32"));
    for wrong in [
        "",
        "vlan",
        "vlan 0",
        "vlan 4095",
        "qinq 7",
        "qinq 1.2.3",
        "pppoe 0",
        "pppoe 65535",
        "mac 1",
    ] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}

proptest! {
    #[test]
    fn any_prefix_is_read_as_written(address: u128, bits in 0u32..=128) {
        let kept = address & u128::MAX.checked_shl(128 - bits).unwrap_or(0);
        let text = format!("{}/{bits}", std::net::Ipv6Addr::from_bits(kept));
        let read = parse(&text).expect("sound");
        prop_assert_eq!(parse(&read.to_string()), Ok(read));
    }

    #[test]
    fn no_text_panics(text in "(vlan |qinq |pppoe )?[0-9a-f:./]{0,30}|\\PC{0,20}") {
        let _ = parse(&text);
    }
}

#[test]
fn words_that_a_shell_took_apart_are_recognised() {
    let error = read("vlan").expect_err("no number").to_string();
    let wanted = "`vlan` lacks its number: write both in quotes, such as \"vlan 7\"";
    assert_eq!(error, wanted);
    assert_eq!(read("pppoe 7").expect("a session"), [Match::Pppoe(7)]);
}

#[test]
fn a_range_is_the_prefixes_that_hold_just_its_addresses() {
    for (text, expected) in [
        ("192.0.2.7", "192.0.2.7/32"),
        (
            "192.0.2.10-192.0.2.20",
            "192.0.2.10/31 192.0.2.12/30 192.0.2.16/30 192.0.2.20/32",
        ),
        ("192.0.2.10 - 11", "192.0.2.10/31"),
        ("0.0.0.0-255.255.255.255", "0.0.0.0/0"),
        ("2001:db8::-2001:db8::1:ffff", "2001:db8::/111"),
        ("::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::/0"),
        (
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127",
        ),
    ] {
        let read = addresses(text).unwrap_or_else(|error| panic!("{error}"));
        let texts: Vec<_> = read.iter().map(Match::to_string).collect();
        assert_eq!(texts.join(" "), expected, "{text}");
    }
    for text in [
        "192.0.2.20-192.0.2.10",
        "192.0.2.1-2001:db8::",
        "192.0.2.1-",
        "-",
        "192.0.2.0/24-7",
        "192.0.2.1-300",
    ] {
        let error = addresses(text).expect_err(text);
        assert!(error.contains("is no range of addresses"), "{error}");
    }
    // All but the first and the last address: as many prefixes as there can be.
    let most = addresses("0.0.0.1-255.255.255.254").expect("a range");
    assert_eq!(most.len(), 62);
}
