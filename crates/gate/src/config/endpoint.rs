//! Where the API and the metrics are served.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tidegate_limiter::Prefix;
use tidegate_notation::Node;

use super::Config;
use super::fields::Fields;
use super::keys::{API, METRICS, PAIR, RADIUS};
use super::problem::Sink;

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

/// The files of TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The certificate and its chain.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// The HTTP API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Api {
    /// Where it listens.
    pub listen: Listen,
    /// The file with the secret; there is one unless `listen` is local.
    pub token: Option<PathBuf>,
    /// The file with the secret of clients that may only read.
    pub read_token: Option<PathBuf>,
    /// TLS, if the address speaks it.
    pub tls: Option<Tls>,
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
    /// TLS, if the address speaks it.
    pub tls: Option<Tls>,
    /// Most subscribers with separate metrics.
    pub subscribers: usize,
    /// Most subscribers with metrics of each queue.
    pub queues: usize,
}

/// The other gate of a pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// Where its API listens.
    pub peer: SocketAddr,
    /// The file with the secret of its API; there is one unless it is on this machine.
    pub token: Option<PathBuf>,
    /// Its certificate or that of its authority, if it speaks TLS.
    pub certificate: Option<PathBuf>,
}

pub(super) fn pair<'a>(node: &'a Node, folder: &Path, sink: &'a Sink) -> Option<Pair> {
    let f = Fields::new(node, "`pair`", &[PAIR], sink)?;
    if f.node("peer").is_none() {
        f.missing("peer");
    }
    let text = f.text("peer")?;
    let Ok(peer) = text.parse::<SocketAddr>() else {
        f.wrong_key(
            "peer",
            format!("'{text}' is not an address and port, such as \"192.0.2.2:9642\""),
        );
        return None;
    };
    if !peer.ip().to_canonical().is_loopback() && f.node("token").is_none() {
        f.wrong_key("peer", format!("{peer} is another machine, whose API asks for a secret: name its file, token = \"…\""));
    }
    Some(Pair {
        peer,
        token: f.text("token").map(|path| folder.join(path)),
        certificate: f.text("certificate").map(|path| folder.join(path)),
    })
}

/// RADIUS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Radius {
    /// Where accounting is answered.
    pub accounting: Option<SocketAddr>,
    /// Where changes of authorization and disconnects are answered.
    pub change: Option<SocketAddr>,
    /// The file with the secret.
    pub secret: PathBuf,
    /// Addresses of access servers.
    pub clients: Vec<Prefix>,
}

pub(super) fn radius<'a>(node: &'a Node, folder: &Path, sink: &'a Sink) -> Option<Radius> {
    let f = Fields::new(node, "`radius`", &[RADIUS], sink)?;
    for key in ["secret", "clients"] {
        if f.node(key).is_none() {
            f.missing(key);
        }
    }
    let address = |key: &str| {
        let text = f.text(key)?;
        let address = text.parse().ok();
        if address.is_none() {
            let message =
                format!("'{text}' is not an address and port, such as \"192.0.2.1:1813\"");
            f.wrong_key(key, message);
        }
        address
    };
    let (accounting, change) = (address("accounting"), address("change"));
    if f.node("accounting").is_none() && f.node("change").is_none() {
        // Either of the two will do.
        f.missing("accounting");
    }
    let client = |node: &'a Node| {
        let text = node.text("clients")?;
        let read = text.parse::<Prefix>();
        read.map_err(|error| node.wrong(error.to_string()))
    };
    let clients = f.values("clients").iter();
    Some(Radius {
        accounting,
        change,
        secret: folder.join(f.text("secret")?),
        clients: clients.filter_map(|node| sink.note(client(node))).collect(),
    })
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

/// The files of TLS, which both must be there for an address.
fn tls(f: &Fields<'_>, listen: &Listen, folder: &Path) -> Option<Tls> {
    let (certificate, key) = match (f.text("certificate"), f.text("key")) {
        (Some(certificate), Some(key)) => (folder.join(certificate), folder.join(key)),
        (Some(_), None) => {
            f.wrong_key(
                "certificate",
                "`key` is missing: name the file with its private key",
            );
            return None;
        }
        (None, Some(_)) => {
            f.wrong_key(
                "key",
                "`certificate` is missing: name the file with the key's certificate",
            );
            return None;
        }
        (None, None) => return None,
    };
    if matches!(listen, Listen::Unix(_)) {
        f.wrong_key(
            "certificate",
            "TLS is only for an address and port: a Unix socket needs none",
        );
    }
    Some(Tls { certificate, key })
}

pub(super) fn api<'a>(node: &'a Node, folder: &Path, sink: &'a Sink) -> Option<Api> {
    let f = Fields::new(node, "`api`", &[API], sink)?;
    let (listen, token) = listen(&f, folder)?;
    let group = f.text("group").map(str::to_owned);
    if group.is_some() && matches!(listen, Listen::Tcp(_)) {
        f.wrong_key("group", "a group is only for a Unix socket");
    }
    let read_token = f.text("read-token").map(|path| folder.join(path));
    if read_token.is_some() && token.is_none() {
        f.wrong_key(
            "read-token",
            "without `token` everybody who reaches the address may change limits: add `token`, or leave `read-token` out",
        );
    }
    Some(Api {
        tls: tls(&f, &listen, folder),
        listen,
        token,
        read_token,
        group,
    })
}

pub(super) fn metrics<'a>(node: &'a Node, folder: &Path, sink: &'a Sink) -> Option<Metrics> {
    let f = Fields::new(node, "`metrics`", &[METRICS], sink)?;
    let (listen, token) = listen(&f, folder)?;
    let most = |key: &str, default: usize| {
        let number = f.integer(key, 0..=Config::MAX_SUBSCRIBERS as u64);
        number.map_or(default, |number| number as usize)
    };
    Some(Metrics {
        tls: tls(&f, &listen, folder),
        listen,
        token,
        subscribers: most("subscribers", 1000),
        queues: most("queues", 0),
    })
}
