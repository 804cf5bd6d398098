//! `tidegate advise` as its users meet it.

mod program;

use std::fs;

use program::run;
use serde_json::Value;

/// Little is simulated, so that the tests are short.
const LITTLE: [&str; 6] = ["--seeds", "3", "--duration", "5s", "--flows", "2"];

fn advise(arguments: &[&str]) -> (i32, String, String) {
    let mut all = vec!["advise"];
    all.extend(arguments);
    all.extend(LITTLE);
    run(&all)
}

#[test]
fn a_small_bucket_is_advised_against_with_effects_beside_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let (svg, gate) = (folder.path().join("a.svg"), folder.path().join("gate.toml"));
    let (code, out, err) = advise(&[
        "--rate",
        "5mbit",
        "--burst",
        "8kB",
        "--svg",
        svg.to_str().expect("text"),
        "--gate",
        gate.to_str().expect("text"),
    ]);
    assert_eq!(code, 0, "{err}");
    assert!(
        out.starts_with("Today: a policer of 5.00 Mbit/s with a bucket of 8.00 kB."),
        "{out}"
    );
    for text in [
        "Set instead: ",
        "What it improves\n  share of the slowest ",
        "> ",
        "today: policer, bucket 8.00 kB",
        "shaper, queue 62.5 kB",
        "BC-PQP",
        "senders pace",
    ] {
        assert!(out.contains(text), "{text} in {out}");
    }
    assert!(
        fs::read_to_string(svg)
            .expect("a picture")
            .starts_with("<svg")
    );
    let gate = fs::read_to_string(gate).expect("a file");
    assert!(gate.contains("down = \"5mbit\""), "{gate}");
    for line in gate.lines() {
        assert!(out.contains(line), "{line} is printed, too");
    }
}

#[test]
fn the_same_question_has_the_same_answer_and_json_has_all_of_it() {
    let arguments = ["--json", "police", "cir", "5m", "bc", "8000"];
    let (code, out, err) = advise(&arguments);
    assert_eq!(code, 0, "{err}");
    assert_eq!(advise(&arguments).1, out);
    let all: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(all["origin"]["vendor"], "Cisco IOS");
    assert_eq!(all["today"]["burst_bytes"], 8000);
    let options = all["options"].as_array().expect("options");
    let kinds: Vec<&str> = options
        .iter()
        .filter_map(|option| option["change"].as_str())
        .collect();
    assert_eq!(
        kinds,
        ["today", "bucket", "bucket", "shape", "bc-pqp", "pace"]
    );
    let chosen = all["chosen"].as_u64().expect("a choice") as usize;
    let share = |option: &Value| option["effect"]["slowest_share"].as_f64().expect("a share");
    assert!(share(&options[chosen]) > share(&options[0]) + 0.05, "{out}");
    let claim = &all["claims"][0];
    assert_eq!(claim["measure"], "slowest_share");
    assert_eq!(claim["then"], options[chosen]["effect"]["slowest_share"]);
    assert_eq!(claim["known"], false, "by three simulations");
    assert_eq!(options[chosen]["effect"]["simulations"]["downloads"], 3);
    let line = options[1]["line"].as_str().expect("a line");
    assert_eq!(
        line,
        "police cir 5000000 bc 62500 conform-action transmit exceed-action drop"
    );
    assert_eq!(
        options[0]["line"],
        Value::Null,
        "today's limit is there already"
    );
}

#[test]
fn what_a_change_improves_is_simulated_until_it_is_known() {
    let (code, out, err) = run(&[
        "advise",
        "--json",
        "--rate",
        "500kbit",
        "--burst",
        "8kB",
        "--flows",
        "2",
        "--duration",
        "5s",
    ]);
    assert_eq!(code, 0, "{err}");
    let all: Value = serde_json::from_str(&out).expect("JSON");
    let seeds = all["simulated"]["seeds"].as_u64().expect("a number");
    let chosen = all["chosen"].as_u64().expect("a choice") as usize;
    let options = all["options"].as_array().expect("options");
    let runs = |option: usize, what: &str| {
        let effect = &options[option]["effect"];
        effect["simulations"][what].as_u64().expect("a number")
    };
    for claim in all["claims"].as_array().expect("claims") {
        let what = match claim["measure"].as_str().expect("a name") {
            "short_transfer_p50_s" => "short_transfers",
            "video_wait_s" => "videos",
            _ => "downloads",
        };
        assert_eq!(runs(0, what), runs(chosen, what), "the same of both");
        if claim["known"] == false {
            assert!(runs(0, what) > seeds, "{claim}");
        }
    }
    // The others have no more than they need to be compared.
    for option in (1..options.len()).filter(|option| *option != chosen) {
        assert_eq!(runs(option, "videos"), seeds);
    }
}

#[test]
fn mistakes_name_place_and_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().join("empty.conf");
    fs::write(&empty, " \n").expect("written");
    let [folder, empty] = [folder.path(), &empty].map(|path| path.to_str().expect("text"));
    let cases: [(&[&str], i32, &str); 13] = [
        (&[], 2, "give --rate and --burst"),
        (&["--rate", "10mbit"], 2, "--rate alone is not a limit"),
        (
            &["police", "cir", "10q"],
            2,
            "router line:1:12: `10q` is not a rate",
        ),
        (&["police", "rate", "10", "mbps"], 2, "give it with --burst"),
        (&["--rate", "10mbit", "--burst", "1kB"], 2, "no full packet"),
        (
            &["--rate", "10mbit", "--burst", "32kB", "--cc", "tahoe"],
            2,
            "`tahoe` is no congestion control",
        ),
        (
            &["--rate", "1mbit", "--burst", "32kB", "--video", "5kbit"],
            2,
            "a video of 5.00 kbit/s is out of range",
        ),
        (&["--config", "/nonexistent"], 1, "cannot read /nonexistent"),
        (&["--config", empty], 1, "this configuration is empty"),
        (&[folder], 2, "this is a folder: name a capture in it"),
        (
            &["--rate", "-5mbit", "--burst", "32kB"],
            2,
            "'-5mbit' is not a rate",
        ),
        (
            &["--rate", "10mbit", "--burst", "10GB"],
            2,
            "the bucket of 10.0 GB holds what passes in 8000 s",
        ),
        (
            &["tc qdisc del dev eth0 root tbf rate 10mbit burst 32k latency 50ms"],
            2,
            "router line:1:28: this limit does not count",
        ),
    ];
    for (arguments, expected, text) in cases {
        let (code, out, err) = advise(arguments);
        assert_eq!(code, expected, "{arguments:?}: {err}");
        assert!(err.contains(text), "{arguments:?}: {err}");
        assert_eq!(out, "");
    }
}

#[test]
fn a_capture_shows_the_limit_and_the_round_trip() {
    let capture = |name: &str| format!("../../corpus/{name}/{name}.pcap.xz");
    let (code, out, err) = advise(&["--json", &capture("policed-1500kbit")]);
    assert_eq!(code, 0, "{err}");
    let all: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(all["today"]["kind"], "policer");
    let rate = all["today"]["rate_bps"].as_f64().expect("a rate");
    assert!((1.45e6..1.55e6).contains(&rate), "{rate}");
    let rtt = all["situation"]["rtt_s"][0].as_f64().expect("a time");
    assert!(rtt > 0.0005 && rtt < 0.5, "{rtt}");
    let place = all["origin"]["place"].as_str().expect("a place");
    assert!(place.contains("policed-1500kbit.pcap.xz"), "{place}");
    let given = advise(&["--json", "--rtt", "77ms", &capture("policed-1500kbit")]).1;
    assert!(
        given.contains("0.077"),
        "an option counts before the capture"
    );

    let (code, _, err) = advise(&[&capture("shaped-1500kbit")]);
    assert_eq!(code, 1);
    assert!(err.contains("give the size with --queue"), "{err}");
    let (code, out, err) = advise(&[&capture("shaped-1500kbit"), "--queue", "50kB"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("Today: a shaper of 1.5"), "{out}");
}

#[test]
fn options_say_what_a_capture_does_not() {
    let capture = |name: &str| format!("../../corpus/{name}/{name}.pcap.xz");
    let today = |arguments: &[&str]| -> Value {
        let (code, out, err) = advise(&[&["--json"], arguments].concat());
        assert_eq!(code, 0, "{err}");
        serde_json::from_str(&out).expect("JSON")
    };
    let (policed, shaped) = (capture("policed-1500kbit"), capture("shaped-1500kbit"));
    let [frames, packets] = ["2", "3"].map(|layer| today(&[&policed, "--layer", layer]));
    for key in ["rate_bps", "burst_bytes"] {
        let of = |all: &Value| all["today"][key].as_f64().expect("a number");
        let ratio = of(&packets) / of(&frames);
        assert!((0.97..1.0).contains(&ratio), "{key}: {ratio}");
    }
    assert_eq!(frames["today"]["overhead_bytes"], 14);
    assert_eq!(packets["today"]["overhead_bytes"], 0);
    let assumed = packets["assumed"].to_string();
    assert!(
        assumed.contains("counted from the IP header on"),
        "{assumed}"
    );

    let shaper = today(&[&shaped, "--queue", "50kB", "--burst", "8kB"]);
    assert_eq!(shaper["today"]["queue_bytes"], 50_000);
    assert_eq!(shaper["today"]["burst_bytes"], 8_000);
    let (code, out, err) = advise(&[&policed, "--queue", "50kB"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("this capture shows a policer"), "{err}");
}

#[test]
fn many_users_of_a_slow_limit_have_the_slowest_video() {
    let slow = [
        "--rate", "500kbit", "--burst", "32kB", "--users", "60", "--json",
    ];
    let (code, out, err) = advise(&slow);
    assert_eq!(code, 0, "{err}");
    let all: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(all["situation"]["video_bps"], 8_000);
}

#[test]
fn one_simulation_advises_nothing() {
    let limit = ["--rate", "5mbit", "--burst", "8kB", "--duration", "5s"];
    let little = ["advise", "--seeds", "1", "--flows", "1"];
    let (code, out, err) = run(&[&little, &limit[..]].concat());
    assert_eq!(code, 0, "{err}");
    assert!(out.contains(" 1 backlogged download of one user"), "{out}");
    assert!(out.contains("Nothing is advised: one simulation"), "{out}");
    assert!(
        !out.contains("Set instead") && !out.contains("What it improves"),
        "{out}"
    );
}

#[test]
fn files_that_cannot_be_used_are_errors() {
    let (code, out, err) = advise(&["--rate", "10mbit", "--burst", "32kB", "--svg", "-"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("name a file for --svg"), "{err}");
    let (code, _, err) = advise(&["Cargo.toml"]);
    assert_eq!(code, 1);
    assert!(err.contains("Cargo.toml: "), "{err}");
}

#[test]
fn nothing_that_is_read_or_written_is_overwritten() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (router, new) = (path("router.conf"), path("new"));
    let again = path("./new");
    let line = "police cir 5m bc 15000\n";
    fs::write(&router, line).expect("written");
    for (arguments, said) in [
        (
            ["--config", &router, "--gate", &router],
            "--gate would overwrite it",
        ),
        (
            ["--config", &router, "--svg", &router],
            "--svg would overwrite it",
        ),
        (
            ["--svg", &new, "--gate", &again],
            "named for --svg and for --gate",
        ),
    ] {
        let mut all = vec!["--rtt", "20ms"];
        all.extend(arguments);
        if arguments[0] != "--config" {
            all.push(line);
        }
        let (code, _, err) = advise(&all);
        assert!(code == 2 && err.contains(said), "{code}: {err}");
    }
    assert_eq!(fs::read_to_string(&router).expect("a file"), line);
}

#[test]
fn a_configuration_is_read_from_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("router.conf");
    fs::write(
        &path,
        "interface eth0\n tc filter x police rate 5mbit burst 8k drop\n",
    )
    .expect("written");
    let (code, out, err) = advise(&["--config", path.to_str().expect("text")]);
    assert_eq!(code, 0, "{err}");
    let first = out.lines().next().unwrap_or_default();
    assert!(first.contains("8.19 kB (Linux tc, line 2 of "), "{first}");
    fs::write(&path, "interface eth0\n police rate 5mbit burst 8q drop\n").expect("written");
    let (code, _, err) = advise(&["--config", path.to_str().expect("text")]);
    assert_eq!(code, 1);
    assert!(
        err.contains("router.conf:2:26: `8q` is not a size"),
        "{err}"
    );
}

#[test]
fn links_before_the_limit_are_as_fast_as_given() {
    let limit = ["--rate", "5mbit", "--burst", "8kB"];
    let (code, out, err) = advise(&[&limit[..], &["--link", "50mbit"]].concat());
    assert_eq!(code, 0, "{err}");
    let words: Vec<&str> = out.split_whitespace().collect();
    let words = words.join(" ");
    assert!(
        words.contains("over links of 50.0 Mbit/s before the limit"),
        "{out}"
    );
    let (code, out, err) = advise(&[&limit[..], &["--link", "4mbit"]].concat());
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(
        err.contains("links of 4.00 Mbit/s before a limit of 5.00 Mbit/s"),
        "{err}"
    );
}

/// Two simulations of ten seconds tell little: nothing is said that cannot be.
#[test]
fn few_simulations_promise_nothing_impossible() {
    let line = "police cir 5m bc 15000";
    let (code, out, err) = run(&[
        "advise",
        line,
        "--rtt=20ms..60ms",
        "--seeds=2",
        "--duration=10s",
    ]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("takes more than 8.00s (median)"), "{out}");
    assert!(
        out.contains("or not at all: more --seeds tell") && !out.contains("up to"),
        "{out}"
    );
    // The command opens its files before it simulates.
    let (code, _, err) = run(&["advise", line, "--gate=/none/gate.toml", "--seeds=1000"]);
    assert_eq!(code, 1);
    assert!(err.contains("cannot write /none/gate.toml"), "{err}");
}

#[test]
fn a_configuration_that_is_taken_for_a_capture_is_told_how_to_be_given() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("router.conf");
    fs::write(&file, "interface GigabitEthernet0/1\n").expect("written");
    let (code, _, err) = advise(&[file.to_str().expect("text")]);
    assert_eq!(code, 1);
    assert!(
        err.contains("A router's configuration is given with --config"),
        "{err}"
    );
}

/// Videos and short transfers that are not complete at the end waited longer than is seen.
#[test]
fn waits_that_are_cut_off_are_lower_bounds() {
    let limit = ["--rate", "5mbit", "--burst", "8kB", "--flows", "4"];
    let little = ["--seeds", "3", "--duration", "5s"];
    let asked = [&["advise"], &limit[..], &little[..]].concat();
    let (code, out, err) = run(&asked);
    assert_eq!(code, 0, "{err}");
    let line = |measure: &str| {
        let line = out.lines().find(|line| line.trim().starts_with(measure));
        line.unwrap_or_else(|| panic!("{measure} in {out}"))
    };
    for measure in ["a short transfer", "a viewer's wait"] {
        let line = line(measure);
        assert!(
            line.contains(" >") && line.contains(", at least "),
            "{line}"
        );
    }
    let today = line("today: policer");
    assert_eq!(
        today.matches('>').count(),
        3,
        "JOIN, STALLED, 300 kB: {today}"
    );
    let (code, out, err) = run(&[&asked[..], &["--json"]].concat());
    assert_eq!(code, 0, "{err}");
    let all: Value = serde_json::from_str(&out).expect("JSON");
    let share = &all["options"][0]["effect"]["videos_incomplete_share"];
    assert!(share.as_f64().expect("a share") > 0.5, "{share}");
    let claims = all["claims"].as_array().expect("claims");
    let wait = claims
        .iter()
        .find(|claim| claim["measure"] == "video_wait_s");
    let wait = wait.expect("a claim");
    assert_eq!(wait["lower_bounds"], serde_json::json!([true, false]));
    assert_eq!(wait["known"], false);
}

#[test]
fn what_gets_worse_is_said() {
    let shaper = ["--rate", "5mbit", "--queue", "1MB"];
    let (code, out, err) = advise(&shaper);
    assert_eq!(code, 0, "{err}");
    let (_, costs) = out.split_once("What it costs\n").expect("costs");
    let costs = costs.lines().next().unwrap_or_default();
    assert!(
        costs.starts_with("  packets dropped ") && costs.ends_with(" (worse)"),
        "{costs}"
    );
    let all: Value =
        serde_json::from_str(&advise(&[&shaper[..], &["--json"]].concat()).1).expect("JSON");
    assert_eq!(all["costs"][0]["measure"], "loss_rate");
    assert_eq!(all["costs"][0]["clear"], true);
}

/// The gate's smallest phantom queue limits nothing for minutes at such a rate.
#[test]
fn nothing_is_advised_that_does_not_limit() {
    let slow = ["--rate", "8kbit", "--burst", "2kB"];
    let (code, out, err) = advise(&slow);
    assert_eq!(code, 0, "{err}");
    let words: Vec<&str> = out.split_whitespace().collect();
    assert!(
        words
            .join(" ")
            .contains("BC-PQP is not simulated: the smallest phantom queue"),
        "{out}"
    );
    assert!(out.contains("Leave it as it is"), "{out}");
    // A bucket that is much of what passes is remarked on.
    let (code, out, err) = advise(&["--rate", "5mbit", "--burst", "2MB"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("Today's bucket is full at first"), "{out}");
}
