use super::*;
use crate::parse_value;

fn policy(toml: &str) -> Result<PolicyTree, (usize, String)> {
    let node = parse_value(0, toml).expect("TOML");
    read(&node).map_err(|mistake| (mistake.place.byte, mistake.message))
}

#[test]
fn policies_are_nested_tables_and_lists() {
    let nested = "{ priority = ['queue', { weighted = [[4, { fair = 8 }], [1, 'queue']] }] }";
    let parts = vec![
        (4, PolicyTree::fair(8).expect("8 queues")),
        (1, PolicyTree::queue()),
    ];
    let weighted = PolicyTree::weighted(parts).expect("two parts");
    let wanted = PolicyTree::priority(vec![PolicyTree::queue(), weighted]);
    assert_eq!(policy(nested), Ok(wanted.expect("two parts")));
    assert_eq!(policy("'queue'"), Ok(PolicyTree::queue()));
    let hosts = PolicyTree::hosts(4, 3).expect("four hosts");
    assert_eq!(policy("{ hosts = [4, 3] }"), Ok(hosts));
}

#[test]
fn mistakes_are_where_they_are_written() {
    for (toml, byte, message) in [
        ("{ fair = 0 }", 9, "`fair` must be from 1 to 1023"),
        ("{ fiar = 4 }", 2, "unknown policy `fiar`: a policy is"),
        ("{ fair = 4, queue = 1 }", 0, "a policy is"),
        ("{ weighted = 4 }", 13, "a policy is"),
        ("{ hosts = [4] }", 10, "`hosts` takes two numbers"),
        ("{ hosts = [4, 0] }", 14, "`hosts` must be from 1"),
        (
            "{ weighted = [[0, 'queue']] }",
            15,
            "`weight` must be from 1 to 10000",
        ),
        (
            "{ weighted = [['queue']] }",
            14,
            "a weighted part is a pair",
        ),
        ("{ priority = [] }", 13, "a policy needs at least one queue"),
        ("{ priority = ['quee'] }", 14, "a policy is"),
        ("12", 0, "a policy is"),
    ] {
        let (at, told) = policy(toml).expect_err(toml);
        assert!(at == byte && told.starts_with(message), "{at}: {told}");
    }
    let deep = "{ priority = [".repeat(20) + "'queue'" + &"] }".repeat(20);
    let (_, told) = policy(&deep).expect_err("deep");
    assert_eq!(told, "policies can be nested at most 8 deep");
}
