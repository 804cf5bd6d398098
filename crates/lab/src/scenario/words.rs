//! Elements as words of a command line: a kind, its main value, and other keys with their values, as in
//! `delay 25ms policer 3mbit burst 32kB`.

use tidegate_limiter::Nanos;
use tidegate_notation::{KeyNode, Mistake, Node, Place, Table, Value, clean, instead, parse_value};

use super::files::Files;
use super::{ReadFile, element};
use crate::plan::ElementKind;

#[cfg(test)]
mod tests;

/// The direction of packets that pass an element, for the user of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Packets to the user.
    Down,
    /// Packets from the user.
    Up,
    /// Both, each through an element of its own.
    Both,
}

/// The words for directions.
const DIRECTIONS: [(&str, Direction); 3] = [
    ("down", Direction::Down),
    ("up", Direction::Up),
    ("both", Direction::Both),
];

/// An element that was written as words.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    /// Its words, with a space between.
    pub text: String,
    /// The packets that pass it. It was written before the element, or before one further left. Otherwise it is both for
    /// delays, and down for all others.
    pub direction: Direction,
    /// The element.
    pub kind: ElementKind,
}

/// Reads elements. `rtt` is the round trip for which sizes are chosen that were not written. `files` reads traces.
///
/// ```
/// use tidegate_lab::MILLISECOND;
/// use tidegate_lab::scenario::{Direction, elements};
///
/// let words = ["delay", "25ms", "policer", "3mbit", "burst", "32kB"].map(str::to_owned);
/// let no_files = |_: &str| Err("no files".to_owned());
/// let read = elements(&words, 100 * MILLISECOND, &no_files).expect("two elements");
/// assert_eq!(read[1].text, "policer 3mbit burst 32kB");
/// assert_eq!((read[0].direction, read[1].direction), (Direction::Both, Direction::Down));
///
/// let wrong = elements(&["policer".into(), "3mbits".into()], 0, &no_files).expect_err("a wrong unit");
/// assert!(wrong.starts_with("policer 3mbits: `rate`: "), "{wrong}");
/// ```
///
/// # Errors
/// The first mistake: what is wrong with which words, and what to write.
pub fn elements(words: &[String], rtt: Nanos, files: ReadFile<'_>) -> Result<Vec<Written>, String> {
    let mut read = Vec::new();
    let mut direction = None;
    let mut rest = words;
    while let Some((word, after)) = rest.split_first() {
        if let Some((_, way)) = DIRECTIONS.iter().find(|(name, _)| name == word) {
            direction = Some(*way);
            rest = after;
            if rest.is_empty() {
                return Err(format!(
                    "`{word}` is the last word: write an element after it"
                ));
            }
            continue;
        }
        let Some(keys) = element::keys(word) else {
            // Taps need a place for their captures, which those who read words may not have.
            let kinds = element::names().filter(|&kind| kind != "tap");
            let words = kinds.chain(DIRECTIONS.map(|(name, _)| name));
            let word = clean(word);
            let meant = match word.split_once(' ') {
                Some((first, _)) if begins_element(first) => {
                    ": write its words without quotes around them".to_owned()
                }
                _ => or_command(instead(&word, words)),
            };
            return Err(format!("`{word}` is no kind of element{meant}"));
        };
        let main = keys.keys[0].name;
        let names = || keys.keys.iter().map(|key| key.name);
        let mut table = vec![entry("kind", text(word))];
        let mut taken = 0;
        // The main value has no key.
        if let Some(value) = after.first()
            && !begins_element(value)
            && !names().any(|name| name == value)
            && word != "tap"
        {
            taken = 1;
            table.push(entry(main, value_of(&words_of(word, after, taken), value)?));
        }
        while let Some(key) = after.get(taken)
            && !begins_element(key)
        {
            let said = words_of(word, after, (taken + 2).min(after.len()));
            if !names().any(|name| name == key) {
                let key = clean(key);
                let meant = or_command(instead(&key, names()));
                return Err(format!("{said}: `{key}` is no key of {word}{meant}"));
            }
            let Some(value) = after.get(taken + 1) else {
                return Err(format!("{said}: the value of `{key}` is missing"));
            };
            if table.iter().any(|(had, _)| had.text == *key) {
                return Err(format!("{said}: `{key}` is there twice"));
            }
            table.push(entry(key, value_of(&said, value)?));
            taken += 2;
        }
        let said = words_of(word, after, taken);
        let kind = kind(table, rtt, files);
        let kind = kind.map_err(|mistake| format!("{said}: {}", clean(&mistake.message)))?;
        let usual = match kind {
            ElementKind::Delay { .. } => Direction::Both,
            _ => Direction::Down,
        };
        read.push(Written {
            text: said,
            direction: direction.unwrap_or(usual),
            kind,
        });
        rest = &after[taken..];
    }
    Ok(read)
}

/// The element of a table, as one in a file.
fn kind(
    table: Vec<(KeyNode, Node)>,
    rtt: Nanos,
    files: ReadFile<'_>,
) -> Result<ElementKind, Mistake> {
    let node = node(Value::Table(Table(table)));
    let root = Table(vec![entry(
        "element",
        self::node(Value::List(vec![node.clone()])),
    )]);
    let mut traces = Files::default();
    traces.read(&root, files)?;
    element::kind(&node, false, rtt, &traces)
}

/// What was meant. A word like none that is known may be the first one of a command.
fn or_command(meant: String) -> String {
    match meant.ends_with('?') {
        true => meant,
        false => meant + ". A command comes after `--`",
    }
}

fn begins_element(word: &str) -> bool {
    element::keys(word).is_some() || DIRECTIONS.iter().any(|(name, _)| *name == word)
}

/// The first words of an element, for messages.
fn words_of(word: &str, after: &[String], taken: usize) -> String {
    let words: Vec<&str> = [word]
        .into_iter()
        .chain(after[..taken].iter().map(String::as_str))
        .collect();
    clean(&words.join(" "))
}

/// A value: TOML, or text without quotes.
fn value_of(said: &str, word: &str) -> Result<Node, String> {
    parse_value(0, word).map_err(|mistake| format!("{said}: {}", clean(&mistake.message)))
}

fn entry(key: &str, node: Node) -> (KeyNode, Node) {
    let text = key.to_owned();
    let place = Place::default();
    (KeyNode { place, text }, node)
}

fn node(value: Value) -> Node {
    let place = Place::default();
    Node { place, value }
}

fn text(text: &str) -> Node {
    node(Value::Text(text.to_owned()))
}
