//! Junos: `if-exceeding { bandwidth-limit 10m; burst-size-limit 625k; }` and the `set` form.
//!
//! `bandwidth-limit` is bits per second and `burst-size-limit` bytes, both with k (1000), m (1,000,000) and g
//! (1,000,000,000). (Junos CLI Reference, `if-exceeding (Policer)` and `burst-size-limit`.)

use std::ops::Range;

use tidegate_limiter::Rate;

use super::words::{Cursor, Word, split, whole};
use super::{Limit, Mistake, Reading, Vendor};
use crate::setting::ETHERNET;

pub(super) fn read(words: &[Word<'_>], at: usize) -> Result<Reading, Mistake> {
    let first = words[at];
    let (mut rate, mut burst) = (None, None);
    let mut then = None;
    let lines = lines_of(words, at);
    let mut cursor = match &lines {
        Some(lines) => Cursor::new(lines, 0),
        None => Cursor::new(words, at),
    };
    // Blocks that are open, beyond those around the first word: this policer's, and `if-exceeding` in it.
    let mut depth = 0;
    while let Some(word) = cursor.next() {
        match word.text {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if word.is(&["bandwidth-percent"]) {
            return Err(word.mistake(
                "`bandwidth-percent` depends on the port's speed: write `bandwidth-limit` in bit/s, or give --rate",
            ));
        }
        // The next policer of a configuration.
        let again = (word.is(&["bandwidth-limit"]) && rate.is_some())
            || (word.is(&["burst-size-limit"]) && burst.is_some());
        let next = lines.is_none() && word.is(&["policer"]) && rate.is_some() && burst.is_some();
        if again || next || depth < -1 {
            break;
        }
        if word.is(&["policer"]) {
            // Its name, which may be any word.
            cursor.next();
        } else if word.is(&["bandwidth-limit"]) {
            rate = Some(quantity(word, &mut cursor, "10m", "bits per second")?);
        } else if word.is(&["burst-size-limit"]) {
            burst = Some(quantity(word, &mut cursor, "625k", "bytes")?);
        } else if word.is(&["discard"]) {
            then = Some(true);
        } else if word.is(&["loss-priority", "forwarding-class", "out-of-profile"])
            && then.is_none()
        {
            then = Some(false);
        }
    }
    let Some(rate) = rate else {
        return Err(first.mistake("there is no `bandwidth-limit` beside this burst: write one, such as `bandwidth-limit 10m`"));
    };
    let mut assumed = Vec::new();
    match then {
        Some(false) => {
            return Err(first.mistake(
                "this policer drops nothing: its `then` has no `discard`. Advice is for limits that drop",
            ));
        }
        Some(true) => {}
        None => assumed.push("The text has no `then`: `discard` is assumed.".to_owned()),
    }
    let kind = words[..at]
        .iter()
        .rev()
        .find(|word| word.is(&["policer", "hierarchical-policer", "three-color-policer"]));
    if kind.is_some_and(|kind| kind.is(&["hierarchical-policer"])) {
        let part = words[..at]
            .iter()
            .rev()
            .find(|word| word.is(&["aggregate", "premium"]));
        assumed.push(format!(
            "This is the `{}` limit of a `hierarchical-policer`, as if all its traffic were alike. Its other limit is not simulated.",
            part.map_or("first", |part| part.text)
        ));
    }
    Ok(Reading {
        vendor: Vendor::Junos,
        rate: Rate::from_bits_per_second(rate),
        limit: Limit::Policer { burst },
        overhead: ETHERNET,
        line: first.line,
        assumed,
    })
}

/// The blocks of words that `inactive:` takes out of a configuration, in order.
pub(super) fn inactive(words: &[Word<'_>]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    // Where the block began, and how many braces are open in it.
    let mut block = None;
    for (at, word) in words.iter().enumerate() {
        let Some((begin, depth)) = &mut block else {
            block = word.is(&["inactive:"]).then_some((at, 0));
            continue;
        };
        *depth += i32::from(word.text == "{") - i32::from(word.text == "}");
        if *depth < 0 || *depth == 0 && matches!(word.text, "}" | ";") {
            found.push(*begin..at);
            block = None;
        }
    }
    found.extend(block.map(|(begin, _)| begin..words.len()));
    found
}

/// The words of all lines in the `set` form that set the policer of a word; `None` in the form with braces.
fn lines_of<'a>(words: &[Word<'a>], at: usize) -> Option<Vec<Word<'a>>> {
    let same = |a: &Word<'_>, b: &Word<'_>| a.command == b.command;
    let commands = words.chunk_by(same);
    let its = commands
        .clone()
        .find(|line| line[0].command == words[at].command);
    let name = its.and_then(policer)?;
    let lines = commands.filter(|line| policer(line) == Some(name));
    Some(lines.flatten().copied().collect())
}

/// The policer that a line in the `set` form sets. A filter's `then policer NAME` sets none.
fn policer<'a>(line: &[Word<'a>]) -> Option<&'a str> {
    let at = line.iter().position(|word| word.is(&["policer"]))?;
    let sets = line[0].is(&["set"]) && !line[at - 1].is(&["then"]);
    sets.then(|| line.get(at + 1))
        .flatten()
        .map(|name| name.text)
}

fn quantity(
    of: Word<'_>,
    cursor: &mut Cursor<'_>,
    example: &str,
    unit: &str,
) -> Result<u64, Mistake> {
    let word = cursor.value(of, example)?;
    let wrong = || {
        word.mistake(format!(
            "`{}` is not a value of `{}`: write {unit}, such as {example} (k, m and g are powers of ten)",
            word.text, of.text
        ))
    };
    let (number, suffix) = split(word.text).ok_or_else(wrong)?;
    let scale = match suffix.to_ascii_lowercase().as_str() {
        "" => 1.0,
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        _ => return Err(wrong()),
    };
    whole(number * scale)
        .filter(|&value| value > 0)
        .ok_or_else(wrong)
}
