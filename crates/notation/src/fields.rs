//! A table whose keys are declared.

use crate::{Mistake, Node, Place, Section, Table, instead};

/// A table that is being read.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a> {
    /// The table.
    pub table: &'a Table,
    /// Where it begins.
    pub place: Place,
    /// What it is, for messages: `a policer`.
    pub what: &'a str,
}

impl<'a> Fields<'a> {
    /// The table that a value is.
    ///
    /// # Errors
    /// If it is none.
    pub fn of(node: &'a Node, what: &'a str) -> Result<Self, Mistake> {
        Ok(Self {
            table: node.table(what)?,
            place: node.place,
            what,
        })
    }

    /// A mistake for each key that none of the sections has; keys of `passed_over` are known, too,
    /// but have no meaning here.
    pub fn unknown_keys(
        &self,
        sections: &[Section],
        passed_over: &[Section],
    ) -> impl Iterator<Item = Mistake> {
        let names = |sections: &[Section]| -> Vec<&'static str> {
            let keys = sections.iter().flat_map(|section| section.keys);
            keys.map(|key| key.name).collect()
        };
        let (known, other) = (names(sections), names(passed_over));
        let what = self.what;
        self.table.0.iter().filter_map(move |(key, _)| {
            let name = key.text.as_str();
            let is_known = known.contains(&name) || other.contains(&name);
            (!is_known).then(|| {
                let meant = instead(name, known.iter().copied());
                Mistake::new(key.place, format!("unknown key `{name}` in {what}{meant}"))
            })
        })
    }

    /// The value of a key.
    pub fn node(&self, key: &str) -> Option<&'a Node> {
        self.table.get(key)
    }

    /// The values of a key: those of its list, or the only one.
    pub fn values(&self, key: &str) -> &'a [Node] {
        self.node(key).map_or(&[], Node::values)
    }

    /// The tables of an array of tables, `[[key]]`.
    ///
    /// # Errors
    /// If the value is not a list.
    pub fn tables(&self, key: &str) -> Result<&'a [Node], Mistake> {
        tables(self.table, key, key)
    }

    /// Where the value of a key is, or else the table.
    pub fn place_of(&self, key: &str) -> Place {
        self.node(key).map_or(self.place, |node| node.place)
    }

    /// A mistake: a needed key is missing.
    pub fn missing(&self, key: &str) -> Mistake {
        Mistake::new(self.place, format!("`{key}` is missing in {}", self.what))
    }

    /// A mistake in the value of a key, or in the table if it does not have the key.
    pub fn wrong(&self, key: &str, message: impl Into<String>) -> Mistake {
        Mistake::new(self.place_of(key), message)
    }
}

/// The tables of an array of tables; `header` is the text in its brackets.
///
/// # Errors
/// If the value is not a list.
pub fn tables<'a>(table: &'a Table, key: &str, header: &str) -> Result<&'a [Node], Mistake> {
    match table.get(key) {
        None => Ok(&[]),
        Some(node) => match &node.value {
            crate::Value::List(list) => Ok(list),
            _ => Err(node.wrong(format!(
                "write [[{header}]] with two brackets: there may be several"
            ))),
        },
    }
}
