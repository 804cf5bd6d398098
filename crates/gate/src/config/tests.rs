use proptest::prelude::*;

use tidegate_limiter::{BurstControl, LimiterConfig, PhantomQueuesConfig, PolicyTree};

use super::*;
use crate::limits::FlowRule;

const SMALL: &str = r#"[[interface]]
name = "eth1"
side = "core"

[[interface]]
name = "eth2"
side = "access"

[plan.gold]
down = "100mbit"
up = "20mbit"

[[subscriber]]
name = "ann"
plan = "gold"
addresses = ["192.0.2.1", "2001:db8:1::/56"]
"#;

/// Checks a file with others beside it.
fn with(text: &str, others: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
    let load = |path: &Path| {
        let found = others.iter().find(|(name, _)| Path::new(name) == path);
        let text = found.map(|(_, text)| (*text).to_owned());
        text.ok_or_else(|| "cannot be read: no such file".to_owned())
    };
    Config::parse(Path::new("gate.toml"), text.to_owned(), &load)
}

fn parse(text: &str) -> Result<Config, ConfigErrors> {
    with(text, &[])
}

fn sound(text: &str) -> Config {
    parse(text).unwrap_or_else(|error| panic!("{error}"))
}

/// Errors without the lines that they show.
fn wrong(text: &str, others: &[(&str, &str)]) -> Vec<String> {
    let errors = with(text, others).expect_err(text);
    let tell = |problem: &Problem| {
        let text = problem.to_string();
        text.lines().next().unwrap_or("").to_owned()
    };
    errors.problems.iter().map(tell).collect()
}

#[test]
fn a_small_file_says_all_that_is_needed() {
    let config = sound(SMALL);
    let attachment = |interface: &str, direction| Attachment {
        interface: interface.to_owned(),
        hook: Hook::TcIngress,
        direction,
    };
    assert_eq!(
        config.attachments,
        [
            attachment("eth1", Direction::Down),
            attachment("eth2", Direction::Up)
        ]
    );
    let ann = &config.subscribers[0];
    assert_eq!((&*ann.name, ann.plan.as_deref()), ("ann", Some("gold")));
    let [down, up] = &ann.limits;
    assert_eq!(
        (down.rate(), up.rate()),
        (Some(100_000_000), Some(20_000_000))
    );
    let down = phantom(down);
    assert_eq!(*down.program().policy(), PolicyTree::default());
    assert_eq!(down.burst_control(), Some(BurstControl::DEFAULT));
    let rate = tidegate_limiter::Rate::from_bits_per_second(100_000_000);
    let advice = tidegate_limiter::sizing::phantom_queue(rate, 100_000_000, 1500);
    assert_eq!(down.queue(), advice);
    assert_eq!(
        (config.accounting.layer, config.accounting.overhead),
        (2, 0)
    );
    assert_eq!(config.unknown, Unknown::Pass);
    assert_eq!(config.pins, Path::new(Config::PINS));
}

fn phantom(limits: &Limits) -> &PhantomQueuesConfig {
    match &limits.limiter {
        LimiterConfig::PhantomQueues(config) => config,
        other => panic!("{other:?}"),
    }
}

#[test]
fn sizes_have_room_for_super_packets() {
    let small = SMALL
        .replace("100mbit", "64kbit")
        .replace("20mbit\"", "64kbit\"\nrtt = \"1ms\"");
    let queues = &sound(&small).subscribers[0].limits[0];
    assert_eq!(phantom(queues).queue(), 4 * 65_536);
    let policer = small.replace("rtt = \"1ms\"", "rtt = \"1ms\"\nscheme = \"policer\"");
    let LimiterConfig::Policer(policer) = &sound(&policer).subscribers[0].limits[1].limiter else {
        panic!("of another scheme");
    };
    assert_eq!(policer.burst(), 2 * 65_536);
}

#[test]
fn one_interface_and_every_key() {
    let text = r#"
unknown = "drop"
pins = "/sys/fs/bpf/other"
state = "/run/other"
log = "json"
[accounting]
layer = 3
overhead = "-14B"
[api]
listen = "unix:/run/other/api.sock"
[metrics]
listen = "0.0.0.0:9642"
token = "token"
subscribers = 20
queues = 5
[[interface]]
name = "wan"
hook = "tc"
ingress = "down"
egress = "up"
[plan.voice]
down = "10mbit"
up = { rate = "2mbit", policy = { fair = 4 }, queue = "300kB" }
policy = { priority = ["queue", { weighted = [[4, { fair = 8 }], [1, "queue"]] }] }
default-class = 1
excess = "cs1"
period = "50ms"
upper = 2
lower = 0.25
rtt = "40ms"
[[plan.voice.rule]]
class = 0
dscp = "ef,cs5"
[[plan.voice.rule]]
class = 2
remote = "198.51.100.0/24"
local = "2001:db8::/32"
remote-ports = 443
local-ports = "5000-5100"
protocol = "udp"
[plan.free]
scheme = "unlimited"
[[subscriber]]
name = "tagged@isp"
plan = "free"
vlan = [7, 8]
qinq = "100.200"
pppoe = 17
[[subscriber]]
name = "own"
down = "3mbit"
addresses = "0.0.0.0/0"
"#;
    let config = sound(text);
    assert_eq!(
        config
            .attachments
            .iter()
            .map(|own| (own.hook, own.direction))
            .collect::<Vec<_>>(),
        [
            (Hook::TcIngress, Direction::Down),
            (Hook::TcEgress, Direction::Up)
        ]
    );
    assert_eq!(
        (config.accounting.layer, config.accounting.overhead),
        (3, -14)
    );
    assert_eq!((config.log, config.unknown), (Log::Json, Unknown::Drop));
    let metrics = config.metrics.as_ref().expect("metrics");
    assert_eq!((metrics.subscribers, metrics.queues), (20, 5));
    assert_eq!(metrics.listen.to_string(), "0.0.0.0:9642");
    assert_eq!(
        config
            .api
            .as_ref()
            .map(|api| api.listen.to_string())
            .as_deref(),
        Some("unix:/run/other/api.sock")
    );
    let (_, voice) = config
        .plans
        .iter()
        .find(|(name, _)| name == "voice")
        .expect("there");
    let down = voice.down.limits(Direction::Down, None).expect("sound");
    assert_eq!(
        (down.mark, down.default_class, down.rules.len()),
        (Some(8), Some(1), 2)
    );
    let plan = down.plan().expect("sound");
    let program = plan.limiter.program().expect("a policy");
    assert_eq!((program.queues(), program.classes().len()), (10, 3));
    assert_eq!(
        (
            *plan.rules[1].source_ports.start(),
            *plan.rules[1].destination_ports.end()
        ),
        (443, 5100)
    );
    let up = voice.up.limits(Direction::Up, None).expect("sound");
    assert_eq!(
        (up.rate(), up.queues(), up.mark),
        (Some(2_000_000), 4, Some(8))
    );
    // Rules are about the classes of a policy: another one has its own.
    assert_eq!((up.rules.len(), up.default_class), (0, None));
    let [tagged, own] = &config.subscribers[..] else {
        panic!("two")
    };
    assert_eq!(tagged.matches.len(), 4);
    assert_eq!(tagged.limits[0].limiter, LimiterConfig::Unlimited);
    assert_eq!(own.limits[0].rate(), Some(3_000_000));
    assert_eq!(own.limits[1].limiter, LimiterConfig::Unlimited);
}

#[test]
fn rules_mean_the_same_in_both_directions() {
    let rule = FlowRule {
        remote_ports: Some((443, 443)),
        remote: Some("198.51.100.0/24".into()),
        ..FlowRule::default()
    };
    let [down, up] =
        [Direction::Down, Direction::Up].map(|direction| rule.rule(direction).expect("sound"));
    assert_eq!(
        (down.source, down.source_ports),
        (up.destination, up.destination_ports)
    );
    assert_eq!(
        (down.destination, down.destination_ports),
        (up.source, up.source_ports)
    );
    assert_ne!(down.source, down.destination);
}

/// Each error with the line and column of what is at fault.
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
            "\"eth2\"",
            "\"eth1\"",
            "6:8: the interface eth1 is there twice: give it all its keys in one place",
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
            "100mbps",
            "10:8: `down`: '100mbps' has no known unit of rate: use bit, kbit, mbit, gbit or tbit (bits per second)",
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
            "11:12: unknown policy `fiar`: a policy is \"queue\", { fair = 16 }, { weighted = [[4, POLICY], [1, POLICY]] } or { priority = [POLICY, POLICY] }",
        ),
        (
            "up = \"20mbit\"",
            "lower = 2",
            "11:9: the lower threshold of burst control must be below the upper one",
        ),
        (
            "up = \"20mbit\"",
            "burst = \"20kB\"",
            "11:9: `burst` belongs to scheme policer, this plan's is bc-pqp",
        ),
        (
            "up = \"20mbit\"",
            "scheme = \"policer\"\npolicy = \"queue\"",
            "12:10: `policy` belongs to scheme bc-pqp or pqp, this plan's is policer",
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
            "14:8: nothing tells the packets of `ann`: give it addresses, vlan, qinq or pppoe",
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
            "1:8: `pins` is a whole path, from / on",
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
            "11:1: the API listens there already, and tells metrics to who has its secret: leave `token` out, or listen elsewhere",
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
            "9:11: this is no TOML: unclosed table, expected `]`",
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
    assert_eq!(
        wrong("", &[]),
        ["gate.toml:1:1: `interface` is missing in a gate's file"]
    );
}

#[test]
fn all_errors_are_told_with_their_lines() {
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
    // What is written cannot steer a terminal.
    let errors = parse("\"\\u001b[2J\" = 1\n")
        .expect_err("no key")
        .to_string();
    assert!(!errors.contains('\u{1b}'), "{errors}");
}

#[test]
fn nobody_shares_an_address() {
    let more = "[[subscriber]]\nname = \"bob\"\nplan = \"gold\"\naddresses = [\"192.0.2.1/32\", \"192.0.2.0/24\"]\n";
    assert_eq!(
        wrong(&format!("{SMALL}{more}"), &[]),
        ["gate.toml:20:14: 192.0.2.1/32 belongs to `ann` already, in gate.toml:14"]
    );
    assert_eq!(
        wrong(&format!("{SMALL}{}", more.replace("bob", "ann")), &[])[0],
        "gate.toml:18:8: there is a subscriber `ann` already, in gate.toml:14"
    );
    // One within another's is told by its length.
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
        errors[0].contains(
            "10.0.0.0/32 is of one length too many: all IPv4 prefixes together may have 16"
        ),
        "{errors:?}"
    );
    // One of IPv6 with all of IPv4 in it is looked for among both.
    let both = [&prefixes[..16], &["\"::/0\"".to_owned()]].concat();
    let errors = wrong(&SMALL.replace("\"192.0.2.1\"", &both.join(",")), &[]);
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].contains("::/0 is of one length too many: all IPv4 prefixes together"),
        "{errors:?}"
    );
}

const IMPORT: &str = "[[import]]\ncsv = \"users.csv\"\nplan = \"gold\"\n";

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
            bob.matches.len(),
            bob.limits[0].rate(),
            bob.limits[1].rate()
        ),
        ("bob", 2, Some(5_000_000), Some(20_000_000))
    );
    assert_eq!(
        (&*cem.name, cem.plan.as_deref(), cem.matches.len()),
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

/// In the form of LibreQoS's own example, with the notes above the header and a comma in a name.
const SHAPED: &str = "# LibreQoS\n#\nCircuit ID,Circuit Name,Device ID,Device Name,Parent Node,MAC,IPv4,IPv6,Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps,Comment,sqm
1,\"968 Circle St., Gurnee\",1,Device 1,AP_A,,\"100.64.0.1, 100.64.0.14\",fdd7:b724:0:100::/56,1,1,155,20,,
2,\"31 Marconi Street\",2,Device 2,AP_A,,100.64.0.2,,0.5,0.5,2.5,1.0,Fractional,fq_codel
2794,\"6 Littleton Drive\",5,Device 5,AP_11,,100.64.0.5,fdd7:b724:0:500::/56,1,1,105,18,,
2794,\"6 Littleton Drive\",6,Device 6,AP_11,,100.64.0.6,,1,1,100,10,Down=cake, Up=fq_codel,cake/fq_codel
";

#[test]
fn shaped_devices_are_circuits() {
    let text = SMALL.replace(
        "[[subscriber]]",
        "[[import]]\ncsv = \"ShapedDevices.csv\"\n[[subscriber]]",
    );
    let config =
        with(&text, &[("ShapedDevices.csv", SHAPED)]).unwrap_or_else(|error| panic!("{error}"));
    let told: Vec<(&str, u64, u64, usize)> = config.subscribers[1..]
        .iter()
        .map(|own| {
            (
                &*own.name,
                own.limits[0].rate().unwrap_or(0),
                own.limits[1].rate().unwrap_or(0),
                own.matches.len(),
            )
        })
        .collect();
    assert_eq!(
        told,
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
            "4:96: 'x' is no rate in Mbit/s: write a number such as 100 or 2.5",
        ),
        (",155,", ",,", "4:96: circuit `1` has no maximum rate here"),
        (
            "100.64.0.2,",
            ",",
            "5:1: nothing tells the packets of `2`: give it addresses, vlan, qinq or pppoe",
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

#[test]
fn files_are_regular_and_there() {
    let error = Config::read(Path::new("/dev/zero"))
        .expect_err("endless")
        .to_string();
    assert_eq!(error, "/dev/zero: is no regular file");
    let error = Config::read(Path::new("/nowhere/gate.toml"))
        .expect_err("none")
        .to_string();
    assert!(
        error.starts_with("/nowhere/gate.toml: cannot be read: "),
        "{error}"
    );
}

/// The file that comes with the package, and those of the documentation.
#[test]
fn what_we_show_is_sound() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let config = Config::read(&root.join("packaging/gate.example.toml"));
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    assert!(!config.subscribers.is_empty() && config.plans.len() > 1);
    let docs = std::fs::read_to_string(root.join("docs/reference/gate-configuration.md"))
        .expect("the documentation");
    let mut examples = 0;
    for block in docs.split("```toml\n").skip(1) {
        let text = block.split("```").next().unwrap_or("");
        let users = "name,plan,addresses\nzoe,gold,198.51.100.77\n";
        let known: [(&str, &str); 2] = [("subscribers.csv", users), ("ShapedDevices.csv", SHAPED)];
        with(text, &known).unwrap_or_else(|error| panic!("{error}\n{text}"));
        examples += 1;
    }
    assert!(examples >= 2);
}

/// The documentation has the very tables that `schema` prints.
#[test]
fn every_key_is_documented() {
    let docs = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/gate-configuration.md"
    );
    let docs = std::fs::read_to_string(docs).expect("the documentation");
    assert!(docs.contains(&schema()), "put this into it:\n{}", schema());
}

/// Neither depth nor a mistake in every line takes long.
#[test]
fn wrong_files_of_any_size_are_told_at_once() {
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
    // Much before a line that has much wrong with it.
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

/// Run with `cargo test --release -p tidegate-gate -- --ignored --nocapture speed`.
#[test]
#[ignore = "measures"]
fn speed() {
    use std::fmt::Write as _;
    let mut inline = String::from(
        "[[interface]]\nname = \"a\"\nside = \"core\"\n[plan.gold]\ndown = \"100mbit\"\nup = \"20mbit\"\n",
    );
    let import = format!("{inline}[[import]]\ncsv = \"users.csv\"\nplan = \"gold\"\n");
    let mut csv = String::from("name,down,up,addresses\n");
    let mut shaped = format!("{}\n", SHAPED.lines().nth(2).unwrap_or(""));
    for number in 0..100_000u32 {
        let (a, b, c) = (number >> 16, number >> 8 & 255, number & 255);
        let rate = 10 + number % 997;
        writeln!(
            csv,
            "user{number},{rate}mbit,10mbit,10.{a}.{b}.{c} 2001:db8:{a}:{:x}::/64",
            number & 0xffff
        )
        .expect("text");
        writeln!(inline, "[[subscriber]]\nname = \"user{number}\"\nplan = \"gold\"\naddresses = [\"10.{a}.{b}.{c}\", \"2001:db8:{a}:{:x}::/64\"]", number & 0xffff).expect("text");
        writeln!(shaped, "{number},\"Street, City\",{number},Device,AP,,10.{a}.{b}.{c},2001:db8:{a}:{:x}::/64,1,1,{rate}.5,10,,", number & 0xffff).expect("text");
    }
    // Time on the processor: others may be at work.
    let clock = || {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("told");
        let nanos = text.split(' ').next().and_then(|text| text.parse().ok());
        std::time::Duration::from_nanos(nanos.expect("a number"))
    };
    for (name, text, users) in [
        ("inline", &inline, ""),
        ("csv", &import, csv.as_str()),
        ("shaped", &import, shaped.as_str()),
    ] {
        let began = clock();
        let config = with(text, &[("users.csv", users)]).unwrap_or_else(|error| panic!("{error}"));
        let read = clock() - began;
        let began = clock();
        let empty = crate::state::State::empty("/pins".into(), [1, 2]);
        let (state, _) = crate::change::next(&empty, &config).expect("room");
        let _ = crate::change::changes(&empty, &state, &[], true);
        let started = clock() - began;
        let began = clock();
        let (again, _) = crate::change::next(&state, &config).expect("room");
        assert!(crate::change::changes(&state, &again, &again.attachments, true).is_empty());
        let reloaded = clock() - began;
        let began = clock();
        let written = serde_json::to_vec(&state).expect("text");
        let wrote = clock() - began;
        let began = clock();
        let _: crate::state::State = serde_json::from_slice(&written).expect("a state");
        eprintln!(
            "{name}: checked {read:?}, planned {started:?}, compared {reloaded:?}, {} bytes written {wrote:?}, read {:?}; {} plans",
            written.len(),
            (clock() - began),
            state.plans.contents().len()
        );
        assert_eq!(config.subscribers.len(), 100_000);
    }
}

#[test]
fn tags_that_xdp_may_not_see_are_doubted() {
    let tagged = SMALL.replace(
        "addresses = [\"192.0.2.1\", \"2001:db8:1::/56\"]",
        "vlan = 7",
    );
    assert_ne!(tagged, SMALL);
    let xdp = |text: &str| {
        let side = text.replacen("side = ", "hook = \"xdp\"\nside = ", 1);
        assert_ne!(side, text);
        sound(&side).doubts()
    };
    assert!(sound(&tagged).doubts().is_empty());
    assert!(xdp(SMALL).is_empty());
    let doubts = xdp(&tagged);
    assert_eq!(doubts.len(), 1);
    assert!(doubts[0].contains("rxvlan off"), "{doubts:?}");
}
