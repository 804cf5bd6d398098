//! Linux tc(8): the action `police`, and the queues `tbf` and `htb`.
//!
//! Rates: `kbit` and so on are powers of ten and `kibit` of 1024, in bits per second; `kbps` is bytes per second; a
//! bare number is bits per second. Sizes: `k` and `kb` are 1024 bytes, `kbit` 128 bytes. (tc(8), PARAMETERS;
//! iproute2's `get_rate` and `get_size`.) Limits count Ethernet headers, except for those of packets that arrive.

use tidegate_limiter::Rate;

use super::below::{self, Below};
use super::words::{Cursor, Word, split, whole};
use super::{Limit, Mistake, Reading, Vendor};
use crate::setting::{ETHERNET, FULL};

/// A class of htb without a queue of its own has a FIFO of the interface's `txqueuelen`, which is 1000 packets. So have queues without `limit`.
const FIFO: u64 = 1000;

/// Words that begin another command, another limit, or what tc prints behind a limit.
const ENDS: [&str; 9] = [
    "tc", "qdisc", "class", "filter", "police", "tbf", "htb", "ref", "sent",
];
/// What may become of a packet.
const CONTROLS: [&str; 7] = [
    "drop",
    "shot",
    "ok",
    "pass",
    "pipe",
    "continue",
    "reclassify",
];

/// A filter and its matches have no more words than this.
const FILTER: usize = 64;

/// The words behind a word that belong to it.
fn behind<'a>(words: &'a [Word<'a>], at: usize) -> impl Iterator<Item = &'a Word<'a>> + Clone {
    words[at + 1..].iter().take_while(|word| !word.is(&ENDS))
}

/// Whether an `htb` has a rate. The queue has none: its classes have it.
pub(super) fn limits(words: &[Word<'_>], at: usize) -> bool {
    behind(words, at).any(|word| word.is(&["rate", "ceil"]))
}

/// Whether what follows `police` is written as tc writes it, and not as IOS XR: with the unit in the same word, or
/// with a key that only tc has.
pub(super) fn wrote(words: &[Word<'_>], at: usize) -> bool {
    let command = words[at].command;
    let mut rest = behind(words, at).take_while(|word| word.command == command);
    let units = ["bit", "bps"];
    let unit = |word: &Word<'_>| {
        let (text, number) = (word.text.to_ascii_lowercase(), split(word.text));
        number.is_some() && units.iter().any(|unit| text.ends_with(unit))
    };
    // Words that only Cisco has: there the unit is wrong.
    let cisco = rest.clone().any(|word| {
        word.is(&[
            "cir",
            "bc",
            "be",
            "pir",
            "conform-action",
            "exceed-action",
            "violate-action",
        ])
    });
    !cisco
        && rest.any(|word| unit(word) || word.is(&["conform-exceed", "mtu", "avrate", "pkts_rate"]))
}

/// What the keys of a limit say, in bytes and bit/s.
#[derive(Default)]
struct Keys {
    rate: Option<u64>,
    ceil: Option<u64>,
    burst: Option<u64>,
    cburst: Option<u64>,
    limit: Option<u64>,
    /// In nanoseconds.
    latency: Option<u64>,
    peak: Option<u64>,
    /// The bucket of `peak`.
    mtu: Option<u64>,
    /// What happens to packets beyond the limit; dropped if `None`.
    exceed: Option<String>,
}

impl Keys {
    /// What of them is not simulated.
    fn notes(&self) -> Vec<String> {
        let note = "`peakrate` is not simulated: what the bucket holds passes at once.";
        self.peak.map(|_| note.to_owned()).into_iter().collect()
    }
}

pub(super) fn police(words: &[Word<'_>], at: usize) -> Result<Reading, Mistake> {
    let police = words[at];
    let keys = keys(words, at)?;
    let rate = needed(police, keys.rate, "rate 10mbit")?;
    let burst = needed(police, keys.burst, "burst 32k")?;
    let mut assumed = keys.notes();
    match keys.exceed.as_deref() {
        Some("drop" | "shot") => {}
        Some("reclassify") => assumed.push(
            "Packets beyond the limit are classified again (`reclassify`), and dropped where nothing else takes them."
                .to_owned(),
        ),
        Some(action) => {
            return Err(police.mistake(format!(
                "this policer does not drop: packets beyond the limit are handled by `{action}`. Advice is for limits \
                 that drop"
            )));
        }
        None => assumed.push(
            "The line does not say what happens to packets beyond the limit: `drop` is assumed."
                .to_owned(),
        ),
    }
    let limit = Limit::Policer { burst: Some(burst) };
    let reading = reading(police, rate, limit, assumed);
    Ok(match at_ingress(words, at) {
        true => Reading {
            overhead: 0,
            ..reading
        },
        false => reading,
    })
}

/// Whether the filter of an action is where packets arrive. Their Ethernet headers are gone there, and do not count: act_police.c takes the
/// length that sch_handle_ingress (dev.c) sets to what is left.
fn at_ingress(words: &[Word<'_>], at: usize) -> bool {
    let near = &words[at.saturating_sub(FILTER)..at];
    let filter = near.iter().rposition(|word| word.is(&["filter"]));
    let mut words = filter.map_or(&near[..0], |filter| &near[filter..]).iter();
    words.any(|word| word.is(&["ingress", "ffff:", "ffff:fff1", "ffff:fff2"]))
}

pub(super) fn queue(words: &[Word<'_>], at: usize) -> Result<Reading, Mistake> {
    let kind = words[at];
    let keys = keys(words, at)?;
    if kind.is(&["htb"]) {
        let rate = needed(kind, keys.ceil.or(keys.rate), "rate 10mbit")?;
        let mut assumed = Vec::new();
        let queue = below(words, at, &mut assumed)?.unwrap_or_else(|| {
            assumed.push(format!(
                "A class of htb without a queue of its own has a FIFO of {FIFO} packets (`txqueuelen`)."
            ));
            FIFO * FULL
        });
        if keys.ceil.is_some() && keys.ceil != keys.rate {
            let note = "The class may borrow up to `ceil`, so this is taken for its limit.";
            assumed.push(note.to_owned());
        }
        // What leaves at once is bounded at `ceil` by `cburst`, and at `rate` by `burst`. Without borrowing, both hold (sch_htb.c,
        // htb_class_mode). By default each is a packet and what a tick of the clock sends.
        let at_ceil = keys.cburst.unwrap_or(FULL);
        let burst = match keys.ceil.is_some() && keys.ceil != keys.rate {
            true => at_ceil,
            false => at_ceil.min(keys.burst.unwrap_or(FULL)),
        };
        let limit = Limit::Shaper {
            queue: Some(queue),
            burst: burst.max(FULL),
        };
        return Ok(reading(kind, rate, limit, assumed));
    }
    let rate = needed(kind, keys.rate, "rate 10mbit")?;
    let burst = needed(kind, keys.burst, "burst 32k")?;
    // tc-tbf(8): `latency` is the longest time that a packet can wait, so the limit is what is sent in it and the burst; with
    // `peakrate` what that sends, if it is less (q_tbf.c of iproute2).
    let latency = keys.latency.map(|latency| {
        let sent = |rate: u64, burst: u64| {
            let waiting = u128::from(rate) * u128::from(latency) / 8_000_000_000;
            u64::try_from(waiting)
                .unwrap_or(u64::MAX)
                .saturating_add(burst)
        };
        let peak = keys.peak.map(|peak| sent(peak, keys.mtu.unwrap_or(FULL)));
        sent(rate, burst).min(peak.unwrap_or(u64::MAX))
    });
    let queue = needed(kind, keys.limit.or(latency), "latency 50ms")?;
    let mut assumed = keys.notes();
    // The kernel's tbf uses its own limit for its own FIFO alone (sch_tbf.c, tbf_change).
    let limit = Limit::Shaper {
        queue: Some(below(words, at, &mut assumed)?.unwrap_or(queue)),
        burst,
    };
    Ok(reading(kind, rate, limit, assumed))
}

/// The bytes of the queue below a limit, if the text has one.
fn below(words: &[Word<'_>], at: usize, assumed: &mut Vec<String>) -> Result<Option<u64>, Mistake> {
    let Some(Below { kind, limit }) = below::find(words, at) else {
        return Ok(None);
    };
    if kind.is(&["tbf", "htb"]) {
        // It is a limit by itself, and counted as such.
        return Ok(None);
    }
    if !kind.is(&["pfifo", "bfifo", "pfifo_fast"]) {
        return Err(kind.mistake(format!(
            "the queue below the limit in line {} is `{}`, and only FIFOs are simulated there (pfifo, bfifo): to see what a FIFO \
             would do, leave this queue out",
            words[at].line, kind.text
        )));
    }
    match limit {
        Some(limit) if kind.is(&["bfifo"]) => size_of(limit).map(Some),
        Some(limit) => {
            // tc prints `100p`.
            let unit = |unit: &str| matches!(unit, "" | "p").then_some(1.0);
            let packets = value(limit, "a number of packets: write 100", unit)?;
            Ok(Some(packets.saturating_mul(FULL)))
        }
        None => {
            assumed.push(format!(
                "The queue in line {} has no `limit`: {FIFO} packets (`txqueuelen`) are assumed.",
                kind.line
            ));
            Ok(Some(FIFO * FULL))
        }
    }
}

fn reading(at: Word<'_>, rate: u64, limit: Limit, assumed: Vec<String>) -> Reading {
    Reading {
        vendor: Vendor::Tc,
        rate: Rate::from_bits_per_second(rate),
        limit,
        overhead: ETHERNET,
        line: at.line,
        assumed,
    }
}

fn needed(at: Word<'_>, value: Option<u64>, example: &str) -> Result<u64, Mistake> {
    let key = example.split(' ').next().unwrap_or(example);
    value.ok_or_else(|| {
        at.mistake(format!(
            "`{}` needs `{key}`, and this text has none: write one, such as `{example}`",
            at.text
        ))
    })
}

/// The keys behind a word.
fn keys(words: &[Word<'_>], at: usize) -> Result<Keys, Mistake> {
    let mut keys = Keys::default();
    let mut cursor = Cursor::new(words, at + 1);
    while let Some(word) = cursor.next() {
        if word.is(&ENDS) {
            break;
        }
        if word.is(&["rate"]) {
            keys.rate = Some(rate(word, &mut cursor)?);
        } else if word.is(&["ceil"]) {
            keys.ceil = Some(rate(word, &mut cursor)?);
        } else if word.is(&["burst", "buffer", "maxburst"]) {
            keys.burst = Some(size(word, &mut cursor)?);
        } else if word.is(&["cburst"]) {
            keys.cburst = Some(size(word, &mut cursor)?);
        } else if word.is(&["limit"]) {
            keys.limit = Some(size(word, &mut cursor)?);
        } else if word.is(&["latency", "lat"]) {
            keys.latency = Some(time(word, &mut cursor)?);
        } else if word.is(&["peakrate"]) {
            keys.peak = Some(rate(word, &mut cursor)?);
        } else if word.is(&["mtu", "minburst"]) {
            keys.mtu = Some(size(word, &mut cursor)?);
        } else if word.is(&["conform-exceed"]) {
            keys.exceed = Some(exceed(cursor.value(word, "drop")?));
        } else if word.is(&["action"]) {
            // tc prints what becomes of packets so. Behind what becomes of them, it is the next action.
            let value = exceed(cursor.value(word, "drop")?);
            if keys.exceed.is_some() || !CONTROLS.contains(&value.as_str()) {
                break;
            }
            keys.exceed = Some(value);
        } else if word.is(&CONTROLS) {
            keys.exceed = Some(exceed(word));
        } else if word.is(&[
            "mpu",
            "overhead",
            "linklayer",
            "prio",
            "quantum",
            "flowid",
            "classid",
            "default",
            "r2q",
            "index",
            "cell",
            "handle",
            "level",
            "parent",
            "dev",
            "refcnt",
            "leaf",
        ]) {
            // They change little or nothing of what the limit does to a subscriber's traffic.
            cursor.next();
        } else if word.is(&["root"]) || names(word.text) {
            // Where the limit is.
        } else {
            return Err(word.mistake(format!(
                "`{}` is not a key of tc's limits that is understood: known are rate, ceil, burst, limit, latency, mtu, \
                 drop and conform-exceed",
                word.text
            )));
        }
    }
    Ok(keys)
}

/// What becomes of packets beyond the limit, of `EXCEED[/CONFORM]`.
fn exceed(word: Word<'_>) -> String {
    let exceed = word.text.split('/').next().unwrap_or(word.text);
    exceed.to_ascii_lowercase()
}

/// Whether it is a name that tc prints: `0x1` of an action, `8001:` or `1:10` of a queue or a class.
fn names(text: &str) -> bool {
    let hex = |text: &str| text.chars().all(|c| c.is_ascii_hexdigit());
    let index = text.strip_prefix("0x").is_some_and(hex);
    let mut handle = text.splitn(2, ':');
    index || text.contains(':') && handle.all(hex)
}

fn rate(of: Word<'_>, cursor: &mut Cursor<'_>) -> Result<u64, Mistake> {
    let word = cursor.value(of, "10mbit")?;
    if word.text.ends_with('%') {
        return Err(word.mistake(
            "a rate in percent depends on the interface: write it as 10mbit, or give --rate",
        ));
    }
    let scale = |unit: &str| {
        let (unit, bits) = match unit.strip_suffix("bps") {
            Some(prefix) => (prefix, 8.0),
            None => (unit.strip_suffix("bit")?, 1.0),
        };
        Some(bits * prefix(unit)?)
    };
    let unit = |unit: &str| {
        if unit.is_empty() {
            Some(1.0)
        } else {
            scale(unit)
        }
    };
    value(
        word,
        "a rate: write 10mbit, 500kbit or 1250kbps (bytes per second)",
        unit,
    )
}

/// k, m, g and t as powers of ten, ki, mi, gi and ti as powers of 1024.
fn prefix(text: &str) -> Option<f64> {
    Some(match text {
        "" => 1.0,
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        "t" => 1e12,
        "ki" => 1024.0,
        "mi" => f64::from(1 << 20),
        "gi" => f64::from(1 << 30),
        "ti" => f64::from(1 << 30) * 1024.0,
        _ => return None,
    })
}

fn size(of: Word<'_>, cursor: &mut Cursor<'_>) -> Result<u64, Mistake> {
    size_of(cursor.value(of, "32k")?)
}

fn size_of(word: Word<'_>) -> Result<u64, Mistake> {
    // `BYTES/CELL`.
    let text = word.text.split('/').next().unwrap_or(word.text);
    let scale = |unit: &str| {
        let (unit, part) = match unit.strip_suffix("bit") {
            Some(prefix) => (prefix, 8.0),
            None => (unit.strip_suffix('b').unwrap_or(unit), 1.0),
        };
        let scale = match unit {
            "" => 1.0,
            "k" => 1024.0,
            "m" => f64::from(1 << 20),
            "g" => f64::from(1 << 30),
            _ => return None,
        };
        Some(scale / part)
    };
    let word = Word { text, ..word };
    value(
        word,
        "a size: write 32k or 32kb (1024 bytes each), 1m, or bytes",
        scale,
    )
}

/// A time in nanoseconds: s, ms, us; a bare number is microseconds.
fn time(of: Word<'_>, cursor: &mut Cursor<'_>) -> Result<u64, Mistake> {
    let word = cursor.value(of, "50ms")?;
    let scale = |unit: &str| {
        Some(match unit {
            "s" | "sec" | "secs" => 1e9,
            "ms" | "msec" | "msecs" => 1e6,
            "" | "us" | "usec" | "usecs" => 1e3,
            _ => return None,
        })
    };
    value(word, "a time: write 50ms or 1s", scale)
}

fn value(word: Word<'_>, what: &str, scale: impl Fn(&str) -> Option<f64>) -> Result<u64, Mistake> {
    let wrong = || word.mistake(format!("`{}` is not {what}", word.text));
    let (number, unit) = split(word.text).ok_or_else(wrong)?;
    let scale = scale(&unit.to_ascii_lowercase()).ok_or_else(wrong)?;
    whole(number * scale)
        .filter(|&value| value > 0)
        .ok_or_else(wrong)
}
