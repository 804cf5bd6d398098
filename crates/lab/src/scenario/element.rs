//! Elements of a file, checked.

use std::path::PathBuf;

use tidegate_limiter::{
    Classifier, ClassifyError, HashKey, Nanos, PolicyTree, Program, Rate, Rule,
};
use tidegate_notation::{Section, quantity, rule};

use super::error::Problem;
use super::fields::{Fields, integer, word};
use super::keys::{
    BC_PQP, CODEL, DELAY, DROP_TAIL, ELEMENT, FAIR_POLICER, FQ_CODEL, LINK, LOSS, PIE, POLICER,
    PQP, RED, REORDER, RULE, SHAPER, SRTCM, TAP, TRTCM,
};
use super::sizing;
use super::tree::{Node, Value};
use crate::MILLISECOND;
use crate::plan::{BurstControl, Classes, ElementKind, FairPolicerForm, LimiterKind, QueueKind};

/// The kinds of elements.
const KINDS: &[(&str, Section)] = &[
    ("policer", POLICER),
    ("srtcm", SRTCM),
    ("trtcm", TRTCM),
    ("fair-policer", FAIR_POLICER),
    ("pqp", PQP),
    ("bc-pqp", BC_PQP),
    ("shaper", SHAPER),
    ("link", LINK),
    ("delay", DELAY),
    ("loss", LOSS),
    ("reorder", REORDER),
    ("tap", TAP),
];

/// Most of anything that costs memory for each: queues, packets in a queue.
const MANY: u64 = 1_000_000;

/// An element's kind, and the keys that it may have.
fn section(node: &Node) -> Result<(&'static str, Section), Problem> {
    let kind = match &node.value {
        Value::Table(table) => table.get("kind"),
        _ => None,
    };
    let Some(kind) = kind else {
        // It may be there with a slip of the pen; the keys of all kinds are none.
        let all: Vec<Section> = KINDS.iter().map(|(_, section)| *section).collect();
        let fields = Fields::new(node, "an element", &[ELEMENT], &all)?;
        return Err(fields.missing("kind"));
    };
    let kinds: Vec<_> = KINDS.iter().map(|kind| (kind.0, *kind)).collect();
    word(kind, "kind", &kinds)
}

/// Whether an element is of a kind that adds a constant delay: how much.
pub(super) fn delay(node: &Node) -> Result<Nanos, Problem> {
    let (kind, _) = section(node)?;
    let Value::Table(table) = &node.value else {
        return Ok(0);
    };
    match table.get("delay") {
        Some(delay) if kind == "delay" => {
            super::fields::range(delay, "delay", quantity::time).map(|(delay, _)| delay)
        }
        _ => Ok(0),
    }
}

/// What an element does. `varied`: its kind is not that of the file alone, so that keys of other
/// kinds are passed over. `rtt`: the longest round trip of the flows that pass.
pub(super) fn kind(node: &Node, varied: bool, rtt: Nanos) -> Result<ElementKind, Problem> {
    let (name, own) = section(node)?;
    let others: Vec<Section> = KINDS.iter().map(|(_, section)| *section).collect();
    let what = format!("an element of kind {name}");
    let passed_over = if varied { others.as_slice() } else { &[] };
    let f = Fields::new(node, &what, &[ELEMENT, own], passed_over)?;
    let limiter = |kind| -> Result<ElementKind, Problem> {
        let overhead = f.small_bytes("overhead", 0..=1000)?.unwrap_or(0);
        Ok(ElementKind::Limiter { kind, overhead })
    };
    let rate = || f.rate("rate")?.ok_or_else(|| f.missing("rate"));
    let bucket = |key: &str, rate: Rate| -> Result<u64, Problem> {
        Ok(auto(&f, key)?.unwrap_or_else(|| sizing::bdp(rate, rtt)))
    };
    Ok(match name {
        "policer" => {
            let rate = rate()?;
            let burst = bucket("burst", rate)?;
            limiter(LimiterKind::Policer { rate, burst })?
        }
        "srtcm" => {
            let rate = rate()?;
            limiter(LimiterKind::SrTcm {
                rate,
                committed: bucket("committed", rate)?,
                excess: bucket("excess", rate)?,
                yellow: colour(&f, "yellow")?,
                red: colour(&f, "red")?,
            })?
        }
        "trtcm" => {
            let rate = rate()?;
            let peak = f.rate("peak")?.ok_or_else(|| f.missing("peak"))?;
            if peak < rate {
                return Err(f.wrong("peak", "`peak` must be at least `rate`".to_owned()));
            }
            limiter(LimiterKind::TrTcm {
                rate,
                committed: bucket("committed", rate)?,
                peak,
                peak_burst: bucket("peak-burst", peak)?,
                yellow: colour(&f, "yellow")?,
                red: colour(&f, "red")?,
            })?
        }
        "fair-policer" => {
            let rate = rate()?;
            let forms = [
                ("exact", FairPolicerForm::Exact),
                ("sketch", FairPolicerForm::Sketch),
                ("bc-pqp", FairPolicerForm::BcPqp),
            ];
            let form = f.word("form", &forms)?.unwrap_or(FairPolicerForm::BcPqp);
            let weights = weights(&f, form)?;
            let queues = f.integer("queues", 1..=PolicyTree::MAX_NODES as u64 - 1)?;
            let queues = queues.unwrap_or(if weights.is_empty() {
                16
            } else {
                weights.len() as u64
            });
            if !weights.is_empty() && weights.len() as u64 != queues {
                let message = format!(
                    "{} weights for {queues} queues: write one for each",
                    weights.len()
                );
                return Err(f.wrong("weights", message));
            }
            limiter(LimiterKind::FairPolicer {
                rate,
                burst: auto(&f, "burst")?.unwrap_or_else(|| sizing::phantom(rate, rtt)),
                form,
                weights,
                queues: queues as u16,
            })?
        }
        "pqp" => {
            let rate = rate()?;
            let policy = policy_of(&f)?;
            limiter(LimiterKind::Phantom {
                rate,
                classes: classes(&f, &policy)?,
                policy,
                queue: auto(&f, "queue")?.unwrap_or_else(|| sizing::phantom(rate, rtt)),
                control: None,
            })?
        }
        "bc-pqp" => {
            let rate = rate()?;
            let thousandths = |key, default| -> Result<u32, Problem> {
                let share = f.real(key, 0.0..=1000.0)?;
                Ok(share.map_or(default, |share| (share * 1000.0).round() as u32))
            };
            let (upper, lower) = (thousandths("upper", 1500)?, thousandths("lower", 500)?);
            if lower > upper {
                return Err(f.wrong("lower", "`lower` must not be above `upper`".to_owned()));
            }
            let policy = policy_of(&f)?;
            limiter(LimiterKind::Phantom {
                rate,
                classes: classes(&f, &policy)?,
                policy,
                queue: auto(&f, "queue")?.unwrap_or_else(|| sizing::controlled(rate, rtt)),
                control: Some(BurstControl {
                    period: f.positive_time("period")?.unwrap_or(100 * MILLISECOND),
                    upper,
                    lower,
                }),
            })?
        }
        "shaper" => {
            let rate = rate()?;
            let packets = match f.node("queue")?.map(|node| &node.value) {
                Some(Value::Text(text)) => quantity::packets(text),
                _ => None,
            };
            let bytes = match packets {
                Some(0) => return Err(f.wrong("queue", "`queue` must be more than 0".to_owned())),
                Some(_) => None,
                None => Some(bucket("queue", rate)?),
            };
            let policy = policy_of(&f)?;
            limiter(LimiterKind::Shaper {
                rate,
                classes: classes(&f, &policy)?,
                policy,
                burst: f.positive_bytes("burst")?.unwrap_or(1514),
                queue_bytes: bytes,
                queue_packets: packets,
            })?
        }
        "link" => {
            let rate = rate()?;
            let queue = match f.node("queue")? {
                None => None,
                Some(node) => queue(node)?,
            };
            let queue = queue.unwrap_or_else(|| QueueKind::DropTail {
                bytes: Some(sizing::bdp(rate, rtt)),
                packets: None,
            });
            ElementKind::Link { rate, queue }
        }
        "delay" => ElementKind::Delay {
            delay: f.delay("delay")?.ok_or_else(|| f.missing("delay"))?,
            jitter: f.delay("jitter")?.unwrap_or(0),
        },
        "loss" => ElementKind::Loss {
            probability: probability(&f)?,
            burst: f.real("burst", 1.0..=1e6)?.unwrap_or(1.0),
        },
        "reorder" => ElementKind::Reorder {
            probability: probability(&f)?,
            by: f.delay("by")?.ok_or_else(|| f.missing("by"))?,
        },
        // Where its file is, only the runner knows.
        _ => ElementKind::Tap {
            file: PathBuf::new(),
            snaplen: f.small_bytes("snaplen", 1..=262_144)?.unwrap_or(128),
        },
    })
}

fn probability(f: &Fields<'_>) -> Result<f64, Problem> {
    f.real("probability", 0.0..=1.0)?
        .ok_or_else(|| f.missing("probability"))
}

/// A size that may be left to us.
fn auto(f: &Fields<'_>, key: &str) -> Result<Option<u64>, Problem> {
    match f.node(key)?.map(|node| &node.value) {
        Some(Value::Text(text)) if text == "auto" => Ok(None),
        _ => f.positive_bytes(key),
    }
}

/// A code point to mark with; `None` to drop.
fn colour(f: &Fields<'_>, key: &str) -> Result<Option<u8>, Problem> {
    let Some(node) = f.node(key)? else {
        return Ok(None);
    };
    rule::mark(key, node.in_rule()).map_err(|message| node.wrong(message))
}

/// How packets are classified, if the element says it.
fn classes(f: &Fields<'_>, policy: &PolicyTree) -> Result<Option<Classes>, Problem> {
    let default = f.integer("default-class", 0..=u64::from(u16::MAX))?;
    let default = default.map(|class| class as u16);
    let rules = match f.raw("rule") {
        None if default.is_none() => return Ok(None),
        None => &[][..],
        Some(Node {
            value: Value::List(list),
            ..
        }) => list,
        Some(node) => {
            let message = "write [[element.rule]] with two brackets: there may be several";
            return Err(node.wrong(message));
        }
    };
    let program = Program::new(policy);
    let known = program.classes().len();
    let rules: Vec<Rule> = rules
        .iter()
        .map(|node| class_rule(node, known))
        .collect::<Result<_, _>>()?;
    let key = HashKey::new(0, 0);
    match Classifier::new(&program, rules.clone(), default, key) {
        Ok(_) => Ok(Some(Classes { rules, default })),
        Err(error @ ClassifyError::Rules(_)) => Err(f.wrong("rule", error.to_string())),
        Err(error) => Err(f.wrong("default-class", error.to_string())),
    }
}

/// A rule, with the class that it is of.
fn class_rule(node: &Node, classes: usize) -> Result<Rule, Problem> {
    let f = Fields::new(node, "a rule", &[RULE], &[])?;
    if f.raw("class").is_none() {
        return Err(f.missing("class"));
    }
    let mut problem = None;
    let read = rule::read(
        classes,
        |key| f.raw(key).map(Node::in_rule),
        |key, message| problem = problem.take().or_else(|| Some(f.wrong(key, message))),
    );
    problem.map_or(Ok(read), Err)
}

fn weights(f: &Fields<'_>, form: FairPolicerForm) -> Result<Vec<u32>, Problem> {
    let Some(node) = f.raw("weights") else {
        return Ok(Vec::new());
    };
    let Value::List(list) = &node.value else {
        return Err(node.wrong("`weights` is a list of whole numbers"));
    };
    if form != FairPolicerForm::BcPqp {
        return Err(node.wrong("only a fair policer of form `bc-pqp` has weights"));
    }
    let most = u64::from(PolicyTree::MAX_WEIGHT);
    list.iter()
        .map(|node| integer(node, "weights", 1..=most).map(|weight| weight as u32))
        .collect()
}

fn policy_of(f: &Fields<'_>) -> Result<PolicyTree, Problem> {
    match f.node("policy")? {
        Some(node) => policy(node),
        None => PolicyTree::fair(16).map_err(|error| f.missing(&error.to_string())),
    }
}

/// A sharing policy.
fn policy(node: &Node) -> Result<PolicyTree, Problem> {
    const FORMS: &str = "a policy is \"queue\", { fair = 16 }, { weighted = [[4, POLICY], [1, \
        POLICY]] } or { priority = [POLICY, POLICY] }";
    let table = match &node.value {
        Value::Text(text) if text == "queue" => return Ok(PolicyTree::queue()),
        Value::Table(table) => table,
        _ => return Err(node.wrong(FORMS)),
    };
    let [(key, value)] = table.0.as_slice() else {
        return Err(node.wrong(FORMS));
    };
    let parts = || match &value.value {
        Value::List(list) => Ok(list),
        _ => Err(value.wrong(FORMS)),
    };
    let tree = match key.text.as_str() {
        "fair" => {
            PolicyTree::fair(integer(value, "fair", 1..=PolicyTree::MAX_NODES as u64 - 1)? as u16)
        }
        "weighted" => {
            let parts: Result<Vec<_>, Problem> = parts()?
                .iter()
                .map(|part| match &part.value {
                    Value::List(pair) if pair.len() == 2 => {
                        let most = u64::from(PolicyTree::MAX_WEIGHT);
                        let weight = integer(&pair[0], "weight", 1..=most)?;
                        Ok((weight as u32, policy(&pair[1])?))
                    }
                    _ => Err(part.wrong("a weighted part is a pair: [4, POLICY]")),
                })
                .collect();
            PolicyTree::weighted(parts?)
        }
        "priority" => {
            let parts: Result<Vec<_>, Problem> = parts()?.iter().map(policy).collect();
            PolicyTree::priority(parts?)
        }
        other => {
            let message = format!("unknown policy `{other}`: {FORMS}");
            return Err(Problem::new(key.place, message));
        }
    };
    tree.map_err(|error| value.wrong(error.to_string()))
}

/// The queue of a link; `None` if it is left to us.
fn queue(node: &Node) -> Result<Option<QueueKind>, Problem> {
    const NAMES: &[(&str, &str)] = &[
        ("drop-tail", "drop-tail"),
        ("codel", "codel"),
        ("red", "red"),
        ("pie", "pie"),
        ("fq-codel", "fq-codel"),
    ];
    let name = match &node.value {
        Value::Table(table) => match table.get("kind") {
            Some(kind) => word(kind, "queue", NAMES)?,
            None => "drop-tail",
        },
        Value::Text(text) if text == "auto" => return Ok(None),
        Value::Text(text) if text.starts_with(|c: char| c.is_ascii_digit()) => {
            let packets = quantity::packets(text);
            let bytes = match packets {
                None => Some(quantity::bytes(text).map_err(|message| {
                    node.wrong(format!(
                        "`queue`: {message}, or packets, such as \"100 packets\""
                    ))
                })?),
                Some(_) => None,
            };
            if packets == Some(0) || bytes == Some(0) {
                return Err(node.wrong("`queue` must be more than 0"));
            }
            return Ok(Some(QueueKind::DropTail { bytes, packets }));
        }
        Value::Text(_) => word(node, "queue", NAMES)?,
        _ => {
            let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            return Err(node.wrong(format!(
                "`queue` is a size such as \"64kB\", packets such as \"100 packets\", auto, one of \
                 {}, or a table, not {}",
                names.join(", "),
                node.kind()
            )));
        }
    };
    let section = match name {
        "codel" => CODEL,
        "red" => RED,
        "pie" => PIE,
        "fq-codel" => FQ_CODEL,
        _ => DROP_TAIL,
    };
    let what = format!("a {name} queue");
    let empty = Node {
        place: node.place,
        value: Value::Table(super::tree::Table::default()),
    };
    let table = match &node.value {
        Value::Table(_) => node,
        _ => &empty,
    };
    let f = Fields::new(table, &what, &[section], &[])?;
    let packets = |default| Ok::<u64, Problem>(f.integer("packets", 1..=MANY)?.unwrap_or(default));
    let time = |key, default: u64| {
        Ok::<Nanos, Problem>(f.positive_time(key)?.unwrap_or(default * MILLISECOND))
    };
    Ok(Some(match name {
        "codel" => QueueKind::CoDel {
            target: time("target", 5)?,
            interval: time("interval", 100)?,
            packets: packets(1000)?,
        },
        "red" => {
            let limit = f
                .positive_bytes("limit")?
                .ok_or_else(|| f.missing("limit"))?;
            let max = f.positive_bytes("max")?.unwrap_or(limit / 4);
            let min = f.bytes("min")?.unwrap_or(max / 3);
            if !(min < max && max <= limit) {
                return Err(node.wrong("RED needs `min` below `max`, and `max` up to `limit`"));
            }
            QueueKind::Red {
                min,
                max,
                probability: f.real("probability", 0.0..=1.0)?.unwrap_or(0.1),
                limit,
            }
        }
        "pie" => QueueKind::Pie {
            target: time("target", 15)?,
            update: time("update", 15)?,
            packets: packets(1000)?,
        },
        "fq-codel" => QueueKind::FqCoDel {
            flows: f.integer("flows", 1..=65_536)?.unwrap_or(1024) as u32,
            quantum: f.small_bytes("quantum", 1..=1_000_000)?.unwrap_or(1514),
            target: time("target", 5)?,
            interval: time("interval", 100)?,
            packets: packets(10_240)?,
        },
        _ => {
            let bytes = f.positive_bytes("bytes")?;
            let packets = f.integer("packets", 1..=MANY)?;
            if bytes.is_none() && packets.is_none() {
                return Err(f.missing("bytes` or `packets"));
            }
            QueueKind::DropTail { bytes, packets }
        }
    }))
}
