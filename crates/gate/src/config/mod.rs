//! The gate's file: TOML that says where packets pass, who the subscribers are, and how they are
//! limited. All of it is checked before anything is done; `docs/reference/gate-configuration.md` describes it,
//! [`SECTIONS`] its keys.

mod csv;
mod endpoint;
mod fields;
mod interface;
mod keys;
mod node;
mod overlay;
mod place;
mod plan;
mod problem;
mod roll;
mod start;
mod subscriber;
mod terms;
mod watch;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use tidegate_notation::Position;
use tidegate_notation::{KeyNode, Node, Place, Value, quantity};

pub use endpoint::{Api, Listen, Metrics, Pair, Radius, Tls};
pub use keys::{SECTIONS, schema};
pub(crate) use overlay::overlay;
pub use overlay::{PlanKeys, plan_key};
pub use place::position_of;
pub use problem::{ConfigErrors, Problem, Skipped};
pub use start::AtStart;

use crate::limits::{Limits, PlanTemplate};
use crate::quality::Watch;
use crate::subscriber::Declaration;
use crate::table::{
    Accounting, Attachment, Direction, LinkFrames, Match, OtherFrames, PerDirection, Sources,
    Unknown,
};
use fields::Fields;
use keys::{ACCOUNTING, FILE, IMPORT, USAGE};
use problem::Sink;
use roll::Roll;

/// What an empty file may be.
const EXAMPLE: &str = "\
interface = [{ name = \"eth1\", side = \"core\" }, { name = \"eth2\", side = \"access\" }]
subscriber = [{ name = \"ann\", addresses = \"192.0.2.1\", down = \"20mbit\", up = \"5mbit\" }]";

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Log {
    /// For people.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
}

/// Whose traffic is limited, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscriber {
    /// Its name; no two have the same.
    pub name: Arc<str>,
    /// Its plan, rates and matches. No two subscribers share a match.
    pub declared: Declaration,
    /// The limits that follow from plan and rates. Equal ones are shared in memory.
    pub limits: PerDirection<Arc<Limits>>,
}

/// A gate's configuration, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The file.
    pub file: PathBuf,
    /// Where packets are taken.
    pub attachments: Vec<Attachment>,
    /// Plans by name, in the order of the file.
    pub plans: Vec<(String, PlanTemplate)>,
    /// Nodes of the network, of the file and of those that it imports.
    pub nodes: Vec<crate::nodes::Node>,
    /// All subscribers, of the file and of those that it imports.
    pub subscribers: Vec<Subscriber>,
    /// Lines of imported files that were skipped.
    pub skipped: Skipped,
    /// What is charged.
    pub accounting: Accounting,
    /// The fate of packets that match no subscriber.
    pub unknown: Unknown,
    /// The fate of frames without IP.
    pub other_frames: OtherFrames,
    /// Which of them pass in any case.
    pub link_frames: LinkFrames,
    /// Source addresses that may come in from subscribers.
    pub sources: Sources,
    /// Whether to attach where another gate is attached already.
    pub beside: bool,
    /// Folder in a bpffs.
    pub pins: PathBuf,
    /// Folder of the state file, the journal and the lock.
    pub state: PathBuf,
    /// The daemon's log.
    pub log: Log,
    /// The HTTP API.
    pub api: Option<Api>,
    /// Prometheus metrics.
    pub metrics: Option<Metrics>,
    /// The file with the volumes of months.
    pub usage: Option<PathBuf>,
    /// Whether what would be dropped is only counted.
    pub shadow: bool,
    /// What is watched.
    pub watch: Option<Watch>,
    /// The file with the events.
    pub events: Option<PathBuf>,
    /// RADIUS.
    pub radius: Option<Radius>,
    /// The other gate of a pair.
    pub pair: Option<Pair>,
}

impl Config {
    /// Where pins are by default.
    pub const PINS: &'static str = "/sys/fs/bpf/tidegate";
    /// Where the state is by default.
    pub const STATE: &'static str = "/run/tidegate";
    /// Most subscribers: the kernel has a limiter for each direction of them.
    pub const MAX_SUBSCRIBERS: usize = 1 << 20;
    /// Longest file.
    pub const MAX_FILE: u64 = 512 << 20;
    /// Most files that are imported.
    pub const MAX_IMPORTS: usize = 64;

    /// Reads and checks a file and those that it imports.
    ///
    /// # Errors
    /// All mistakes in them, with places.
    pub fn read(path: &Path) -> Result<Self, ConfigErrors> {
        Self::read_as(path, false)
    }

    /// As [`read`](Self::read). Lines of imported files with mistakes are skipped if all files are to be read
    /// leniently.
    ///
    /// # Errors
    /// All mistakes that are not in such a line, with places.
    pub fn read_as(path: &Path, lenient: bool) -> Result<Self, ConfigErrors> {
        let text = load(path).map_err(|message| ConfigErrors::of_file(path, message))?;
        Self::parse_as(path, text, &load, lenient)
    }

    /// Checks the text of a file; `load` reads those that it imports.
    ///
    /// # Errors
    /// All mistakes in them, with places.
    pub fn parse(
        file: &Path,
        text: String,
        load: &dyn Fn(&Path) -> Result<String, String>,
    ) -> Result<Self, ConfigErrors> {
        Self::parse_as(file, text, load, false)
    }

    fn parse_as(
        file: &Path,
        text: String,
        load: &dyn Fn(&Path) -> Result<String, String>,
        lenient: bool,
    ) -> Result<Self, ConfigErrors> {
        let mut files = vec![(file.to_owned(), text.clone())];
        let sink = Sink::default();
        let config = read(file, &text, &mut files, load, lenient, &sink);
        match (config, sink.is_empty()) {
            (Some(config), true) => Ok(Self {
                skipped: sink.skipped(&files),
                ..config
            }),
            _ => Err(sink.into_errors(&files)),
        }
    }

    /// Warnings about a configuration that is valid but may not do what the operator wants.
    pub fn doubts(&self) -> Vec<String> {
        let mut doubts = self.unseen_tags();
        for (name, plan) in &self.plans {
            let small = |way| plan.of(way).small();
            if let Some((key, size, least)) = Direction::BOTH.into_iter().find_map(small) {
                doubts.push(format!(
                    "`{key}` of plan `{name}` is {size} bytes: a super-packet of the kernel (TSO, GRO) has up to 65,536 \
                     and is dropped as a whole; `auto` is at least {least}"
                ));
            }
        }
        doubts
    }

    /// Warnings about plans that the kernel's gate does not have.
    pub fn only_on_dpdk(&self) -> impl Iterator<Item = String> {
        self.plans.iter().filter_map(|(name, plan)| {
            let scheme = plan.alone()?;
            Some(format!(
                "plan `{name}` runs on DPDK only (`tidegate gate run --dpdk`), since its scheme is {scheme}"
            ))
        })
    }

    /// Tags that XDP may not see.
    fn unseen_tags(&self) -> Vec<String> {
        let tagged = self.subscribers.iter().find(|one| {
            let tag = |what: &Match| matches!(what, Match::Vlan(_) | Match::QinQ { .. });
            one.declared.matches.iter().any(tag)
        });
        let Some(tagged) = tagged else {
            return Vec::new();
        };
        let xdp = |attachment: &&Attachment| attachment.hook.is_xdp();
        let places = self.attachments.iter().filter(xdp);
        places
            .map(|place| {
                format!(
                    "`{}` and perhaps others are identified by VLAN tags, which XDP at {interface} does not \
                     see where the interface takes them off: `ethtool -K {interface} rxvlan off`, or \
                     hook = \"tc\"",
                    tagged.name,
                    interface = place.interface
                )
            })
            .collect()
    }
}

/// Reads a regular file that is not too long.
fn load(path: &Path) -> Result<String, String> {
    let metadata = std::fs::metadata(path).map_err(|error| format!("cannot be read: {error}"))?;
    if !metadata.is_file() {
        return Err("is not a regular file".to_owned());
    }
    if metadata.len() > Config::MAX_FILE {
        return Err(format!("is longer than {} MiB", Config::MAX_FILE >> 20));
    }
    std::fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))
}

fn read(
    file: &Path,
    text: &str,
    files: &mut Vec<(PathBuf, String)>,
    load: &dyn Fn(&Path) -> Result<String, String>,
    lenient: bool,
    sink: &Sink,
) -> Option<Config> {
    let says_nothing = |line: &str| matches!(line.trim().chars().next(), None | Some('#'));
    if text.lines().all(says_nothing) {
        let message = "this file is empty: it needs interfaces and subscribers, such as";
        sink.empty(Place::default(), message, EXAMPLE);
        return None;
    }
    let root = match tidegate_notation::parse(0, text) {
        Ok(root) => root,
        Err(mistakes) => {
            // What comes after may be taken for something else.
            mistakes.into_iter().for_each(|mistake| sink.add(mistake));
            return None;
        }
    };
    let f = Fields::of_file(&root, "a gate's file", FILE, sink);
    let plans = plans(&f, sink);
    let folder = file.parent().unwrap_or(Path::new(""));
    let imports = imports(&f, folder, files, load, sink);
    let attachments = interface::attachments(&f, sink);
    let mut tree = node::Tree::new(sink);
    f.tables("node").iter().for_each(|node| tree.read(node));
    for file in imports.iter().filter_map(|import| import.network) {
        tree.read_network(&files[..=file]);
    }
    tree.check();
    let mut roll = Roll::new(&plans, &attachments, &tree, sink);
    for node in f.tables("subscriber") {
        if let Some(draft) = subscriber::subscriber(node, sink) {
            roll.add(draft);
        }
    }
    for import in &imports {
        if let Some((plan, place)) = &import.plan
            && roll.plan(plan, *place).is_none()
        {
            continue;
        }
        let plan = import.plan.as_ref().map(|(plan, _)| plan.as_str());
        let manner = csv::Manner {
            plan,
            lenient: lenient || import.lenient,
            live: import.live,
        };
        if let Some(file) = import.csv {
            csv::read(&files[..=file], manner, sink, &mut roll);
        }
    }
    let subscribers = std::mem::take(&mut roll.subscribers);
    if subscribers.len() > Config::MAX_SUBSCRIBERS {
        let (found, most) = (subscribers.len(), Config::MAX_SUBSCRIBERS);
        sink.wrong(
            f.place(),
            format!("{found} subscribers are too many: at most {most}"),
        );
    }
    let path = |key: &str, default: &str| -> PathBuf {
        let text = f.text(key).unwrap_or(default);
        if !text.starts_with('/') || text.contains('\0') {
            f.wrong_key(
                key,
                format!("`{key}` must be an absolute path, which begins with /"),
            );
        }
        text.into()
    };
    let api = f
        .node("api")
        .and_then(|node| endpoint::api(node, folder, sink));
    let metrics = f.node("metrics").and_then(|node| {
        let metrics = endpoint::metrics(node, folder, sink)?;
        let api = api.as_ref().filter(|api| api.listen == metrics.listen);
        if api.is_some_and(|api| metrics.token.is_some() && metrics.token != api.token) {
            f.wrong(
                node,
                "the API listens there already, and serves metrics to clients with its secret: \
                 leave `token` out, or listen elsewhere",
            );
        }
        Some(metrics)
    });
    let usage = f.node("usage").and_then(|node| {
        let f = Fields::new(node, "`usage`", &[USAGE], sink)?;
        if f.node("file").is_none() {
            f.missing("file");
        }
        f.text("file").map(|path| folder.join(path))
    });
    let limited = plans.iter().find(|(_, plan)| plan.terms.quota.is_some());
    if let Some((name, _)) = limited.filter(|_| f.node("usage").is_none()) {
        let message = "where the bytes of months are kept is missing: add [usage] with file = \"/var/lib/tidegate/usage.json\"";
        f.sink.wrong(
            f.place(),
            format!("plan `{name}` has a quota, and {message}"),
        );
    }
    Some(Config {
        file: file.to_owned(),
        attachments,
        nodes: tree.nodes,
        subscribers,
        skipped: Skipped::default(),
        accounting: accounting(&f, sink),
        unknown: f
            .word(
                "unknown",
                &[("pass", Unknown::Pass), ("drop", Unknown::Drop)],
            )
            .unwrap_or(Unknown::Pass),
        other_frames: f
            .word(
                "other-frames",
                &[
                    ("auto", OtherFrames::Auto),
                    ("pass", OtherFrames::Pass),
                    ("drop", OtherFrames::Drop),
                ],
            )
            .unwrap_or_default(),
        link_frames: link_frames(&f, sink),
        sources: f
            .word(
                "sources",
                &[("bound", Sources::Bound), ("known", Sources::Known)],
            )
            .unwrap_or_default(),
        beside: f
            .word("other-gates", &[("refuse", false), ("allow", true)])
            .unwrap_or(false),
        pins: path("pins", Config::PINS),
        state: path("state", Config::STATE),
        log: f
            .word("log", &[("text", Log::Text), ("json", Log::Json)])
            .unwrap_or_default(),
        api,
        metrics,
        usage,
        shadow: f.truth("shadow").unwrap_or(false),
        watch: f.node("watch").and_then(|node| watch::watch(node, sink)),
        events: f.text("events").map(|path| folder.join(path)),
        pair: pair(&f, folder, sink),
        radius: f
            .node("radius")
            .and_then(|node| endpoint::radius(node, folder, sink)),
        plans,
    })
}

/// The frames without IP that pass.
fn link_frames<'a>(f: &Fields<'a>, sink: &'a Sink) -> LinkFrames {
    const KEY: &str = "link-frames";
    if f.node(KEY).is_none() {
        return LinkFrames::default();
    }
    let words = [("arp", 0), ("ppp", 1), ("bridge", 2), ("lldp", 3)];
    let mut passes = [false; 4];
    for node in f.values(KEY) {
        if let Some(kind) = sink.note(node.word(KEY, &words)) {
            passes[kind] = true;
        }
    }
    let [arp, ppp, bridge, lldp] = passes;
    LinkFrames {
        arp,
        ppp,
        bridge,
        lldp,
    }
}

/// All plans, by name.
fn plans<'a>(f: &Fields<'a>, sink: &'a Sink) -> Vec<(String, PlanTemplate)> {
    let Some(node) = f.node("plan") else {
        return Vec::new();
    };
    let Value::Table(table) = &node.value else {
        f.wrong(node, "write [plan.NAME], with a name for each plan");
        return Vec::new();
    };
    let names: Vec<&str> = table.0.iter().map(|(key, _)| key.text.as_str()).collect();
    let plan = |(key, node): &'a (KeyNode, Node)| {
        if let Err(message) = roll::check_name(&key.text) {
            sink.wrong(key.place, message);
        }
        let mut plan = plan::plan(node, &PlanTemplate::default(), sink);
        plan.terms = terms::terms(node, &key.text, &names, sink);
        (key.text.clone(), plan)
    };
    table.0.iter().map(plan).collect()
}

/// The other gate of a pair, which asks this one.
fn pair<'a>(f: &Fields<'a>, folder: &Path, sink: &'a Sink) -> Option<Pair> {
    let node = f.node("pair")?;
    if f.node("api").is_none() {
        let message = "the other gate asks this one over the API: add [api], with an address that the other gate reaches";
        f.wrong(node, message);
    }
    endpoint::pair(node, folder, sink)
}

/// Files of subscribers and nodes.
struct Import {
    /// The number of the file of subscribers.
    csv: Option<usize>,
    /// The number of the file of nodes.
    network: Option<usize>,
    /// The plan of lines without a plan, and where it is named.
    plan: Option<(String, Place)>,
    /// Whether lines with mistakes are skipped.
    lenient: bool,
    /// Whether subscribers without addresses and tags get them live.
    live: bool,
}

/// Loads the files of `[[import]]`.
fn imports<'a>(
    f: &Fields<'a>,
    folder: &Path,
    files: &mut Vec<(PathBuf, String)>,
    load: &dyn Fn(&Path) -> Result<String, String>,
    sink: &'a Sink,
) -> Vec<Import> {
    let mut imports = Vec::new();
    let nodes = f.tables("import");
    if nodes.len() > Config::MAX_IMPORTS {
        let most = Config::MAX_IMPORTS;
        f.wrong(&nodes[most], format!("too many files: at most {most}"));
        return imports;
    }
    for node in nodes {
        let Some(f) = Fields::new(node, "an import", &[IMPORT], sink) else {
            continue;
        };
        let plan = f.node("plan").zip(f.text("plan"));
        let plan = plan.map(|(node, name)| (name.to_owned(), node.place));
        if f.node("csv").is_none() && f.node("network").is_none() {
            f.missing("csv");
        }
        let mut file = |key: &str| {
            let path = folder.join(f.text(key)?);
            match load(&path) {
                Ok(text) => files.push((path, text)),
                Err(message) => {
                    f.wrong_key(key, format!("{} {message}", path.display()));
                    return None;
                }
            }
            Some(files.len() - 1)
        };
        imports.push(Import {
            csv: file("csv"),
            network: file("network"),
            plan,
            lenient: f.truth("lenient").unwrap_or(false),
            live: f.truth("live").unwrap_or(false),
        });
    }
    imports
}

fn accounting<'a>(f: &Fields<'a>, sink: &'a Sink) -> Accounting {
    let mut accounting = Accounting {
        layer: 2,
        overhead: 0,
    };
    let Some(node) = f.node("accounting") else {
        return accounting;
    };
    let Some(f) = Fields::new(node, "`accounting`", &[ACCOUNTING], sink) else {
        return accounting;
    };
    if let Some(layer) = f.integer("layer", 2..=3) {
        accounting.layer = layer as u8;
    }
    if let Some(node) = f.node("overhead") {
        let text = match &node.value {
            Value::Integer(number) => number.to_string(),
            Value::Text(text) => text.clone(),
            _ => {
                let kind = node.kind();
                f.wrong(node, format!("`overhead` is a size in quotes, not {kind}"));
                return accounting;
            }
        };
        let (sign, size) = match text.trim().strip_prefix('-') {
            Some(size) => (-1, size),
            None => (1, text.trim()),
        };
        match quantity::bytes(size) {
            Ok(size @ 0..=256) => accounting.overhead = sign * size as i16,
            Ok(_) => f.wrong(node, "`overhead` must be from -256B to 256B"),
            Err(message) => f.wrong(node, format!("`overhead`: {message}")),
        }
    }
    accounting
}
