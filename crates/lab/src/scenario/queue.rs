//! The queues of links.

use tidegate_limiter::Nanos;
use tidegate_notation::{Mistake, Node, Table, Value, quantity};

use super::fields::Fields;
use super::keys::{CAKE, CODEL, DROP_TAIL, DUALPI2, FQ_CODEL, PIE, RED};
use crate::MILLISECOND;
use crate::plan::{CakePlan, Isolation, QueueKind, Tins};

/// Most queues, or packets in a queue, because each costs memory.
const MANY: u64 = 1_000_000;

/// The queue of a link; `None` if it is `auto`.
pub(super) fn queue(node: &Node) -> Result<Option<QueueKind>, Mistake> {
    const NAMES: &[(&str, &str)] = &[
        ("drop-tail", "drop-tail"),
        ("codel", "codel"),
        ("red", "red"),
        ("pie", "pie"),
        ("fq-codel", "fq-codel"),
        ("dualpi2", "dualpi2"),
        ("cake", "cake"),
    ];
    let name = match &node.value {
        Value::Table(table) => match table.get("kind") {
            Some(kind) => kind.word("queue", NAMES)?,
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
        Value::Text(_) => node.word("queue", NAMES)?,
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
        "dualpi2" => DUALPI2,
        "cake" => CAKE,
        _ => DROP_TAIL,
    };
    let what = format!("a {name} queue");
    let empty = Node {
        place: node.place,
        value: Value::Table(Table::default()),
    };
    let table = match &node.value {
        Value::Table(_) => node,
        _ => &empty,
    };
    let f = Fields::new(table, &what, &[section], &[])?;
    let packets = |default| Ok::<u64, Mistake>(f.integer("packets", 1..=MANY)?.unwrap_or(default));
    let time = |key, default: u64| {
        Ok::<Nanos, Mistake>(f.positive_time(key)?.unwrap_or(default * MILLISECOND))
    };
    Ok(Some(match name {
        "codel" => QueueKind::CoDel {
            target: time("target", 5)?,
            interval: time("interval", 100)?,
            packets: packets(1000)?,
            ecn: f.truth("ecn")?.unwrap_or(false),
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
                ecn: f.truth("ecn")?.unwrap_or(false),
            }
        }
        "pie" => QueueKind::Pie {
            target: time("target", 15)?,
            update: time("update", 15)?,
            packets: packets(1000)?,
            ecn: f.truth("ecn")?.unwrap_or(false),
        },
        "fq-codel" => QueueKind::FqCoDel {
            flows: f.integer("flows", 1..=65_536)?.unwrap_or(1024) as u32,
            quantum: f.small_bytes("quantum", 1..=1_000_000)?.unwrap_or(1514),
            target: time("target", 5)?,
            interval: time("interval", 100)?,
            packets: packets(10_240)?,
            ecn: f.truth("ecn")?.unwrap_or(true),
        },
        "dualpi2" => QueueKind::DualPi2 {
            target: time("target", 15)?,
            update: time("update", 16)?,
            threshold: f.time("threshold")?.unwrap_or(800_000),
            packets: packets(10_000)?,
        },
        "cake" => QueueKind::Cake(cake(&f)?),
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

fn cake(f: &Fields<'_>) -> Result<CakePlan, Mistake> {
    let tins = [
        ("besteffort", Tins::BestEffort),
        ("diffserv3", Tins::Diffserv3),
        ("diffserv4", Tins::Diffserv4),
    ];
    let isolations = [
        ("flows", Isolation::Flows),
        ("dual-src", Isolation::Sources),
        ("dual-dst", Isolation::Destinations),
        ("triple", Isolation::Triple),
    ];
    Ok(CakePlan {
        rtt: f.positive_time("rtt")?.unwrap_or(100 * MILLISECOND),
        tins: f.word("tins", &tins)?.unwrap_or(Tins::Diffserv3),
        isolation: f
            .word("isolation", &isolations)?
            .unwrap_or(Isolation::Triple),
        limit: f.auto_bytes("limit")?,
    })
}
