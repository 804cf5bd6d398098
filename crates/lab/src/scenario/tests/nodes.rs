use super::*;

const TREE: &str = r#"duration = "2s"

[[node]]
name = "site"
rate = "10mbit"

[[node]]
name = "east"
parent = "site"
rate = "5mbit"

[[element]]
name = "gate"
kind = "bc-pqp"
rate = "4mbit"
node = "east"

[[element]]
name = "radio"
kind = "link"
rate = "50mbit"

[[aggregate]]
name = "home"
count = 3

[[aggregate]]
name = "other"

[[flow]]
name = "load"
aggregate = "home"
rtt = "10ms"
path = ["gate"]

[[flow]]
name = "more"
aggregate = "other"
rtt = "10ms"
path = ["radio"]
"#;

fn groups(text: &str) -> Vec<Group> {
    let run = Run {
        point: 0,
        seed: 1,
        taps: false,
    };
    let scenario = Scenario::parse(text).expect(text);
    scenario.groups(run).expect("groups")
}

#[test]
fn aggregates_below_one_node_are_simulated_together() {
    // The last aggregate passes no limiter.
    let groups = groups(TREE);
    assert_eq!(groups.len(), 2);
    let plan = &groups[0].plan;
    assert_eq!((plan.aggregates.len(), plan.elements.len()), (3, 3));
    let below = |node: &crate::plan::NodePlan| node.limiters.clone();
    assert_eq!(
        plan.nodes.iter().map(below).collect::<Vec<_>>(),
        [vec![], vec![0, 1, 2]]
    );
    assert_eq!(plan.nodes[1].above, Some(0));
    // Without a node, they share nothing.
    let apart = TREE.replacen("node = \"east\"\n", "", 1);
    assert_eq!(self::groups(&apart).len(), 4);
}

#[test]
fn mistakes_in_nodes_are_reported_with_their_lines() {
    let text = TREE;
    for (from, to, wanted) in [
        (
            "node = \"east\"",
            "node = \"west\"",
            "a.toml:16:8: there is no node `west`: add [[node]] with this name",
        ),
        (
            "parent = \"site\"",
            "parent = \"gate\"",
            "a.toml:9:10: there is no node `gate`",
        ),
        (
            "parent = \"site\"",
            "parent = \"east\"",
            "a.toml:9:10: the way up from `east` does not end within 8 nodes",
        ),
        (
            "rate = \"5mbit\"\n",
            "",
            "a.toml:7:1: `rate` is missing in a node",
        ),
        (
            "rate = \"5mbit\"",
            "rate = \"1bit\"",
            "a.toml:10:8: `rate` must be from 8 kbit/s ",
        ),
        (
            "bc-pqp",
            "policer",
            "a.toml:16:8: only limiters of kind `pqp`, `bc-pqp` or `bc-pqp-paper` can be below a node",
        ),
        (
            "name = \"east\"",
            "name = \"site\"",
            "a.toml:7:1: the name `site` is taken by a node",
        ),
    ] {
        assert!(text.contains(from), "{from}");
        let error = parse(&text.replacen(from, to, 1)).expect_err(to);
        assert!(error.starts_with(wanted), "{error}, not {wanted}");
    }
    // Where the kind is varied, `node` is for those that can be below one.
    let varied = format!("{text}\n[sweep]\n\"gate.kind\" = [\"policer\", \"bc-pqp\"]\n");
    assert_eq!(groups(&varied).len(), 4);
}
