//! The words of a configuration, each with its place.

use super::Mistake;

/// A word, and where it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word<'a> {
    pub text: &'a str,
    /// From 1.
    pub line: usize,
    /// The line where its command begins: an earlier one if `\` ends that.
    pub command: usize,
    /// From 1, in characters.
    pub column: usize,
}

impl Word<'_> {
    /// Whether it is one of these keywords, in any case.
    pub fn is(&self, keywords: &[&str]) -> bool {
        let same = |keyword: &&str| self.text.eq_ignore_ascii_case(keyword);
        keywords.iter().any(same)
    }

    /// A mistake at this word.
    pub fn mistake(&self, message: impl Into<String>) -> Mistake {
        Mistake {
            line: self.line,
            column: self.column,
            message: message.into(),
        }
    }
}

/// Characters that separate words and are words themselves.
const MARKS: [char; 3] = ['{', '}', ';'];

/// Splits a text into words. Comments are left out: `#` up to the end of the line, lines that begin with `!`, and
/// `/* … */`, also over several lines.
pub(super) fn words(text: &str) -> Vec<Word<'_>> {
    let mut found = Vec::new();
    // A comment without an end is none.
    let ends = text.lines().enumerate();
    let last = ends
        .filter_map(|(number, line)| Some((number, line.rfind("*/")?)))
        .last();
    let mut comment = false;
    let mut command = 1;
    let mut goes_on = false;
    for (number, line) in text.lines().enumerate() {
        if !goes_on {
            command = number + 1;
        }
        goes_on = line.trim_end().ends_with('\\');
        if !comment && line.trim_start().starts_with('!') {
            continue;
        }
        let mut start = None;
        // Bytes at the beginning of the line that were read already.
        let mut read = 0;
        let mut take = |from: Option<(usize, usize)>, to: usize| {
            if let Some((byte, column)) = from {
                found.push(Word {
                    text: &line[byte..to],
                    line: number + 1,
                    command,
                    column,
                });
            }
        };
        for (column, (byte, character)) in line.char_indices().enumerate() {
            if byte < read {
                continue;
            }
            if comment {
                if line[byte..].starts_with("*/") {
                    (comment, read) = (false, byte + 2);
                }
                continue;
            }
            let begins = start.is_none() && line[byte..].starts_with("/*");
            if begins && Some((number, byte + 2)) <= last {
                (comment, read) = (true, byte + 2);
                continue;
            }
            let mark = MARKS.contains(&character);
            // A hash within a word belongs to it.
            if character == '#' && start.is_none() {
                break;
            }
            if mark || character.is_whitespace() {
                take(start.take(), byte);
            } else if start.is_none() {
                start = Some((byte, column + 1));
            }
            if mark {
                take(Some((byte, column + 1)), byte + character.len_utf8());
            }
        }
        take(start.take(), line.trim_end().len());
    }
    // A shell's mark that the command goes on in the next line.
    found.retain(|word| word.text != "\\");
    found
}

/// A position among words.
#[derive(Debug, Clone)]
pub(super) struct Cursor<'a> {
    words: &'a [Word<'a>],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// From this word on.
    pub fn new(words: &'a [Word<'a>], at: usize) -> Self {
        Self { words, at }
    }

    /// The next word, without taking it.
    pub fn peek(&self) -> Option<Word<'a>> {
        self.words.get(self.at).copied()
    }

    /// Takes the next word.
    pub fn next(&mut self) -> Option<Word<'a>> {
        let word = self.peek()?;
        self.at += 1;
        Some(word)
    }

    /// Takes the next word if it is one of these.
    pub fn take(&mut self, keywords: &[&str]) -> bool {
        let found = self.peek().is_some_and(|word| word.is(keywords));
        self.at += usize::from(found);
        found
    }

    /// Takes the value of a keyword.
    pub fn value(&mut self, of: Word<'_>, example: &str) -> Result<Word<'a>, Mistake> {
        self.next().ok_or_else(|| {
            of.mistake(format!(
                "`{}` has no value: write one behind it, such as `{} {example}`",
                of.text, of.text
            ))
        })
    }
}

/// A decimal number and the letters behind it.
pub(super) fn split(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    // More digits than any quantity has.
    if number.len() > 24 {
        return None;
    }
    let number: f64 = number.parse().ok()?;
    Some((number, unit))
}

/// A quantity as a whole number, if it is one that 63 bits hold.
pub(super) fn whole(value: f64) -> Option<u64> {
    let value = value.round();
    (value.is_finite() && (0.0..9.2e18).contains(&value)).then_some(value as u64)
}
