//! A site for a gate in tests: folders that are removed with it, its file, and a network for the
//! kernel's gate.

use std::io::Write;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tidegate_testbed::TestbedError;
use tidegate_testbed::namespace::Namespace;

use crate::config::Config;
use crate::gate::Folders;

/// A folder with a gate's file, pins and state.
pub(crate) struct Site {
    folder: TempDir,
    pins: PathBuf,
    state: PathBuf,
}

impl Site {
    /// Two subscribers, `alice` on `gold` and `bob` on `basic`; `lo` is on the core's side.
    pub(crate) const FILE: &str = include_str!("../tests/gate.toml");

    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let [pins, state] = ["pins", "state"].map(|name| folder.path().join(name));
        Self {
            folder,
            pins,
            state,
        }
    }

    /// A site whose pins are in the BPF file system, where the kernel's gate needs them.
    pub(crate) fn in_the_kernel() -> Self {
        Self {
            pins: "/sys/fs/bpf/tidegate".into(),
            ..Self::new()
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder().join("gate.toml")
    }

    pub(crate) fn state(&self) -> &Path {
        &self.state
    }

    pub(crate) fn pins(&self) -> &Path {
        &self.pins
    }

    pub(crate) fn folders(&self) -> Folders<'_> {
        Folders {
            pins: &self.pins,
            state: &self.state,
        }
    }

    /// The file of this text with the folders of this site.
    fn text(&self, rest: &str) -> String {
        format!(
            "pins = {:?}\nstate = {:?}\n{rest}",
            self.pins(),
            self.state()
        )
    }

    /// Writes a file of this text.
    pub(crate) fn write(&self, rest: &str) {
        std::fs::write(self.file(), self.text(rest)).expect("written");
    }

    /// The configuration that a file of this text gives.
    pub(crate) fn config(&self, rest: &str) -> Config {
        config(&self.text(rest))
    }

    /// The names of the state's files.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.state()).into_iter().flatten();
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            let name = entry.expect("an entry").file_name();
            name.into_string().expect("text")
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }
}

/// The configuration that a file of this text gives, with no other file beside it.
pub(crate) fn config(text: &str) -> Config {
    let none = |_: &Path| Err("is not there".to_owned());
    let config = Config::parse(Path::new("gate.toml"), text.to_owned(), &none);
    config.unwrap_or_else(|error| panic!("{error}"))
}

/// Runs this in a network namespace that has a BPF file system; both end with it. Skips the test if the
/// rights for that are missing.
pub(crate) fn in_namespace(test: &str, run: impl FnOnce(&Namespace) + Send) {
    match Namespace::new() {
        Err(TestbedError::Rights { .. }) => {
            let mut stderr = std::io::stderr();
            writeln!(stderr, "skipped TEST: {test}: needs root").expect("stderr");
        }
        space => {
            let space = space.expect("a network namespace");
            space.enter(|| run(&space)).expect("entered");
        }
    }
}
