//! Cisco IOS and IOS XR.
//!
//! IOS: `police [cir] BPS [[bc] BYTES [[be] BYTES]] [pir BPS [be BYTES]] [conform-action …]`. Rates are bits per
//! second with k, m and g as powers of ten and decimal points; bursts are bytes. (Cisco IOS Release 15.1(3)MR Command
//! Reference, `police (policy map)`.) IOS XR: `police rate VALUE [bps|kbps|mbps|gbps] [burst VALUE
//! [bytes|kbytes|mbytes|gbytes|ms|us]]`, and `queue-limit VALUE` with the same units or packets of 256 bytes. (Cisco IOS
//! XR Modular QoS Command Reference, `police rate` and `queue-limit`.)
//!
//! `shape average BPS [Bc [Be]]` has its bursts in bits, and without Be it is as much as Bc. (Cisco ASR 901 Command Reference,
//! `shape (policy-map class)`.) In IOS XR the burst is one number, in bytes or with a unit.

use tidegate_limiter::Rate;

use super::words::{Cursor, Word, split, whole};
use super::{Limit, Mistake, Reading, Vendor};
use crate::setting::{ETHERNET, FULL};

/// The shaper's queue where `queue-limit` does not say it: 83 packets, as the article's ISR 4000 had it.
const QUEUE: u64 = 83;
/// What IOS XR counts for a packet of `queue-limit`.
const PACKET_OF_XR: u64 = 256;
/// Units of a rate in IOS XR, from the smallest on.
pub(super) const RATES: [(&str, f64); 4] =
    [("bps", 1.0), ("kbps", 1e3), ("mbps", 1e6), ("gbps", 1e9)];
/// Whether an action takes packets out of the limit: `transmit`, and `set-dscp-transmit` and the like.
fn passes(action: &str) -> bool {
    action.ends_with("transmit") || ["set", "continue"].contains(&action)
}

/// What a `police` line says.
#[derive(Default)]
struct Police {
    rate: Option<u64>,
    peak: Option<u64>,
    burst: Option<u64>,
    excess: Option<u64>,
    /// Whether packets beyond the committed burst, and beyond both, pass.
    exceeding_passes: bool,
    violating: Option<bool>,
    /// An action does more than to pass or to drop.
    marks: bool,
    /// Units were words: IOS XR.
    spelled: bool,
}

/// Whether a `police` begins a limit, in a line with this first word. It may also be the name of a class or of a policy, or a word of a
/// description.
pub(super) fn begins(words: &[Word<'_>], at: usize, first: Word<'_>) -> bool {
    if first.is(&["description", "remark"]) {
        return false;
    }
    let named = first.is(&["class", "class-map", "policy-map", "service-policy"]);
    let rate = words.get(at + 1).is_some_and(|next| {
        let digit = next.text.starts_with(|c: char| c.is_ascii_digit());
        digit || next.is(&["cir", "rate", "percent"])
    });
    !named || rate
}

pub(super) fn police(words: &[Word<'_>], at: usize) -> Result<Reading, Mistake> {
    let police = words[at];
    refuse_no(words, at)?;
    let mut cursor = Cursor::new(words, at + 1);
    let mut said = Police {
        spelled: cursor.take(&["rate"]),
        ..Police::default()
    };
    cursor.take(&["cir"]);
    said.rate = Some(rate(police, &mut cursor)?);
    sizes(&mut said, &mut cursor)?;
    actions(&mut said, &mut cursor, police.line)?;
    reading(police, &said)
}

/// Refuses a line that removes a limit.
fn refuse_no(words: &[Word<'_>], at: usize) -> Result<(), Mistake> {
    let word = words[at];
    match at > 0 && words[at - 1].is(&["no"]) {
        true => Err(word.mistake(format!(
            "`no {}` removes a limit: there is none to advise on",
            word.text
        ))),
        false => Ok(()),
    }
}

/// The bursts and the peak rate, in the order in which IOS has them.
fn sizes(said: &mut Police, cursor: &mut Cursor<'_>) -> Result<(), Mistake> {
    while let Some(word) = cursor.peek() {
        let rate = said.rate.unwrap_or(0);
        if word.is(&["bc", "burst"]) {
            cursor.next();
            said.burst = Some(size(word, cursor, rate)?);
        } else if word.is(&["be", "peak-burst"]) {
            cursor.next();
            said.excess = Some(size(word, cursor, said.peak.unwrap_or(rate))?);
        } else if word.is(&["pir", "peak-rate"]) {
            cursor.next();
            said.peak = Some(self::rate(word, cursor)?);
        } else if word.text.starts_with(|c: char| c.is_ascii_digit()) {
            let value = Some(size(word, cursor, rate)?);
            match said.burst {
                None => said.burst = value,
                Some(_) if said.excess.is_none() => said.excess = value,
                Some(_) => {
                    return Err(
                        word.mistake("there are more than two bursts: IOS has `bc` and `be`")
                    );
                }
            }
        } else {
            break;
        }
    }
    Ok(())
}

/// What happens to packets. Configurations have the actions in the same line, or each in a line of its own.
fn actions(said: &mut Police, cursor: &mut Cursor<'_>, line: usize) -> Result<(), Mistake> {
    while let Some(word) = cursor.peek() {
        if !word.is(&["conform-action", "exceed-action", "violate-action"]) {
            // A word that continues the line of `police` is a part of it that is not understood.
            if word.line == line {
                return Err(word.mistake(format!(
                    "`{}` is not understood here. Behind the rate and the bursts stand `conform-action`, \
                     `exceed-action` and `violate-action`",
                    word.text
                )));
            }
            break;
        }
        cursor.next();
        let action = cursor.value(word, "drop")?;
        let passes = match action.text.to_ascii_lowercase() {
            text if text == "drop" => false,
            text if passes(&text) => {
                said.marks |= text != "transmit";
                true
            }
            _ => {
                return Err(action.mistake(format!(
                    "the action `{}` is not understood: known are `drop`, `transmit` and `set-…-transmit`",
                    action.text
                )));
            }
        };
        if word.is(&["exceed-action"]) {
            said.exceeding_passes = passes;
        } else if word.is(&["violate-action"]) {
            said.violating = Some(passes);
        }
        // The value that an action sets.
        while let Some(next) = cursor.peek() {
            if next.line != action.line || next.text.contains("-action") {
                break;
            }
            cursor.next();
        }
    }
    Ok(())
}

fn reading(police: Word<'_>, said: &Police) -> Result<Reading, Mistake> {
    let committed = said.rate.unwrap_or(0);
    let vendor = match said.spelled {
        true => Vendor::IosXr,
        false => Vendor::Ios,
    };
    let mut assumed = Vec::new();
    let nothing = || {
        police.mistake(
            "this line drops nothing: packets beyond the limit pass. Advice is for limits that drop; give --rate and \
             --burst of the limit behind it",
        )
    };
    let mut violating = said.violating;
    // Cisco gives `drop` as the default (Catalyst 3750 Metro Command Reference, `police cir`; IOS XR, `police rate`).
    if said.exceeding_passes && violating.is_none() && (said.peak.is_some() || said.spelled) {
        violating = Some(false);
        assumed
            .push("The line has no `violate-action`: `drop` is assumed, the default.".to_owned());
    }
    // Without `violate-action` there is one bucket, and `be` has no effect. With it, packets beyond `bc` use `be`.
    let (rate, burst) = match (said.exceeding_passes, violating, said.peak) {
        (true, Some(false), Some(peak)) => {
            let note = "Packets between the committed and the peak rate pass, so the limit is the peak rate.";
            assumed.push(note.to_owned());
            (peak, said.excess.or_else(|| default(vendor, peak)))
        }
        (true, Some(false), None) => {
            let note =
                "Packets beyond `bc` pass while `be` has tokens, so the bucket is both of them.";
            assumed.push(note.to_owned());
            let burst = said.burst.or_else(|| default(vendor, committed));
            (
                committed,
                burst.map(|burst| burst.saturating_add(said.excess.unwrap_or(burst))),
            )
        }
        (true, _, _) => return Err(nothing()),
        (false, _, _) => (committed, said.burst.or_else(|| default(vendor, committed))),
    };
    if said.burst.is_none() && vendor == Vendor::Ios {
        assumed.push(
            "The line has no burst. IOS then takes what the rate sends in 250 ms (rate/32 bytes), at least 1500 bytes. The smallest \
             bucket that is assumed holds a full packet with its Ethernet header, 1514 bytes."
                .to_owned(),
        );
    }
    if said.marks {
        assumed.push(
            "Lines that are advised only pass and drop: add what else this line does to packets."
                .to_owned(),
        );
    }
    Ok(Reading {
        vendor,
        rate: Rate::from_bits_per_second(rate),
        limit: Limit::Policer { burst },
        overhead: ETHERNET,
        line: police.line,
        assumed,
    })
}

/// IOS takes 250 ms of the rate: 625,000 bytes at 20 Mbit/s [Policer or shaper]. Defaults of IOS XR differ between
/// platforms: 10 ms of the rate on NCS 540, others elsewhere. A bucket without room for a full packet would pass none, which no device
/// does by default.
fn default(vendor: Vendor, rate: u64) -> Option<u64> {
    (vendor == Vendor::Ios).then(|| (rate / 32).max(FULL))
}

pub(super) fn shape(words: &[Word<'_>], at: usize) -> Result<Reading, Mistake> {
    let shape = words[at];
    refuse_no(words, at)?;
    let mut cursor = Cursor::new(words, at + 1);
    let kind = cursor.value(shape, "average 10m")?;
    if kind.is(&["peak"]) {
        return Err(kind
            .mistake("`shape peak` sends more than its rate: only `shape average` is understood"));
    }
    let rate = rate(kind, &mut cursor)?;
    let mut vendor = match words.get(at + 3).and_then(|unit| scale(*unit, &RATES)) {
        Some(_) => Vendor::IosXr,
        None => Vendor::Ios,
    };
    // From its class up to the next one.
    let others = |word: &Word<'_>| word.is(&["class", "policy-map", "shape", "police"]);
    let begin = words[..at].iter().rposition(others).unwrap_or(0);
    let end = words[at + 1..].iter().position(others);
    let later = &words[begin..end.map_or(words.len(), |end| at + 1 + end)];
    refuse_other_queues(shape, later)?;
    let bits = bursts(shape, vendor, &mut cursor, rate)?;
    let mut assumed = vec![match bits {
        None => "The shaper has one queue for all flows, and sends packets evenly.".to_owned(),
        Some((_, note)) => format!("The shaper has one queue for all flows. {note}"),
    }];
    if later.iter().any(|word| word.is(&["service-policy"])) {
        let note = "The class has a policy of its own (`service-policy`), which is not simulated.";
        assumed.push(note.to_owned());
    }
    let burst = bits.map_or(FULL, |(bits, _)| bits.div_ceil(8).max(FULL));
    let limit = later.iter().position(|word| word.is(&["queue-limit"]));
    let queue = match limit {
        Some(place) => {
            let mut cursor = Cursor::new(later, place + 1);
            Some(queue_limit(later[place], &mut cursor, rate, &mut vendor)?)
        }
        // 100 ms of the rate on CRS, 10 ms on NCS 540, others elsewhere.
        None if vendor == Vendor::IosXr => None,
        None => {
            assumed.push(format!(
                "The text has no `queue-limit`. {QUEUE} packets were the default of an ISR 4000; the default differs \
                 between devices."
            ));
            Some(QUEUE * FULL)
        }
    };
    Ok(Reading {
        vendor,
        rate: Rate::from_bits_per_second(rate),
        limit: Limit::Shaper { queue, burst },
        overhead: ETHERNET,
        line: shape.line,
        assumed,
    })
}

/// Refuses queues of a shaper that are no FIFOs.
fn refuse_other_queues(shape: Word<'_>, class: &[Word<'_>]) -> Result<(), Mistake> {
    let kinds = ["fair-queue", "random-detect"];
    let pairs = class.windows(2);
    let set = pairs.filter(|pair| !pair[0].is(&["no"]) && pair[1].is(&kinds));
    match set.map(|pair| pair[1]).next() {
        Some(kind) => Err(kind.mistake(format!(
            "the queue of the shaper in line {} is not a FIFO (`{}`), and only FIFOs are simulated there: to see what a FIFO \
             would do, leave this out",
            shape.line, kind.text
        ))),
        None => Ok(()),
    }
}

/// The bits that the bursts of `shape average` let pass at once, and a sentence about them; `None` if the line has none.
fn bursts(
    shape: Word<'_>,
    vendor: Vendor,
    cursor: &mut Cursor<'_>,
    rate: u64,
) -> Result<Option<(u64, &'static str)>, Mistake> {
    let is_burst = |word: &Word<'_>| {
        word.line == shape.line && word.text.starts_with(|c: char| c.is_ascii_digit())
    };
    let Some(word) = cursor.peek().filter(is_burst) else {
        return Ok(None);
    };
    if vendor == Vendor::IosXr {
        let bits = size(word, cursor, rate)?.saturating_mul(8);
        return Ok(Some((bits, "Its burst may leave at once.")));
    }
    let mut next = || {
        let word = cursor.peek().filter(is_burst)?;
        cursor.next();
        let wrong = || {
            word.mistake(format!(
                "`{}` is not a burst of `shape`: write bits such as 40000",
                word.text
            ))
        };
        let number = split(word.text).filter(|(_, unit)| unit.is_empty());
        Some(
            number
                .and_then(|(number, _)| whole(number))
                .ok_or_else(wrong),
        )
    };
    let committed = next().transpose()?.unwrap_or(0);
    Ok(Some(match next().transpose()? {
        Some(excess) => (
            committed.saturating_add(excess),
            "Bc and Be, its bursts in bits, may leave at once.",
        ),
        None => (
            committed.saturating_mul(2),
            "Its burst Bc, in bits, may leave at once, and as much again: without Be, IOS takes Bc for it.",
        ),
    }))
}

/// `queue-limit 200 [packets|bytes|…]`, in bytes. A time is one at the shaper's rate.
fn queue_limit(
    word: Word<'_>,
    cursor: &mut Cursor<'_>,
    rate: u64,
    vendor: &mut Vendor,
) -> Result<u64, Mistake> {
    let value = cursor.value(word, "200 packets")?;
    let number = split(value.text).filter(|(number, unit)| *number > 0.0 && unit.is_empty());
    let Some((number, _)) = number else {
        return Err(value.mistake(format!("`{}` is not a number of packets", value.text)));
    };
    let unit = cursor.peek().filter(|unit| unit.line == value.line);
    if unit.is_some_and(|unit| unit.is(&["kbytes", "mbytes", "gbytes"])) {
        *vendor = Vendor::IosXr;
    }
    let packet = match vendor {
        Vendor::IosXr => PACKET_OF_XR,
        _ => FULL,
    } as f64;
    let scale = match unit {
        None => packet,
        Some(unit) if unit.is(&["packets"]) => packet,
        Some(unit) => scale(unit, &sizes_at(rate)).ok_or_else(|| {
            unit.mistake(format!(
                "`{}` is not a unit of `queue-limit` that is understood: write packets, bytes, kbytes, mbytes, gbytes, \
                 ms or us",
                unit.text
            ))
        })?,
    };
    whole(number * scale)
        .filter(|&bytes| bytes > 0)
        .ok_or_else(|| value.mistake("this queue is out of range"))
}

/// What a unit counts.
fn scale(unit: Word<'_>, units: &[(&str, f64)]) -> Option<f64> {
    let unit = units.iter().find(|(name, _)| unit.is(&[name]));
    unit.map(|(_, scale)| *scale)
}

/// Units of a size in IOS XR, in bytes at a rate in bit/s.
fn sizes_at(rate: u64) -> [(&'static str, f64); 6] {
    let bytes_per_second = rate as f64 / 8.0;
    [
        ("bytes", 1.0),
        ("kbytes", 1e3),
        ("mbytes", 1e6),
        ("gbytes", 1e9),
        ("ms", bytes_per_second / 1e3),
        ("us", bytes_per_second / 1e6),
    ]
}

/// A rate in bit/s: digits, a decimal point, k, m or g, and in IOS XR a unit as a word.
fn rate(of: Word<'_>, cursor: &mut Cursor<'_>) -> Result<u64, Mistake> {
    let word = cursor.value(of, "10m")?;
    if word.is(&["percent"]) || cursor.peek().is_some_and(|next| next.is(&["percent"])) {
        return Err(word.mistake(
            "a rate in percent depends on the interface: write its rate in bit/s, or give --rate",
        ));
    }
    let wrong = || {
        word.mistake(format!(
            "`{}` is not a rate: write bits per second such as 10000000, 10m or 1.5g",
            word.text
        ))
    };
    let (number, suffix) = split(word.text).ok_or_else(wrong)?;
    let scale = match suffix.to_ascii_lowercase().as_str() {
        "" => match cursor.peek() {
            Some(unit) if scale(unit, &RATES).is_some() => scale(unit, &RATES).unwrap_or(1.0),
            Some(unit) if unit.is(&["k", "m", "g"]) => {
                return Err(word.mistake(format!(
                    "the unit of a rate is in the same word: write `{}{}`",
                    word.text, unit.text
                )));
            }
            Some(unit) if unit.is(&["pps", "cps"]) => {
                return Err(unit.mistake(format!(
                    "a limit in `{}` counts packets or cells, not bytes: give --rate and --burst",
                    unit.text
                )));
            }
            _ => return whole(number).ok_or_else(wrong),
        },
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        _ => return Err(wrong()),
    };
    if suffix.is_empty() {
        cursor.next();
    }
    whole(number * scale).ok_or_else(wrong)
}

/// A burst in bytes, or in time at a rate in bit/s.
fn size(of: Word<'_>, cursor: &mut Cursor<'_>, rate: u64) -> Result<u64, Mistake> {
    let word = cursor.value(of, "312500")?;
    let wrong = || {
        word.mistake(format!(
            "`{}` is not a burst: write bytes such as 312500",
            word.text
        ))
    };
    let (number, suffix) = split(word.text).ok_or_else(wrong)?;
    let scale = match suffix.to_ascii_lowercase().as_str() {
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        "" => {
            let unit = cursor.peek().and_then(|unit| scale(unit, &sizes_at(rate)));
            if unit.is_some() {
                cursor.next();
            }
            if let Some(word) = cursor.peek().filter(|word| word.is(&["packets", "cells"])) {
                return Err(
                    word.mistake("a burst in packets or cells is not understood: write bytes")
                );
            }
            unit.unwrap_or(1.0)
        }
        _ => return Err(wrong()),
    };
    let bytes = whole(number * scale).ok_or_else(wrong)?;
    match bytes {
        0 => Err(word.mistake("a burst of 0 bytes passes no packet: write at least 1500")),
        bytes => Ok(bytes),
    }
}
