//! Every link of the documentation leads somewhere, and every page is in the book's index.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every tracked file whose name matches one of the patterns, relative to the root.
fn tracked(patterns: &[&str]) -> Vec<String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .args(patterns)
        .current_dir(root());
    let listed = git.output().expect("git runs");
    assert!(listed.status.success(), "git ls-files failed");
    let listed = String::from_utf8(listed.stdout).expect("names in UTF-8");
    listed
        .lines()
        .filter(|name| root().join(name).is_file())
        .map(str::to_owned)
        .collect()
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The text without fenced blocks and without inline code, in which nothing is a link.
fn without_code(text: &str) -> String {
    let mut fenced = false;
    let mut prose = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            prose.push_str(line);
        }
        prose.push('\n');
    }
    let outside = prose.split('`').step_by(2);
    outside.collect()
}

/// Where a page's links lead: `[text](target)` and `[name]: target`.
fn links(text: &str) -> Vec<String> {
    let prose = without_code(text);
    let inline = prose
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target);
    let named = prose
        .lines()
        .filter(|line| line.starts_with('['))
        .filter_map(|line| line.split_once("]: "))
        .map(|(_, target)| target)
        .filter(|target| !target.contains(' '));
    inline
        .chain(named)
        .map(|target| target.trim().to_owned())
        .collect()
}

/// The anchors that GitHub and mdBook give a page's headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut fenced = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        fenced ^= line.starts_with("```");
        if fenced || !line.starts_with('#') {
            continue;
        }
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let anchor: String = heading
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let again = (1..).map(|n| format!("{anchor}-{n}"));
        let name = std::iter::once(anchor.clone()).chain(again);
        found.extend(name.into_iter().find(|name| !found.contains(name)));
    }
    found
}

#[test]
fn every_relative_link_leads_somewhere() {
    let mut broken = String::new();
    for page in tracked(&["*.md"]) {
        let text = read(&page);
        for link in links(&text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let folder = Path::new(&page).parent().unwrap_or(Path::new(""));
            let target = if path.is_empty() {
                PathBuf::from(&page)
            } else {
                folder.join(path)
            };
            let there = root().join(&target);
            let found = there.exists()
                && (anchor.is_empty()
                    || std::fs::read_to_string(&there)
                        .is_ok_and(|text| anchors(&text).contains(anchor)));
            if !found {
                broken += &format!("{page}: {link}\n");
            }
        }
    }
    assert!(broken.is_empty(), "broken links:\n{broken}");
}

/// Help texts, comments and messages name pages as `docs/FOLDER/PAGE`.
#[test]
fn every_page_that_a_file_names_is_there() {
    let mut broken = String::new();
    let page = |c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c);
    for file in tracked(&[
        "*.rs",
        "*.toml",
        "*.h",
        "*.c",
        "*.md",
        "Makefile",
        "packaging",
    ]) {
        let text = read(&file);
        for (at, _) in text.match_indices("docs/") {
            let name = text[at..].split(|c| !page(c)).next().unwrap_or("");
            let end = name.find(".md").map(|end| end + ".md".len());
            let missing = end.is_some_and(|end| !root().join(&name[..end]).exists());
            if missing && !text[..at].ends_with(page) {
                broken += &format!("{file}: {name}\n");
            }
        }
    }
    assert!(broken.is_empty(), "pages that are not there:\n{broken}");
}

#[test]
fn every_page_is_in_the_index() {
    let index = links(&read("docs/SUMMARY.md"));
    for page in tracked(&["docs/*.md"]) {
        let name = page.trim_start_matches("docs/");
        assert!(
            name == "SUMMARY.md" || index.iter().any(|link| link == name),
            "{page} is missing in docs/SUMMARY.md"
        );
    }
}

/// Writes the files that a page shows behind `<!-- file: NAME -->` to a folder.
fn write_files(text: &str, folder: &Path) {
    for shown in text.split("<!-- file: ").skip(1) {
        let (name, rest) = shown.split_once(" -->").expect("a file's name");
        let (_, rest) = rest.split_once("```toml\n").expect("a file's text");
        let (text, _) = rest.split_once("```").expect("its end");
        std::fs::write(folder.join(name), text).expect("a file written");
    }
}

/// Whether the output has all of these lines, in order; `…` stands for any lines.
fn shows(output: &str, lines: &str) -> bool {
    let mut rest = output;
    lines.split("…\n").all(|part| {
        let found = rest.split_once(part);
        rest = found.map_or(rest, |(_, behind)| behind);
        found.is_some()
    })
}

/// Commands that need neither root nor a server are run as the page shows them.
#[test]
fn commands_print_what_the_pages_show() {
    let path = Path::new(env!("CARGO_BIN_EXE_tidegate"));
    let path = path.parent().expect("its folder").display();
    let path = format!("{path}:{}", std::env::var("PATH").unwrap_or_default());
    let mut run = 0;
    for page in tracked(&["README.md", "docs/*.md"]) {
        let text = read(&page);
        let folder = tempfile::tempdir().expect("a folder");
        std::os::unix::fs::symlink(root().join("corpus"), folder.path().join("corpus"))
            .expect("a link");
        write_files(&text, folder.path());
        let blocks = text.split("```console\n").skip(1);
        let blocks = blocks.filter_map(|rest| rest.split_once("```"));
        for command in blocks.flat_map(|(block, _)| block.split("$ ").skip(1)) {
            let (line, shown) = command.split_once('\n').expect("a line");
            let here = ["detect", "explain", "diagnose", "advise", "lab", "columns"];
            let verb = line.trim_start_matches("tidegate ").split(' ').next();
            if !verb.is_some_and(|verb| here.contains(&verb)) {
                continue;
            }
            let output = Command::new("sh")
                .args(["-ec", line])
                .env("PATH", &path)
                .current_dir(folder.path())
                .output()
                .expect("a shell");
            let output = String::from_utf8_lossy(&output.stdout);
            assert!(shows(&output, shown), "{page}: {line} prints\n{output}");
            run += 1;
        }
    }
    assert!(run >= 5, "{run} commands");
}

/// The map names files and folders in backticks.
#[test]
fn every_path_of_the_map_is_there() {
    let text = read("ARCHITECTURE.md");
    let named = text.split('`').skip(1).step_by(2);
    let ours = [
        "crates/",
        "studies",
        "docs",
        "fuzz",
        "bench",
        "corpus",
        "packaging",
    ];
    let named = named.filter(|name| ours.iter().any(|start| name.starts_with(start)));
    let missing: Vec<&str> = named.filter(|name| !root().join(name).exists()).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md names {missing:?}");
}
