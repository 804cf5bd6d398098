//! Limits of kinds that are not understood. They are named, so that nobody takes another limit for them.

use super::words::Word;

/// The words before or behind the kind of a queue that may name its command.
const NEAR: usize = 16;
/// So many are named with their lines.
const NAMED: usize = 4;

/// The words that begin them, in order.
fn find<'a>(words: &[Word<'a>]) -> Vec<Word<'a>> {
    let begin = |at: &usize| {
        let (at, word) = (*at, words[*at]);
        let before = at.checked_sub(1).map(|before| words[before]);
        let next = words.get(at + 1);
        let is_first = before.is_none_or(|before| before.line != word.line);
        let is = |next: Option<&Word<'_>>, names: &[&str]| next.is_some_and(|next| next.is(names));
        let near = |mut words: std::slice::Iter<'_, Word<'_>>, names: &[&str]| {
            words.any(|near| near.command == word.command && near.is(names))
        };
        let ahead = || words[at..words.len().min(at + NEAR)].iter();
        let behind = || words[at.saturating_sub(NEAR)..at].iter();
        if word.is(&["rate-limit"]) {
            is_first && is(next, &["input", "output"])
        } else if word.is(&["traffic-shape"]) {
            is_first
        } else if word.is(&["three-color-policer"]) {
            // `then three-color-policer` only names one.
            next.is_some_and(|next| next.text != "{") && !is(before.as_ref(), &["then"])
        } else if word.is(&["shaping-rate"]) {
            next.is_some()
        } else if word.is(&["cake"]) {
            near(behind(), &["qdisc"]) && near(ahead(), &["bandwidth"])
        } else {
            word.is(&["hfsc"]) && near(behind(), &["class"])
        }
    };
    let found = (0..words.len()).filter(begin);
    found.map(|at| words[at]).collect()
}

/// Which ones a text has, such as `` `rate-limit` in line 1``; `None` without any.
pub(super) fn named(words: &[Word<'_>]) -> Option<String> {
    let found = find(words);
    let named = found.iter().take(NAMED);
    let mut named: Vec<String> = named
        .map(|word| format!("`{}` in line {}", word.text, word.line))
        .collect();
    if found.len() > NAMED {
        named.push(format!("{} more", found.len() - NAMED));
    }
    (!named.is_empty()).then(|| named.join(", "))
}
