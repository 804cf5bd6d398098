//! What two gates of a pair tell one another: live changes, volumes, and what their limiters have seen.
//!
//! Limiters travel as they are in memory, so both gates must be of one version. A limiter is named by its subscriber and by a
//! digest of its limits: numbers of plans differ between gates.

use serde::{Deserialize, Serialize};
use tidegate_limiter::Nanos;

use crate::calendar::Period;
use crate::limits::Limits;
use crate::state::Setting;
use crate::table::{Direction, PerDirection};

#[cfg(test)]
mod tests;

/// A live change of one subscriber.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedChange {
    /// The subscriber's name.
    pub name: String,
    /// When it was changed: milliseconds since 1970, and later than any change before. Of two changes the later one holds.
    pub stamp: u64,
    /// What is set; nothing if it is as in the file.
    pub setting: Option<Setting>,
    /// All that its packets are recognised by, if that is not as in the file.
    pub matches: Option<Vec<String>>,
}

impl SharedChange {
    /// Whether a change of another subscriber, with this name and stamp, is later. Both gates may have changed something in the
    /// same millisecond: names decide then, so that both agree.
    pub(crate) fn is_before(&self, name: &str, stamp: u64) -> bool {
        (self.stamp, self.name.as_str()) < (stamp, name)
    }
}

/// What a gate counted of a subscriber in a month.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedVolume {
    /// The subscriber's name.
    pub name: String,
    /// The month.
    pub period: Period,
    /// Bytes that passed this gate.
    pub bytes: PerDirection<u64>,
    /// When it began at 0 by request, in the same time as stamps; 0 if never.
    pub reset: u64,
}

/// A limiter on its way to the other gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carried {
    /// The subscriber's name.
    pub name: String,
    /// The direction of its packets.
    pub direction: Direction,
    /// A digest of its limits, which numbers of plans do not tell: these differ between gates.
    pub limits: u64,
    /// Time since its latest packet.
    pub age: Nanos,
    /// Its memory.
    pub state: Vec<u8>,
}

/// What came of limiters of the other gate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Imported {
    /// Limiters that go on where those of the other gate are.
    pub taken: usize,
    /// Limiters that are unknown here or have other limits: the files of the two gates differ.
    pub unknown: usize,
}

/// A number that two gates have in common for equal limits (FNV-1a of what the state's file says).
pub(crate) fn digest(limits: &Limits) -> u64 {
    let text = serde_json::to_vec(limits).unwrap_or_default();
    text.iter().fold(0xcbf2_9ce4_8422_2325, |digest, byte| {
        (digest ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// The first bytes: what follows has this form.
const MAGIC: &[u8; 8] = b"tgpair1\n";
/// Words of a limiter's memory that are not 0 are sent, after a bit for each word.
const WORD: usize = 8;

/// Limiters as bytes.
#[derive(Debug)]
pub struct Writer(Vec<u8>);

impl Default for Writer {
    fn default() -> Self {
        Self(MAGIC.to_vec())
    }
}

impl Writer {
    /// Adds a limiter, whose name has less than 64 KiB.
    pub fn add(&mut self, limiter: &Carried) {
        let Carried {
            name,
            direction,
            limits,
            age,
            state,
        } = limiter;
        let out = &mut self.0;
        out.extend((name.len() as u16).to_le_bytes());
        out.extend(name.as_bytes());
        out.push(*direction as u8);
        out.extend(limits.to_le_bytes());
        out.extend(age.to_le_bytes());
        let words = state.chunks_exact(WORD);
        out.extend((words.len() as u16).to_le_bytes());
        let mut bits = vec![0u8; words.len().div_ceil(8)];
        for (number, word) in words.clone().enumerate() {
            bits[number / 8] |= u8::from(word != [0; WORD]) << (number % 8);
        }
        out.extend(bits);
        out.extend(words.filter(|word| *word != [0; WORD]).flatten());
    }

    /// All bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Reads limiters again, one after the other.
#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads what a [`Writer`] wrote.
    ///
    /// # Errors
    /// If another version wrote it.
    pub fn new(bytes: &'a [u8]) -> Result<Self, String> {
        let rest = bytes.strip_prefix(MAGIC);
        rest.map(Self).ok_or_else(|| {
            "the other gate is of another version: both must be of the same one".into()
        })
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(first)
    }

    fn limiter(&mut self) -> Option<Carried> {
        let length = u16::from_le_bytes(self.take()?);
        let name = std::str::from_utf8(self.bytes(length.into())?).ok()?;
        let direction = match self.take()? {
            [0] => Direction::Down,
            [1] => Direction::Up,
            _ => return None,
        };
        let limits = u64::from_le_bytes(self.take()?);
        let age = u64::from_le_bytes(self.take()?);
        let words = usize::from(u16::from_le_bytes(self.take()?));
        let bits = self.bytes(words.div_ceil(8))?;
        let mut state = Vec::with_capacity(words * WORD);
        for number in 0..words {
            let word = match bits[number / 8] >> (number % 8) & 1 {
                1 => self.take::<WORD>()?,
                _ => [0; WORD],
            };
            state.extend(word);
        }
        Some(Carried {
            name: name.to_owned(),
            direction,
            limits,
            age,
            state,
        })
    }
}

impl Iterator for Reader<'_> {
    type Item = Result<Carried, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let left = self.0.len();
        let read = self.limiter();
        if read.is_none() {
            self.0 = &[];
        }
        Some(read.ok_or_else(|| {
            format!(
                "what the other gate sent of its limiters is damaged, {left} bytes before its end"
            )
        }))
    }
}
