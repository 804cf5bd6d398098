//! Where a key is in a file that was read before.

use std::path::Path;

use tidegate_notation::{Node, Position, Table, Value, position};

/// Line and column of the value of a key, such as `["radius", "secret"]`. `None` if the file was changed since it was read, and
/// has no such key now.
pub fn position_of(file: &Path, keys: &[&str]) -> Option<Position> {
    let text = super::load(file).ok()?;
    let root = tidegate_notation::parse(0, &text).ok()?;
    let (last, above) = keys.split_last()?;
    let mut table = &root;
    for key in above {
        let Value::Table(inner) = &value(table, key)?.value else {
            return None;
        };
        table = inner;
    }
    Some(position(&text, value(table, last)?.place.byte))
}

fn value<'t>(table: &'t Table, name: &str) -> Option<&'t Node> {
    let mut all = table.0.iter();
    all.find(|(key, _)| key.text == name).map(|(_, node)| node)
}
