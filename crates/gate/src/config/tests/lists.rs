//! Lists of subscribers, from the file itself and from CSV files.

use super::*;

#[test]
fn two_subscribers_cannot_share_an_address() {
    let more = "[[subscriber]]\nname = \"bob\"\nplan = \"gold\"\naddresses = [\"192.0.2.1/32\", \"192.0.2.0/24\"]\n";
    assert_eq!(
        wrong(&format!("{SMALL}{more}"), &[]),
        ["gate.toml:20:14: 192.0.2.1/32 belongs to `ann` already, in gate.toml:14"]
    );
    assert_eq!(
        wrong(&format!("{SMALL}{}", more.replace("bob", "ann")), &[])[0],
        "gate.toml:18:8: there is a subscriber `ann` already, in gate.toml:14"
    );
    // A prefix in another one is recognised by its length.
    sound(&format!(
        "{SMALL}{}",
        more.replace("\"192.0.2.1/32\", ", "")
    ));
    // IPv4 may be written as IPv6.
    let mapped = more.replace("192.0.2.1/32", "::ffff:192.0.2.1");
    assert_eq!(wrong(&format!("{SMALL}{mapped}"), &[]).len(), 1);
}

#[test]
fn lengths_of_prefixes_are_few() {
    let prefixes: Vec<String> = (16..33)
        .map(|bits| format!("\"10.0.0.0/{bits}\""))
        .collect();
    let text = |count: usize| SMALL.replace("\"192.0.2.1\"", &prefixes[..count].join(","));
    sound(&text(16));
    let errors = wrong(&text(17), &[]);
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0]
            .contains("10.0.0.0/32 has a length too many: all IPv4 prefixes together may have 16"),
        "{errors:?}"
    );
    // A prefix of IPv6 that contains all of IPv4 is looked up for both.
    let both = [&prefixes[..16], &["\"::/0\"".to_owned()]].concat();
    let errors = wrong(&SMALL.replace("\"192.0.2.1\"", &both.join(",")), &[]);
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].contains("::/0 has a length too many: all IPv4 prefixes together"),
        "{errors:?}"
    );
}

#[test]
fn subscribers_come_from_csv_files() {
    let csv = "\u{feff}# made by hand\nname, plan ,down,addresses,vlan,qinq,pppoe\nbob,gold,5mbit,192.0.2.2 2001:db8:2::/56,,,\n\n# no plan: the import's\ncem,,,\"192.0.2.3,192.0.2.4;192.0.2.5\",7 8,1.2,9\n";
    let config = with(&format!("{SMALL}{IMPORT}"), &[("users.csv", csv)])
        .unwrap_or_else(|error| panic!("{error}"));
    let [_, bob, cem] = &config.subscribers[..] else {
        panic!("{:?}", config.subscribers)
    };
    assert_eq!(
        (
            &*bob.name,
            bob.declared.matches.len(),
            bob.limits.down.rate(),
            bob.limits.up.rate()
        ),
        ("bob", 2, Some(5_000_000), Some(20_000_000))
    );
    assert_eq!(
        (
            &*cem.name,
            cem.declared.plan.as_deref(),
            cem.declared.matches.len()
        ),
        ("cem", Some("gold"), 7)
    );
}

#[test]
fn errors_in_csv_files_have_their_places() {
    let cases = [
        ("", "1:1: this file has no header line"),
        (
            "nam,plan\n",
            "1:1: unknown column `nam`, did you mean `name`?",
        ),
        ("name,vlan,vlan\n", "1:11: there are two columns `vlan`"),
        (
            "name,addresses\nbob,192.0.2.2,gold\n",
            "2:15: 3 fields, and the header has 2: quote values that hold commas",
        ),
        (
            "name,addresses\n# one\n\n\"bob\",\"192.0.2.2 192.0.2.x\"\n",
            "4:7: '192.0.2.x' is no prefix: write an address and bits, such as 192.0.2.0/24 or 2001:db8::/32",
        ),
        (
            "name,down,addresses\nbob,5,192.0.2.2\n",
            "2:5: '5' has no known unit of rate: use bit, kbit, mbit, gbit or tbit (bits per second)",
        ),
        (
            "name,addresses\n# one\n\nbob,192.0.2.1\n",
            "4:1: 192.0.2.1/32 belongs to `ann` already, in gate.toml:14",
        ),
        (
            "name,addresses\nbob,192.0.2.2\nbob,192.0.2.3\n",
            "3:1: there is a subscriber `bob` already, in users.csv:2",
        ),
        (
            "name,plan,addresses\nbob,glod,192.0.2.2\n",
            "2:1: there is no plan `glod`, did you mean `gold`?",
        ),
        (
            "name,addresses\n,192.0.2.2\n",
            "2:1: names have 1 to 64 characters, without spaces, quotes and backslashes",
        ),
    ];
    for (csv, wanted) in cases {
        let errors = wrong(&format!("{SMALL}{IMPORT}"), &[("users.csv", csv)]);
        let wanted = format!("users.csv:{wanted}");
        assert!(errors.contains(&wanted), "{wanted}\n{errors:#?}");
    }
    let errors = wrong(
        &format!("{SMALL}{}", IMPORT.replace("gold", "iron")),
        &[("users.csv", "name\n")],
    );
    assert_eq!(
        errors,
        ["gate.toml:19:8: there is no plan `iron`: there are gold"]
    );
}

/// In the form of LibreQoS's example, with the notes above the header and a comma in a name.

#[test]
fn shaped_devices_are_circuits() {
    let text = SMALL.replace(
        "[[subscriber]]",
        "[[import]]\ncsv = \"ShapedDevices.csv\"\n[[subscriber]]",
    );
    let config =
        with(&text, &[("ShapedDevices.csv", SHAPED)]).unwrap_or_else(|error| panic!("{error}"));
    let read: Vec<(&str, u64, u64, usize)> = config.subscribers[1..]
        .iter()
        .map(|subscriber| {
            (
                &*subscriber.name,
                subscriber.limits.down.rate().unwrap_or(0),
                subscriber.limits.up.rate().unwrap_or(0),
                subscriber.declared.matches.len(),
            )
        })
        .collect();
    assert_eq!(
        read,
        [
            ("1", 155_000_000, 20_000_000, 3),
            ("2", 2_500_000, 1_000_000, 1),
            ("2794", 105_000_000, 18_000_000, 3)
        ]
    );
    for (from, to, wanted) in [
        (
            ",155,",
            ",x,",
            "4:96: 'x' is not a rate in Mbit/s: write a number such as 100 or 2.5",
        ),
        (",155,", ",,", "4:96: circuit `1` has no maximum rate here"),
        (
            "100.64.0.2,",
            ",",
            "5:1: nothing identifies the packets of `2`: give it addresses, vlan, qinq or pppoe",
        ),
        (
            "100.64.0.2,",
            "100.64.0.5,",
            "6:1: 100.64.0.5/32 belongs to `2` already, in ShapedDevices.csv:5",
        ),
        (",IPv4,", ",IP4,", "3:1: the header has no column `IPv4`"),
        (
            "100.64.0.2,",
            "100.64.0.2, 100.64.0.9,",
            "5:51: '100.64.0.9' is IPv4 in a column of IPv6: quote lists that hold commas",
        ),
    ] {
        let shaped = SHAPED.replacen(from, to, 1);
        let errors = wrong(&text, &[("ShapedDevices.csv", &shaped)]);
        let wanted = format!("ShapedDevices.csv:{wanted}");
        assert!(errors.contains(&wanted), "{wanted}\n{errors:#?}");
    }
}
