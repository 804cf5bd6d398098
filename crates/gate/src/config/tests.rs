mod endpoints;
mod errors;
mod lists;
mod nodes;
mod terms;
mod watch;

use proptest::prelude::*;

use tidegate_limiter::{BurstControl, LimiterConfig, PhantomQueuesConfig, PolicyTree};
use tidegate_notation::{Key, Section};

use super::*;
use crate::limits::FlowRule;
use crate::table::Hook;

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

const IMPORT: &str = "[[import]]\ncsv = \"users.csv\"\nplan = \"gold\"\n";

const SHAPED: &str = "# LibreQoS\n#\nCircuit ID,Circuit Name,Device ID,Device Name,Parent Node,MAC,IPv4,IPv6,Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps,Comment,sqm
1,\"968 Circle St., Gurnee\",1,Device 1,AP_A,,\"100.64.0.1, 100.64.0.14\",fdd7:b724:0:100::/56,1,1,155,20,,
2,\"31 Marconi Street\",2,Device 2,AP_A,,100.64.0.2,,0.5,0.5,2.5,1.0,Fractional,fq_codel
2794,\"6 Littleton Drive\",5,Device 5,AP_11,,100.64.0.5,fdd7:b724:0:500::/56,1,1,105,18,,
2794,\"6 Littleton Drive\",6,Device 6,AP_11,,100.64.0.6,,1,1,100,10,Down=cake, Up=fq_codel,cake/fq_codel
";

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

/// Errors without the lines that they quote.
fn wrong(text: &str, others: &[(&str, &str)]) -> Vec<String> {
    let errors = with(text, others).expect_err(text);
    let first_line = |problem: &Problem| {
        let text = problem.to_string();
        text.lines().next().unwrap_or("").to_owned()
    };
    errors.problems.iter().map(first_line).collect()
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
    assert_eq!(
        (&*ann.name, ann.declared.plan.as_deref()),
        ("ann", Some("gold"))
    );
    let PerDirection { down, up } = &ann.limits;
    assert_eq!(
        (down.rate(), up.rate()),
        (Some(100_000_000), Some(20_000_000))
    );
    let down = phantom(down);
    assert_eq!(*down.program().policy(), PolicyTree::default());
    assert_eq!(down.burst_control(), Some(BurstControl::DEFAULT));
    let rate = tidegate_limiter::Rate::from_bits_per_second(100_000_000);
    let path = tidegate_limiter::sizing::Path {
        rtt: 100_000_000,
        mss: 1500,
    };
    let advice = tidegate_limiter::sizing::phantom_queue(rate, path);
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
    let queues = &sound(&small).subscribers[0].limits.down;
    assert_eq!(phantom(queues).queue(), 4 * 65_536);
    let policer = small.replace("rtt = \"1ms\"", "rtt = \"1ms\"\nscheme = \"policer\"");
    let LimiterConfig::Policer(policer) = &sound(&policer).subscribers[0].limits.up.limiter else {
        panic!("of another scheme");
    };
    assert_eq!(policer.burst(), 2 * 65_536);
}

/// A file that writes each default as the documentation has it means the same as one that leaves all out.
#[test]
fn documented_defaults_are_those_of_the_gate() {
    let written = |section: Section| -> String {
        // These belong to other schemes than the default one.
        let others = ["burst", "period", "upper", "lower"];
        let keys = section
            .keys
            .iter()
            .filter(|key| !others.contains(&key.name));
        let lines = keys.filter_map(Key::written_default);
        lines.map(|line| line + "\n").collect()
    };
    let rest = |file: &str, hook: &str, plan: &str, accounting: &str, metrics: &str| {
        sound(&format!(
            "{file}[[interface]]\nname = \"eth0\"\nside = \"core\"\n{hook}[plan.p]\ndown = \"10mbit\"\n{plan}\
             [[subscriber]]\nname = \"ann\"\nplan = \"p\"\nvlan = 7\n[accounting]\n{accounting}\
             [metrics]\nlisten = \"127.0.0.1:9642\"\n{metrics}"
        ))
    };
    let [file, hook, plan, accounting, metrics] = [
        keys::FILE,
        keys::INTERFACE,
        keys::PLAN,
        ACCOUNTING,
        keys::METRICS,
    ]
    .map(written);
    for key in ["pins", "log", "hook", "policy", "rtt", "overhead", "queues"] {
        let all = [&file, &hook, &plan, &accounting, &metrics];
        assert!(
            all.iter().any(|lines| lines.contains(&format!("{key} = "))),
            "{key}"
        );
    }
    assert_eq!(
        rest(&file, &hook, &plan, &accounting, &metrics),
        rest("", "", "", "", "")
    );
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
nat = true
[plan.voice]
down = "10mbit"
up = { rate = "2mbit", policy = { fair = 4 }, queue = "300kB" }
policy = { priority = ["queue", { weighted = [[4, { fair = 8 }], [1, "queue"]] }] }
default-class = 1
excess = "cs1"
scheme = "bc-pqp-paper"
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
name = "single"
down = "3mbit"
addresses = "0.0.0.0/0"
"#;
    let config = sound(text);
    assert_eq!(
        config
            .attachments
            .iter()
            .map(|attachment| (attachment.hook, attachment.direction))
            .collect::<Vec<_>>(),
        [
            (Hook::NatIngress, Direction::Down),
            (Hook::NatEgress, Direction::Up)
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
    let program = plan.limiter().program().expect("a policy");
    assert_eq!((program.queues(), program.classes().len()), (10, 3));
    assert_eq!(
        (
            *plan.rules()[1].source_ports.start(),
            *plan.rules()[1].destination_ports.end()
        ),
        (443, 5100)
    );
    let up = voice.up.limits(Direction::Up, None).expect("sound");
    assert_eq!(
        (up.rate(), up.queues(), up.mark),
        (Some(2_000_000), 4, Some(8))
    );
    // Rules name the classes of a policy. Another policy has other classes.
    assert_eq!((up.rules.len(), up.default_class), (0, None));
    let [tagged, single] = &config.subscribers[..] else {
        panic!("two")
    };
    assert_eq!(tagged.declared.matches.len(), 4);
    assert_eq!(tagged.limits.down.limiter, LimiterConfig::Unlimited);
    assert_eq!(single.limits.down.rate(), Some(3_000_000));
    assert_eq!(single.limits.up.limiter, LimiterConfig::Unlimited);
}

#[test]
fn rules_mean_the_same_in_both_directions() {
    let rule = FlowRule {
        remote_ports: Some(443..=443),
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

#[test]
fn files_are_regular_and_there() {
    let error = Config::read(Path::new("/dev/zero"))
        .expect_err("endless")
        .to_string();
    assert_eq!(error, "/dev/zero: is not a regular file");
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
        let known: [(&str, &str); 3] = [
            ("subscribers.csv", users),
            ("ShapedDevices.csv", SHAPED),
            ("network.json", nodes::NETWORK),
        ];
        with(text, &known).unwrap_or_else(|error| panic!("{error}\n{text}"));
        examples += 1;
    }
    assert!(examples >= 2);
}

/// The documentation has exactly the tables that `schema` prints.
#[test]
fn every_key_is_documented() {
    let docs = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/gate-configuration.md"
    );
    let docs = std::fs::read_to_string(docs).expect("the documentation");
    assert!(docs.contains(&schema()), "put this into it:\n{}", schema());
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
    // Time on the processor, because the machine may do other work.
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
        let empty = crate::state::GateState::empty("/pins".into(), [1, 2]);
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
        let _: crate::state::GateState = serde_json::from_slice(&written).expect("a state");
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
