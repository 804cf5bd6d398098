//! Embeds the page of `tidegate web`, if `make web` built it before.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let mut files = Vec::new();
    if std::env::var_os("CARGO_FEATURE_WEB").is_some() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../web/page/dist");
        // Not there where the crate was installed by itself. A path that does not exist would make every build do all again.
        if page.is_dir() {
            println!("cargo::rerun-if-changed={}", page.display());
            collect(&page, "", &mut files);
        }
    }
    files.sort();
    if !files.iter().any(|(name, _)| name == "index.html") {
        files.clear();
    }
    let mut source = "pub const FILES: &[(&str, &[u8])] = &[\n".to_owned();
    for (name, path) in files {
        let path = path.canonicalize().expect("the page's files exist");
        writeln!(source, "    ({name:?}, include_bytes!({path:?})),").expect("memory");
    }
    source.push_str("];\n");
    let out = std::env::var_os("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&out).join("page.rs"), source).expect("the output folder can be written");
}

/// The files of a folder, with their names from the page's folder on. Hidden ones are left out.
fn collect(folder: &Path, before: &str, files: &mut Vec<(String, PathBuf)>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            collect(&path, &format!("{before}{name}/"), files);
        } else {
            files.push((format!("{before}{name}"), path));
        }
    }
}
