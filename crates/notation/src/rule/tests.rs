use super::*;

/// What a rule of these values comes to, and what is wrong with it.
fn rule(values: &[(&str, Value<'static>)]) -> (Rule, Vec<String>) {
    let mut wrong = Vec::new();
    let get = |key: &str| {
        values
            .iter()
            .find(|(name, _)| *name == key)
            .map(|(_, value)| *value)
    };
    let rule = read(3, get, |key, message| {
        wrong.push(format!("{key}: {message}"))
    });
    (rule, wrong)
}

#[test]
fn every_key_counts() {
    let values = [
        ("class", Value::Integer(2)),
        ("remote", Value::Text("192.0.2.0/24")),
        ("local", Value::Text("2001:db8::/32")),
        ("remote-ports", Value::Text("5000-5100")),
        ("local-ports", Value::Integer(443)),
        ("protocol", Value::Text("udp")),
        ("dscp", Value::Text("ef,8")),
    ];
    assert_eq!(
        values.map(|(key, _)| key).as_slice(),
        KEYS.iter().map(|key| key.name).collect::<Vec<_>>()
    );
    let wanted = Rule {
        source: "192.0.2.0/24".parse().expect("a prefix"),
        destination: "2001:db8::/32".parse().expect("a prefix"),
        source_ports: 5000..=5100,
        destination_ports: 443..=443,
        protocol: Some(17),
        dscp: [46, 8].into_iter().collect(),
        class: 2,
    };
    assert_eq!(rule(&values), (wanted, Vec::new()));
    assert_eq!(rule(&[]), (Rule::default(), Vec::new()));
}

#[test]
fn every_mistake_is_told() {
    let cases = [
        (
            "class",
            Value::Integer(3),
            "there is no class 3: the policy has 3, from 0 on",
        ),
        (
            "class",
            Value::Integer(-1),
            "`class` must be from 0 to 65535",
        ),
        (
            "class",
            Value::Text("web"),
            "`class` is a whole number, not text",
        ),
        (
            "remote",
            Value::Integer(10),
            "`remote` is text in quotes, not a number",
        ),
        (
            "local",
            Value::Text("192.0.2.1/24"),
            "'192.0.2.1/24' has bits set beyond its length: did you mean 192.0.2.0/24?",
        ),
        (
            "remote-ports",
            Value::Text("9-1"),
            "'9-1' is no port and no range: write 443 or \"5000-5100\"",
        ),
        (
            "local-ports",
            Value::Integer(65_536),
            "`local-ports` must be from 0 to 65535",
        ),
        (
            "local-ports",
            Value::Other("a list"),
            "`local-ports` is a whole number, not a list",
        ),
        (
            "protocol",
            Value::Text("upd"),
            "`protocol` cannot be `upd`, did you mean `udp`?",
        ),
        (
            "protocol",
            Value::Integer(256),
            "`protocol` must be from 0 to 255",
        ),
        (
            "dscp",
            Value::Integer(46),
            "`dscp` is text in quotes, not a number",
        ),
        (
            "dscp",
            Value::Text("best"),
            "'best' is no code point: use a number from 0 to 63, or a name such as ef, af41, cs5 or le",
        ),
    ];
    for (key, value, wanted) in cases {
        assert_eq!(rule(&[(key, value)]).1, [format!("{key}: {wanted}")]);
    }
}

#[test]
fn code_points_are_numbers_or_names() {
    assert_eq!(code_point("dscp", Value::Text("ef")), Ok(46));
    assert_eq!(code_point("dscp", Value::Integer(0)), Ok(0));
    for value in [
        Value::Integer(64),
        Value::Text("ef,cs1"),
        Value::Text("drop"),
        Value::Other("a date"),
    ] {
        assert!(code_point("dscp", value).is_err(), "{value:?}");
    }
    assert_eq!(mark("excess", Value::Text("drop")), Ok(None));
    assert_eq!(mark("excess", Value::Text("cs1")), Ok(Some(8)));
    for value in [
        Value::Integer(-1),
        Value::Text("ef,cs1"),
        Value::Other("a list"),
    ] {
        assert!(mark("excess", value).is_err(), "{value:?}");
    }
}
