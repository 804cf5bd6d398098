//! The files that a configuration names, read as the daemon reads them when it starts.

use std::io::{Error, ErrorKind};
use std::path::Path;

use anyhow::Context;
use tidegate_gate::config::{self, Config, Position};
use tidegate_gate::usage::Usage;

use crate::gate::api::access::Token;
use crate::gate::api::listen;
use crate::gate::pair::Pair;
use crate::gate::radius;

#[cfg(test)]
mod tests;

/// What would keep the daemon from its start, with file, line and column of the key.
pub fn warnings(config: &Config) -> Vec<String> {
    let mut found = Found {
        config,
        warnings: Vec::new(),
    };
    if let Some(api) = &config.api {
        found.token("api", "token", api.token.as_deref());
        found.token("api", "read-token", api.read_token.as_deref());
        found.tls("api", api.tls.as_ref());
        if let Some(group) = &api.group {
            found.note("api", "group", listen::group(group).map(drop));
        }
    }
    let api = config.api.as_ref().map(|api| &api.listen);
    // The API serves metrics as well where both listen, with its files.
    let metrics = config.metrics.as_ref();
    if let Some(metrics) = metrics.filter(|metrics| api != Some(&metrics.listen)) {
        found.token("metrics", "token", metrics.token.as_deref());
        found.tls("metrics", metrics.tls.as_ref());
    }
    if let Some(pair) = &config.pair {
        found.token("pair", "token", pair.token.as_deref());
        found.note("pair", "certificate", Pair::open(pair, None).map(drop));
    }
    if let Some(radius) = &config.radius {
        found.note("radius", "secret", radius::secret(&radius.secret).map(drop));
    }
    if let Some(path) = &config.usage {
        found.note("usage", "file", volumes(path));
    }
    if let Some(path) = &config.events
        && let Err(error) = folder(path)
    {
        let place = found.place(&["events"]);
        let text = format!("events would be lost: {place}: {error:#}");
        found.warnings.push(text);
    }
    found.warnings
}

struct Found<'c> {
    config: &'c Config,
    warnings: Vec<String>,
}

impl Found<'_> {
    /// Where the value of a key is, as in errors of the file.
    fn place(&self, keys: &[&str]) -> String {
        let file = self.config.file.display();
        match config::position_of(&self.config.file, keys) {
            Some(Position { line, column }) => format!("{file}:{line}:{column}"),
            None => file.to_string(),
        }
    }

    fn token(&mut self, section: &str, key: &str, path: Option<&Path>) {
        if let Some(path) = path {
            self.note(section, key, Token::read(path).map(drop));
        }
    }

    fn tls(&mut self, section: &str, tls: Option<&config::Tls>) {
        let Some(tls) = tls else { return };
        if let Err(error) = listen::certificate(tls) {
            // It names the file, and so the key.
            let is_key = format!("{error:#}").contains(&*tls.key.to_string_lossy());
            let key = if is_key { "key" } else { "certificate" };
            self.note(section, key, Err(error));
        }
    }

    fn note(&mut self, section: &str, key: &str, read: anyhow::Result<()>) {
        let Err(error) = read else { return };
        let is_denied = error.chain().any(|cause| {
            let cause = cause.downcast_ref::<Error>();
            cause.is_some_and(|error| error.kind() == ErrorKind::PermissionDenied)
        });
        let what = match is_denied {
            true => "this user cannot check whether the daemon would start",
            false => "the daemon would not start",
        };
        let place = self.place(&[section, key]);
        self.warnings.push(format!("{what}: {place}: {error:#}"));
    }
}

/// Checks that the folder of a file is there.
fn folder(path: &Path) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let place = || format!("cannot write to the folder {}", folder.display());
    let folder = std::fs::metadata(folder).with_context(place)?;
    anyhow::ensure!(folder.is_dir(), "{}: it is a file", place());
    Ok(())
}

/// Checks that the volumes of months can be read. The daemon moves a damaged file aside and starts.
fn volumes(path: &Path) -> anyhow::Result<()> {
    folder(path)?;
    match Usage::read(path) {
        Err(error) if error.kind() != ErrorKind::Other => {
            let place = || format!("cannot read the volumes of months in {}", path.display());
            Err(error).with_context(place)
        }
        _ => Ok(()),
    }
}
