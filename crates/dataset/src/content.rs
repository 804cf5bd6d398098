//! What a capture holds, as what identifies it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, Read};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// So many bytes at the beginning of a file are looked up: captures that have them in common may be one that grew.
const HEAD: usize = 512;
/// From a length to its double, this many lengths of the beginning of a file have a hash.
const STEPS: u64 = 8;
/// Hexadecimal digits of such a hash: 64 bits.
const DIGITS: usize = 16;

/// A file of a capture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// Its name when it was read.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// SHA-256 of its content, in hexadecimal.
    pub sha256: String,
    /// The same of its first bytes.
    pub(crate) head: String,
    /// Hashes of its beginnings at the lengths of [`steps`], one behind the other. Datasets of earlier programs do not
    /// have them.
    #[serde(default)]
    pub(crate) steps: String,
}

impl Piece {
    /// Whether a longer piece begins like this one. At least 8/9 of this piece's bytes were compared.
    pub(crate) fn is_beginning_of(&self, longer: &Self) -> bool {
        self.bytes < longer.bytes && !self.steps.is_empty() && longer.steps.starts_with(&self.steps)
    }

    /// Whether it is so short that it may be the header that many captures begin with.
    pub(crate) fn is_short(&self) -> bool {
        self.bytes < HEAD as u64
    }

    pub(crate) fn key(&self) -> (u64, String) {
        (self.bytes, self.sha256.clone())
    }
}

/// The lengths at which the beginning of a file has a hash: from [`HEAD`] on, in steps of an eighth of a power of two. A
/// file of 1 GB has 167.
fn steps() -> impl Iterator<Item = u64> {
    let octaves = std::iter::successors(Some(HEAD as u64), |length| length.checked_mul(2));
    octaves.flat_map(|octave| (0..STEPS).map(move |step| octave + octave / STEPS * step))
}

/// What a capture holds, in one file or in several.
#[derive(Debug, Clone)]
pub struct Content {
    /// Its files.
    pub pieces: Vec<Piece>,
    /// Lengths and hashes of beginnings of these files that were captures once.
    pub(crate) beginnings: BTreeSet<(u64, String)>,
    /// The lengths of all beginnings that were compared with captures.
    pub(crate) compared: BTreeSet<u64>,
}

impl Content {
    /// The name of the capture in the dataset: it depends on the content alone.
    pub fn id(&self) -> String {
        match &self.pieces[..] {
            [piece] => piece.sha256[..32].to_owned(),
            pieces => {
                let all: String = pieces.iter().map(|piece| &piece.sha256[..]).collect();
                hex(&Sha256::digest(all))[..32].to_owned()
            }
        }
    }

    /// Whether a piece of another capture is in this one, or is the beginning of a piece.
    pub(crate) fn has(&self, piece: &Piece) -> bool {
        // Of captures that came while this one was read, only the steps are known.
        let unread = !self.compared.contains(&piece.bytes);
        let is_in =
            |its: &Piece| its.key() == piece.key() || (unread && piece.is_beginning_of(its));
        self.beginnings.contains(&piece.key()) || self.pieces.iter().any(is_in)
    }
}

/// The name in the dataset of rows that are of no file: it depends on what they are called.
pub(crate) fn name_id(name: &str) -> String {
    hex(&Sha256::digest(name))[..32].to_owned()
}

/// The lengths of known pieces, by what they begin with.
#[derive(Debug, Default)]
pub(crate) struct Lengths {
    by_head: BTreeMap<String, BTreeSet<u64>>,
    /// Those of pieces that are no longer than a head.
    short: BTreeSet<u64>,
}

impl Lengths {
    pub(crate) fn add(&mut self, piece: &Piece) {
        let lengths = match piece.bytes <= HEAD as u64 {
            true => &mut self.short,
            false => self.by_head.entry(piece.head.clone()).or_default(),
        };
        lengths.insert(piece.bytes);
    }

    /// Those that a piece with this head may have had before.
    pub(crate) fn of(&self, head: &str) -> BTreeSet<u64> {
        let longer = self.by_head.get(head).into_iter().flatten();
        self.short.iter().chain(longer).copied().collect()
    }
}

/// A source's bytes up to a length, whatever the pieces in which they come.
fn read_up_to(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Reads a file through. `lengths` tells at which lengths it may have been a capture before.
pub(crate) fn read(
    name: &str,
    mut source: impl Read,
    lengths: impl FnOnce(&str) -> BTreeSet<u64>,
) -> io::Result<(Piece, Vec<(u64, String)>)> {
    let mut buffer = vec![0; 1 << 16];
    let filled = read_up_to(&mut source, &mut buffer[..HEAD])?;
    let head = hex(&Sha256::digest(&buffer[..filled]));
    let (mut all, mut bytes, mut filled) = (Sha256::new(), 0, filled);
    let mut beginnings = Vec::new();
    let mut lengths = lengths(&head);
    let (mut ahead, mut hashes) = (steps().peekable(), String::new());
    while filled > 0 {
        let mut rest = &buffer[..filled];
        loop {
            let (length, step) = (lengths.first(), ahead.peek());
            let next = length.into_iter().chain(step).min().copied();
            let Some(next) = next.filter(|next| *next <= bytes + rest.len() as u64) else {
                break;
            };
            let (before, behind) = rest.split_at((next - bytes) as usize);
            all.update(before);
            (bytes, rest) = (next, behind);
            let hash = hex(&all.clone().finalize());
            if ahead.next_if_eq(&next).is_some() {
                hashes += &hash[..DIGITS];
            }
            if lengths.remove(&next) {
                beginnings.push((next, hash));
            }
        }
        all.update(rest);
        bytes += rest.len() as u64;
        filled = read_up_to(&mut source, &mut buffer)?;
    }
    let sha256 = hex(&all.finalize());
    // Its whole length is no beginning.
    beginnings.retain(|(length, _)| *length < bytes);
    let piece = Piece {
        name: name.to_owned(),
        bytes,
        sha256,
        head,
        steps: hashes,
    };
    Ok((piece, beginnings))
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_identified_by_its_content() {
        // NIST's example for SHA-256.
        let (piece, beginnings) = read("x", &b"abc"[..], |_| BTreeSet::new()).expect("read");
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!((&piece.sha256[..], piece.bytes), (expected, 3));
        assert!(beginnings.is_empty());
    }

    #[test]
    fn what_a_file_was_before_it_grew_is_found() {
        let whole: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
        for length in [1, 24, 511, 512, 513, 65_535, 65_536, 65_537, 299_999] {
            let mut lengths = Lengths::default();
            let (before, _) = read("x", &whole[..length], |_| BTreeSet::new()).expect("read");
            lengths.add(&before);
            let (_, beginnings) = read("x", &whole[..], |head| lengths.of(head)).expect("read");
            assert_eq!(beginnings, [(length as u64, before.sha256)], "{length}");
        }
    }
    #[test]
    fn a_beginning_is_told_from_another_file() {
        let whole: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
        let piece = |bytes: &[u8]| read("x", bytes, |_| BTreeSet::new()).expect("read").0;
        let longer = piece(&whole);
        for length in [512, 1_000, 1_024, 65_536, 299_999] {
            let short = piece(&whole[..length]);
            assert!(short.is_beginning_of(&longer), "{length}");
            assert!(!longer.is_beginning_of(&short), "{length}");
            // Within the first 8/9 any byte counts.
            let mut other = whole[..length].to_vec();
            other[length * 8 / 9 - 1] ^= 1;
            assert!(!piece(&other).is_beginning_of(&longer), "{length}");
        }
        assert!(!longer.is_beginning_of(&longer));
        // Headers of captures may be alike.
        assert!(!piece(&whole[..511]).is_beginning_of(&longer));
        assert_eq!(
            steps()
                .take_while(|length| *length <= 1_000_000_000)
                .count(),
            167
        );
    }
}
