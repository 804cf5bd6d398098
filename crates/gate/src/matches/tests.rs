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
