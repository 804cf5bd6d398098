//! Linux nft(8): `limit rate over N kbytes/second [burst N kbytes] drop`, or `limit rate [until] … accept` before a rule that drops.
//!
//! A kbyte is 1024 bytes. The kernel's bucket has room for the bytes of one unit of time more than `burst` says:
//! `nsecs · (rate + burst) / rate` of tokens (`nft_limit_init`, Linux 4.3 to 6.18), so with `/second` it is a second's
//! worth and the burst.

use tidegate_limiter::{Bytes, Rate};

use super::words::{Cursor, Word, split, whole};
use super::{Limit, Mistake, Reading, Vendor};

pub(super) fn read(words: &[Word<'_>], at: usize) -> Result<Reading, Mistake> {
    let limit = words[at];
    // Behind `limit rate`.
    let mut cursor = Cursor::new(words, at + 2);
    let over = cursor.take(&["over"]);
    // The same as neither of them.
    cursor.take(&["until"]);
    let number = cursor.value(limit, "rate over 1250 kbytes/second")?;
    let (amount, unit, per) = rate(number, &mut cursor)?;
    let bytes = whole(amount * unit).filter(|&bytes| bytes > 0);
    let bytes = bytes.ok_or_else(|| number.mistake("this rate is out of range"))?;
    let burst = match cursor.peek() {
        Some(word) if word.is(&["burst"]) => {
            cursor.next();
            burst(word, &mut cursor)?
        }
        _ => 0,
    };
    let mut assumed = Vec::new();
    let rest: Vec<Word<'_>> = std::iter::from_fn(|| cursor.next())
        .take_while(|word| word.line == number.line)
        .collect();
    let verdict = |names: &[&str]| rest.iter().any(|word| word.is(names));
    if over && !verdict(&["drop", "reject"]) {
        if verdict(&["accept", "return", "continue", "mark", "dscp", "log"]) {
            return Err(limit.mistake(
                "this rule does not drop packets beyond the limit. Advice is for limits that drop",
            ));
        }
        assumed.push("The rule has no verdict: `drop` is assumed.".to_owned());
    }
    if !over && verdict(&["drop", "reject"]) {
        return Err(limit.mistake(
            "without `over` this rule drops what is within the limit: write `limit rate over` to drop the rest",
        ));
    }
    if !over {
        assumed.push(
            "Without `over` the rule matches packets within the limit. A later rule is assumed to drop the others. Rules that are advised \
             have `over` and `drop`: they belong before this one, with what it matches."
                .to_owned(),
        );
    }
    // One unit of time more than configured.
    let bucket = bytes.saturating_add(burst);
    assumed.push(format!(
        "The kernel's bucket is larger than `burst`: it has room for the bytes of one {} more, {} in all.",
        per.0,
        Bytes::new(bucket)
    ));
    let bits = whole(bytes as f64 * 8.0 / per.1);
    let bits = bits.ok_or_else(|| number.mistake("this rate is out of range"))?;
    Ok(Reading {
        vendor: Vendor::Nft,
        rate: Rate::from_bits_per_second(bits),
        limit: Limit::Policer {
            burst: Some(bucket),
        },
        overhead: 0,
        line: limit.line,
        assumed,
    })
}

/// A unit of time, and its seconds.
type Per = (&'static str, f64);

/// `1250 kbytes/second`: the number, the bytes of its unit, and the time.
fn rate(number: Word<'_>, cursor: &mut Cursor<'_>) -> Result<(f64, f64, Per), Mistake> {
    let wrong = || {
        number.mistake(format!(
            "`{}` is not a rate of nftables: write 1250 kbytes/second",
            number.text
        ))
    };
    let (amount, rest) = split(number.text).ok_or_else(wrong)?;
    let unit = match rest {
        "" => cursor.value(number, "kbytes/second")?,
        rest => Word {
            text: rest,
            ..number
        },
    };
    let (bytes, per) = unit.text.split_once('/').ok_or_else(wrong)?;
    let per = match per.to_ascii_lowercase().as_str() {
        "second" => ("second", 1.0),
        "minute" => ("minute", 60.0),
        "hour" => ("hour", 3600.0),
        "day" => ("day", 86_400.0),
        "week" => ("week", 604_800.0),
        _ => return Err(unit.mistake("the time of a rate is second, minute, hour, day or week")),
    };
    if bytes.is_empty() || bytes.eq_ignore_ascii_case("packets") {
        return Err(number.mistake(
            "this limit counts packets, not bytes: give --rate and --burst, or write kbytes/second",
        ));
    }
    let scale = scale(bytes)
        .ok_or_else(|| unit.mistake("the unit of a rate is bytes, kbytes or mbytes"))?;
    Ok((amount, scale, per))
}

fn scale(unit: &str) -> Option<f64> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "bytes" => 1.0,
        "kbytes" => 1024.0,
        "mbytes" => f64::from(1 << 20),
        _ => return None,
    })
}

fn burst(of: Word<'_>, cursor: &mut Cursor<'_>) -> Result<u64, Mistake> {
    let word = cursor.value(of, "32 kbytes")?;
    let wrong = || {
        word.mistake(format!(
            "`{}` is not a burst of nftables: write 32 kbytes",
            word.text
        ))
    };
    let (number, unit) = split(word.text).ok_or_else(wrong)?;
    let unit = match unit {
        "" => cursor.value(word, "kbytes")?.text,
        unit => unit,
    };
    let scale = scale(unit).ok_or_else(wrong)?;
    whole(number * scale).ok_or_else(wrong)
}
