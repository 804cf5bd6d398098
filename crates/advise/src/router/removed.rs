//! Lines that remove or disable limits: these lines do not count, nor what they take out.

use std::collections::HashSet;

use super::words::Word;

/// More words of a line of Junos than name what it removes.
const PATH: usize = 16;

/// The words of a text without commands of tc and nft that remove something, and without what lines of Junos delete or deactivate. A command of
/// tc that comes first, as in scripts that begin with `tc qdisc del`, removes nothing that comes later.
pub(super) fn without<'a>(words: &[Word<'a>]) -> Vec<Word<'a>> {
    let kept: Vec<Word<'_>> = without_commands(words);
    let commands = kept.chunk_by(|one, other| one.command == other.command);
    // What is deleted or deactivated further down in the text, and what is activated again there.
    let (mut gone, mut back) = (HashSet::new(), HashSet::new());
    let mut left = Vec::new();
    for command in commands.rev() {
        let (first, path) = (command[0], &command[1..]);
        let texts: Vec<&str> = path.iter().take(PATH).map(|word| word.text).collect();
        if first.is(&["delete"]) {
            gone.insert(texts);
        } else if first.is(&["deactivate"]) {
            if !back.contains(&texts) {
                gone.insert(texts);
            }
        } else if first.is(&["activate"]) {
            back.insert(texts);
        } else {
            let is_set = first.is(&["set"]);
            let mut outer = (0..=texts.len()).map(|end| &texts[..end]);
            if !is_set || !outer.any(|outer| gone.contains(outer)) {
                left.push(command);
            }
        }
    }
    left.into_iter().rev().flatten().copied().collect()
}

/// Leaves out `qdisc del …` and the like, up to the next command of the line.
fn without_commands<'a>(words: &[Word<'a>]) -> Vec<Word<'a>> {
    let mut removing = None;
    let mut kept = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if removing != Some(word.command) || word.is(&["tc", "nft", ";"]) {
            removing = removes(words, at).then_some(word.command);
        }
        if removing.is_none() {
            kept.push(*word);
        }
    }
    kept
}

/// Whether these two words remove something of tc or nft.
fn removes(words: &[Word<'_>], at: usize) -> bool {
    let Some(next) = words.get(at + 1) else {
        return false;
    };
    let tc = words[at].is(&["qdisc", "class", "filter", "actions"]) && next.is(&["del", "delete"]);
    let nft = words[at].is(&["delete", "destroy"]) && next.is(&["rule", "chain", "table", "limit"]);
    next.command == words[at].command && (tc || nft)
}
