//! Replays the inputs that the fuzzer is seeded with, and those that once failed, through the same
//! checks, without the fuzzer.

use std::fs;
use std::path::{Path, PathBuf};

#[path = "../../../fuzz/src/lib.rs"]
mod targets;

fn replay(target: &str, body: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let mut inputs: Vec<PathBuf> = fs::read_dir(&folder)
        .expect("the target's folder of kept inputs")
        .map(|entry| entry.expect("an input").path())
        .collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "nothing in {}", folder.display());
    for input in inputs {
        // The harness shows this if the body panics.
        println!("{}", input.display());
        body(&fs::read(&input).expect("an input"));
    }
}

#[test]
fn read() {
    replay("read", targets::read);
}

#[test]
fn wire() {
    replay("wire", targets::wire);
}

#[test]
fn analyse() {
    replay("analyse", targets::analyse);
}

#[test]
fn packets() {
    replay("packets", targets::packets);
}

#[test]
fn pair() {
    replay("pair", targets::pair);
}

#[test]
fn rate() {
    replay("rate", targets::rate);
}

#[test]
fn router() {
    replay("router", targets::router);
}

#[test]
fn har() {
    replay("har", targets::har);
}

#[test]
fn scenario() {
    replay("scenario", targets::scenario);
}

#[test]
fn phantom() {
    replay("phantom", targets::phantom);
}

#[test]
fn gate() {
    replay("gate", targets::gate);
}

#[test]
fn media() {
    replay("media", targets::media);
}
