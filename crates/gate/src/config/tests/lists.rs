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
        ("", "1:1: this file is empty: write a header"),
        (
            "\u{feff}# later\n\n",
            "1:1: this file is empty: write a header",
        ),
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
            "4:5: 192.0.2.1/32 belongs to `ann` already, in gate.toml:14",
        ),
        (
            "name,addresses\nbob,192.0.2.2\nbob,192.0.2.3\n",
            "3:1: there is a subscriber `bob` already, in users.csv:2",
        ),
        (
            "name,plan,addresses\nbob,glod,192.0.2.2\n",
            "2:5: there is no plan `glod`, did you mean `gold`?",
        ),
        // Quotes before a cell are a part of the line, and letters count, not bytes.
        (
            "addresses,name,plan\n\"192.0.2.2;192.0.2.3\",böb,glod\n",
            "2:27: there is no plan `glod`, did you mean `gold`?",
        ),
        (
            "vlan,users,name,addresses\n7,bob;ann,bob,192.0.2.2\n",
            "2:3: `ann` is the name of another subscriber",
        ),
        (
            "plan,addresses,name\ngold,192.0.2.2,ann\n",
            "2:16: there is a subscriber `ann` already, in gate.toml:14",
        ),
        ("name,addresses,from-port\nbob,192.0.2.2,eth9\n", "2:15: "),
        (
            "name,addresses,parent\r\nbob,192.0.2.2,mast\r\n",
            "2:15: there is no node `mast`",
        ),
        ("name,addresses,down\nbob,192.0.2.2,1bit\n", "2:15: "),
        (
            "name,addresses\n,192.0.2.2\n",
            "2:1: names have 1 to 64 characters, without spaces, quotes and backslashes",
        ),
    ];
    for (csv, wanted) in cases {
        let errors = wrong(&format!("{SMALL}{IMPORT}"), &[("users.csv", csv)]);
        let wanted = format!("users.csv:{wanted}");
        let found = errors.iter().any(|error| error.starts_with(&wanted));
        assert!(found, "{wanted}\n{errors:#?}");
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
            "5:1: nothing identifies the packets of `2`: give it addresses, vlan, qinq or pppoe, or addresses = \"live\" if it gets them from the API or RADIUS (in an import: live = true)",
        ),
        (
            "100.64.0.2,",
            "100.64.0.5,",
            "6:44: 100.64.0.5/32 belongs to `2` already, in ShapedDevices.csv:5",
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

/// The names of all subscribers, and the mistakes in lines that were skipped.
fn leniently(text: &str, file: &str, csv: &str) -> (Vec<String>, usize, Vec<String>) {
    let config = with(text, &[(file, csv)]).unwrap_or_else(|error| panic!("{error}"));
    let names = config.subscribers.iter().map(|one| one.name.to_string());
    let problems = config.skipped.problems.iter().map(Problem::in_short);
    (names.collect(), config.skipped.lines, problems.collect())
}

#[test]
fn lines_with_mistakes_are_skipped_if_the_file_says_so() {
    let csv = "name,plan,addresses\nbob,glod,192.0.2.2\ncem,,192.0.2.3\ndee,,192.0.2.x\nann,,192.0.2.4\neva,,192.0.2.5 192.0.2.3\nfay,,192.0.2.5\ngil,,192.0.2.6,7\n\"hal,,192.0.2.7\nida,,192.0.2.8\n";
    let text = format!("{SMALL}{IMPORT}lenient = true\n");
    let (names, lines, problems) = leniently(&text, "users.csv", csv);
    // What a skipped line took in part is free for the next one.
    assert_eq!(names, ["ann", "cem", "fay", "ida"]);
    assert_eq!(lines, 6);
    assert_eq!(
        problems,
        [
            "users.csv:2:5: there is no plan `glod`, did you mean `gold`?",
            "users.csv:4:6: '192.0.2.x' is no prefix: write an address and bits, such as 192.0.2.0/24 or 2001:db8::/32",
            "users.csv:5:1: there is a subscriber `ann` already, in gate.toml:14",
            "users.csv:6:6: 192.0.2.3/32 belongs to `cem` already, in users.csv:3",
            "users.csv:8:16: 4 fields, and the header has 3: quote values that hold commas",
            "users.csv:9:1: this field goes on in the next line: close its quote, or write it in one line",
        ]
    );
    // All of these are errors otherwise, and a wrong header is one in any case.
    let errors = wrong(&format!("{SMALL}{IMPORT}"), &[("users.csv", csv)]);
    assert!(problems.iter().all(|problem| errors.contains(problem)));
    let errors = wrong(&text, &[("users.csv", &csv.replace("plan", "plna"))]);
    assert_eq!(
        errors,
        ["users.csv:1:6: unknown column `plna`, did you mean `plan`?"]
    );
}

#[test]
fn devices_with_mistakes_are_skipped_if_the_file_says_so() {
    let text = SMALL.replace(
        "[[subscriber]]",
        "[[import]]\ncsv = \"ShapedDevices.csv\"\nlenient = true\n[[subscriber]]",
    );
    // The first device of a circuit, and a circuit whose address belongs to another.
    let csv =
        SHAPED
            .replacen("100.64.0.5", "100.64.0.555", 1)
            .replacen("100.64.0.2,", "100.64.0.1,", 1);
    let (names, lines, problems) = leniently(&text, "ShapedDevices.csv", &csv);
    assert_eq!(
        (&names[..], lines),
        (&["ann", "1", "2794"].map(String::from)[..], 2)
    );
    assert_eq!(problems.len(), 2, "{problems:#?}");
    assert!(
        problems[0].starts_with("ShapedDevices.csv:6:"),
        "{problems:#?}"
    );
    assert_eq!(
        problems[1],
        "ShapedDevices.csv:5:40: 100.64.0.1/32 belongs to `1` already, in ShapedDevices.csv:4"
    );
}

/// Any lines: what is valid alone is never refused, and the same lines are skipped in any case.
#[test]
fn hostile_lines_are_skipped_without_harm() {
    let mut csv = String::from("name,addresses\n");
    for number in 0..3_000 {
        csv += match number % 5 {
            0 => "\"\n",
            1 => ",,,,\n",
            2 => "a\"b,\"\"\"\n",
            3 => "\0,\u{1b}[2J\n",
            _ => "x,192.0.2.9\n",
        };
    }
    let text = format!("{SMALL}{IMPORT}lenient = true\n");
    let (names, lines, problems) = leniently(&text, "users.csv", &csv);
    assert_eq!(names, ["ann", "x"]);
    assert_eq!((lines, problems.len()), (2_999, 100));
    assert!(problems.iter().all(|text| !text.contains('\u{1b}')));
}

#[test]
fn more_subscribers_than_there_is_room_for_are_refused_with_their_number() {
    use std::fmt::Write as _;
    let mut csv = String::from("name,down,addresses\n");
    for number in 0..=Config::MAX_SUBSCRIBERS {
        let (a, b, c) = (number >> 16, number >> 8 & 255, number & 255);
        writeln!(csv, "s{number},1mbit,10.{a}.{b}.{c}").expect("text");
    }
    let text = format!("{SMALL}{IMPORT}");
    let errors = wrong(&text, &[("users.csv", &csv)]);
    assert_eq!(
        errors,
        [
            "gate.toml:1:1: 1048578 subscribers are too many: at most 1048576",
            "users.csv:1048577:16: there are too many IPv4 prefixes from here on: at most 1048576",
        ]
    );
}

/// LibreQoS's example has a header with numbers of nodes, and lines without them.
#[test]
fn devices_without_numbers_of_nodes_are_read() {
    let header = "Circuit ID,Circuit Name,Device ID,Device Name,Parent Node,Parent Node ID,Anchor Node ID,MAC,IPv4,IPv6,Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps,Comment";
    let csv = format!(
        "{header}\n1,\"Main Street 1, Town\",1,Device 1,AP_A,,\"192.0.2.11, 192.0.2.12\",2001:db8:9::/56,1,1,155,20,\n2,Other,2,Device 2,AP_A,7,8,,192.0.2.13,,1,1,2.5,1.0,\n"
    );
    let text = SMALL.replace(
        "[[subscriber]]",
        "[[import]]\ncsv = \"ShapedDevices.csv\"\n[[subscriber]]",
    );
    let config =
        with(&text, &[("ShapedDevices.csv", &csv)]).unwrap_or_else(|error| panic!("{error}"));
    let read: Vec<_> = config.subscribers[1..]
        .iter()
        .map(|one| {
            (
                &*one.name,
                one.limits.down.rate(),
                one.limits.up.rate(),
                one.declared.matches.len(),
            )
        })
        .collect();
    assert_eq!(
        read,
        [
            ("1", Some(155_000_000), Some(20_000_000), 3),
            ("2", Some(2_500_000), Some(1_000_000), 1)
        ]
    );
}

#[test]
fn subscribers_without_addresses_get_them_live_if_the_import_says_so() {
    // The form of LibreQoS's example for RADIUS, and ours. A line with addresses keeps them.
    let header = "Circuit ID,Circuit Name,Device ID,Device Name,Parent Node,MAC,IPv4,IPv6,Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps,Comment";
    let shaped =
        format!("{header}\n1,One,1,One,,a,,,1,1,60,20,\n2,Two,2,Two,,b,192.0.2.13,,1,1,60,20,\n");
    for csv in [
        shaped.as_str(),
        "name,down,addresses\n1,60mbit,\n2,60mbit,192.0.2.13\n",
    ] {
        let text = |live| {
            let import = format!("[[import]]\ncsv = \"s.csv\"\n{live}[[subscriber]]");
            SMALL.replace("[[subscriber]]", &import)
        };
        let config = with(&text("live = true\n"), &[("s.csv", csv)]);
        let config = config.unwrap_or_else(|error| panic!("{error}"));
        let read = config.subscribers[1..].iter();
        let read: Vec<_> = read
            .map(|one| (&*one.name, one.declared.matches.len()))
            .collect();
        assert_eq!(read, [("1", 0), ("2", 1)]);
        let errors = wrong(&text(""), &[("s.csv", csv)]);
        assert!(errors[0].contains("live = true"), "{errors:?}");
    }
}

#[test]
fn users_of_access_servers_mean_one_subscriber() {
    let header = "Circuit ID,Circuit Name,Device ID,Device Name,Parent Node,MAC,IPv4,IPv6,Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps,Comment";
    // Two devices of a circuit, a MAC address, and a circuit that has an address.
    let shaped = format!(
        "{header}\n1,,1,,,one,,,1,1,6,2,\n1,,2,,,one,,,1,1,6,2,\n2,,1,,,02:00:00:00:00:01,,,1,1,6,2,\n3,,1,,,three,192.0.2.3,,1,1,6,2,\n"
    );
    let ours = "name,plan,addresses,users\n1,gold,live,one two\n2,gold,live,\n3,gold,live,\n";
    let import = "[[import]]\ncsv = \"s.csv\"\nlive = true\n[[subscriber]]\nusers = \"ann@isp\"";
    let text = SMALL.replace("[[subscriber]]", import);
    for (csv, users) in [(&*shaped, vec!["one"]), (ours, vec!["one", "two"])] {
        let config = with(&text, &[("s.csv", csv)]).unwrap_or_else(|error| panic!("{error}"));
        let read = config.subscribers.iter();
        let read: Vec<_> = read.map(|one| one.declared.users.clone()).collect();
        assert_eq!(read, [vec!["ann@isp"], users, vec![], vec![]]);
    }
    let taken = ours.replace("2,gold,live,", "2,gold,live,two");
    assert_eq!(
        wrong(&text, &[("s.csv", &taken)]),
        ["s.csv:3:13: `1` has the user `two` already, in s.csv:2"]
    );
    // A name is not the user of another subscriber, whichever comes first.
    let named = ours.replace("2,gold,live,", "2,gold,live,1");
    assert_eq!(
        wrong(&text, &[("s.csv", &named)]),
        ["s.csv:3:13: `1` is the name of another subscriber, in s.csv:2"]
    );
    let later = ours.replace("\n2,", "\ntwo,");
    assert_eq!(
        wrong(&text, &[("s.csv", &later)]),
        ["s.csv:3:1: `1` has the user `two` already, in s.csv:2"]
    );
    let long = ours.replace("one", &"x".repeat(254));
    assert_eq!(
        wrong(&text, &[("s.csv", &long)]),
        ["s.csv:2:13: users have 1 to 253 bytes, without control characters"]
    );
}

/// Who has only an address that cannot be read is not told besides that nothing identifies it.
#[test]
fn a_mistake_is_reported_once() {
    let text = format!("{SMALL}{IMPORT}");
    let csv = "name,addresses\nbob,192.0.2.300\n";
    let errors = wrong(&text, &[("users.csv", csv)]);
    assert!(
        matches!(&errors[..], [one] if one.starts_with("users.csv:2:5: '192.0.2.300'")),
        "{errors:?}"
    );
    let shaped = SHAPED.replace("100.64.0.2,", "100.64.0.2x,");
    assert_eq!(wrong(&text, &[("users.csv", &shaped)]).len(), 1);
    let text = SMALL.replace("[\"192.0.2.1\", \"2001:db8:1::/56\"]", "\"192.0.2.300\"");
    assert_eq!(wrong(&text, &[]).len(), 1);
}
