//! Nodes of the network, of the file and of LibreQoS.

use super::*;

/// In the form of LibreQoS's example: five levels, numbers, and a node that only groups others.
pub(super) const NETWORK: &str = r#"{
	"Site_1": {
		"downloadBandwidthMbps": 1000, "uploadBandwidthMbps": 1000.5, "type": "site",
		"children": {
			"AP_A": { "downloadBandwidthMbps": 500, "uploadBandwidthMbps": 400, "type": "ap", "id": "ap-a" },
			"Region": {
				"downloadBandwidthMbps": 1, "uploadBandwidthMbps": 1, "virtual": true,
				"children": { "PoP 5": { "downloadBandwidthMbps": 200, "uploadBandwidthMbps": 200,
					"children": { "AP_11": { "downloadBandwidthMbps": 30, "uploadBandwidthMbps": 30 } } } }
			}
		}
	},
	"Site_2": { "downloadBandwidthMbps": 500, "uploadBandwidthMbps": 500, "children": null }
}"#;

const LIBREQOS: &str = "[[import]]\ncsv = \"ShapedDevices.csv\"\nnetwork = \"network.json\"\n[[interface]]\nname = \"eth1\"\nside = \"core\"\n";

fn nodes(config: &Config) -> Vec<(&str, Option<&str>, [u64; 2])> {
    let nodes = config.nodes.iter();
    nodes
        .map(|node| {
            let parent = node.parent.as_deref();
            (node.name.as_str(), parent, node.capacity.values())
        })
        .collect()
}

#[test]
fn nodes_of_libreqos_keep_names_and_parents() {
    let others = [("ShapedDevices.csv", SHAPED), ("network.json", NETWORK)];
    let config = with(LIBREQOS, &others).unwrap_or_else(|error| panic!("{error}"));
    let mega = |down: u64, up: u64| [down * 1_000_000, up * 1_000_000];
    let mut found = nodes(&config);
    found.sort_unstable();
    let wanted = [
        ("AP_11", Some("PoP 5"), mega(30, 30)),
        ("AP_A", Some("Site_1"), mega(500, 400)),
        ("PoP 5", Some("Site_1"), mega(200, 200)),
        ("Site_1", None, [1_000_000_000, 1_000_500_000]),
        ("Site_2", None, mega(500, 500)),
    ];
    assert_eq!(found, wanted);
    let parents = config.subscribers.iter();
    let parents = parents.map(|one| (&*one.name, one.declared.parent.as_deref()));
    let wanted = [("1", "AP_A"), ("2", "AP_A"), ("2794", "AP_11")];
    assert!(parents.eq(wanted.map(|(name, parent)| (name, Some(parent)))));
    let limits = &config.subscribers[0].limits;
    assert_eq!(limits.down.node.as_deref(), Some("AP_A"));
}

#[test]
fn shapers_are_below_no_node() {
    let text = r#"
[[interface]]
name = "wan"
side = "core"
[[node]]
name = "mast"
rate = "1gbit"
[plan.held]
down = "10mbit"
scheme = "shaper"
[[subscriber]]
name = "ann"
plan = "held"
vlan = 7
"#;
    sound(text);
    let below = format!("{text}parent = \"mast\"\n");
    let refused = "a shaper cannot be below a node of the network: choose another scheme, or leave out `parent`";
    assert_eq!(wrong(&below, &[]), [format!("gate.toml:15:10: {refused}")]);
    // Nor is one that takes a plan's place at times.
    let slot = "schedule = [{ from = \"22:00\", to = \"06:00\", plan = \"held\" }]";
    let turned = below.replace(
        "[[sub",
        &format!("[plan.home]\ndown = \"10mbit\"\n{slot}\n[[sub"),
    );
    let turned = turned.replace("plan = \"held\"\nvlan", "plan = \"home\"\nvlan");
    assert_eq!(wrong(&turned, &[]), [format!("gate.toml:18:10: {refused}")]);
}

#[test]
fn parents_may_be_named_by_number_and_must_be_there() {
    let header = "Circuit ID,Parent Node,Parent Node ID,Anchor Node ID,IPv4,IPv6,Download Max Mbps,Upload Max Mbps\n";
    let shaped = |line: &str| format!("{header}{line}\n");
    let of = |line: &str| {
        let shaped = shaped(line);
        let others = [
            ("ShapedDevices.csv", shaped.as_str()),
            ("network.json", NETWORK),
        ];
        with(LIBREQOS, &others)
    };
    let parent = |line| {
        let config = of(line).unwrap_or_else(|error| panic!("{error}"));
        config.subscribers[0].declared.parent.clone()
    };
    assert_eq!(parent("1,,ap-a,,192.0.2.1,,10,10").as_deref(), Some("AP_A"));
    assert_eq!(parent("1,,,,192.0.2.1,,10,10"), None);
    let error = of("1,AP_B,,,192.0.2.1,,10,10").unwrap_err().to_string();
    assert!(
        error.contains("ShapedDevices.csv:2:3: there is no node `AP_B`") && error.contains("AP_A"),
        "{error}"
    );
    // Without nodes, parents have no meaning, as before there were nodes.
    let text = LIBREQOS.replace("network = \"network.json\"\n", "");
    let config = with(&text, &[("ShapedDevices.csv", SHAPED)]);
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    assert!(
        config
            .subscribers
            .iter()
            .all(|one| one.declared.parent.is_none())
    );
}

#[test]
fn nodes_of_the_file_are_shared_by_their_subscribers() {
    let node = "[[node]]\nname = \"site\"\nrate = \"1gbit\"\n\
        [[node]]\nname = \"ap\"\nparent = \"site\"\ndown = \"200mbit\"\nup = \"50mbit\"\n";
    let below = SMALL.replace("plan = \"gold\"\n", "plan = \"gold\"\nparent = \"ap\"\n");
    let config = sound(&format!("{below}{node}"));
    let giga = 1_000_000_000;
    let wanted = [
        ("site", None, [giga, giga]),
        ("ap", Some("site"), [giga / 5, giga / 20]),
    ];
    assert_eq!(nodes(&config), wanted);
    // Of CSV files too.
    let text = format!("{below}{node}{IMPORT}");
    let csv = "name,parent,addresses\nbob,site,192.0.2.7\neve,,192.0.2.8\n";
    let config = with(&text, &[("users.csv", csv)]).unwrap_or_else(|error| panic!("{error}"));
    let parents = config.subscribers.iter();
    let parents: Vec<_> = parents.map(|one| one.declared.parent.as_deref()).collect();
    assert_eq!(parents, [Some("ap"), Some("site"), None]);
}

#[test]
fn nodes_that_make_no_tree_are_refused() {
    let error = |nodes: &str, wanted: &str| {
        let errors = wrong(&format!("{SMALL}{nodes}"), &[]);
        assert!(
            errors.iter().any(|error| error.contains(wanted)),
            "{errors:?}"
        );
    };
    let node = |name: &str, parent: &str| {
        format!("[[node]]\nname = \"{name}\"\nparent = \"{parent}\"\nrate = \"1gbit\"\n")
    };
    error(&node("a", "a"), "node `a` is above itself");
    error(
        &format!("{}{}", node("a", "b"), node("b", "a")),
        "node `b` is above itself",
    );
    error(&node("a", "b"), "there is no node `b`");
    error(
        &format!("{}{0}", node("a", "b")),
        "there is a node `a` already",
    );
    error("[[node]]\nname = \"a\"\nrate = \"1bit\"\n", "out of range");
    error("[[node]]\nname = \"a\"\ndown = \"1mbit\"\n", "`up`");
    error("[[node]]\nrate = \"1mbit\"\n", "`name`");
    let chain = |length: usize| {
        let node = |number: usize| match number {
            0 => "[[node]]\nname = \"n0\"\nrate = \"1gbit\"\n".to_owned(),
            _ => node(&format!("n{number}"), &format!("n{}", number - 1)),
        };
        (0..length).map(node).collect::<String>()
    };
    sound(&format!("{SMALL}{}", chain(8)));
    error(
        &chain(9),
        "node `n8` has too many nodes above it: at most 7",
    );
    let missing = SMALL.replace("plan = \"gold\"\n", "plan = \"gold\"\nparent = \"ap\"\n");
    let errors = wrong(&missing, &[]);
    assert!(
        errors[0].contains("there is no node `ap`: the file has none"),
        "{errors:?}"
    );
}

#[test]
fn files_that_are_no_network_are_refused() {
    for (network, wanted) in [
        ("[]", "this is no network.json"),
        ("{ \"a\": 1 }", "node `a` is no object"),
        (
            "{\n \"a\": { \"downloadBandwidthMbps\": 1 } }",
            "network.json:2:2: node `a` has no `uploadBandwidthMbps`",
        ),
        ("{\n \"a\": {,", "this is not JSON"),
        (
            "{ \"a\": { \"downloadBandwidthMbps\": true, \"uploadBandwidthMbps\": 1 } }",
            "is no number",
        ),
        (
            "{ \"a\": { \"downloadBandwidthMbps\": -1, \"uploadBandwidthMbps\": 1 } }",
            "network.json",
        ),
        (
            "{ \"a\": { \"downloadBandwidthMbps\": 1, \"uploadBandwidthMbps\": 1, \"children\": 3 } }",
            "is no object",
        ),
        ("\u{1}", "this is not JSON"),
    ] {
        let others = [("ShapedDevices.csv", SHAPED), ("network.json", network)];
        let errors = wrong(LIBREQOS, &others);
        assert!(
            errors.iter().any(|error| error.contains(wanted)),
            "{errors:?}"
        );
    }
    // Deeper than the reader goes.
    let deep = "{\"a\":{\"children\":".repeat(10_000);
    let others = [
        ("ShapedDevices.csv", SHAPED),
        ("network.json", deep.as_str()),
    ];
    assert!(!wrong(LIBREQOS, &others).is_empty());
}
