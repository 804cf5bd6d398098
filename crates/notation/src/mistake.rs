//! Mistakes: where they are, and which name was probably meant.

/// Where something was written: a byte of one of the texts that are read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place {
    /// Which text, in the order in which they are read: 0 is the file itself.
    pub text: u32,
    /// Which byte of it.
    pub byte: usize,
}

/// A mistake in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Where it is.
    pub place: Place,
    /// What is wrong, and what to write.
    pub message: String,
}

impl Mistake {
    /// A mistake at a place.
    pub fn new(place: Place, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { place, message }
    }
}

/// Where in a text a reader finds something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

/// The position of a byte of a text.
pub fn position(text: &str, at: usize) -> Position {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let column = before[start..].chars().count() + 1;
    Position { line, column }
}

/// What was written may hold anything: it must not steer a terminal.
pub fn clean(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(shown).collect()
}

/// Suggestions for an unknown name: the most similar name, or else all names.
pub fn instead<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    /// More are no help.
    const MOST: usize = 40;
    // Comparing long names takes too long.
    if name.len() > 64 {
        return String::new();
    }
    let known: Vec<&str> = known.into_iter().collect();
    let near = 1 + name.chars().count() / 4;
    // A name that is much longer or shorter was not meant. Of many names, some are enough.
    let alike = |other: &&str| other.len().abs_diff(name.len()) <= 4 * near;
    let distance = |other: &&str| strsim::osa_distance(name, other);
    let nearest = known.iter().copied().filter(alike).take(200);
    match nearest.min_by_key(distance) {
        Some(nearest) if distance(&nearest) <= near => format!(", did you mean `{nearest}`?"),
        _ if (1..=MOST).contains(&known.len()) => format!(": there are {}", known.join(", ")),
        _ => String::new(),
    }
}
