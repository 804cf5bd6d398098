use super::*;

const SECTION: Section = Section {
    name: "[[rule]]",
    doc: "",
    keys: KEYS,
};

/// The rule that a text gives, or its mistakes: each message with its column.
fn rule(toml: &str) -> Result<Rule, Vec<(usize, String)>> {
    let node = crate::parse_value(0, &format!("{{ {toml} }}")).expect("TOML");
    read(&node, SECTION, 3).map_err(|mistakes| {
        let located = |mistake: Mistake| (mistake.place.byte, mistake.message);
        mistakes.into_iter().map(located).collect()
    })
}

#[test]
fn every_key_counts() {
    let toml = "class = 2, remote = '192.0.2.0/24', local = '2001:db8::/32', \
        remote-ports = '5000-5100', local-ports = 443, protocol = 'udp', dscp = 'ef,8'";
    assert!(KEYS.iter().all(|key| toml.contains(key.name)));
    let wanted = Rule {
        source: "192.0.2.0/24".parse().expect("a prefix"),
        destination: "2001:db8::/32".parse().expect("a prefix"),
        source_ports: 5000..=5100,
        destination_ports: 443..=443,
        protocol: Some(17),
        dscp: [46, 8].into_iter().collect(),
        class: 2,
    };
    assert_eq!(rule(toml), Ok(wanted));
    assert_eq!(rule("class = 0"), Ok(Rule::default()));
}

#[test]
fn every_mistake_is_reported() {
    for (toml, wanted) in [
        (
            "class = 3",
            "there is no class 3: the policy has 3, from 0 on",
        ),
        ("class = -1", "`class` must be from 0 to 65535"),
        ("class = 'web'", "`class` is a whole number, not text"),
        (
            "class = 0, remote = 10",
            "`remote` is text in quotes, not a number",
        ),
        (
            "class = 0, local = '192.0.2.1/24'",
            "'192.0.2.1/24' has bits set beyond its length: did you mean 192.0.2.0/24?",
        ),
        (
            "class = 0, remote-ports = '9-1'",
            "'9-1' is neither a port nor a range: write 443 or \"5000-5100\"",
        ),
        (
            "class = 0, local-ports = 65536",
            "`local-ports` must be from 0 to 65535",
        ),
        (
            "class = 0, local-ports = []",
            "`local-ports` is a whole number, not a list",
        ),
        (
            "class = 0, protocol = 'upd'",
            "`protocol` cannot be `upd`, did you mean `udp`?",
        ),
        (
            "class = 0, protocol = 256",
            "`protocol` must be from 0 to 255",
        ),
        (
            "class = 0, dscp = 46",
            "`dscp` is text in quotes, not a number",
        ),
        (
            "class = 0, dscp = 'best'",
            "'best' is not a code point: use a number from 0 to 63, or a name such as ef, af41, cs5 or le",
        ),
        ("", "`class` is missing in a rule"),
    ] {
        let messages = rule(toml).map_err(|found| found.into_iter().map(|(_, text)| text));
        let messages: Vec<String> = messages.expect_err(toml).collect();
        assert_eq!(messages, [wanted]);
    }
    // All of them are reported.
    let found = rule("class = 3, protocol = 'upd', sport = 1").expect_err("three mistakes");
    assert_eq!(found.len(), 3);
}

#[test]
fn code_points_are_numbers_or_names() {
    let node = |toml: &str| crate::parse_value(0, toml).expect("TOML");
    assert_eq!(node("'ef'").code_point("dscp"), Ok(46));
    assert_eq!(node("0").code_point("dscp"), Ok(0));
    for toml in ["64", "'ef,cs1'", "'drop'", "2020-01-01"] {
        assert!(node(toml).code_point("dscp").is_err(), "{toml}");
    }
    assert_eq!(node("'drop'").mark("excess"), Ok(None));
    assert_eq!(node("'cs1'").mark("excess"), Ok(Some(8)));
    for toml in ["-1", "'ef,cs1'", "[]"] {
        assert!(node(toml).mark("excess").is_err(), "{toml}");
    }
}
