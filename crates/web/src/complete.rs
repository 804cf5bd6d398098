//! What may be written at a place of a scenario.

use serde_json::{Value, json};
use tidegate_notation::Key;

use crate::outline::{Part, QUOTES, kind_section, kinds, parts, uncommented};

/// Most suggestions: more are not read.
const MOST: usize = 40;

/// Something that may be written.
struct Item {
    label: String,
    insert: String,
    doc: String,
}

impl Item {
    fn key(key: &Key, before: &str) -> Self {
        let default = match key.default {
            "" => "needed".to_owned(),
            default => format!("default {default}"),
        };
        Self {
            label: format!("{before}{}", key.name),
            insert: format!("{before}{} = ", key.name),
            doc: format!("{} ({}; {default})", key.doc, key.value),
        }
    }

    fn value(text: &str, is_quoted: bool, doc: &str) -> Self {
        let insert = if is_quoted {
            format!("\"{text}\"")
        } else {
            text.to_owned()
        };
        Self {
            label: text.to_owned(),
            insert,
            doc: doc.to_owned(),
        }
    }
}

/// What may be written at a place, which is counted as JavaScript counts characters: the part of the text that it replaces, and what.
pub fn complete(text: &str, at: usize) -> Value {
    let at = from_utf16(text, at);
    let begin = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let before = &text[begin..at];
    let parts = parts(text);
    let mut items = Vec::new();
    let mut word = at;
    // Nothing is suggested in comments and headings.
    if uncommented(before).len() == before.len()
        && !before.trim_start().starts_with('[')
        && let Some(part) = parts.iter().rev().find(|part| part.place.start <= begin)
    {
        let mut others = before.char_indices().rev();
        let last = others.find(|(_, c)| !is_of_word(*c));
        word = last.map_or(begin, |(place, c)| begin + place + c.len_utf8());
        // A text's opening quote belongs to what is replaced.
        word -= usize::from(text[begin..word].ends_with(QUOTES));
        items = suggestions(&parts, part, &text[begin..word]);
    }
    let typed = text[word..at].trim_start_matches(QUOTES).to_lowercase();
    // What is there already is not suggested again.
    items.retain(|item| item.label.starts_with(&typed) && item.label != typed);
    items.truncate(MOST);
    let items = items
        .into_iter()
        .map(|item| json!({ "label": item.label, "insert": item.insert, "doc": item.doc }));
    json!({
        "from": utf16(&text[..word]),
        "to": utf16(&text[..at]),
        "items": items.collect::<Vec<_>>(),
    })
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || "-_.".contains(c)
}

/// What may follow the beginning of a line.
fn suggestions(parts: &[Part<'_>], part: &Part<'_>, before: &str) -> Vec<Item> {
    let Some((key, value)) = before.split_once('=') else {
        return if before.trim().is_empty() {
            keys(parts, part)
        } else {
            Vec::new()
        };
    };
    let key = key.trim().trim_matches(QUOTES);
    if let Some((_, inside)) = value
        .rsplit_once('{')
        .filter(|(_, rest)| !rest.contains('}'))
    {
        return inline(key, inside);
    }
    // A new value begins behind the sign, a bracket or a comma.
    let is_new = value.trim_end().is_empty() || value.trim_end().ends_with(['[', ',']);
    if !is_new {
        return Vec::new();
    }
    let (owner, key) = match (part.heading, key.rsplit_once('.')) {
        ("[sweep]", Some((name, key))) => (named(parts, name), key),
        _ => (Some(part), key),
    };
    owner.map_or_else(Vec::new, |owner| values(parts, owner, key))
}

/// The keys that a table may still have.
fn keys(parts: &[Part<'_>], part: &Part<'_>) -> Vec<Item> {
    let mut items: Vec<Item> = part
        .keys()
        .filter(|key| part.entry(key.name).is_none())
        .map(|key| Item::key(key, ""))
        .collect();
    if part.heading == "[sweep]" {
        for other in parts {
            let Some(name) = other.entry("name") else {
                continue;
            };
            let before = format!("{}.", name.text());
            items.extend(other.keys().map(|key| Item::key(key, &before)));
        }
    }
    items
}

/// The table with this name.
fn named<'a, 'b>(parts: &'a [Part<'b>], name: &str) -> Option<&'a Part<'b>> {
    let is_named = |part: &&Part<'_>| part.entry("name").is_some_and(|one| one.text() == name);
    parts.iter().find(is_named)
}

/// The keys of a table in braces, or the values of one of them.
fn inline(key: &str, inside: &str) -> Vec<Item> {
    let last = inside.rsplit(',').next().unwrap_or_default();
    let kind = inside.split_once("kind").and_then(|(_, rest)| {
        let text = rest.trim_start().strip_prefix('=')?.trim_start();
        text.strip_prefix('"')?.split('"').next()
    });
    match (last.split_once('='), kind) {
        (Some((inner, _)), _) if inner.trim() == "kind" => kind_values(key),
        (Some(_), _) => Vec::new(),
        (None, None) => kinds(key)
            .next()
            .and_then(|(_, section)| section.keys.iter().find(|key| key.name == "kind"))
            .map(|key| Item::key(key, ""))
            .into_iter()
            .collect(),
        (None, Some(kind)) => kind_section(key, kind)
            .into_iter()
            .flat_map(|section| section.keys)
            .filter(|key| !inside.contains(&format!("{} =", key.name)))
            .map(|key| Item::key(key, ""))
            .collect(),
    }
}

fn kind_values(key: &str) -> Vec<Item> {
    kinds(key)
        .map(|(kind, section)| Item::value(kind, true, section.doc))
        .collect()
}

/// Values of a key of a table, where they can be listed.
fn values(parts: &[Part<'_>], part: &Part<'_>, key: &str) -> Vec<Item> {
    let Some(found) = part.keys().find(|one| one.name == key) else {
        return Vec::new();
    };
    match (part.heading, key) {
        ("[[element]]", "kind") => return kind_values(""),
        ("[[flow]]", "path" | "back") => {
            let elements = parts.iter().filter(|part| part.heading == "[[element]]");
            return elements
                .filter_map(|part| part.entry("name"))
                .map(|name| Item::value(name.text(), true, "an element"))
                .collect();
        }
        _ => {}
    }
    let mut items = kind_values(key);
    items.extend(quoted(found.value).map(|text| Item::value(text, true, "")));
    if found.value.contains("true or false") {
        items.extend(["true", "false"].map(|text| Item::value(text, false, found.doc)));
    }
    if items.is_empty()
        && let Some(line) = found.written_default()
        && let Some((_, value)) = line.split_once('=')
    {
        items.push(Item::value(value.trim(), false, "the default"));
    }
    items
}

/// The texts in quotes that a description of values has.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('"').skip(1).step_by(2)
}

/// The place in bytes of a place that JavaScript counts.
fn from_utf16(text: &str, at: usize) -> usize {
    let mut left = at;
    for (place, c) in text.char_indices() {
        if left == 0 {
            return place;
        }
        left = left.saturating_sub(c.len_utf16());
    }
    text.len()
}

fn utf16(text: &str) -> usize {
    text.encode_utf16().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "title = \"é\"\ndu\n\n[[element]]\nname = \"gate\"\nkind = \"policer\"\nra\n\n[[flow]]\nname = \"a\"\ncc = [\"reno\", \"c\npath = [\n\
                        traffic = { kind = \"on-off\", m\n[sweep]\ngate.r\ngate.kind = [\"bc";

    /// The labels of what is suggested behind a part of the text.
    fn behind(end: &str) -> Vec<String> {
        behind_in(TEXT, end)
    }

    fn behind_in(text: &str, end: &str) -> Vec<String> {
        let at = text.find(end).expect("it is there") + end.len();
        let found = complete(text, text[..at].encode_utf16().count());
        let items = found["items"].as_array().expect("a list");
        let labels = items.iter().filter_map(|item| item["label"].as_str());
        labels.map(str::to_owned).collect()
    }

    #[test]
    fn keys_are_those_of_the_table_and_the_kind() {
        assert_eq!(behind("\ndu"), ["duration"]);
        assert_eq!(behind("\nra"), ["rate"]);
        assert_eq!(behind("\"on-off\", m"), ["mean", "max"]);
        assert_eq!(behind("gate.r"), ["gate.rate"]);
        let flows = behind("\"a\"\n");
        assert!(flows.contains(&"rtt".to_owned()) && !flows.contains(&"name".to_owned()));
    }

    #[test]
    fn values_are_those_of_the_key() {
        assert_eq!(behind("\"c"), ["cubic"]);
        assert_eq!(behind("path = ["), ["gate"]);
        assert_eq!(behind("[\"bc"), ["bc-pqp", "bc-pqp-paper"]);
        let quoted = TEXT.replace("gate.kind = [\"bc", "'gate.kind' = ['bc");
        assert_eq!(behind_in(&quoted, "['bc"), ["bc-pqp", "bc-pqp-paper"]);
        assert!(behind("kind = \"").contains(&"shaper".to_owned()));
    }

    #[test]
    fn what_is_replaced_is_counted_as_in_javascript() {
        let at = "title = \"é\"\ndu".encode_utf16().count();
        let found = complete(TEXT, at);
        assert_eq!(
            (found["from"].as_u64(), found["to"].as_u64()),
            (Some(12), Some(14))
        );
        assert_eq!(found["items"][0]["insert"], "duration = ");
    }

    #[test]
    fn no_place_of_any_text_fails() {
        let hostile =
            "# c\n[[element]]\n= = {\n\"\"\" é {{ , }\nkind = \"\n[\nx = { kind\n\u{1F600} = \"a";
        for text in [TEXT, hostile] {
            for at in 0..text.len() + 2 {
                complete(text, at);
            }
        }
    }
}
