//! Files and folders of a crate depend on one another in one direction (see ARCHITECTURE.md).
//!
//! Read from the `use` declarations of the sources. Compared are neighbours: the files and folders of one folder. What a file uses
//! of the module that declares it is no arrow between neighbours, and neither is what tests use.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A module by the names on the way to it from the crate's root.
type Module = Vec<String>;

/// The modules of a crate, each with its text.
struct Sources(BTreeMap<Module, String>);

impl Sources {
    fn read(src: &Path) -> Self {
        let mut sources = Self(BTreeMap::new());
        sources.add(src, &mut Vec::new());
        sources
    }

    fn add(&mut self, folder: &Path, at: &mut Module) {
        let entries = fs::read_dir(folder).expect("a folder of sources");
        for path in entries.map(|entry| entry.expect("an entry").path()) {
            let name = path.file_stem().and_then(|name| name.to_str());
            let name = name.expect("a name in UTF-8").to_owned();
            if matches!(&name[..], "tests" | "testing") {
                continue;
            }
            if path.is_dir() {
                at.push(name);
                self.add(&path, at);
                at.pop();
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let mut module = at.clone();
                if !matches!(&name[..], "lib" | "main" | "mod") {
                    module.push(name);
                }
                let text = fs::read_to_string(&path).expect("a source");
                self.0.insert(module, declarations(&text));
            }
        }
    }

    /// The paths that a module names, from the root, each with whether it hands the name on.
    fn uses(&self, module: &Module) -> Vec<(Module, bool)> {
        let mut found = Vec::new();
        for statement in self.0[module].split_inclusive(';') {
            let Some(at) = statement.find("use ") else {
                continue;
            };
            let mut paths = Vec::new();
            expand(&[], statement[at + 4..].trim_end_matches(';'), &mut paths);
            let is_public = statement[..at].trim_end().ends_with(['b', ')']);
            let rooted = paths
                .into_iter()
                .filter_map(|path| self.rooted(module, path));
            found.extend(rooted.map(|path| (path, is_public)));
        }
        found
    }

    /// A path from the root, if it is of this crate.
    fn rooted(&self, module: &Module, path: Module) -> Option<Module> {
        let ups = path.iter().take_while(|part| *part == "super").count();
        let base = match path[0].as_str() {
            "crate" => return Some(path[1..].to_vec()),
            "self" => return Some([module, &path[1..]].concat()),
            "super" => &module[..module.len().checked_sub(ups)?],
            child => {
                let child = [&module[..], &[child.to_owned()]].concat();
                self.0.contains_key(&child).then_some(&module[..])?
            }
        };
        Some([base, &path[ups..]].concat())
    }

    /// The module in which what a path names is defined, past the modules that hand it on.
    fn home(&self, path: &[String], depth: usize) -> Module {
        let known = (0..=path.len())
            .rev()
            .find(|&length| self.0.contains_key(&path[..length]));
        let (module, rest) = path.split_at(known.unwrap_or_default());
        let (module, Some(name)) = (module.to_vec(), rest.first()) else {
            return module.to_vec();
        };
        let handed_on =
            |(path, is_public): &(Module, bool)| *is_public && path.last() == Some(name);
        match self.uses(&module).into_iter().find(handed_on) {
            Some((next, _)) if depth < 8 && next != path => self.home(&next, depth + 1),
            _ => module,
        }
    }

    /// Each arrow between neighbours: from, to, and the modules behind it.
    fn arrows(&self) -> BTreeMap<Module, BTreeMap<String, BTreeMap<String, String>>> {
        let mut arrows: BTreeMap<Module, BTreeMap<String, BTreeMap<String, String>>> =
            BTreeMap::new();
        for from in self.0.keys() {
            for (path, _) in self.uses(from) {
                let to = self.home(&path, 0);
                let shared = from
                    .iter()
                    .zip(&to)
                    .take_while(|(one, other)| one == other)
                    .count();
                if let (Some(one), Some(other)) = (from.get(shared), to.get(shared)) {
                    let folder = arrows.entry(from[..shared].to_vec()).or_default();
                    let why = format!("{} uses {}", from.join("::"), path.join("::"));
                    folder
                        .entry(one.clone())
                        .or_default()
                        .insert(other.clone(), why);
                }
            }
        }
        arrows
    }
}

/// A source without comments, attributes, texts and bodies of functions' tests: what is left is enough to find declarations.
fn declarations(text: &str) -> String {
    let code = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    let code: Vec<&str> = code.collect();
    let code = code.join("\n");
    // Tests at the end of a file see all of it.
    code.split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// The paths of a tree of `use`.
fn expand(before: &[String], tree: &str, paths: &mut Vec<Module>) {
    let (path, group) = match tree.find('{') {
        Some(at) => (
            &tree[..at],
            tree[at + 1..]
                .rfind('}')
                .map(|end| &tree[at + 1..at + 1 + end]),
        ),
        None => (tree, None),
    };
    let path = path.split(" as ").next().unwrap_or_default();
    let parts = path
        .split("::")
        .map(str::trim)
        .filter(|part| !part.is_empty());
    let path: Module = before
        .iter()
        .cloned()
        .chain(parts.map(str::to_owned))
        .collect();
    let Some(group) = group else {
        if !path.is_empty() {
            paths.push(path);
        }
        return;
    };
    let (mut depth, mut start) = (0, 0);
    for (at, letter) in group.char_indices().chain([(group.len(), ',')]) {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&path, &group[start..at], paths);
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// A way from a name back to itself, if there is one.
fn circle<'a>(
    arrows: &'a BTreeMap<String, BTreeMap<String, String>>,
    start: &'a str,
) -> Option<Vec<&'a str>> {
    let mut seen = BTreeSet::new();
    let mut ways: Vec<Vec<(&str, &str)>> = vec![vec![(start, "")]];
    while let Some(way) = ways.pop() {
        let (last, _) = way[way.len() - 1];
        for (next, why) in arrows.get(last).into_iter().flatten() {
            let longer = [&way[..], &[(next, why)]].concat();
            if next == start {
                return Some(longer[1..].iter().map(|(_, why)| *why).collect());
            }
            if seen.insert(next) {
                ways.push(longer);
            }
        }
    }
    None
}

fn circles(sources: &Sources) -> Vec<String> {
    let mut found = Vec::new();
    for (folder, arrows) in sources.arrows() {
        let way = arrows.keys().find_map(|start| circle(&arrows, start));
        found.extend(way.map(|way| format!("in `{}`: {}", folder.join("::"), way.join(", "))));
    }
    found
}

#[test]
fn neighbours_depend_in_one_direction() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crates' folder");
    let mut wrong = Vec::new();
    for folder in fs::read_dir(crates).expect("the crates' folder") {
        let folder = folder.expect("an entry").path();
        let sources = Sources::read(&folder.join("src"));
        assert!(
            sources.0.contains_key(&Vec::new()),
            "{folder:?} has no root"
        );
        wrong.extend(
            circles(&sources)
                .into_iter()
                .map(|circle| format!("{}: {circle}", folder.display())),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn circles_are_found_also_behind_names_that_are_handed_on() {
    let module = |path: &str, text: &str| {
        let path = path
            .split("::")
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect();
        (path, declarations(text))
    };
    let mut sources = Sources(BTreeMap::from([
        module(
            "",
            "mod one;\nmod two;\npub use two::deep::{First, Second};",
        ),
        module(
            "one",
            "use crate::{\n    First, Other,\n};\n// use crate::two::Third;",
        ),
        module("two", "pub mod deep;\nuse super::one;"),
        module("two::deep", "use super::Declared;"),
    ]));
    let way = "in ``: one uses First, two uses one";
    assert_eq!(circles(&sources), [way]);
    sources
        .0
        .extend([module("two", "pub mod deep;\nuse std::one;")]);
    assert_eq!(circles(&sources), [""; 0]);
}
