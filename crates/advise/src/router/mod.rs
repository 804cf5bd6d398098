//! Limits as routers write them: lines of Cisco IOS and IOS XR, Junos, Linux tc and nftables.
//!
//! Each reader uses its vendor's units as that vendor defines them. What a line leaves to the vendor's defaults, or
//! to us, is stated in [`Reading::assumed`].

mod below;
mod ios;
mod junos;
mod nft;
mod other;
mod removed;
mod tc;
mod words;
mod write;

use std::fmt;

use tidegate_limiter::{Bytes, Rate};

use words::{Word, words};
pub use write::write;

#[cfg(test)]
mod tests;

/// Longest text that is read, in bytes.
pub const LONGEST: usize = 1 << 20;

/// At most so many limits are tried until one is understood.
const TRIED: usize = 64;

/// Whose configuration it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vendor {
    /// Cisco IOS and IOS XE.
    Ios,
    /// Cisco IOS XR, which writes units as words.
    IosXr,
    /// Juniper Junos.
    Junos,
    /// Linux tc(8).
    Tc,
    /// Linux nft(8).
    Nft,
}

impl Vendor {
    /// What it is called in text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ios => "Cisco IOS",
            Self::IosXr => "Cisco IOS XR",
            Self::Junos => "Junos",
            Self::Tc => "Linux tc",
            Self::Nft => "nftables",
        }
    }
}

/// What enforces a rate, as far as the line says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// A token bucket that drops.
    Policer {
        /// Its depth in bytes, unless the line leaves it open and the default differs between devices.
        burst: Option<u64>,
    },
    /// A queue.
    Shaper {
        /// Most bytes that wait, as `burst` of a policer.
        queue: Option<u64>,
        /// Bytes that may leave at once after silence.
        burst: u64,
    },
}

/// What a line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Whose line it is.
    pub vendor: Vendor,
    /// The rate that passes in the long run.
    pub rate: Rate,
    /// What enforces it.
    pub limit: Limit,
    /// Bytes that are charged for each packet beyond its IP packet.
    pub overhead: u32,
    /// The line, from 1.
    pub line: usize,
    /// What the line does not say, in sentences.
    pub assumed: Vec<String>,
}

/// Why a text is not a limit, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Mistake {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// The reason, and what to do.
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

/// Reads the first limit in a text: a line, or a part of a configuration.
///
/// ```
/// use tidegate_advise::router::{self, Limit};
/// let found = router::read("police cir 10m bc 312500")?;
/// assert_eq!(found.rate.bits_per_second(), 10_000_000);
/// assert_eq!(found.limit, Limit::Policer { burst: Some(312_500) });
/// assert_eq!(router::read("police cir 10q").unwrap_err().column, 12);
/// # Ok::<(), router::Mistake>(())
/// ```
///
/// # Errors
/// There is none, or a part of it is not understood.
pub fn read(text: &str) -> Result<Reading, Mistake> {
    if text.len() > LONGEST {
        return Err(Mistake {
            line: 1,
            column: 1,
            message: format!(
                "this text has {}, and at most {} are read: name only the part with the limit",
                Bytes::new(text.len() as u64),
                Bytes::new(LONGEST as u64)
            ),
        });
    }
    let all = words(text);
    let words = removed::without(&all);
    let starts = starts(&words);
    if starts.is_empty() {
        return Err(nothing(&all, &words));
    }
    let mut mistakes: Vec<Mistake> = Vec::new();
    let found = starts.iter().take(TRIED).find_map(|&(at, reader)| {
        match reader(&words, at) {
            Ok(reading) => return Some((at, reading)),
            // The burst of a policer whose rate is not understood either.
            Err(_) if words[at].is(&["burst-size-limit"]) && !mistakes.is_empty() => {}
            Err(mistake) => mistakes.push(mistake),
        }
        None
    });
    let Some((at, mut reading)) = found else {
        return Err(mistakes.swap_remove(0));
    };
    for Mistake { line, message, .. } in mistakes {
        let note = format!("Line {line} is left out, for it is not understood: {message}.");
        reading.assumed.push(note);
    }
    if let Some(named) = other::named(&words) {
        let note = format!("Limits of kinds that are not understood are left out: {named}.");
        reading.assumed.push(note);
    }
    // The two lines of a Junos policer are one limit.
    let limits = starts
        .iter()
        .filter(|(start, _)| *start >= at && !words[*start].is(&["burst-size-limit"]));
    let more = limits.count().saturating_sub(1);
    if more > 0 {
        let these = match more {
            1 => "1 more limit, which is".to_owned(),
            more => format!("{more} more limits, which are"),
        };
        reading.assumed.push(format!(
            "This is the limit in line {}. The text has {these} left out.",
            reading.line
        ));
    }
    if !Rate::LIMITABLE.contains(&reading.rate) {
        return Err(words[at].mistake(format!(
            "a rate of {} is out of range: limits are simulated {}",
            reading.rate,
            Rate::LIMITABLE_TEXT
        )));
    }
    Ok(reading)
}

/// Where limits begin that count, and their readers.
fn starts(words: &[Word<'_>]) -> Vec<(usize, Reader)> {
    let inactive = junos::inactive(words);
    let mut found = all_starts(words);
    found.retain(|(at, _)| {
        let after = inactive.partition_point(|block| block.end <= *at);
        inactive.get(after).is_none_or(|block| !block.contains(at))
    });
    // Of classes of htb only the leaves have queues.
    let inner = below::Inner::of(words);
    let is_leaf = |(at, _): &(usize, Reader)| !inner.has(words, *at);
    match found.iter().any(is_leaf) {
        true => found.into_iter().filter(is_leaf).collect(),
        false => found,
    }
}

/// Where limits begin, also those that are not active.
fn all_starts(words: &[Word<'_>]) -> Vec<(usize, Reader)> {
    let mut found: Vec<(usize, Reader)> = Vec::new();
    // The command that a word of tc's was in, and where the present line begins.
    let (mut linux, mut line) = (None, 0);
    for (at, word) in words.iter().enumerate() {
        if word.is(&["tc", "filter", "action"]) {
            linux = Some(word.command);
        }
        if words[line].line != word.line {
            line = at;
        }
        if let Some(reader) = begins(words, at, words[line], linux == Some(word.command)) {
            found.push((at, reader));
        }
    }
    found
}

/// Reads the limit that begins at a word.
type Reader = fn(&[Word<'_>], usize) -> Result<Reading, Mistake>;

/// The reader of the limit that begins at this word, if one does. `first` is the first word of its line, and `linux` tells whether a
/// word of tc's is before it in its command.
fn begins(words: &[Word<'_>], at: usize, first: Word<'_>, linux: bool) -> Option<Reader> {
    let (word, next) = (words[at], words.get(at + 1));
    if word.is(&["tbf"]) || word.is(&["htb"]) && tc::limits(words, at) {
        return Some(tc::queue);
    }
    if word.is(&["police"]) {
        return match linux || tc::wrote(words, at) {
            true => Some(tc::police),
            false => ios::begins(words, at, first).then_some(ios::police),
        };
    }
    if word.is(&["shape"]) && next.is_some_and(|next| next.is(&["average", "peak"])) {
        return Some(ios::shape);
    }
    if word.is(&["bandwidth-limit", "bandwidth-percent", "burst-size-limit"]) {
        return Some(junos::read);
    }
    (word.is(&["limit"]) && next.is_some_and(|next| next.is(&["rate"]))).then_some(nft::read)
}

/// Why a text has no limit: `all` are its words, and `active` those that count.
fn nothing(all: &[Word<'_>], active: &[Word<'_>]) -> Mistake {
    if let Some(&(at, _)) = all_starts(all).first() {
        return all[at].mistake(
            "this limit does not count, for the text removes or disables it, and it has no other: there is none to advise on",
        );
    }
    // The mistake of a queue of htb without a class says what it needs.
    let queue = active.iter().position(|word| word.is(&["htb"]));
    let mistake = queue.and_then(|at| tc::queue(active, at).err());
    mistake.unwrap_or_else(|| none(active))
}

fn none(words: &[Word<'_>]) -> Mistake {
    let (line, column) = words
        .first()
        .map_or((1, 1), |word| (word.line, word.column));
    let found = other::named(words).map_or(String::new(), |named| format!(" ({named} is not)"));
    Mistake {
        line,
        column,
        message: format!(
            "there is no limit here that is understood{found}. Understood are `police` and `shape` of Cisco IOS and IOS XR, \
             `bandwidth-limit` with `burst-size-limit` of Junos, `police`, `tbf` and `htb` of Linux tc, and `limit rate … \
             bytes` of nftables. For any other limit give --rate and --burst"
        ),
    }
}
