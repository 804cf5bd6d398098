use super::*;
use crate::table::Match;

const SECRET: &[u8] = b"testing123";

/// A request with these attributes.
fn packet(code: u8, attributes: &[(u8, &[u8])]) -> Vec<u8> {
    let mut packet = vec![code, 7, 0, 0];
    packet.extend([0; 16]);
    for (kind, value) in attributes {
        packet.extend([*kind, 2 + value.len() as u8]);
        packet.extend(*value);
    }
    signed(packet)
}

fn signed(mut packet: Vec<u8>) -> Vec<u8> {
    let length = (packet.len() as u16).to_be_bytes();
    packet[2..4].copy_from_slice(&length);
    packet[4..20].fill(0);
    let authenticator = digest(&[&packet, SECRET]);
    packet[4..20].copy_from_slice(&authenticator);
    packet
}

#[test]
fn sessions_have_names_and_addresses() {
    let attributes: &[(u8, &[u8])] = &[
        (USER_NAME, b"alice"),
        (ACCT_STATUS_TYPE, &[0, 0, 0, 1]),
        (FRAMED_IP_ADDRESS, &[192, 0, 2, 7]),
        (FRAMED_IP_ADDRESS, &[255, 255, 255, 254]),
        (
            DELEGATED_IPV6_PREFIX,
            &[0, 56, 0x20, 1, 0x0d, 0xb8, 0, 0, 1, 0],
        ),
        (FRAMED_IPV6_PREFIX, &[0, 129, 0x20]),
        // None yet, and all there are.
        (FRAMED_IP_ADDRESS, &[0; 4]),
        (FRAMED_IPV6_ADDRESS, &[0; 16]),
        (FRAMED_IPV6_PREFIX, &[0, 0]),
        (DELEGATED_IPV6_PREFIX, &[0, 8]),
        (ACCT_SESSION_ID, b"4711"),
        (200, b"?"),
    ];
    let request = Request::read(&packet(4, attributes), SECRET).expect("sound");
    let wanted: Vec<Match> = ["192.0.2.7", "2001:db8:0:100::/56"]
        .iter()
        .map(|text| text.parse().expect("a prefix"))
        .collect();
    assert_eq!(request.kind, Kind::Begin);
    assert_eq!(
        (request.user.as_deref(), &request.matches),
        (Some("alice"), &wanted)
    );
    assert_eq!(request.session.as_deref(), Some(&b"4711"[..]));
    for (status, kind) in [(2, Kind::End), (3, Kind::GoesOn), (7, Kind::Other)] {
        let packet = packet(4, &[(ACCT_STATUS_TYPE, &[0, 0, 0, status])]);
        assert_eq!(Request::read(&packet, SECRET).expect("sound").kind, kind);
    }
    // A change, with rates of WISPr.
    let mut wispr = WISPR.to_be_bytes().to_vec();
    wispr.extend([
        WISPR_DOWN, 6, 0, 0x98, 0x96, 0x80, WISPR_UP, 6, 0, 0x0f, 0x42, 0x40,
    ]);
    let change = packet(43, &[(FILTER_ID, b"gold"), (VENDOR_SPECIFIC, &wispr)]);
    let request = Request::read(&change, SECRET).expect("sound");
    let mbit = |rate: u64| Some(Rate::from_bits_per_second(rate * 1_000_000));
    assert_eq!(
        (request.plan.as_deref(), request.rates),
        (Some("gold"), (mbit(10), mbit(1)))
    );
}

#[test]
fn a_secret_is_needed() {
    let sound = packet(43, &[(USER_NAME, b"alice")]);
    assert_eq!(Request::read(&sound, b"other"), Err(Ignored::Secret));
    for at in 1..sound.len() {
        let mut changed = sound.clone();
        changed[at] ^= 1;
        assert!(Request::read(&changed, SECRET).is_err(), "{at}");
    }
    assert_eq!(
        Request::read(&packet(1, &[]), SECRET),
        Err(Ignored::Code(1))
    );
    assert_eq!(Request::read(&sound[..19], SECRET), Err(Ignored::Malformed));
    // An attribute that ends behind the packet, and one without a length.
    for attribute in [[USER_NAME, 3], [USER_NAME, 1], [USER_NAME, 0]] {
        let mut packet = packet(43, &[]);
        packet.extend(attribute);
        assert_eq!(
            Request::read(&signed(packet), SECRET),
            Err(Ignored::Malformed)
        );
    }
    // The second authenticator, RFC 5176 §3.4, is checked too.
    let mut twice = packet(
        43,
        &[(USER_NAME, b"alice"), (MESSAGE_AUTHENTICATOR, &[0; 16])],
    );
    assert_eq!(Request::read(&twice, SECRET), Err(Ignored::Secret));
    twice[4..20].fill(0);
    let place = twice.len() - 16;
    let right = keyed(&twice, SECRET);
    twice[place..].copy_from_slice(&right);
    assert!(Request::read(&signed(twice), SECRET).is_ok());
}

#[test]
fn digests_are_those_of_the_rfcs() {
    // RFC 2202 §2, tests 1, 2 and 6.
    let hex = |bytes: [u8; 16]| bytes.map(|byte| format!("{byte:02x}")).concat();
    assert_eq!(
        hex(keyed(b"Hi There", &[0x0b; 16])),
        "9294727a3638bb1c13f48ef8158bfc9d"
    );
    assert_eq!(
        hex(keyed(b"what do ya want for nothing?", b"Jefe")),
        "750c783e6ab0b503eaa86e310a5db738"
    );
    let long = b"Test Using Larger Than Block-Size Key - Hash Key First";
    assert_eq!(
        hex(keyed(long, &[0xaa; 80])),
        "6b1ab7fe4bd7bf8f0b62e6ce61b9d0cd"
    );
}

#[test]
fn answers_say_what_was_done() {
    let request = |code| Request::read(&packet(code, &[]), SECRET).expect("sound");
    for (code, done, answer) in [
        (4, Ok(()), Some(5)),
        (4, Err(Refused::Failed), None),
        (40, Ok(()), Some(41)),
        (40, Err(Refused::Nobody), Some(42)),
        (43, Ok(()), Some(44)),
        (43, Err(Refused::Missing), Some(45)),
    ] {
        let packet = request(code).answer(done, SECRET);
        assert_eq!(packet.as_ref().map(|packet| packet[0]), answer);
        if let (Some(packet), Err(why)) = (packet, done) {
            assert_eq!(
                packet[20..],
                [ERROR_CAUSE, 6, 0, 0, (why as u32 >> 8) as u8, why as u8]
            );
        }
    }
}

proptest::proptest! {
    #[test]
    fn any_attributes_are_read_or_ignored(
        code in proptest::sample::select(vec![4u8, 40, 43]),
        bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300),
        raw in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..60),
    ) {
        // With the secret, so that what is behind the header is reached.
        let mut packet = packet(code, &[]);
        packet.extend(&bytes);
        if let Ok(request) = Request::read(&signed(packet), SECRET) {
            // An address takes six octets at least.
            assert!(request.matches.len() <= bytes.len() / 4);
        }
        assert!(Request::read(&raw, SECRET).is_err());
    }
}

#[test]
fn answers_repeat_what_proxies_need() {
    let repeated: &[(u8, &[u8])] = &[(PROXY_STATE, b"one"), (STATE, b"S"), (PROXY_STATE, b"two")];
    let answer = |code, done| {
        let request = Request::read(&packet(code, repeated), SECRET).expect("sound");
        let answer = request.answer(done, SECRET).expect("an answer");
        assert_eq!(usize::from(answer[3]), answer.len());
        answer[HEADER..].to_vec()
    };
    assert_eq!(answer(4, Ok(())), b"\x21\x05one\x21\x05two");
    assert_eq!(answer(43, Ok(())), b"\x21\x05one\x18\x03S\x21\x05two");
    let refused = answer(40, Err(Refused::Nobody));
    assert_eq!(
        refused,
        b"\x21\x05one\x18\x03S\x21\x05two\x65\x06\0\0\x01\xf7"
    );
}

#[test]
fn an_access_request_is_not_sent_for_others() {
    let asks = |code, service| {
        let packet = packet(code, &[(SERVICE_TYPE, &[0, 0, 0, service])]);
        let request = Request::read(&packet, SECRET).expect("sound");
        let answer = request.answer(Err(Refused::Unsupported), SECRET);
        (request.authorizes_only, answer)
    };
    let (asked, answer) = asks(43, 17);
    let answer = answer.expect("an answer");
    assert!(asked && answer[0] == 45);
    assert!(answer.ends_with(&[ERROR_CAUSE, 6, 0, 0, 1, 149]));
    assert!(!asks(43, 2).0 && !asks(4, 17).0);
}
