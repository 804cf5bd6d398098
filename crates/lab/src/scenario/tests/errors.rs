//! How mistakes are reported, and where.

use super::*;

/// Each error with the line and column of the mistake.
#[test]
fn errors_say_where_and_what_to_do() {
    let cases = [
        (
            "rtt = \"2ms..50ms\"",
            "rtx = \"2ms\"",
            "a.toml:18:1: unknown key `rtx` in a flow, did you mean `rtt`?",
        ),
        (
            "\"10mbit\"",
            "\"10\"",
            "a.toml:6:8: `rate`: '10' has no known unit of rate: use bit, kbit, mbit, gbit or tbit (bits per second)",
        ),
        (
            "\"10mbit\"",
            "10",
            "a.toml:6:8: `rate`: '10' has no known unit of rate: use bit, kbit, mbit, gbit or tbit (bits per second)",
        ),
        (
            "\"10mbit\"",
            "\"0mbit\"",
            "a.toml:6:8: `rate` must be from 8 kbit/s to 400 Gbit/s",
        ),
        (
            "\"2s\"",
            "\"2sec\"",
            "a.toml:1:12: `duration`: '2sec' is not a time: write a number and ns, us, ms, s, min or h, such as 100ms or 1.5s",
        ),
        (
            "duration = \"2s\"",
            "",
            "a.toml:1:1: `duration` is missing: write such as duration = \"30s\"",
        ),
        (
            "\"radio\"]",
            "\"radoi\"]",
            "a.toml:19:17: there is no element `radoi`, did you mean `radio`?",
        ),
        (
            "[\"gate\", \"radio\"]",
            "[\"gate\", \"radio\", \"gate\"]",
            "a.toml:19:26: `path` has `gate` already: packets pass it once",
        ),
        (
            "[\"gate\", \"radio\"]",
            "[]",
            "a.toml:19:8: the path of a flow is empty: name at least one element",
        ),
        (
            "\"bc-pqp\"",
            "\"bcpqp\"",
            "a.toml:5:8: `kind` cannot be `bcpqp`, did you mean `bc-pqp`?",
        ),
        (
            "kind = \"link\"",
            "kind = \"link\"\nburst = \"1kB\"",
            "a.toml:11:1: unknown key `burst` in an element of kind link: there are name, kind, shared, node, rate, rates, period, trace, queue",
        ),
        (
            "\"2ms..50ms\"",
            "\"50ms..2ms\"",
            "a.toml:18:7: `rtt`: the range 50ms..2ms ends before it begins",
        ),
        (
            "rate = \"10mbit\"",
            "rate = \"10mbit\"\npolicy = { weighted = [[0, \"queue\"]] }",
            "a.toml:7:25: `weight` must be from 1 to 10000",
        ),
        (
            "rate = \"10mbit\"",
            "rate = \"10mbit\"\npolicy = { fair = 0 }",
            "a.toml:7:19: `fair` must be from 1 to 1023",
        ),
        (
            "rate = \"10mbit\"",
            "rate = \"10mbit\"\npolicy = \"queue\"\nqueue = \"32kb\"",
            "a.toml:8:9: `queue`: '32kb' ",
        ),
        (
            "count = 4",
            "count = 4\nback = \"gate\"",
            "a.toml:17:8: `back` is a list of names: write back = [\"gate\"]",
        ),
        (
            "count = 4",
            "count = 4\nclass = 1",
            "a.toml:17:9: there is no class 1 in the policy of `gate`: it has 1, from 0",
        ),
        (
            "count = 4",
            "count = 4\naggregate = \"home\"",
            "a.toml:17:13: there is no aggregate `home`",
        ),
        (
            "count = 4",
            "count = -1",
            "a.toml:16:9: `count` must be from 0 to 100000",
        ),
        (
            "name = \"radio\"",
            "name = \"gate\"",
            "a.toml:8:1: the name `gate` is taken by an element: choose another",
        ),
        (
            "name = \"radio\"",
            "name = \"../x\"",
            "a.toml:9:8: names are up to 64 letters",
        ),
        (
            "[[flow]]",
            "[[flwo]]",
            "a.toml:14:3: unknown key `flwo` in a scenario, did you mean `flow`?",
        ),
        (
            "[[flow]]",
            "[flow]",
            "a.toml:14:1: write [[flow]] with two brackets: there may be several",
        ),
        ("[[flow]]", "[[flow", "a.toml:14:7: this is not TOML: "),
        (
            "cc = [",
            "cc = [1, ",
            "a.toml:17:7: `cc` is one of reno, cubic, bbr, bbr3, vegas, dctcp, prague, not a number",
        ),
        (
            "[[flow]]",
            "[sweep]\n\"gat.rate\" = [\"1mbit\"]\n[[flow]]",
            "a.toml:15:15: `gat` is no element, node, flow, aggregate or key of the file, did you mean `gate`?",
        ),
        (
            "[[flow]]",
            "[sweep]\n\"gate.rate\" = [\"1mbit\"]\ngate.rate = [\"2mbit\"]\n[[flow]]",
            "a.toml:16:13: `gate.rate` is varied here, and `gate.rate` before: leave one of them out",
        ),
        (
            "[[flow]]",
            "[sweep]\ngate = [{ rate = \"1mbit\" }, { kind = \"pqp\" }]\n\"gate.rate\" = [\"2mbit\"]\n[[flow]]",
            "a.toml:16:15: `gate.rate` is varied here, and `gate.rate` before, by `gate`: leave one of them out",
        ),
        (
            "[[flow]]",
            "[sweep]\n\"gate.policy.fair\" = [1, 2]\ngate = [{ policy = { fair = 4 } }]\n[[flow]]",
            "a.toml:16:8: `gate.policy` is varied here, and `gate.policy.fair` before: leave one of them out",
        ),
        (
            "[[flow]]",
            "[sweep]\nseed = [1, 2]\nseeds = 3\n[[flow]]",
            "a.toml:16:9: `seed` lists the seeds, so `seeds` says nothing: leave one of them out",
        ),
        (
            "[[flow]]",
            "[sweep]\n\"gate.rate\" = [\"1mbit\", \"2mbti\"]\n[[flow]]",
            "a.toml:15:25: `rate`: '2mbti' has no known unit",
        ),
        (
            "[[flow]]",
            "[sweep]\n\"gate.rate\" = \"1mbit\"\n[[flow]]",
            "a.toml:15:15: `gate.rate` is varied over a list of values, such as [1, 2]",
        ),
    ];
    for (from, to, wanted) in cases {
        assert!(SMALL.contains(from), "{from}");
        let error = parse(&SMALL.replacen(from, to, 1)).expect_err(to);
        assert!(error.starts_with(wanted), "{to}:\n  {error}\n  {wanted}");
    }
    assert!(
        parse("")
            .expect_err("empty")
            .starts_with("a.toml:1:1: `duration` is missing")
    );
    let error = parse("duration = \"1s\"").expect_err("no flow");
    assert_eq!(
        error,
        "a.toml:1:1: `flow` is missing: write at least one [[flow]]"
    );
}

#[test]
fn what_a_limiter_or_the_engine_would_refuse_is_refused_at_once() {
    let with = |gate: &str, aggregates: &str| {
        let top = if aggregates.starts_with("duration") {
            ""
        } else {
            "duration = \"1s\""
        };
        format!(
            "{top}\n{aggregates}\n[[element]]\nname = \"gate\"\nrate = \"1mbit\"\n{gate}\n\
             [[flow]]\nname = \"f\"\nrtt = \"10ms\"\npath = [\"gate\"]\n"
        )
    };
    for (text, complaint) in [
        (
            with("kind = \"bc-pqp-paper\"\nperiod = \"2min\"", ""),
            "7:10: the period of burst control",
        ),
        (
            with("kind = \"bc-pqp-paper\"\nupper = 1.5\nlower = 1.5", ""),
            "8:9: the lower threshold",
        ),
        (
            with(
                "kind = \"link\"\nqueue = { kind = \"pie\", update = \"1ns\" }",
                "",
            ),
            "3:1: PIE's update",
        ),
        (
            with("kind = \"loss\"\nprobability = 0.9\nburst = 2", "")
                .replace("rate = \"1mbit\"", ""),
            "3:1: bursts of 2 are too short",
        ),
        (
            with("kind = \"policer\"", "").replace("10ms", "0s"),
            "7:1: its round trip takes no time",
        ),
        (
            with("kind = \"policer\"", "").replace("10ms", "10ms\"\nreceive-window = \"100B"),
            "7:1: the receive window must hold a segment",
        ),
        (
            with(
                "kind = \"policer\"",
                "[[aggregate]]\nname = \"a\"\ncount = 2\n[[aggregate]]\nname = \"a-1\"",
            ),
            "5:1: two aggregates are called `a-1`",
        ),
        (
            with(
                "kind = \"policer\"",
                "duration = \"1000s\"\nwindow = \"1ms\"\nsweep = { seeds = 1000 }",
            ),
            "3:10: too many windows",
        ),
        (
            with(
                "kind = \"pqp\"\npolicy = { fair = 255 }",
                "duration = \"1000s\"\nsample = \"1ms\"",
            ),
            "3:10: 1000000 samples of 510 queues",
        ),
    ] {
        let error = Scenario::parse(&text).expect_err(&text);
        let wanted = format!("scenario:{complaint}");
        assert!(error.to_string().starts_with(&wanted), "{error}\n{wanted}");
    }
}

#[test]
fn values_for_no_flow_are_mistakes() {
    let cc = "count = 4\ncc = [\"reno\", \"cubic\"]";
    let with = |now: &str| parse(&SMALL.replace(cc, now));
    for (now, wanted) in [
        (
            "count = 1\ncc = [\"reno\", \"cubic\"]",
            "17:15: `cc` has 2 values for 1 flow",
        ),
        (
            "count = 2\ntraffic = { kind = \"bulk\", size = [\"1MB\", \"2MB\", \"3MB\"] }",
            "17:50: `size` has 3 values for 2 flows",
        ),
        (
            "count = 4\nper-aggregate = [\"cc\"]\ncc = [\"reno\", \"cubic\"]",
            "18:15: `cc` has 2 values for 1 aggregate",
        ),
        (
            "rate-limit = [\"1mbit\", \"2mbit\"]",
            "16:24: `rate-limit` has 2 values for 1 flow",
        ),
    ] {
        let error = with(now).expect_err(now);
        assert_eq!(error, format!("a.toml:{wanted}"));
    }
    // If the number is varied or set, there may be enough flows at another point.
    assert!(set(&["download.count=1"]).is_ok());
    for sweep in ["download.count = [1, 2]", "download = [{ count = 1 }]"] {
        assert!(
            parse(&format!("{SMALL}[sweep]\n{sweep}\n")).is_ok(),
            "{sweep}"
        );
    }
    assert!(
        with("count = 0\ncc = [\"reno\"]").is_err_and(
            |error| error == "a.toml:16:9: no flow sends: the `count` of every flow is 0"
        )
    );
}

/// Each aggregate has a fair policer of its own, and the flows of each must have the queues that they name.
#[test]
fn a_fair_policer_has_the_queues_that_flows_name() {
    let check = |gate: &str, flow: &str| {
        parse(&format!(
            "duration = \"1s\"\n[[element]]\nname = \"gate\"\nkind = \"fair-policer\"\nrate = \"10mbit\"\n{gate}\n\
             [[aggregate]]\nname = \"a\"\n[[aggregate]]\nname = \"b\"\n\
             [[flow]]\nname = \"x\"\naggregate = \"a\"\nrtt = \"20ms\"\npath = [\"gate\"]\n\
             [[flow]]\nname = \"y\"\naggregate = \"b\"\nrtt = \"20ms\"\npath = [\"gate\"]\n{flow}\n"
        ))
    };
    check("queues = 2", "queue = 1").expect("sound");
    assert_eq!(
        check("queues = 2", "queue = 5").expect_err("no such queue"),
        "a.toml:21:9: there is no queue 5 in `gate`: it has 2, from 0"
    );
    // Classes are those of other limiters' policies, unless the queues have weights.
    check("queues = 2", "class = 5").expect("sound");
    check("weights = [1, 3]", "class = 1").expect("sound");
    assert_eq!(
        check("weights = [1, 3]", "class = 2").expect_err("no such queue"),
        "a.toml:21:9: there is no class 2 in `gate`: its queues are its classes, and it has 2, from 0"
    );
    // The other forms have no queues.
    check("form = \"exact\"", "queue = 5").expect("sound");
}
