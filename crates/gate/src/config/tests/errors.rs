//! Errors name their place, and what to do.

use super::*;

/// Each error with the line and column of the mistake.
#[test]
fn errors_say_where_and_what_to_do() {
    let cases = [
        (
            "side = \"core\"",
            "sied = \"core\"",
            "3:1: unknown key `sied` in an interface, did you mean `side`?",
        ),
        (
            "side = \"core\"",
            "side = \"cor\"",
            "3:8: `side` cannot be `cor`, did you mean `core`?",
        ),
        (
            "side = \"core\"",
            "side = \"core\"\ningress = \"up\"",
            "3:8: `side` says it all: leave out `ingress` and `egress`, or `side`",
        ),
        (
            "side = \"core\"",
            "",
            "1:1: `side` is missing in an interface",
        ),
        (
            "side = \"core\"",
            "egress = \"up\"\nhook = \"xdp\"",
            "3:10: XDP sees only what comes in: use the hook `tc`, or limit this direction where it comes in",
        ),
        (
            "side = \"core\"",
            "side = \"core\"\nhook = \"xdp\"\nnat = true",
            "5:7: XDP sees packets before the kernel can say which connection they belong to: use the hook `tc`",
        ),
        (
            "side = \"access\"",
            "side = \"access\"\nnat = true",
            "8:7: `nat` is for the interface with the public address: packets to subscribers come in there (side = \"core\", or ingress = \"down\" and egress = \"up\")",
        ),
        (
            "\"eth2\"",
            "\"eth1\"",
            "6:8: the interface eth1 is listed twice: give it all its keys in one place",
        ),
        (
            "\"eth2\"",
            "\"eth/2\"",
            "6:8: 'eth/2' cannot be an interface's name",
        ),
        (
            "[plan.gold]",
            "[plan.\"go ld\"]\n[plan.gold]",
            "9:7: names have 1 to 64 characters, without spaces, quotes and backslashes",
        ),
        (
            "100mbit",
            "100MBps",
            "10:8: `down`: '100MBps' has no known unit of rate: use bit, kbit, mbit, gbit or tbit (bits per second)",
        ),
        (
            "100mbit",
            "500gbit",
            "10:8: 500 Gbit/s is out of range: limiters enforce rates from 8 kbit/s to 400 Gbit/s",
        ),
        ("100mbit", "0mbit", "10:8: `down` must be more than 0"),
        (
            "up = \"20mbit\"",
            "up = 20",
            "11:6: `up`: '20' has no known unit of rate: use bit, kbit, mbit, gbit or tbit (bits per second)",
        ),
        (
            "up = \"20mbit\"",
            "policy = { fair = 25 }",
            "11:10: the policy has 25 queues, and there is room for 24",
        ),
        (
            "up = \"20mbit\"",
            "policy = { fiar = 4 }",
            "11:12: unknown policy `fiar`: a policy is \"queue\", { fair = 16 }, { hosts = [4, 4] }, { weighted = [[4, POLICY], [1, POLICY]] } or { priority = [POLICY, POLICY] }",
        ),
        (
            "up = \"20mbit\"",
            "scheme = \"bc-pqp-paper\"\nlower = 2",
            "12:9: the lower threshold of burst control must be below the upper one",
        ),
        (
            "up = \"20mbit\"",
            "period = \"50ms\"",
            "11:10: `period` is a key of scheme bc-pqp-paper, and the scheme of this plan is bc-pqp",
        ),
        (
            "up = \"20mbit\"",
            "burst = \"20kB\"",
            "11:9: `burst` is a key of scheme policer, fair-policer or shaper, and the scheme of this plan is bc-pqp",
        ),
        (
            "up = \"20mbit\"",
            "scheme = \"policer\"\npolicy = \"queue\"",
            "12:10: `policy` is a key of scheme bc-pqp, bc-pqp-paper, pqp or shaper, and the scheme of this plan is policer",
        ),
        (
            "up = \"20mbit\"",
            "scheme = \"shaper\"\nexcess = \"count\"",
            "12:10: a shaper only drops packets beyond the limit: leave out `excess`",
        ),
        (
            "up = \"20mbit\"",
            "scheme = \"unlimited\"",
            "10:8: an unlimited plan has no rate: leave out `down`, or the scheme",
        ),
        (
            "up = \"20mbit\"",
            "excess = \"ef,af41\"",
            "11:10: 'ef,af41' is neither \"drop\" nor one code point: write one such as \"cs1\" or 8",
        ),
        (
            "up = \"20mbit\"",
            "rule = [{ class = 1 }]",
            "11:19: there is no class 1: the policy has 1, from 0 on",
        ),
        (
            "up = \"20mbit\"",
            "rule = [{ dscp = \"ef\" }]",
            "11:9: `class` is missing in a rule",
        ),
        (
            "up = \"20mbit\"",
            "up = { policy = \"queue\" }",
            "11:6: `rate` is missing in a direction of a plan",
        ),
        (
            "plan = \"gold\"",
            "plan = \"glod\"",
            "15:8: there is no plan `glod`, did you mean `gold`?",
        ),
        (
            "plan = \"gold\"",
            "",
            "14:8: nothing limits `ann`: give it a plan, or rates",
        ),
        (
            "plan = \"gold\"",
            "down = \"x\"",
            "15:8: `down`: 'x' is not a rate: write a number and a unit, such as 10mbit, 1.5mbit or 500kbit",
        ),
        (
            "plan = \"gold\"",
            "donw = \"3mbit\"",
            "15:1: unknown key `donw` in a subscriber, did you mean `down`?",
        ),
        (
            "up = \"20mbit\"",
            "burst = \"1B\"",
            "11:9: `burst` is a key of scheme policer, fair-policer or shaper, and the scheme of this plan is bc-pqp",
        ),
        (
            "plan = \"gold\"",
            "down = \"1kbit\"",
            "15:8: 1.00 kbit/s is out of range: limiters enforce rates from 8 kbit/s to 400 Gbit/s",
        ),
        (
            "192.0.2.1",
            "192.0.2.1/24",
            "16:14: '192.0.2.1/24' has bits set beyond its length: did you mean 192.0.2.0/24?",
        ),
        (
            "192.0.2.1",
            "2001:db8:1::/56",
            "16:33: 2001:db8:1::/56 is given to `ann` twice",
        ),
        (
            "addresses = [\"192.0.2.1\", \"2001:db8:1::/56\"]",
            "",
            "14:8: nothing identifies the packets of `ann`: give it addresses, vlan, qinq or pppoe, or addresses = \"live\" if it gets them from the API or RADIUS (in an import: live = true)",
        ),
        (
            "addresses",
            "vlan = 4095\naddresses",
            "16:8: '4095' is not a VLAN tag: write a number from 1 to 4094",
        ),
        (
            "addresses",
            "qinq = 100.20\naddresses",
            "16:8: `qinq` is text in quotes, not a number",
        ),
        (
            "addresses",
            "qinq = \"100\"\naddresses",
            "16:8: '100' is not a pair of VLAN tags: write the outer and the inner one with a dot, such as 100.200",
        ),
        (
            "addresses",
            "pppoe = 65535\naddresses",
            "16:9: '65535' is not a PPPoE session: write a number from 1 to 65534",
        ),
        (
            "name = \"ann\"",
            "name = \"a b\"",
            "14:8: names have 1 to 64 characters, without spaces, quotes and backslashes",
        ),
        (
            "name = \"ann\"",
            "",
            "13:1: `name` is missing in a subscriber",
        ),
        (
            "[[interface]]\nname = \"eth1\"",
            "unknown = \"block\"\n[[interface]]\nname = \"eth1\"",
            "1:11: `unknown` cannot be `block`: there are pass, drop",
        ),
        (
            "[[interface]]\nname = \"eth1\"",
            "pins = \"bpf\"\n[[interface]]\nname = \"eth1\"",
            "1:8: `pins` must be an absolute path, which begins with /",
        ),
        (
            "[plan.gold]",
            "[api]\nlisten = \"127.0.0.1:80\"\ngroup = \"noc\"\n[plan.gold]",
            "11:9: a group is only for a Unix socket",
        ),
        (
            "[plan.gold]",
            "[api]\nlisten = \"0.0.0.0:80\"\n[plan.gold]",
            "10:10: 0.0.0.0:80 can be reached from elsewhere: name a file with a secret, token = \"…\", or listen on 127.0.0.1",
        ),
        (
            "[plan.gold]",
            "[api]\nlisten = \"127.0.0.1:80\"\n[metrics]\nlisten = \"127.0.0.1:80\"\ntoken = \"secret\"\n[plan.gold]",
            "11:1: the API listens there already, and serves metrics to clients with its secret: leave `token` out, or listen elsewhere",
        ),
        (
            "addresses",
            "vlan = 0x1000\naddresses",
            "16:8: '4096' is not a VLAN tag: write a number from 1 to 4094",
        ),
        (
            "[plan.gold]",
            "[accounting]\nlayer = 4\n[plan.gold]",
            "10:9: `layer` must be from 2 to 3",
        ),
        (
            "[plan.gold]",
            "[accounting]\noverhead = \"1kB\"\n[plan.gold]",
            "10:12: `overhead` must be from -256B to 256B",
        ),
        (
            "[plan.gold]",
            "[plan]\ngold = 5\n[plan.other]",
            "10:8: a plan is a table, not a number",
        ),
        (
            "[plan.gold]",
            "[plan.gold",
            "9:11: this is not TOML: unclosed table, expected `]`",
        ),
        (
            "[[subscriber]]",
            "[[import]]\ncsv = \"none.csv\"\n[[subscriber]]",
            "14:7: none.csv cannot be read: no such file",
        ),
    ];
    let mut missed: Vec<String> = Vec::new();
    for (from, to, wanted) in cases {
        assert!(SMALL.contains(from), "{from}");
        let errors = wrong(&SMALL.replacen(from, to, 1), &[]);
        // One mistake is one error.
        let wanted = [format!("gate.toml:{wanted}")];
        if errors != wanted {
            missed.push(format!("{wanted:?}\n{errors:#?}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    let plan = "[plan.gold]\ndown = \"1mbit\"\n";
    assert_eq!(
        wrong(plan, &[]),
        ["gate.toml:1:1: `interface` is missing in a gate's file"]
    );
}

#[test]
fn an_empty_file_is_told_what_to_write_and_that_is_sound() {
    let example = |text: &str, others: &[(&str, &str)]| {
        let errors = with(text, others).expect_err("empty").to_string();
        let (message, example) = errors.split_once('\n').expect("an example");
        assert!(message.contains(": this file is empty: "), "{errors}");
        let lines = example.lines().map(|line| line.trim_start().to_owned());
        lines.collect::<Vec<_>>().join("\n")
    };
    for empty in ["", "\n\n", "# to be written\n\n  # soon\n"] {
        let file = example(empty, &[]);
        assert_eq!(file.lines().count(), 2, "{file}");
        let config = sound(&file);
        assert_eq!((config.attachments.len(), config.subscribers.len()), (2, 1));
    }
    let text = SMALL
        .replace("ann", "zoe")
        .replace("192.0.2.1", "192.0.2.9");
    let text = format!("{text}{IMPORT}network = \"network.json\"\n");
    let network = example(&text, &[("users.csv", "name\n"), ("network.json", "\n")]);
    let users = example(&text, &[("users.csv", ""), ("network.json", &network)]);
    assert_eq!(users.lines().count(), 2, "{users}");
    let config = with(&text, &[("users.csv", &users), ("network.json", &network)]);
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((config.nodes.len(), config.subscribers.len()), (1, 2));
}

#[test]
fn all_errors_are_reported_with_their_lines() {
    let text = SMALL
        .replace("side", "sied")
        .replace("gold\"", "glod\"")
        .replace("20mbit", "20");
    let errors = parse(&text).expect_err("much is wrong").to_string();
    let wanted = "gate.toml:3:1: unknown key `sied` in an interface, did you mean `side`?
  sied = \"core\"
  ^
";
    assert!(errors.starts_with(wanted), "{errors}");
    assert!(errors.contains("gate.toml:15:8: there is no plan `glod`, did you mean `gold`?\n  plan = \"glod\"\n         ^"), "{errors}");
    assert!(errors.contains("gate.toml:11:6:"), "{errors}");
    let many: String = (0..40).map(|number| format!("key{number} = 1\n")).collect();
    let errors = parse(&format!("{many}{SMALL}")).expect_err("40 keys");
    assert_eq!((errors.problems.len(), errors.more), (20, 20));
    assert!(errors.to_string().ends_with("\nand 20 errors more"));
    // The text of the file cannot control a terminal.
    let errors = parse("\"\\u001b[2J\" = 1\n")
        .expect_err("no key")
        .to_string();
    assert!(!errors.contains('\u{1b}'), "{errors}");
}

/// Deep nesting does not take long, and neither does a mistake in every line.
#[test]
fn wrong_files_of_any_size_are_reported_at_once() {
    let began = std::time::Instant::now();
    for open in ["[", "{a=", "{ weighted = [[1, "] {
        assert!(parse(&format!("[plan.x]\npolicy = {}", open.repeat(5_000))).is_err());
    }
    let plan = |number| format!("[plan.p{number:0>60}]\n");
    let plans: String = (0..1000).map(plan).collect();
    let rows = |plan: &str, address: &str| -> String {
        let row = |number| format!("u{number},{plan},{address}\n");
        let header = std::iter::once("name,plan,addresses\n".to_owned());
        header.chain((0..20_000).map(row)).collect()
    };
    let wrong = rows(&"q".repeat(60), "10.0.0.1");
    let shared = rows(&format!("p{:0>60}", 7), "10.0.0.1");
    for users in [wrong, shared] {
        let text = format!("{SMALL}{plans}{IMPORT}");
        let errors = with(&text, &[("users.csv", &users)]).expect_err("all is wrong");
        assert_eq!(errors.problems.len(), 20);
        assert!(errors.more > 19_000);
    }
    // A long text before a line that has many mistakes.
    let (comments, addresses) = ("#\n".repeat(200_000), "x ".repeat(100_000));
    let users = format!("name,addresses\n{comments}bob,{addresses}\n");
    let errors = with(&format!("{SMALL}{IMPORT}"), &[("users.csv", &users)]).expect_err("wrong");
    assert!(errors.more > 99_000);
    let took = began.elapsed();
    assert!(took < std::time::Duration::from_secs(20), "{took:?}");
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,200}", at in 0usize..SMALL.len(), cut in 0usize..40) {
        let _ = parse(&text);
        let end = (at + cut).min(SMALL.len());
        let _ = parse(&format!("{}{text}{}", &SMALL[..at], &SMALL[end..]));
        let _ = with(&format!("{SMALL}{IMPORT}"), &[("users.csv", &text)]);
        let at = at.min(SHAPED.len() - 1);
        let shaped = format!("{}{text}{}", &SHAPED[..at], &SHAPED[at..]);
        let _ = with(&format!("{SMALL}{IMPORT}"), &[("users.csv", &shaped)]);
    }

    #[test]
    fn no_value_panics(key in prop::sample::select(SECTIONS.iter().flat_map(|section| section.keys).map(|key| key.name).collect::<Vec<_>>()),
        table in prop::sample::select(vec!["[[interface]]", "[plan.x]", "[plan.x.down]", "[[plan.x.rule]]", "[[subscriber]]", "[[import]]", "[api]", "[accounting]", "[metrics]", ""]),
        value in prop::sample::select(vec!["1", "-1", "99999999999999999999", "1.5", "nan", "\"\"", "\"a\"", "\"10mbit\"", "\"99999999999gbit\"", "true", "[]", "[[]]", "{}", "[{}]", "1979-05-27", "{ fair = 70000 }", "{ weighted = [[0, \"queue\"]] }", "[1, \"2\", {}]", "\"1-\"", "\"\\u0000\""])) {
        let _ = parse(&format!("{table}\n{key} = {value}\n"));
    }
}

#[test]
fn one_mistake_in_toml_is_one_error() {
    let cases = [
        (
            "[[subscriber]]\nname = \"x\"\naddresses = [\"192.0.2.1\", \"192.0.2.2\"\nplan = \"g\"\n[[subscriber]]\nname = \"y\"\n",
            vec![
                "gate.toml:4:1: this is not TOML: missing comma between array elements, expected `,`",
            ],
        ),
        (
            "name: bob\nplan: gold\n",
            vec![
                "gate.toml:1:5: this is not TOML: invalid unquoted key, expected letters, numbers, `-`, `_`",
            ],
        ),
        // Two mistakes.
        (
            "[plan.a]\ndown = 20mbit\nup = 3mbit\n",
            vec![
                "gate.toml:2:8: this is not TOML: string values must be quoted, expected literal string",
                "gate.toml:3:6: this is not TOML: string values must be quoted, expected literal string",
            ],
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(wrong(text, &[]), expected);
    }
}

#[test]
fn subscribers_are_bound_to_places_that_are_there() {
    let bound =
        |key: &str| SMALL.replace("plan = \"gold\"\n", &format!("plan = \"gold\"\n{key}\n"));
    let config = sound(&bound(
        "from-port = \"eth2\"\nfrom-mac = \"0200.0000.0102\"\nfrom-vlan = 7",
    ));
    let from = &config.subscribers[0].declared.from;
    assert_eq!(
        from.texts(),
        ["port eth2", "mac 02:00:00:00:01:02", "vlan 7"]
    );
    for (key, error) in [
        (
            "from-port = \"eth1\"",
            "gate.toml:16:13: no packets from subscribers come in at eth1: `from-port` names an interface of the file with side = \"access\"",
        ),
        (
            "from-mac = \"02:00\"",
            "gate.toml:16:12: '02:00' is not a MAC address: write six bytes, such as 02:00:00:00:00:01",
        ),
        (
            "from-vlan = \"7.4095\"",
            "gate.toml:16:13: '4095' is not a VLAN tag: write a number from 1 to 4094",
        ),
    ] {
        assert_eq!(wrong(&bound(key), &[]), [error]);
    }
    let csv = "name,addresses,from-port,from-mac,from-vlan\nbob,192.0.2.2,eth2,02:00:00:00:01:02,7.8\ncem,192.0.2.3,,,\n";
    let config = with(&format!("{SMALL}{IMPORT}"), &[("users.csv", csv)]).expect("sound");
    let texts = |number: usize| config.subscribers[number].declared.from.texts();
    assert_eq!(texts(1), ["port eth2", "mac 02:00:00:00:01:02", "qinq 7.8"]);
    assert!(texts(2).is_empty());
}
