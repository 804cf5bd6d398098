//! What is below a class of htb or a tbf, of tc(8): other lines of the text, with the class or the handle as their parent.

use std::collections::BTreeMap;

use super::words::{Cursor, Word};

/// A queue below a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Below<'a> {
    /// What it is, such as `pfifo`.
    pub kind: Word<'a>,
    /// The value of its `limit`.
    pub limit: Option<Word<'a>>,
}

/// Words that begin another command.
const BOUNDS: [&str; 4] = ["tc", "qdisc", "class", "filter"];
/// What a line does to a queue that is there afterwards.
const SETS: [&str; 4] = ["add", "replace", "change", "link"];

/// The last queue in the text whose parent is the limit that begins at a word.
pub(super) fn find<'a>(words: &'a [Word<'a>], at: usize) -> Option<Below<'a>> {
    let limit = command(words, at);
    let own = identity(limit, words[at])?;
    let device = value(limit, "dev");
    let starts = (0..words.len()).filter(|&start| words[start].is(&["qdisc"]));
    let mut queues = starts.filter_map(|start| {
        let queue = &words[start + 1..end(words, start)];
        let parent = handle(value(queue, "parent")?.text)?;
        let there = value(queue, "dev");
        // Lines for one device do not repeat it when tc prints them.
        let elsewhere = device
            .zip(there)
            .is_some_and(|(one, other)| one.text != other.text);
        (own.is_parent(parent) && !elsewhere).then(|| below(queue))?
    });
    queues.next_back()
}

/// Words of a command of tc before it says what it is about.
const NEAR: usize = 16;

/// The classes that other classes have as their parent, each with the devices of these, where they are said.
pub(super) struct Inner<'a>(BTreeMap<Handle, Vec<Option<&'a str>>>);

impl<'a> Inner<'a> {
    /// Those of a text.
    pub fn of(words: &'a [Word<'a>]) -> Self {
        let mut parents: BTreeMap<Handle, Vec<Option<&str>>> = BTreeMap::new();
        for start in (0..words.len()).filter(|&start| words[start].is(&["class"])) {
            let rest = words[start + 1..].iter().take(NEAR);
            let is_inside = |word: &&Word<'_>| word.command == words[start].command;
            let end = rest.take_while(|word| is_inside(word) && !word.is(&BOUNDS));
            let class = &words[start + 1..start + 1 + end.count()];
            if let Some(parent) = value(class, "parent").and_then(|word| handle(word.text)) {
                let device = value(class, "dev").map(|word| word.text);
                parents.entry(parent).or_default().push(device);
            }
        }
        Self(parents)
    }

    /// Whether the limit that begins at a word is such a class.
    pub fn has(&self, words: &[Word<'_>], at: usize) -> bool {
        if !words[at].is(&["htb"]) {
            return false;
        }
        let near = &words[at.saturating_sub(NEAR)..at];
        let is_outside = |word: &Word<'_>| word.command != words[at].command || word.is(&BOUNDS);
        let class = &near[near.iter().rposition(is_outside).map_or(0, |at| at + 1)..];
        let printed = words.get(at + 1).and_then(|word| handle(word.text));
        let own = printed.or_else(|| handle(value(class, "classid")?.text));
        let device = value(class, "dev").map(|word| word.text);
        let children = own.and_then(|own| self.0.get(&own));
        // Lines for one device do not repeat it when tc prints them.
        let here = |there: &Option<&str>| there.is_none() || device.is_none() || *there == device;
        children.is_some_and(|devices| devices.iter().any(here))
    }
}

/// The words of the command that a word is in.
fn command<'a>(words: &'a [Word<'a>], at: usize) -> &'a [Word<'a>] {
    let is_outside = |word: &Word<'_>| word.command != words[at].command || word.is(&BOUNDS);
    let before = words[..at].iter().rposition(is_outside);
    &words[before.map_or(0, |before| before + 1)..end(words, at)]
}

/// Where the command that a word is in ends.
fn end(words: &[Word<'_>], at: usize) -> usize {
    let is_outside = |word: &Word<'_>| word.command != words[at].command || word.is(&BOUNDS);
    let after = words[at + 1..].iter().position(is_outside);
    after.map_or(words.len(), |after| at + 1 + after)
}

/// The number of a class or a queue, `MAJOR:MINOR` in hexadecimal digits.
type Handle = (u32, u32);

fn handle(text: &str) -> Option<Handle> {
    let (major, minor) = text.split_once(':')?;
    let number = |digits: &str| match digits {
        "" => Some(0),
        digits => u32::from_str_radix(digits, 16).ok(),
    };
    Some((number(major)?, number(minor)?))
}

/// What a queue names as its parent.
#[derive(Debug, Clone, Copy)]
enum Identity {
    /// A class of htb.
    Class(Handle),
    /// The first number of a tbf, which has one class.
    Queue(u32),
}

impl Identity {
    fn is_parent(self, parent: Handle) -> bool {
        match self {
            Self::Class(class) => parent == class,
            Self::Queue(major) => parent.0 == major,
        }
    }
}

/// As it is typed behind a key, and as tc prints it behind the kind.
fn identity(limit: &[Word<'_>], kind: Word<'_>) -> Option<Identity> {
    let at = limit.iter().position(|word| *word == kind)?;
    let printed = limit.get(at + 1).and_then(|word| handle(word.text));
    let number = |key| printed.or_else(|| handle(value(limit, key)?.text));
    match kind.is(&["htb"]) {
        true => number("classid").map(Identity::Class),
        false => number("handle").map(|(major, _)| Identity::Queue(major)),
    }
}

/// The word behind a key.
fn value<'a>(words: &'a [Word<'a>], key: &str) -> Option<Word<'a>> {
    let at = words.iter().position(|word| word.is(&[key]))?;
    words.get(at + 1).copied()
}

/// The queue of what follows `qdisc`. `None` if the command removes or shows one.
fn below<'a>(words: &'a [Word<'a>]) -> Option<Below<'a>> {
    let mut cursor = Cursor::new(words, 0);
    cursor.take(&SETS);
    let kind = loop {
        let word = cursor.next()?;
        if word.is(&["dev", "parent", "handle"]) {
            cursor.next();
        } else if !word.is(&["root"]) {
            break word;
        }
    };
    let is_there = !kind.is(&["del", "delete", "show", "list"]);
    is_there.then(|| Below {
        kind,
        limit: value(words, "limit"),
    })
}
