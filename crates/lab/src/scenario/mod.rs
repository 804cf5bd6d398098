//! Scenario files: TOML that says which traffic passes which elements. They are checked, and made
//! into [`Plan`]s.
//!
//! A scenario has points (the combinations of its sweep's values) and seeds. A point and a seed
//! give [`Group`]s: aggregates that share no element do not influence each other, and are simulated
//! separately. `docs/reference/scenarios.md` describes the files, and [`SECTIONS`] their keys.

mod aggregate;
mod applications;
mod arrivals;
mod capacity;
mod draw;
mod element;
mod error;
mod fields;
mod files;
mod flow;
mod flows;
mod group;
mod keys;
mod limiter;
mod network;
mod partition;
mod queue;
mod sizes;
mod sizing;
mod stream;
mod sweep;
mod words;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_limiter::{Nanos, Rate};
use tidegate_notation::{Mistake, Node, Place, Table, Value};

pub use error::ScenarioError;
pub use files::ReadFile;
pub use keys::{SECTIONS, schema};
pub use sweep::Parameter;
pub use words::{Direction, Written, elements};

use crate::RunError;
use crate::element::limiter::Limiter;
use crate::plan::{ElementKind, Plan};
use crate::sim::check;
use fields::Fields;
use files::Files;
use keys::FILE;
use sweep::Sweep;

/// The text of a scenario. A text alone is a scenario without a file's name and without settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source<'a> {
    /// The file's name. Errors name it. It is the title of a scenario without one.
    pub file: &'a str,
    /// The file's text.
    pub text: &'a str,
    /// Each is a key, an equals sign and a value, such as `gate.rate=5mbit`. It replaces the text's
    /// value and its sweep.
    pub settings: &'a [String],
}

impl<'a> From<&'a str> for Source<'a> {
    fn from(text: &'a str) -> Self {
        Self {
            file: "scenario",
            text,
            settings: &[],
        }
    }
}

impl<'a> From<&'a String> for Source<'a> {
    fn from(text: &'a String) -> Self {
        text.as_str().into()
    }
}

/// A scenario, checked: all of its points give plans.
#[derive(Debug)]
pub struct Scenario {
    file: String,
    text: String,
    settings: Vec<String>,
    title: String,
    root: Table,
    sweep: Sweep,
    files: Files,
    seeds: Vec<u64>,
    /// Simulations of each point, with all seeds.
    simulations: Vec<u64>,
    work: Nanos,
    simulated: Nanos,
}

/// Which run of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The point of the sweep, from 0.
    pub point: usize,
    /// The seed of everything that is drawn at random.
    pub seed: u64,
    /// Whether taps write captures. Otherwise they are left out.
    pub taps: bool,
}

/// Aggregates that share elements: one simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The simulation.
    pub plan: Plan,
    /// For each of the plan's elements: its name in the file, and its aggregate.
    pub elements: Vec<Instance>,
    /// The rate with which each aggregate's throughput is compared: that of the slowest limiter
    /// that it does not share; `None` if it has none.
    pub limits: Vec<Option<Rate>>,
    /// The number of each flow among those of its name and aggregate, from 0.
    pub numbers: Vec<u32>,
}

/// An element of a file in a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Its name in the file.
    pub name: String,
    /// The index of its aggregate in the plan; `None` if it is shared.
    pub aggregate: Option<usize>,
}

impl Scenario {
    /// Most combinations and seeds.
    pub const MAX_RUNS: usize = 100_000;
    /// Most flows, aggregates or elements of a point, each.
    pub const MAX_PARTS: u64 = 100_000;
    /// Most windows of all flows, aggregates and seeds of a point.
    pub const MAX_CELLS: u64 = check::MAX_CELLS;
    /// Most windows of a simulation, and most samples.
    pub const MAX_WINDOWS: u64 = 1_000_000;

    /// Reads a scenario that names no files.
    ///
    /// # Errors
    /// The first mistake that is found.
    pub fn parse<'a>(source: impl Into<Source<'a>>) -> Result<Self, ScenarioError> {
        Self::parse_with(source, &|_| {
            Err(
                "files cannot be read here: `tidegate lab` reads those in a scenario's folder"
                    .to_owned(),
            )
        })
    }

    /// Reads a scenario, and with this function the files that it names.
    ///
    /// # Errors
    /// The first mistake that is found.
    pub fn parse_with<'a>(
        source: impl Into<Source<'a>>,
        files: ReadFile<'_>,
    ) -> Result<Self, ScenarioError> {
        let Source {
            file,
            text,
            settings,
        } = source.into();
        let located = |mistake| ScenarioError::new(mistake, file, text, settings);
        let (root, sweep) = read(text, settings).map_err(located)?;
        let mut scenario = Self {
            file: file.to_owned(),
            text: text.to_owned(),
            settings: settings.to_vec(),
            title: String::new(),
            root,
            sweep,
            files: Files::default(),
            seeds: Vec::new(),
            simulations: Vec::new(),
            work: 0,
            simulated: 0,
        };
        scenario.check(files).map_err(located)?;
        Ok(scenario)
    }

    /// Checks every point.
    fn check(&mut self, files: ReadFile<'_>) -> Result<(), Mistake> {
        let top = |table| Fields::of(table, Place::default(), "a scenario", &[FILE], &[]);
        self.title = match top(&self.root)?.raw("title") {
            None => self.file.clone(),
            Some(Node {
                value: Value::Text(text),
                ..
            }) => text.chars().filter(|c| !c.is_control()).collect(),
            Some(node) => return Err(node.wrong("`title` is text")),
        };
        let seed = top(&self.root)?.integer("seed", 0..=u64::MAX)?.unwrap_or(1);
        self.seeds = match (&self.sweep.seeds, self.sweep.repeat) {
            (Some(seeds), _) => seeds.clone(),
            (None, repeat) => (0..repeat).map(|i| seed.wrapping_add(i)).collect(),
        };
        let runs = self.sweep.points().saturating_mul(self.seeds.len());
        if runs > Self::MAX_RUNS {
            let message = format!(
                "{runs} runs are too many: a sweep has at most {}",
                Self::MAX_RUNS
            );
            return Err(Mistake::new(self.sweep.place, message));
        }
        let mut passed = BTreeSet::new();
        for point in 0..self.points() {
            self.check_point(point, files, &mut passed)?;
        }
        for node in tables(&self.root, "element")? {
            let element = name(node, "an element")?;
            if !passed.contains(element) {
                return Err(node.wrong(format!(
                    "no flow passes the element `{element}`: name it in the path of a flow"
                )));
            }
        }
        Ok(())
    }

    /// Checks that the engine and the limiters accept a point with all of its seeds, and reads its files. Adds their virtual
    /// time, and collects the elements that flows pass.
    fn check_point(
        &mut self,
        point: usize,
        files: ReadFile<'_>,
        passed: &mut BTreeSet<String>,
    ) -> Result<(), Mistake> {
        let (root, varied) = self.sweep.apply(&self.root, point)?;
        self.files.read(&root, files)?;
        let file = Fields::of(&root, Place::default(), "a scenario", &[FILE], &[])?;
        group::note_passed(&root, passed)?;
        // Seeds have different plans only where something is drawn.
        let seeds = match group::draws(&root)? {
            true => &self.seeds[..],
            false => &self.seeds[..1],
        };
        let alike = (self.seeds.len() / seeds.len()) as u64;
        let mut limiters = BTreeSet::new();
        let (mut cells, mut simulations) = (0u64, 0u64);
        let (mut work, mut simulated): (Nanos, Nanos) = (0, 0);
        for &seed in seeds {
            let groups = group::groups(&root, &varied, seed, true, &self.files);
            let checked = groups.and_then(|groups| {
                check_groups(&root, &file, &groups, &mut limiters)?;
                Ok(groups)
            });
            // What another seed draws is not seen in the file.
            let groups = checked.map_err(|mistake| match seed == seeds[0] {
                true => mistake,
                false => Mistake::new(mistake.place, format!("seed {seed}: {}", mistake.message)),
            })?;
            for Group { plan, .. } in &groups {
                let series = (plan.flows.len() + plan.aggregates.len()) as u64;
                let all = parts(plan.duration, plan.window).saturating_mul(series);
                cells = cells.saturating_add(all.saturating_mul(alike));
                work = work.saturating_add(plan.duration.saturating_mul(alike));
            }
            // A summary needs the windows of all seeds at once.
            if cells > Self::MAX_CELLS {
                let message = "too many windows of too many flows and seeds: widen `window`";
                return Err(file.wrong("window", message.to_owned()));
            }
            simulations += groups.len() as u64 * alike;
            let duration = groups.first().map_or(0, |group| group.plan.duration);
            simulated = simulated.saturating_add(duration.saturating_mul(alike));
        }
        if simulations == 0 {
            return Err(group::none_arrives(&root, &file));
        }
        self.simulations.push(simulations);
        self.simulated = self.simulated.saturating_add(simulated);
        self.work = self.work.saturating_add(work);
        Ok(())
    }

    fn plans(&self, run: Run) -> Result<Vec<Group>, Mistake> {
        let (root, varied) = self.sweep.apply(&self.root, run.point)?;
        group::groups(&root, &varied, run.seed, run.taps, &self.files)
    }

    /// What the scenario shows.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Number of combinations of varied values, at least 1.
    pub fn points(&self) -> usize {
        self.sweep.points()
    }

    /// The varied keys, without seeds, and their values at a point, in the order of the file.
    pub fn parameters(&self, point: usize) -> Vec<Parameter> {
        self.sweep.parameters(point)
    }

    /// The names of the flows, in the order of the file.
    pub fn flows(&self) -> Vec<&str> {
        let nodes = tables(&self.root, "flow").unwrap_or_default();
        let mut names: Vec<&str> = Vec::new();
        for name in nodes.iter().filter_map(|node| name(node, "a flow").ok()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Simulations of a point with all seeds.
    pub fn simulations(&self, point: usize) -> u64 {
        self.simulations.get(point).copied().unwrap_or(0)
    }

    /// Virtual time in all simulations of all points and seeds.
    pub fn work(&self) -> Nanos {
        self.work
    }

    /// Virtual time of all points and seeds. Aggregates that share nothing are simulated separately, but at the
    /// same time of the scenario.
    pub fn simulated(&self) -> Nanos {
        self.simulated
    }

    /// The seeds with which each point is run, at least one.
    pub fn seeds(&self) -> &[u64] {
        &self.seeds
    }

    /// The simulations of a run, in the order of their first aggregates: none if no flow arrives with this seed.
    ///
    /// # Errors
    /// None for points and seeds of the scenario. Another seed may draw values that contradict each other.
    pub fn groups(&self, run: Run) -> Result<Vec<Group>, ScenarioError> {
        let located = |mistake| ScenarioError::new(mistake, &self.file, &self.text, &self.settings);
        self.plans(run).map_err(located)
    }
}

/// Checks that the engine and the limiters accept the simulations of a seed. `limiters` has the names of those that were
/// checked before.
fn check_groups(
    root: &Table,
    file: &Fields<'_>,
    groups: &[Group],
    limiters: &mut BTreeSet<String>,
) -> Result<(), Mistake> {
    for Group { plan, elements, .. } in groups {
        let wrong = |tables: &str, name: &str, error: &RunError| {
            let place = group::place_of(root, tables, name, "");
            Mistake::new(place, error.to_string())
        };
        // Limiters check their configuration. Elements of one name have the same. Whether the flows of each have their
        // queues was checked before.
        let no_wires: Arc<[_]> = Arc::new([]);
        for (index, instance) in elements.iter().enumerate() {
            let element = &plan.elements[index];
            let mut checked = check::check_element(element);
            if let ElementKind::Limiter { .. } = &element.kind
                && checked.is_ok()
                && limiters.insert(instance.name.clone())
            {
                let limiter = Limiter::new(plan, index, &no_wires);
                checked = limiter.map(|_| ());
            }
            checked.map_err(|error| wrong("element", &instance.name, &error))?;
        }
        for flow in &plan.flows {
            check::check_flow(plan, flow)
                .and_then(|()| check::check_passes(plan, flow))
                .map_err(|error| wrong("flow", &flow.name, &error))?;
        }
        // The other checks are about their numbers.
        check::check_memory(plan)
            .map_err(|(index, error)| wrong("element", &elements[index].name, &error))?;
        let steps = check::check_steps(plan);
        steps.map_err(|(key, error)| file.wrong(key, error.to_string()))?;
        let place = tables(root, "aggregate")?.first();
        let place = place.map_or(Place::default(), |node| node.place);
        check::check(plan).map_err(|error| Mistake::new(place, error.to_string()))?;
    }
    Ok(())
}

/// The file's tables with the settings in them, and its sweep without the keys that were set.
fn read(text: &str, settings: &[String]) -> Result<(Table, Sweep), Mistake> {
    let mut root = tidegate_notation::parse(0, text).map_err(first)?;
    let sweep = root.0.iter().position(|(key, _)| key.text == "sweep");
    let sweep = sweep.map(|at| root.0.remove(at));
    let mut sweep = match &sweep {
        Some((_, node)) => Sweep::read(node)?,
        None => Sweep::none(),
    };
    for (number, setting) in settings.iter().enumerate() {
        let text = error::text_of(number);
        let place = Place { text, byte: 0 };
        let Some((path, value)) = setting.split_once('=') else {
            let message = "a setting is a key and a value, such as gate.rate=5mbit".to_owned();
            return Err(Mistake::new(place, message));
        };
        let value = tidegate_notation::parse_value(text, value.trim())?;
        let path = path.trim();
        sweep.forget(path, &value)?;
        sweep::put(&mut root, place, path, value)?;
        sweep.vary(path);
    }
    Ok((root, sweep))
}

/// Of several mistakes, the first in the text.
fn first(mistakes: Vec<Mistake>) -> Mistake {
    let first = mistakes.into_iter().min_by_key(|mistake| mistake.place);
    first.unwrap_or_else(|| Mistake::new(Place::default(), "this file cannot be read"))
}

/// The tables of an array of tables.
fn tables<'a>(root: &'a Table, key: &str) -> Result<&'a [Node], Mistake> {
    tidegate_notation::tables(root, key, key)
}

/// The name of an element, aggregate or flow: part of file names and of dotted keys.
fn name<'a>(node: &'a Node, what: &str) -> Result<&'a str, Mistake> {
    let Some(name) = node.table(what)?.get("name") else {
        return Err(node.wrong(format!("`name` is missing in {what}")));
    };
    let Value::Text(text) = &name.value else {
        return Err(name.wrong("`name` is text"));
    };
    let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let first = text
        .chars()
        .next()
        .is_some_and(|c| c.is_ascii_alphanumeric());
    if !first || !text.chars().all(good) || text.len() > 64 {
        let message = "names are up to 64 letters, digits, `-` and `_`, a letter or digit first";
        return Err(name.wrong(message));
    }
    // Keys above the tables have no name in dotted keys.
    if FILE.keys.iter().any(|key| key.name == text) || text == "seeds" {
        return Err(name.wrong(format!(
            "`{text}` is a key of the file: choose another name"
        )));
    }
    Ok(text)
}

/// The arrays of tables of a file, and what one of their tables describes.
const TABLES: [(&str, &str); 4] = [
    ("element", "an element"),
    ("node", "a node"),
    ("aggregate", "an aggregate"),
    ("flow", "a flow"),
];

/// The number of windows or samples in a duration.
fn parts(duration: Nanos, step: Nanos) -> u64 {
    duration.div_ceil(step.max(1))
}
