use super::*;

#[test]
fn addresses_are_read_as_people_write_them() {
    for text in ["02:00:00:00:0a:0b", "02-00-00-00-0A-0B", "0200.0000.0a0b"] {
        let mac = Mac::read(text).expect(text);
        assert_eq!(mac.to_string(), "02:00:00:00:0a:0b");
    }
    for text in [
        "",
        "02:00:00:00:0a",
        "02:00:00:00:0a:0b:0c",
        "02:00:00:00:0a:0x",
        "0\u{e4}:00:00:00:00:0",
    ] {
        let error = Mac::read(text).expect_err(text);
        assert!(error.contains("is not a MAC address"), "{error}");
    }
    for text in [
        "00:00:00:00:00:00",
        "ff:ff:ff:ff:ff:ff",
        "01:00:5e:00:00:01",
    ] {
        let error = Mac::read(text).expect_err(text);
        assert!(error.contains("not the address of one host"), "{error}");
    }
}

#[test]
fn ports_are_numbered_as_fnv_is_published() {
    // The test vectors of draft-eastlake-fnv for 32 bits.
    assert_eq!(port_number("a"), 0xe40c_292c);
    assert_eq!(port_number("foobar"), 0xbf9c_f968);
}
