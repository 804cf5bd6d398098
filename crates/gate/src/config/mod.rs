//! The gate's file: TOML that says where packets pass, who the subscribers are, and how they are
//! limited. All of it is checked before anything is done; `docs/reference/gate-configuration.md` describes it,
//! [`SECTIONS`] its keys.

mod csv;
mod fields;
mod keys;
mod plan;
mod problem;
mod roll;
mod subscriber;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_notation::{KeyNode, Node, Place, Value, quantity};

pub use keys::{SECTIONS, schema};
pub use problem::{ConfigErrors, Problem};

use crate::limits::{Limits, PlanTemplate};
use crate::subscriber::Declaration;
use crate::table::{Accounting, Attachment, Direction, Hook, Match, PerDirection, Unknown};
use fields::Fields;
use keys::{ACCOUNTING, API, FILE, IMPORT, INTERFACE, METRICS};
use problem::Sink;
use roll::Roll;

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Listen {
    /// On a socket of the file system.
    Unix(PathBuf),
    /// On an address and port.
    Tcp(SocketAddr),
}

impl std::fmt::Display for Listen {
    /// As it is written in the file.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => address.fmt(f),
        }
    }
}

/// The HTTP API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Api {
    /// Where it listens.
    pub listen: Listen,
    /// The file with the secret; there is one unless `listen` is local.
    pub token: Option<PathBuf>,
    /// The group that may use a socket of the file system, by name or number.
    pub group: Option<String>,
}

/// Prometheus metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metrics {
    /// Where they are served.
    pub listen: Listen,
    /// The file with the secret; there is one unless `listen` is local.
    pub token: Option<PathBuf>,
    /// Most subscribers with separate metrics.
    pub subscribers: usize,
    /// Most subscribers with metrics of each queue.
    pub queues: usize,
}

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
    /// All subscribers, of the file and of those that it imports.
    pub subscribers: Vec<Subscriber>,
    /// What is charged.
    pub accounting: Accounting,
    /// The fate of packets that match no subscriber.
    pub unknown: Unknown,
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
}

impl Config {
    /// Where pins are by default.
    pub const PINS: &'static str = "/sys/fs/bpf/tidegate";
    /// Where the state is by default.
    pub const STATE: &'static str = "/run/tidegate";
    /// Most subscribers: the kernel has a limiter for each direction of them.
    pub const MAX_SUBSCRIBERS: usize = 1 << 19;
    /// Longest file.
    pub const MAX_FILE: u64 = 512 << 20;
    /// Most files that are imported.
    pub const MAX_IMPORTS: usize = 64;

    /// Reads and checks a file and those that it imports.
    ///
    /// # Errors
    /// All mistakes in them, with places.
    pub fn read(path: &Path) -> Result<Self, ConfigErrors> {
        let text = load(path).map_err(|message| ConfigErrors::of_file(path, message))?;
        Self::parse(path, text, &load)
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
        let mut files = vec![(file.to_owned(), text.clone())];
        let sink = Sink::default();
        let config = read(file, &text, &mut files, load, &sink);
        match (config, sink.is_empty()) {
            (Some(config), true) => Ok(config),
            _ => Err(sink.into_errors(&files)),
        }
    }

    /// Warnings about a configuration that is valid but may not do what the operator wants.
    pub fn doubts(&self) -> Vec<String> {
        let tagged = self.subscribers.iter().find(|one| {
            let tag = |what: &Match| matches!(what, Match::Vlan(_) | Match::QinQ { .. });
            one.declared.matches.iter().any(tag)
        });
        let Some(tagged) = tagged else {
            return Vec::new();
        };
        let xdp = |attachment: &&Attachment| {
            matches!(attachment.hook, Hook::XdpNative | Hook::XdpGeneric)
        };
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
    sink: &Sink,
) -> Option<Config> {
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
    let mut roll = Roll::new(&plans, sink);
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
        csv::read(&files[..=import.file], plan, sink, &mut roll);
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
    let api = f.node("api").and_then(|node| api(node, folder, sink));
    let metrics = f.node("metrics").and_then(|node| {
        let metrics = metrics(node, folder, sink)?;
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
    Some(Config {
        file: file.to_owned(),
        attachments: attachments(&f, sink),
        subscribers,
        accounting: accounting(&f, sink),
        unknown: f
            .word(
                "unknown",
                &[("pass", Unknown::Pass), ("drop", Unknown::Drop)],
            )
            .unwrap_or(Unknown::Pass),
        pins: path("pins", Config::PINS),
        state: path("state", Config::STATE),
        log: f
            .word("log", &[("text", Log::Text), ("json", Log::Json)])
            .unwrap_or_default(),
        api,
        metrics,
        plans,
    })
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
    let plan = |(key, node): &'a (KeyNode, Node)| {
        if let Err(message) = roll::check_name(&key.text) {
            sink.wrong(key.place, message);
        }
        (key.text.clone(), plan::plan(node, sink))
    };
    table.0.iter().map(plan).collect()
}

/// A file of subscribers.
struct Import {
    /// Its number.
    file: usize,
    /// The plan of lines without a plan, and where it is named.
    plan: Option<(String, Place)>,
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
        if f.node("csv").is_none() {
            f.missing("csv");
        }
        let Some(name) = f.text("csv") else { continue };
        let path = folder.join(name);
        match load(&path) {
            Ok(text) => {
                imports.push(Import {
                    file: files.len(),
                    plan,
                });
                files.push((path, text));
            }
            Err(message) => f.wrong_key("csv", format!("{} {message}", path.display())),
        }
    }
    imports
}

fn attachments<'a>(f: &Fields<'a>, sink: &'a Sink) -> Vec<Attachment> {
    let directions = Direction::BOTH.map(|direction| (direction.name(), direction));
    let mut found: Vec<Attachment> = Vec::new();
    let mut names: HashMap<&str, ()> = HashMap::new();
    let nodes = f.tables("interface");
    if nodes.is_empty() && f.node("interface").is_none() {
        f.missing("interface");
    }
    for node in nodes {
        let Some(f) = Fields::new(node, "an interface", &[INTERFACE], sink) else {
            continue;
        };
        let Some(name) = f.text("name") else {
            if f.node("name").is_none() {
                f.missing("name");
            }
            continue;
        };
        // IFNAMSIZ is 16 with the zero behind; the kernel refuses these characters.
        let good = |c: char| !c.is_whitespace() && !c.is_control() && c != '/' && c != ':';
        if name.is_empty()
            || name.len() > 15
            || [".", ".."].contains(&name)
            || !name.chars().all(good)
        {
            f.wrong_key("name", format!("'{name}' cannot be an interface's name"));
            continue;
        }
        if names.insert(name, ()).is_some() {
            f.wrong_key(
                "name",
                format!("the interface {name} is listed twice: give it all its keys in one place"),
            );
            continue;
        }
        // auto is tc: it works everywhere, and leaves a driver's offloads alone.
        let hooks = [
            ("auto", Hook::TcIngress),
            ("tc", Hook::TcIngress),
            ("xdp", Hook::XdpNative),
            ("xdp-generic", Hook::XdpGeneric),
        ];
        let hook = f.word("hook", &hooks).unwrap_or(Hook::TcIngress);
        let sides = [("core", Direction::Down), ("access", Direction::Up)];
        let side = f.word("side", &sides);
        let ingress = f.word("ingress", &directions);
        let egress = f.word("egress", &directions);
        if f.node("side").is_some() && (f.node("ingress").is_some() || f.node("egress").is_some()) {
            f.wrong_key(
                "side",
                "`side` says it all: leave out `ingress` and `egress`, or `side`",
            );
            continue;
        }
        if ["side", "ingress", "egress"]
            .iter()
            .all(|key| f.node(key).is_none())
        {
            f.missing("side");
        }
        if egress.is_some() && hook != Hook::TcIngress {
            f.wrong_key("egress", "XDP sees only what comes in: use the hook `tc`, or limit this direction where it comes in");
        }
        if ingress.is_some() && ingress == egress {
            f.wrong_key(
                "egress",
                "what comes in and what goes out cannot both be the same direction",
            );
        }
        let mut add = |hook, direction| {
            found.push(Attachment {
                interface: name.to_owned(),
                hook,
                direction,
            });
        };
        if let Some(direction) = side.or(ingress) {
            add(hook, direction);
        }
        if let Some(direction) = egress {
            add(Hook::TcEgress, direction);
        }
    }
    found
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

/// Where to listen, and the secret that is needed if other machines can connect.
fn listen<'a>(f: &Fields<'a>, folder: &Path) -> Option<(Listen, Option<PathBuf>)> {
    if f.node("listen").is_none() {
        f.missing("listen");
    }
    let text = f.text("listen")?;
    let token = f.text("token").map(|path| folder.join(path));
    if let Some(path) = text.strip_prefix("unix:") {
        // sun_path holds 108 bytes with the zero behind.
        if !path.starts_with('/') || path.len() > 107 || path.contains('\0') {
            f.wrong_key(
                "listen",
                "the path of a socket is a whole one of at most 107 bytes",
            );
        }
        return Some((Listen::Unix(path.into()), token));
    }
    let Ok(address) = text.parse::<SocketAddr>() else {
        f.wrong_key("listen", format!("'{text}' is not an address: write \"unix:/run/tidegate/api.sock\" or \"127.0.0.1:9642\""));
        return None;
    };
    if !address.ip().to_canonical().is_loopback() && f.node("token").is_none() {
        f.wrong_key("listen", format!("{address} can be reached from elsewhere: name a file with a secret, token = \"…\", or listen on 127.0.0.1"));
    }
    Some((Listen::Tcp(address), token))
}

fn api<'a>(node: &'a Node, folder: &Path, sink: &'a Sink) -> Option<Api> {
    let f = Fields::new(node, "`api`", &[API], sink)?;
    let (listen, token) = listen(&f, folder)?;
    let group = f.text("group").map(str::to_owned);
    if group.is_some() && matches!(listen, Listen::Tcp(_)) {
        f.wrong_key("group", "a group is only for a Unix socket");
    }
    Some(Api {
        listen,
        token,
        group,
    })
}

fn metrics<'a>(node: &'a Node, folder: &Path, sink: &'a Sink) -> Option<Metrics> {
    let f = Fields::new(node, "`metrics`", &[METRICS], sink)?;
    let (listen, token) = listen(&f, folder)?;
    let most = |key: &str, default: usize| {
        let number = f.integer(key, 0..=Config::MAX_SUBSCRIBERS as u64);
        number.map_or(default, |number| number as usize)
    };
    Some(Metrics {
        listen,
        token,
        subscribers: most("subscribers", 1000),
        queues: most("queues", 0),
    })
}
