//! The law of the house: which package may depend on which (see ARCHITECTURE.md).
//!
//! Read from `cargo metadata`, so that no dependency comes in unseen. Development dependencies
//! are bound by it too, but for the tests' own tools and what [`tested_with`] allows.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Each package's dependencies by name: (ours, others). Of ours, those of tests alone end in ` (dev)`.
type Packages = BTreeMap<String, (BTreeSet<String>, BTreeSet<String>)>;

/// What ends the name of a dependency of tests alone.
const DEV: &str = " (dev)";

fn packages() -> Packages {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    list(&metadata["packages"])
        .iter()
        .map(|package| {
            // Ours have a path and no registry.
            let (ours, others) = list(&package["dependencies"])
                .into_iter()
                .partition::<Vec<_>, _>(|dependency| dependency["source"].is_null());
            let names = |list: Vec<Value>| list.iter().map(|one| text(&one["name"])).collect();
            let marked = ours.iter().map(|one| match one["kind"].as_str() {
                Some("dev") => text(&one["name"]) + DEV,
                _ => text(&one["name"]),
            });
            (text(&package["name"]), (marked.collect(), names(others)))
        })
        .collect()
}

/// What of ours a package may depend on; `None`: on all.
fn allowed(package: &str) -> Option<&'static [&'static str]> {
    Some(match package {
        "tidegate-limiter" | "tidegate-table" | "tidegate-plot" => &[],
        "tidegate-sample" => &["tidegate-trace"],
        "tidegate-notation" | "tidegate-pace" => &["tidegate-limiter"],
        "tidegate-trace" | "tidegate-store" => &["tidegate-table"],
        "tidegate-gate" => &["tidegate-limiter", "tidegate-notation"],
        "tidegate-story" => &["tidegate-limiter", "tidegate-plot", "tidegate-trace"],
        "tidegate-dataset" => &["tidegate-store", "tidegate-table", "tidegate-trace"],
        // What a limit does is simulated; what is said of it is drawn.
        "tidegate-advise" => &["tidegate-lab", "tidegate-limiter", "tidegate-plot"],
        "tidegate-web" => &[
            "tidegate-lab",
            "tidegate-limiter",
            "tidegate-notation",
            "tidegate-story",
            "tidegate-table",
            "tidegate-trace",
        ],
        "tidegate-lab" => &[
            "tidegate-limiter",
            "tidegate-notation",
            "tidegate-table",
            "tidegate-trace",
        ],
        // What a testbed measures is reported in the lab's tables.
        "tidegate-testbed" => &[
            "tidegate-lab",
            "tidegate-limiter",
            "tidegate-table",
            "tidegate-trace",
        ],
        "tidegate-serve" => &["tidegate-limiter", "tidegate-pace"],
        "tidegate" | "tidegate-python" | "tidegate-studies" | "tidegate-bench" => return None,
        "tidegate-example" => &["tidegate-lab", "tidegate-plot"],
        other => panic!("{other} is new: give it a place in this law and in ARCHITECTURE.md"),
    })
}

/// What of ours its tests may use besides.
fn tested_with(package: &str) -> &'static [&'static str] {
    match package {
        // The kernel's verdicts on recorded captures.
        "tidegate-gate" => &["tidegate-trace", "tidegate-testbed"],
        "tidegate-lab" | "tidegate-pace" | "tidegate-serve" | "tidegate-sample" => {
            &["tidegate-testbed"]
        }
        _ => &[],
    }
}

#[test]
fn packages_depend_in_one_direction() {
    let packages = packages();
    assert!(packages.contains_key("tidegate"));
    for (package, (ours, _)) in &packages {
        let Some(allowed) = allowed(package) else {
            continue;
        };
        for dependency in ours {
            let tests = dependency.strip_suffix(DEV);
            assert!(
                allowed.contains(&tests.unwrap_or(dependency))
                    || tests.is_some_and(|name| tested_with(package).contains(&name)),
                "{package} must not depend on {dependency}"
            );
        }
    }
    // No crate depends on those that see all others.
    for (package, (ours, _)) in &packages {
        assert!(
            !ours
                .iter()
                .any(|name| name.trim_end_matches(DEV) == "tidegate"),
            "{package} depends on the binary"
        );
    }
}

#[test]
fn heavy_libraries_stay_where_they_belong() {
    let arrow = |name: &str| name == "parquet" || name.split('-').next() == Some("arrow");
    let network = |name: &str| {
        let family = name.split('-').next();
        matches!(family, Some("tokio" | "hyper" | "rustls"))
    };
    for (package, (_, others)) in packages() {
        let above_store = matches!(
            package.as_str(),
            "tidegate-store"
                | "tidegate-dataset"
                | "tidegate"
                | "tidegate-python"
                | "tidegate-studies"
                | "tidegate-bench"
        );
        let serves = matches!(package.as_str(), "tidegate-serve" | "tidegate");
        for dependency in others {
            assert!(
                above_store || !arrow(&dependency),
                "{package}: {dependency} belongs in the store and above"
            );
            assert!(
                serves || !network(&dependency),
                "{package}: {dependency} belongs in serve and the binary"
            );
        }
    }
}

#[test]
fn no_package_for_everything_else() {
    for package in packages().keys() {
        let name = package.trim_start_matches("tidegate-");
        let vague = [
            "common", "utils", "util", "shared", "core", "helpers", "misc",
        ];
        assert!(!vague.contains(&name), "{package}: say what it is for");
    }
}

#[test]
fn no_source_has_more_than_600_lines() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders: Vec<PathBuf> = ["crates", "python", "studies", "bench", "fuzz"]
        .map(|folder| root.join(folder))
        .into();
    let mut read = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() && !path.ends_with("target") && !path.ends_with("node_modules") {
                folders.push(path);
            } else if matches!(
                path.extension().and_then(OsStr::to_str),
                Some("rs" | "py" | "c" | "h" | "ts" | "tsx" | "mjs" | "css")
            ) {
                let lines = fs::read_to_string(&path).expect("a source").lines().count();
                assert!(lines <= 600, "{}: {lines} lines", path.display());
                read += 1;
            }
        }
    }
    assert!(read > 500, "{read} sources");
}
