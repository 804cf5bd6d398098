//! How policies are written.

use tidegate_limiter::PolicyTree;

use crate::{Mistake, Node, Value};

const FORMS: &str = "a policy is \"queue\", { fair = 16 }, { hosts = [4, 4] }, { weighted = [[4, POLICY], [1, POLICY]] } \
    or { priority = [POLICY, POLICY] }";

/// Reads a sharing policy.
///
/// # Errors
/// The first mistake in it.
pub fn read(node: &Node) -> Result<PolicyTree, Mistake> {
    nested(node, 0)
}

fn nested(node: &Node, depth: usize) -> Result<PolicyTree, Mistake> {
    const MOST: usize = PolicyTree::MAX_DEPTH;
    if depth > MOST {
        return Err(node.wrong(format!("policies can be nested at most {MOST} deep")));
    }
    let table = match &node.value {
        Value::Text(text) if text == "queue" => return Ok(PolicyTree::queue()),
        Value::Table(table) => table,
        _ => return Err(node.wrong(FORMS)),
    };
    let [(key, value)] = table.0.as_slice() else {
        return Err(node.wrong(FORMS));
    };
    let parts = || match &value.value {
        Value::List(list) => Ok(list.iter()),
        _ => Err(value.wrong(FORMS)),
    };
    let tree = match key.text.as_str() {
        "fair" => {
            let most = PolicyTree::MAX_NODES as u64 - 1;
            PolicyTree::fair(value.integer("fair", 1..=most)? as u16)
        }
        "hosts" => {
            let most = PolicyTree::MAX_NODES as u64 - 1;
            let mut numbers = Vec::new();
            for part in parts()? {
                numbers.push(part.integer("hosts", 1..=most)? as u16);
            }
            let [hosts, queues] = numbers[..] else {
                let message = "`hosts` takes two numbers: hosts, and queues of each, as in { hosts = [4, 4] }";
                return Err(value.wrong(message));
            };
            PolicyTree::hosts(hosts, queues)
        }
        "weighted" => {
            let parts: Result<Vec<_>, Mistake> = parts()?
                .map(|part| match &part.value {
                    Value::List(pair) if pair.len() == 2 => {
                        let most = PolicyTree::MAX_WEIGHT.into();
                        let weight = pair[0].integer("weight", 1..=most)?;
                        Ok((weight as u32, nested(&pair[1], depth + 1)?))
                    }
                    _ => Err(part.wrong("a weighted part is a pair: [4, POLICY]")),
                })
                .collect();
            PolicyTree::weighted(parts?)
        }
        "priority" => {
            let parts: Result<Vec<_>, Mistake> =
                parts()?.map(|part| nested(part, depth + 1)).collect();
            PolicyTree::priority(parts?)
        }
        other => {
            let message = format!("unknown policy `{other}`: {FORMS}");
            return Err(Mistake::new(key.place, message));
        }
    };
    tree.map_err(|error| value.wrong(error.to_string()))
}

#[cfg(test)]
mod tests;
