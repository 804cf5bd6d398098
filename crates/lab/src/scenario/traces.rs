//! The files that scenarios name: traces of links. Each is read once.

use std::collections::BTreeMap;
use std::fmt;

use tidegate_notation::{Mistake, Node, Table, Value};

use super::tables;
use crate::capacity::Trace;

/// Reads a file of this name. The error says why it cannot.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// The traces of a scenario by their names.
#[derive(Default)]
pub(super) struct Traces(BTreeMap<String, Trace>);

impl fmt::Debug for Traces {
    /// Only the names: traces have millions of lines.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Traces {
    /// Reads the traces that the elements of a file name, unless they are known.
    pub(super) fn read(&mut self, root: &Table, file: ReadFile<'_>) -> Result<(), Mistake> {
        for element in tables(root, "element")? {
            let Value::Table(table) = &element.value else {
                continue;
            };
            let Some(node) = table.get("trace") else {
                continue;
            };
            let name = node.text("trace")?;
            if self.0.contains_key(name) {
                continue;
            }
            let trace = file(name).and_then(|text| Trace::read(&text));
            let trace = trace.map_err(|message| node.wrong(format!("`{name}`: {message}")))?;
            self.0.insert(name.to_owned(), trace);
        }
        Ok(())
    }

    /// The trace that a value names.
    pub(super) fn get(&self, node: &Node) -> Result<Trace, Mistake> {
        let trace = self.0.get(node.text("trace")?);
        trace
            .cloned()
            .ok_or_else(|| node.wrong("this trace was not read"))
    }
}
