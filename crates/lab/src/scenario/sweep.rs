//! The varied values, and how they are put into the file's tables.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use tidegate_notation::{Mistake, Node, Place, Table, Value, instead};

use super::keys::FILE;
use super::{TABLES, name, tables};

/// What is varied, and its value at a point of the sweep. It is displayed as `key=value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// The key, such as `gate.rate`.
    pub key: String,
    /// Its value, as it is written.
    pub value: String,
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

/// A sweep: the product of its axes, the last running fastest.
#[derive(Debug)]
pub(super) struct Sweep {
    pub place: Place,
    axes: Vec<Axis>,
    /// Seeds that are listed.
    pub seeds: Option<Vec<u64>>,
    /// The number of seeds, from the file's seed on, unless they are listed.
    pub repeat: u64,
    /// Elements whose kind is set or varied; flows and aggregates whose number is set or varied.
    varied: Vec<String>,
}

/// The keys that axes vary, each with the path of its axis.
type Keys = BTreeMap<String, String>;

#[derive(Debug)]
struct Axis {
    path: String,
    values: Vec<Node>,
}

impl Sweep {
    /// One point.
    pub fn none() -> Self {
        Self {
            place: Place::default(),
            axes: Vec::new(),
            seeds: None,
            repeat: 1,
            varied: Vec::new(),
        }
    }

    /// Reads the file's table.
    pub fn read(node: &Node) -> Result<Self, Mistake> {
        let Value::Table(table) = &node.value else {
            return Err(node.wrong("write [sweep], a table of keys and lists of values"));
        };
        let mut sweep = Self {
            place: node.place,
            ..Self::none()
        };
        sweep.add(table, "", &mut Keys::new())?;
        if let (Some(_), Some(number)) = (&sweep.seeds, table.get("seeds")) {
            let message = "`seed` lists the seeds, so `seeds` says nothing: leave one of them out";
            return Err(number.wrong(message));
        }
        Ok(sweep)
    }

    /// Adds the axes of a table; `gate.rate` without quotes is a table within one.
    fn add(&mut self, table: &Table, prefix: &str, keys: &mut Keys) -> Result<(), Mistake> {
        for (key, node) in &table.0 {
            let path = format!("{prefix}{}", key.text);
            match (path.as_str(), &node.value) {
                ("seeds", _) => self.repeat = node.integer("seeds", 1..=100_000)?,
                (_, Value::Table(inner)) => self.add(inner, &format!("{path}."), keys)?,
                (_, Value::List(values)) if values.is_empty() => {
                    return Err(node.wrong(format!("`{path}` is varied over an empty list")));
                }
                ("seed", Value::List(values)) => {
                    different("seed", values)?;
                    let seeds = values.iter().map(|seed| seed.integer("seed", 0..=u64::MAX));
                    self.seeds = Some(seeds.collect::<Result<_, _>>()?);
                }
                (_, Value::List(values)) => {
                    different(&path, values)?;
                    let values = values.clone();
                    let axis = Axis { path, values };
                    let varied = axis.keys();
                    for key in &varied {
                        // The later axis would win, and rows would name values that were not simulated.
                        if let Some((other, by)) = overlapping(keys, key) {
                            let by = match other == by {
                                true => String::new(),
                                false => format!(", by `{by}`"),
                            };
                            return Err(node.wrong(format!(
                                "`{key}` is varied here, and `{other}` before{by}: leave one of them out"
                            )));
                        }
                        self.vary(key);
                    }
                    let path = || axis.path.clone();
                    keys.extend(varied.into_iter().map(|key| (key, path())));
                    self.axes.push(axis);
                }
                _ => {
                    let message =
                        format!("`{path}` is varied over a list of values, such as [1, 2]");
                    return Err(node.wrong(message));
                }
            }
        }
        Ok(())
    }

    /// Notes a path that changes an element's kind, or a number of flows or aggregates.
    pub fn vary(&mut self, path: &str) {
        if let Some((name, "kind" | "count")) = path.split_once('.') {
            self.varied.push(name.to_owned());
        }
    }

    /// Removes the variation of a path, because the path was set to this value. At a point of the sweep, the file has the
    /// values of the axes, so a variation that stayed would replace the set value.
    pub fn forget(&mut self, path: &str, value: &Node) -> Result<(), Mistake> {
        self.axes
            .retain(|axis| !is_replaced(&axis.path, path, value));
        for axis in &mut self.axes {
            if let Some(rest) = within(path, &axis.path) {
                axis.forget(rest, value)?;
            }
        }
        self.axes
            .retain(|axis| within(path, &axis.path).is_none() || !axis.is_empty());
        if path == "seed" {
            (self.seeds, self.repeat) = (None, 1);
        }
        Ok(())
    }

    /// Number of points.
    pub fn points(&self) -> usize {
        let sizes = self.axes.iter().map(|axis| axis.values.len());
        sizes.fold(1, usize::saturating_mul)
    }

    fn values(&self, point: usize) -> impl Iterator<Item = (&str, &Node)> {
        let mut rest = self.points();
        self.axes.iter().map(move |axis| {
            let many = axis.values.len();
            rest /= many;
            (axis.path.as_str(), &axis.values[point / rest % many])
        })
    }

    /// The values of a point, as text. The values of a table are separate.
    pub fn parameters(&self, point: usize) -> Vec<Parameter> {
        let mut parameters = Vec::new();
        for (path, node) in self.values(point) {
            match &node.value {
                Value::Table(table) if !path.contains('.') => {
                    parameters.extend(table.0.iter().map(|(key, node)| Parameter {
                        key: format!("{path}.{}", key.text),
                        value: node.to_string(),
                    }));
                }
                _ => parameters.push(Parameter {
                    key: path.to_owned(),
                    value: node.to_string(),
                }),
            }
        }
        parameters
    }

    /// The file's tables at a point, and the names of elements, flows and aggregates whose kind or
    /// number is not only that of the file.
    pub fn apply(&self, root: &Table, point: usize) -> Result<(Table, Vec<String>), Mistake> {
        let mut root = root.clone();
        for (path, node) in self.values(point) {
            put(&mut root, node.place, path, node.clone())?;
        }
        Ok((root, self.varied.clone()))
    }
}

impl Axis {
    /// The keys that it varies. Those of the tables of an element, aggregate or flow are put one by one.
    fn keys(&self) -> BTreeSet<String> {
        let mut keys = BTreeSet::new();
        for value in &self.values {
            match &value.value {
                Value::Table(table) if !self.path.contains('.') => {
                    let inner = table.0.iter().map(|(key, _)| &key.text);
                    keys.extend(inner.map(|key| format!("{}.{key}", self.path)));
                }
                _ => {
                    keys.insert(self.path.clone());
                }
            }
        }
        keys
    }

    /// A key of the tables that are varied was set: it is `rest` after the axis's path.
    fn forget(&mut self, rest: &str, set: &Node) -> Result<(), Mistake> {
        let is_name = !self.path.contains('.');
        for value in &mut self.values {
            let there = value.to_string();
            let Value::Table(table) = &mut value.value else {
                return Err(no_table(&self.path, &there, set));
            };
            match rest.split_once('.') {
                // The keys of an element, aggregate or flow are put into its table one by one, so the table needs none.
                None if is_name => table.0.retain(|(key, _)| key.text != rest),
                Some((key, deeper)) if is_name => {
                    let inner = table.0.iter_mut().find(|(name, _)| name.text == key);
                    if let Some((_, inner)) = inner {
                        put_within(inner, &format!("{}.{key}", self.path), deeper, set)?;
                    }
                }
                // Any other table is put in place of the file's.
                _ => put_within(value, &self.path, rest, set)?,
            }
        }
        let mut names = BTreeSet::new();
        self.values.retain(|value| names.insert(value.to_string()));
        Ok(())
    }

    /// Whether it varies nothing any more.
    fn is_empty(&self) -> bool {
        let is_empty =
            |value: &Node| matches!(&value.value, Value::Table(table) if table.0.is_empty());
        self.values.iter().all(is_empty)
    }
}

/// The rest of a path within another.
fn within<'a>(path: &'a str, outer: &str) -> Option<&'a str> {
    path.strip_prefix(outer)?.strip_prefix('.')
}

/// A key among others that is this one, lies within it, or has it within, and what varies it.
fn overlapping<'a>(keys: &'a Keys, key: &str) -> Option<(&'a String, &'a String)> {
    let outer = key.match_indices('.').map(|(at, _)| &key[..at]);
    let found = outer
        .chain([key])
        .find_map(|outer| keys.get_key_value(outer));
    let next = || keys.range(format!("{key}.")..).next();
    found.or_else(|| next().filter(|(inner, _)| within(inner, key).is_some()))
}

/// Whether an axis has no meaning after a path was set to a value: it varies the path itself, a key that the value has, or a key
/// of a table in whose place the value is no table.
fn is_replaced(axis: &str, path: &str, value: &Node) -> bool {
    let Some(rest) = within(axis, path) else {
        return axis == path;
    };
    match &value.value {
        Value::Table(table) => table.get(rest.split('.').next().unwrap_or(rest)).is_some(),
        _ => true,
    }
}

/// Puts a set value into the table at a path that is varied.
fn put_within(value: &mut Node, path: &str, rest: &str, set: &Node) -> Result<(), Mistake> {
    let there = value.to_string();
    let Value::Table(table) = &mut value.value else {
        return Err(no_table(path, &there, set));
    };
    let (key, deeper) = match rest.split_once('.') {
        Some((key, deeper)) => (key, Some(deeper)),
        None => (rest, None),
    };
    let inner = table.0.iter_mut().find(|(name, _)| name.text == key);
    match (inner, deeper) {
        (Some((_, inner)), Some(deeper)) => {
            put_within(inner, &format!("{path}.{key}"), deeper, set)
        }
        _ => {
            let keys: Vec<&str> = rest.split('.').collect();
            table.set(&keys, set.clone());
            Ok(())
        }
    }
}

fn no_table(path: &str, there: &str, set: &Node) -> Mistake {
    set.wrong(format!(
        "`{path}` is varied over {there}, which is no table: set all of `{path}`"
    ))
}

/// Checks that no value is there twice: the same runs would count as different ones with the same
/// name.
fn different(path: &str, values: &[Node]) -> Result<(), Mistake> {
    let mut names = BTreeSet::new();
    match values.iter().find(|value| !names.insert(value.to_string())) {
        None => Ok(()),
        Some(again) => Err(again.wrong(format!("`{path}` has the value {again} already"))),
    }
}

/// Puts a value at a dotted key: in the file, or in all tables of a name.
pub(super) fn put(root: &mut Table, place: Place, path: &str, node: Node) -> Result<(), Mistake> {
    let keys: Vec<&str> = path.split('.').collect();
    let (first, rest) = (keys[0], &keys[1..]);
    let tables_of_file = TABLES.map(|(key, _)| key);
    let at_top = FILE.keys.iter().map(|key| key.name);
    let at_top: Vec<&str> = at_top
        .filter(|key| !tables_of_file.contains(key) && *key != "sweep")
        .collect();
    if rest.is_empty() && at_top.contains(&first) {
        root.set(&keys, node);
        return Ok(());
    }
    let mut names = Vec::new();
    let mut found = false;
    for (key, what) in TABLES {
        tables(root, key)?;
        let list = root.0.iter_mut().find(|(name, _)| name.text == key);
        let Some(Value::List(list)) = list.map(|(_, node)| &mut node.value) else {
            continue;
        };
        for table in list {
            let named = name(table, what)?.to_owned();
            let is_it = named == first;
            names.push(named);
            let Value::Table(table) = &mut table.value else {
                continue;
            };
            if !is_it {
                continue;
            }
            found = true;
            match (rest, &node.value) {
                ([], Value::Table(several)) => {
                    for (key, value) in &several.0 {
                        table.set(&[&key.text], value.clone());
                    }
                }
                ([], _) => {
                    let message = format!("`{first}` takes a table, or write `{first}.KEY`");
                    return Err(node.wrong(message));
                }
                _ => table.set(rest, node.clone()),
            }
        }
    }
    if found {
        return Ok(());
    }
    let mut known: Vec<&str> = names.iter().map(String::as_str).collect();
    known.extend(at_top);
    let message = format!(
        "`{first}` is no element, node, flow, aggregate or key of the file{}",
        instead(first, known)
    );
    Err(Mistake::new(place, message))
}
