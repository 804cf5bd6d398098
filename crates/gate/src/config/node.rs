//! Nodes of the network: in the file itself, and in LibreQoS's network.json.

use std::collections::HashMap;
use std::path::PathBuf;

use serde_json::{Map, Value};
use tidegate_limiter::{Hierarchy, Rate};
use tidegate_notation::{Mistake, Node as Entry, Place, instead, quantity};

use super::fields::Fields;
use super::keys::NODE;
use super::problem::Sink;
use crate::nodes::{MAX_NODES, Node};
use crate::table::PerDirection;

/// What an empty file may be.
pub(super) const EXAMPLE: &str =
    "{ \"site\": { \"downloadBandwidthMbps\": 1000, \"uploadBandwidthMbps\": 1000 } }";

/// The nodes that were read so far, with their places.
pub(super) struct Tree<'a> {
    sink: &'a Sink,
    pub nodes: Vec<Node>,
    places: Vec<(Place, Place)>,
    /// Their indices by name.
    names: HashMap<String, usize>,
    /// Their names by LibreQoS's number.
    ids: HashMap<String, String>,
}

impl<'a> Tree<'a> {
    pub fn new(sink: &'a Sink) -> Self {
        Self {
            sink,
            nodes: Vec::new(),
            places: Vec::new(),
            names: HashMap::new(),
            ids: HashMap::new(),
        }
    }

    /// The node of this name. Reports it if there is none.
    pub fn find(&self, name: &str, place: Place) -> Option<usize> {
        let found = self.names.get(name).copied();
        if found.is_none() {
            self.sink.add_with(|| {
                let known = self.nodes.iter().map(|node| node.name.as_str());
                let meant = match self.nodes.is_empty() {
                    true => ": the file has none".to_owned(),
                    false => instead(name, known),
                };
                let message = format!("there is no node `{name}`{meant}");
                (Mistake::new(place, message), None)
            });
        }
        found
    }

    /// The name of the node with this number of LibreQoS.
    pub fn named(&self, id: &str) -> Option<&str> {
        self.ids.get(id).map(String::as_str)
    }

    /// Adds a node; `parent_place` is where the node above is named.
    fn add(&mut self, node: Node, place: Place, parent_place: Place) {
        if let Err(message) = check_name(&node.name) {
            self.sink.wrong(place, message);
        } else if let Some(&other) = self.names.get(&node.name) {
            let message = format!("there is a node `{}` already", node.name);
            let other = self.places.get(other).map(|places| places.0);
            self.sink.add_with(|| (Mistake::new(place, message), other));
        } else if self.nodes.len() == MAX_NODES {
            let message = format!("too many nodes from here on: at most {MAX_NODES}");
            self.sink.wrong(place, message);
        } else {
            for capacity in node.capacity.values() {
                let rate = Rate::from_bits_per_second(capacity);
                if !Rate::LIMITABLE.contains(&rate) {
                    let range = Rate::LIMITABLE_TEXT;
                    let message = format!("{rate} is out of range: a node has a rate {range}");
                    self.sink.wrong(place, message);
                }
            }
            self.names.insert(node.name.clone(), self.nodes.len());
            self.places.push((place, parent_place));
            self.nodes.push(node);
        }
    }

    /// Reads an entry of the gate's file.
    pub fn read(&mut self, entry: &'a Entry) {
        let Some(f) = Fields::new(entry, "a node", &[NODE], self.sink) else {
            return;
        };
        if f.node("name").is_none() {
            f.missing("name");
        }
        let rate = f.rate("rate");
        for way in ["down", "up"] {
            if f.node("rate").is_none() && f.node(way).is_none() {
                f.missing(way);
            }
        }
        let capacity = PerDirection::new(|way| f.rate(way.name()).or(rate));
        let (Some(name), Some(down), Some(up)) = (f.text("name"), capacity.down, capacity.up)
        else {
            return;
        };
        let node = Node {
            name: name.to_owned(),
            parent: f.text("parent").map(str::to_owned),
            capacity: PerDirection { down, up },
        };
        let place = |key| f.known().place_of(key);
        self.add(node, place("name"), place("parent"));
    }

    /// Reads LibreQoS's network.json, the last one of `files`.
    pub fn read_network(&mut self, files: &[(PathBuf, String)]) {
        let number = files.len() - 1;
        let text = files[number].1.as_str();
        let at = |byte| Place {
            text: number as u32,
            byte,
        };
        if text.trim().is_empty() {
            let message =
                "this file is empty: write an object with a node under each name, such as";
            return self.sink.empty(at(0), message, EXAMPLE);
        }
        match serde_json::from_str(text) {
            Ok(Value::Object(nodes)) => self.children(&nodes, None, text, &at),
            Ok(_) => self.sink.wrong(
                at(0),
                "this is no network.json: it holds an object, with a node under each name",
            ),
            Err(error) => {
                let before = text.split_inclusive('\n').take(error.line().max(1) - 1);
                let line: usize = before.map(str::len).sum();
                let byte = (line + error.column().saturating_sub(1)).min(text.len());
                self.sink
                    .wrong(at(byte), format!("this is not JSON: {error}"));
            }
        }
    }

    /// Reads nodes below another one. serde_json bounds how deep they are.
    fn children(
        &mut self,
        nodes: &Map<String, Value>,
        parent: Option<&str>,
        text: &str,
        at: &dyn Fn(usize) -> Place,
    ) {
        for (name, value) in nodes {
            // Names are unique, or else it is reported that one is there twice.
            let quoted = format!("\"{name}\"");
            let place = at(text.find(&quoted).unwrap_or(0));
            let Value::Object(node) = value else {
                let message = format!("node `{name}` is no object");
                self.sink.wrong(place, message);
                continue;
            };
            // A virtual node only groups others.
            let is_virtual = node.get("virtual") == Some(&Value::Bool(true));
            if !is_virtual {
                let read = |key: &str| match node.get(key) {
                    Some(Value::Number(number)) => quantity::megabits(&number.to_string()),
                    Some(Value::String(text)) => quantity::megabits(text),
                    Some(_) => Err(format!("`{key}` of node `{name}` is no number")),
                    None => Err(format!("node `{name}` has no `{key}`")),
                };
                match (read("downloadBandwidthMbps"), read("uploadBandwidthMbps")) {
                    (Ok(down), Ok(up)) => {
                        let node = Node {
                            name: name.clone(),
                            parent: parent.map(str::to_owned),
                            capacity: PerDirection { down, up },
                        };
                        self.add(node, place, place);
                    }
                    (Err(message), _) | (_, Err(message)) => self.sink.wrong(place, message),
                }
            }
            let above = match is_virtual {
                true => parent,
                false => Some(name.as_str()),
            };
            if let (Some(Value::String(id)), Some(above)) = (node.get("id"), above) {
                self.ids.insert(id.clone(), above.to_owned());
            }
            match node.get("children") {
                Some(Value::Object(children)) => self.children(children, above, text, at),
                None | Some(Value::Null) => {}
                Some(_) => {
                    let message = format!("`children` of node `{name}` is no object");
                    self.sink.wrong(place, message);
                }
            }
        }
    }

    /// Checks that the node above each node is there, and that all ways up end soon.
    pub fn check(&self) {
        for (node, (place, parent_place)) in self.nodes.iter().zip(&self.places) {
            let Some(parent) = &node.parent else { continue };
            if self.find(parent, *parent_place).is_none() {
                continue;
            }
            let mut next = self.names.get(parent);
            let above = std::iter::from_fn(|| {
                let node = &self.nodes[*next?];
                next = node.parent.as_ref().and_then(|name| self.names.get(name));
                Some(node)
            });
            let most = Hierarchy::LEVELS - 1;
            if above.take(most + 1).count() > most {
                let name = &node.name;
                let message = match self.is_above_itself(node) {
                    true => format!("node `{name}` is above itself: name another parent"),
                    false => format!(
                        "node `{name}` has too many nodes above it: at most {most} may be between it and the network"
                    ),
                };
                self.sink.wrong(*place, message);
            }
        }
    }

    fn is_above_itself(&self, node: &Node) -> bool {
        let mut above = node.parent.as_ref();
        for _ in 0..self.nodes.len() {
            let Some(name) = above else { return false };
            if *name == node.name {
                return true;
            }
            let next = self.names.get(name).map(|&index| &self.nodes[index]);
            above = next.and_then(|node| node.parent.as_ref());
        }
        false
    }
}

/// LibreQoS's nodes may have spaces in their names.
fn check_name(name: &str) -> Result<(), String> {
    let good = |c: char| !c.is_control() && !"\"\\'`".contains(c);
    if name.trim() != name
        || name.is_empty()
        || name.chars().count() > 64
        || !name.chars().all(good)
    {
        return Err(
            "names of nodes have 1 to 64 characters, without quotes and backslashes, and no space at their ends"
                .to_owned(),
        );
    }
    Ok(())
}
