//! Scenarios that would take forever, would not fit into memory or have no meaning are rejected.

use super::*;

/// The error when a part of the small scenario is replaced.
fn error_of(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from), "{from}");
    parse(&SMALL.replacen(from, to, 1)).expect_err(to)
}

#[test]
fn quantities_have_bounds() {
    for (from, to, wanted) in [
        (
            "cc = [\"reno\", \"cubic\"]",
            "traffic = { kind = \"udp\", rate = \"18446744tbit\", size = \"28B\" }",
            "a.toml:17:34: `rate` must be from 8 kbit/s to 400 Gbit/s",
        ),
        (
            "cc = [\"reno\", \"cubic\"]",
            "traffic = { kind = \"udp\", rate = \"400gbit\", size = \"28B\" }",
            "a.toml:14:1: datagrams of 28 bytes come more than once in a nanosecond",
        ),
        (
            "50mbit",
            "500gbit",
            "a.toml:11:8: `rate` must be from 8 kbit/s to 400 Gbit/s",
        ),
        (
            "kind = \"bc-pqp\"\nrate = \"10mbit\"",
            "kind = \"policer\"\nrate = \"7999bit\"",
            "a.toml:6:8: `rate` must be from 8 kbit/s to 400 Gbit/s",
        ),
        (
            "2ms..50ms",
            "18446744073s",
            "a.toml:18:7: `rtt` must be an hour at most",
        ),
        // Another seed might draw it.
        (
            "2ms..50ms",
            "2ms..2000min",
            "a.toml:18:7: `rtt` must be an hour at most",
        ),
        (
            "duration = \"2s\"",
            "duration = \"18446744073s\"\nwindow = \"18446744073s\"",
            "a.toml:1:12: `duration` must be a year at most",
        ),
        (
            "rate = \"10mbit\"",
            "rate = \"10mbit\"\npolicy = { fair = 100000 }",
            "a.toml:7:19: `fair` must be from 1 to 1023",
        ),
    ] {
        assert_eq!(error_of(from, to), wanted, "{to}");
    }
    let delay = SMALL.replace("2ms..50ms", "18446744073s").replace(
        "kind = \"link\"\nrate = \"50mbit\"\nqueue = \"100 packets\"",
        "kind = \"delay\"\ndelay = \"18446744073s\"",
    );
    assert!(parse(&delay).expect_err("too long").contains("an hour"));
}

#[test]
fn queues_of_all_elements_fit_into_memory() {
    let text = SMALL
        .replace(
            "queue = \"100 packets\"",
            "queue = { kind = \"fq-codel\", flows = 65536 }",
        )
        .replace(
            "[[flow]]",
            "[[element]]\nname = \"all\"\nkind = \"link\"\nrate = \"1gbit\"\nshared = true\n\
                  [[aggregate]]\nname = \"home\"\ncount = 2000\n[[flow]]",
        )
        .replace("\"radio\"]", "\"radio\", \"all\"]")
        .replace("count = 4\ncc = [\"reno\", \"cubic\"]\n", "");
    let error = parse(&text).expect_err("too much");
    assert!(
        error.starts_with("a.toml:8:1: the queues of all elements together take "),
        "{error}"
    );
    assert!(parse(&text.replace("65536", "1024")).is_ok());
}

#[test]
fn values_that_come_twice_are_refused() {
    for (sweep, wanted) in [
        ("seed = [1, 2, 1]", "`seed` has the value 1 already"),
        (
            "gate.rate = [\"1mbit\", \"1mbit\"]",
            "`gate.rate` has the value 1mbit already",
        ),
    ] {
        let error = parse(&format!("{SMALL}[sweep]\n{sweep}\n")).expect_err(sweep);
        assert!(error.ends_with(wanted), "{error}");
    }
}

/// As for the receive window: an element that lets no segment pass lets nothing pass.
#[test]
fn limits_hold_a_segment() {
    for (kind, least) in [
        ("kind = \"bc-pqp\"\nqueue", 1500),
        ("kind = \"policer\"\nburst", 1500),
        ("kind = \"policer\"\noverhead = \"18B\"\nburst", 1518),
        ("kind = \"fair-policer\"\nburst", 1500),
        ("kind = \"shaper\"\nqueue", 1500),
        ("kind = \"link\"\nqueue", 1514),
    ] {
        let with = |bytes: u32| {
            parse(&SMALL.replacen("kind = \"bc-pqp\"", &format!("{kind} = \"{bytes}B\""), 1))
        };
        assert!(with(least).is_ok(), "{kind}");
        let error = with(least - 1).expect_err(kind);
        let wanted = "the bucket or queue of 'gate' must hold a segment: nothing of 1500 bytes would ever pass";
        assert!(error.ends_with(wanted), "{error}");
    }
    // Acknowledgements are smaller, and marked packets pass.
    let back = SMALL.replace(
        "path = [\"gate\", \"radio\"]",
        "path = [\"radio\"]\nback = [\"gate\"]",
    );
    let policer = |bytes| format!("kind = \"policer\"\nburst = \"{bytes}B\"");
    assert!(parse(&back.replacen("kind = \"bc-pqp\"", &policer(52), 1)).is_ok());
    assert!(parse(&back.replacen("kind = \"bc-pqp\"", &policer(51), 1)).is_err());
    let marker = "kind = \"srtcm\"\ncommitted = \"100B\"\nexcess = \"100B\"";
    let marks = format!("{marker}\nred = \"cs1\"");
    assert!(parse(&SMALL.replacen("kind = \"bc-pqp\"", &marks, 1)).is_ok());
    assert!(parse(&SMALL.replacen("kind = \"bc-pqp\"", marker, 1)).is_err());
}

#[test]
fn messages_name_what_is_meant() {
    for (setting, wanted) in [
        (
            "gate.rat=5mbit",
            "unknown key `rat` in an element of kind bc-pqp, did you mean `rate`?",
        ),
        (
            "radio.queue=5",
            "`queue` is a size such as \"64kB\", packets such as \"100 packets\", auto, one of",
        ),
        (
            "download.count=0",
            "no flow sends: the `count` of every flow is 0",
        ),
    ] {
        let error = set(&[setting]).expect_err(setting);
        assert!(
            error.starts_with(&format!("--set {setting}: {wanted}")),
            "{error}"
        );
    }
    let sweep = "[sweep]\ntitle = [\"a\\u001b[31mb\", \"c\"]\n";
    let scenario = parse(&format!("{SMALL}{sweep}")).expect("sound");
    assert_eq!(scenario.parameters(0)[0].value, "a\\u{1b}[31mb");
}

#[test]
fn what_never_takes_part_is_refused() {
    let error = error_of("path = [\"gate\", \"radio\"]", "path = [\"gate\"]");
    assert_eq!(
        error,
        "a.toml:8:1: no flow passes the element `radio`: name it in the path of a flow"
    );
    // Paths may be varied, and the settings of the command line are for one run.
    let sweep = "[sweep]\ndownload.path = [[\"gate\"], [\"radio\"]]\n";
    assert!(parse(&format!("{SMALL}{sweep}")).is_ok());
    assert!(set(&["download.path=[\"gate\"]"]).is_ok());
    let error = error_of("count = 4", "count = 4\nstart = [\"0s\", \"2s\"]");
    assert_eq!(
        error,
        "a.toml:17:16: `start` is not before the end of the run"
    );
    let late = SMALL.replace("count = 4", "count = 4\nstart = \"1s\"");
    let setting = ["duration=500ms".to_owned()];
    assert!(
        Scenario::parse(Source {
            file: "a.toml",
            text: &late,
            settings: &setting
        })
        .is_ok(),
        "shorter than meant"
    );
}

#[test]
fn aggregates_that_share_an_element_have_addresses() {
    let text = SMALL
        .replace("kind = \"bc-pqp\"", "kind = \"policer\"\nshared = true")
        .replace("count = 4\ncc = [\"reno\", \"cubic\"]\n", "")
        .replace(
            "[[flow]]",
            "[[aggregate]]\nname = \"home\"\ncount = 65001\n[[flow]]",
        );
    let error = parse(&text).expect_err("too many");
    let wanted = "there can be at most 65000 aggregates that share elements";
    assert_eq!(error, format!("a.toml:15:1: {wanted}"));
}

/// The bounds do not reject the built-in scenarios, or those of benchmarks.
#[test]
fn scenarios_of_ours_are_within_bounds() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut folders = vec![
        format!("{root}/studies"),
        format!("{root}/crates/lab/scenarios"),
    ];
    let mut found = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.display().to_string();
            if path.is_dir() {
                folders.push(name);
            } else if let Ok(text) = std::fs::read_to_string(&path)
                && name.ends_with(".toml")
                && text.contains("[[flow]]")
            {
                found += 1;
                // Scenarios of one folder may share their beginning, and sweeps of one file too.
                let beginning = std::fs::read_to_string(path.with_file_name("server.toml"));
                let beginning = beginning.unwrap_or_default();
                let (common, sweeps) = text.split_once("\n# == ").unwrap_or((&text, ""));
                for sweep in sweeps.split("\n# == ") {
                    let text = format!("{beginning}{common}\n# {sweep}");
                    Scenario::parse(Source {
                        file: &name,
                        text: &text,
                        settings: &[],
                    })
                    .unwrap_or_else(|error| panic!("{error}"));
                }
            }
        }
    }
    assert!(found > 20, "{found}");
}
