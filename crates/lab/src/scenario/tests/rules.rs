//! Flows that are classified by the headers of their packets.

use super::*;
use crate::plan::Plan;

const GATE: &str = r#"duration = "2s"

[[element]]
name = "gate"
kind = "KIND"
rate = "8mbit"
policy = { weighted = [[6, "queue"], [1, "queue"], [1, "queue"]] }

[[element.rule]]
class = 0
RULE

[[flow]]
name = "web"
rtt = "10ms"
path = ["gate"]

[[flow]]
name = "other"
OTHER
rtt = "10ms"
path = ["gate"]
start = "START"
"#;

fn text(kind: &str, rule: &str, other: &str) -> String {
    let text = GATE.replace("KIND", kind).replace("RULE", rule);
    text.replace("OTHER", other).replace("START", "0s")
}

fn plan(text: &str) -> Plan {
    one(&parse(text).expect("sound")).plan
}

/// Payload that the two flows received, over several starts: which packets are lost in slow start is chance.
fn delivered(text: &str) -> [u64; 2] {
    let mut sums = [0; 2];
    for start in ["0s", "10ms", "20ms", "30ms"] {
        let text = text.replace("\"0s\"", &format!("\"{start}\""));
        let outcome = crate::run(&plan(&text), &mut |_| true).expect("runs");
        sums = [0, 1].map(|flow| sums[flow] + outcome.flows[flow].delivered);
    }
    sums
}

/// Two flows in classes of weights 6 and 1: the flow that the rule matches gets far more, for each
/// key of a rule. No flow names its class.
#[test]
fn rules_find_the_class_of_packets() {
    for kind in ["shaper", "bc-pqp"] {
        for (rule, other) in [
            ("dscp = \"ef\"", "dscp = \"ef\""),
            ("dscp = \"46\"", "dscp = 46"),
            ("remote = \"192.0.2.0/24\"", "address = \"192.0.2.7\""),
            ("remote-ports = \"8000-8100\"", "port = 8080"),
            ("local = \"10.128.0.2\"", ""),
            ("local-ports = 10001", ""),
            (
                "remote = \"192.0.2.0/24\"\nremote-ports = 80\nprotocol = \"tcp\"\ndscp = \"ef\"",
                "address = \"192.0.2.7\"\nport = 80\ndscp = \"ef\"",
            ),
        ] {
            let [web, other] = delivered(&text(kind, rule, other));
            assert!(other > 4 * web, "{kind} {rule}: {web} {other}");
        }
        // The rule matches nothing: both flows belong to the last class.
        let [web, other] = delivered(&text(kind, "protocol = \"udp\"", "port = 1"));
        assert!(other < 3 * web, "{kind}: {web} {other}");
    }
}

#[test]
fn packets_that_no_rule_fits_are_of_the_default_class() {
    let of_default = |class: u16| {
        let text = text("shaper", "dscp = \"ef\"", "dscp = \"ef\"");
        let rule = format!("default-class = {class}\n[[element.rule]]\nclass = 1");
        delivered(&text.replace("[[element.rule]]\nclass = 0", &rule))
    };
    let [web, other] = of_default(0);
    assert!((4 * other..9 * other).contains(&web), "{web} {other}");
    let [web, other] = of_default(1);
    assert!(web < 4 * other, "{web} {other}");
    // A default class without rules is the class of all packets.
    let text = text("shaper", "", "class = 2");
    let text = text.replace("[[element.rule]]\nclass = 0\n", "default-class = 1\n");
    let ElementKind::Limiter { classes, .. } = &plan(&text).elements[0].kind else {
        panic!("no limiter");
    };
    let classes = classes.as_ref().expect("classified");
    assert_eq!((classes.rules.len(), classes.default), (0, Some(1)));
}

/// A limiter spreads flows over the same queues with and without a rule that has no keys.
#[test]
fn a_flow_has_one_hash() {
    let flows = "duration = \"1s\"\nsample = \"100ms\"\n[[element]]\nname = \"gate\"\nkind = \"shaper\"\nrate = \"8mbit\"\n\
        policy = { fair = 16 }\nRULE\n[[flow]]\nname = \"f\"\ncount = 9\nrtt = \"10ms\"\npath = [\"gate\"]\n\
        traffic = [\"bulk\", { kind = \"on-off\", pause = \"20ms\" }, { kind = \"udp\", rate = \"1mbit\" }]\n";
    let [plain, ruled] = ["", "default-class = 0"]
        .map(|rule| crate::run(&plan(&flows.replace("RULE", rule)), &mut |_| true).expect("runs"));
    assert_eq!(plain, ruled);
    assert!(
        plain.elements[0].samples.iter().any(|sample| sample
            .queues
            .iter()
            .filter(|&&queue| queue > 0)
            .count()
            > 3)
    );
}

#[test]
fn mistakes_in_rules_are_reported_with_their_lines() {
    let cases = [
        (
            "class = 9",
            "",
            "10:9: there is no class 9: the policy has 3, from 0 on",
        ),
        (
            "source = \"::/0\"",
            "",
            "11:1: unknown key `source` in a rule: there are class, remote,",
        ),
        (
            "remote = \"10.0.0.1/8\"",
            "",
            "11:10: '10.0.0.1/8' has bits set beyond its length",
        ),
        (
            "remote-ports = \"a-b\"",
            "",
            "11:16: 'a-b' is neither a port nor a range",
        ),
        (
            "dscp = 46",
            "",
            "11:8: `dscp` is text in quotes, not a number",
        ),
        (
            "protocol = \"tpc\"",
            "",
            "11:12: `protocol` cannot be `tpc`, did you mean `tcp`?",
        ),
        ("", "dscp = \"fe\"", "20:8: 'fe' is not one code point"),
        ("", "dscp = 64", "20:8: `dscp` must be from 0 to 63"),
        ("", "port = 0", "20:8: `port` must be from 1 to 65535"),
        (
            "",
            "address = \"::1\"",
            "20:11: '::1' is not an IPv4 address",
        ),
        (
            "",
            "address = \"10.129.0.1\"",
            "20:11: 10.128.0.0/9 are the clients",
        ),
    ];
    for (rule, other, wanted) in cases {
        let mut text = text("pqp", rule, other);
        if rule.starts_with("class") {
            text = text.replace("class = 0\n", "");
        }
        let error = parse(&text).expect_err(wanted);
        assert!(
            error.starts_with(&format!("a.toml:{wanted}")),
            "{error}\n{wanted}"
        );
    }
    let text = text("pqp", "", "");
    for (from, to, wanted) in [
        (
            "class = 0\n",
            "dscp = \"ef\"\n",
            "9:1: `class` is missing in a rule",
        ),
        (
            "[[element.rule]]",
            "[element.rule]",
            "9:1: write [[element.rule]] with two brackets",
        ),
        (
            "[[element.rule]]\nclass = 0",
            "default-class = 3",
            "9:17: there is no class 3",
        ),
        ("pqp", "policer", "7:1: unknown key `policy`"),
        (
            "policy = ",
            "rule = 1\n#",
            "7:8: write [[element.rule]] with two brackets",
        ),
    ] {
        let mut text = text.replace(from, to);
        if to.starts_with("rule") {
            text = text.replace("[[element.rule]]\nclass = 0", "");
        }
        let error = parse(&text).expect_err(wanted);
        assert!(
            error.starts_with(&format!("a.toml:{wanted}")),
            "{error}\n{wanted}"
        );
    }
    let many = "[[element.rule]]\nclass = 0\n".repeat(257);
    let error = parse(&text.replace("[[element.rule]]\nclass = 0\n", &many)).expect_err("many");
    assert!(
        error.contains("at most 256 rules can be given, these are 257"),
        "{error}"
    );
}
