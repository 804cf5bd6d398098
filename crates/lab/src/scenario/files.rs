//! The files that scenarios name: traces of links and of arrivals, and archives of web pages. Each is read once.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use tidegate_notation::{Mistake, Node, Table, Value};

use super::arrivals::{self, Arrival};
use super::fields::values;
use super::tables;
use crate::capacity::Trace;
use crate::page::Page;

/// Reads a file of this name. The error says why it cannot.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// The files of a scenario by their names.
#[derive(Default)]
pub(super) struct Files {
    traces: BTreeMap<String, Trace>,
    pages: BTreeMap<String, Page>,
    arrivals: BTreeMap<String, Arc<[Arrival]>>,
}

impl fmt::Debug for Files {
    /// Only the names: traces have millions of lines.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(
                self.traces
                    .keys()
                    .chain(self.pages.keys())
                    .chain(self.arrivals.keys()),
            )
            .finish()
    }
}

/// Reads the file that a value names, unless it is known.
fn add<T>(
    known: &mut BTreeMap<String, T>,
    (node, key): (&Node, &str),
    file: ReadFile<'_>,
    read: fn(&str) -> Result<T, String>,
) -> Result<(), Mistake> {
    let name = node.text(key)?;
    if !known.contains_key(name) {
        // Some editors begin texts with a byte order mark.
        let found = file(name).and_then(|text| read(text.trim_start_matches('\u{feff}')));
        let found = found.map_err(|message| node.wrong(format!("`{name}`: {message}")))?;
        known.insert(name.to_owned(), found);
    }
    Ok(())
}

/// What was read from the file that a value names.
fn found<T: Clone>(known: &BTreeMap<String, T>, (node, key): (&Node, &str)) -> Result<T, Mistake> {
    let one = known.get(node.text(key)?).cloned();
    one.ok_or_else(|| node.wrong(format!("this {key} was not read")))
}

impl Files {
    /// Reads the files that the elements and flows of a scenario name, unless they are known.
    pub(super) fn read(&mut self, root: &Table, file: ReadFile<'_>) -> Result<(), Mistake> {
        for element in tables(root, "element")? {
            if let Value::Table(table) = &element.value
                && let Some(node) = table.get("trace")
            {
                add(&mut self.traces, (node, "trace"), file, Trace::read)?;
            }
        }
        for flow in tables(root, "flow")? {
            let Value::Table(table) = &flow.value else {
                continue;
            };
            if let Some(Node {
                value: Value::Table(arrivals),
                ..
            }) = table.get("arrivals")
                && let Some(node) = arrivals.get("trace")
            {
                add(&mut self.arrivals, (node, "trace"), file, arrivals::read)?;
            }
            for traffic in values(table, "traffic") {
                let Value::Table(traffic) = &traffic.value else {
                    continue;
                };
                for node in values(traffic, "page") {
                    if matches!(node.value, Value::Text(_)) {
                        add(&mut self.pages, (node, "page"), file, Page::from_har)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The trace that a value names.
    pub(super) fn trace(&self, node: &Node) -> Result<Trace, Mistake> {
        found(&self.traces, (node, "trace"))
    }

    /// The arrivals of flows in the file that a value names.
    pub(super) fn arrivals(&self, node: &Node) -> Result<Arc<[Arrival]>, Mistake> {
        found(&self.arrivals, (node, "trace"))
    }

    /// The page that a value names.
    pub(super) fn page(&self, node: &Node) -> Result<Page, Mistake> {
        found(&self.pages, (node, "page"))
    }
}
