//! Embeds the page of `tidegate web`, if `make web` built it before, and warns if its sources have changed since.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let mut files = Vec::new();
    if std::env::var_os("CARGO_FEATURE_WEB").is_some() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let page = root.join("crates/web/page/dist");
        // Not there where the crate was installed by itself. A path that does not exist would make every build do all again.
        if page.is_dir() {
            println!("cargo::rerun-if-changed={}", page.display());
            collect(&page, "", &mut files);
            if !files.iter().any(|(name, _)| name == "index.html") {
                files.clear();
            } else if let Some(change) = change(&root, &page) {
                println!(
                    "cargo::warning=the page of `tidegate web` is an old one: {change} since it was built. Run `make web` and build again"
                );
            }
        }
    }
    files.sort();
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

/// What has changed since the page was built, if anything has: `packaging/page` left the checksum, length and path of each source.
fn change(root: &Path, page: &Path) -> Option<String> {
    let Ok(sources) = fs::read_to_string(page.join(".sources")) else {
        return Some("this program was updated".to_owned());
    };
    let mut change = None;
    for line in sources.lines() {
        let mut words = line.splitn(3, ' ');
        let (Some(sum), Some(_), Some(path)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let bytes = fs::read(root.join(path));
        if bytes.is_ok() {
            println!("cargo::rerun-if-changed={}", root.join(path).display());
        }
        if change.is_none() && !bytes.is_ok_and(|bytes| cksum(&bytes).to_string() == sum) {
            change = Some(format!("{path} changed"));
        }
    }
    change
}

/// The checksum of `cksum` (POSIX): a CRC of the bytes and of their number.
fn cksum(bytes: &[u8]) -> u32 {
    let length = bytes.len().to_le_bytes();
    let used = length
        .iter()
        .rposition(|&byte| byte != 0)
        .map_or(0, |last| last + 1);
    let all = bytes.iter().chain(&length[..used]);
    !all.fold(0, |sum: u32, &byte| {
        (0..8).fold(sum ^ (u32::from(byte) << 24), |sum, _| {
            let carry = if sum >> 31 == 1 { 0x04c1_1db7 } else { 0 };
            (sum << 1) ^ carry
        })
    })
}
