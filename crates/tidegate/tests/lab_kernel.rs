//! What `tidegate lab kernel` refuses.

#![cfg(target_os = "linux")]

mod program;

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;

use program::{parts, run, tidegate};

/// Runs it as a user without rights: root becomes `nobody`, and other users stay what they are.
#[test]
fn comparing_with_the_kernel_needs_rights_and_says_so() {
    let mut command = tidegate(&["lab", "kernel", "--quiet", "--set", "duration=1s"]);
    if fs::metadata("/proc/self").expect("own process").uid() == 0 {
        // The user `nobody` may not run it from a build in root's folder.
        let program = fs::canonicalize(env!("CARGO_BIN_EXE_tidegate")).expect("the program");
        let shut =
            |folder: &Path| fs::metadata(folder).is_ok_and(|folder| folder.mode() & 0o001 == 0);
        if program.ancestors().skip(1).any(shut) {
            // Past the test harness.
            let test = "comparing_with_the_kernel_needs_rights_and_says_so";
            let why = "the build's folder is closed to others";
            writeln!(std::io::stderr(), "skipped {test}: {why}").expect("standard error");
            return;
        }
        command.uid(65_534).gid(65_534);
    }
    let (code, out, err) = parts(&command.output().expect("tidegate runs"));
    assert_eq!((code, out.as_str()), (3, ""), "{err}");
    assert!(
        err.contains("as root") || err.contains("/dev/net/tun is missing"),
        "{err}"
    );
}

#[test]
fn only_what_the_kernel_can_do_is_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("marked.toml");
    let marked = r#"duration = "1s"
element = [ { name = "gate", kind = "policer", rate = "4mbit", burst = "32kB" } ]
flow = [ { name = "download", rtt = "10ms", path = ["gate"], dscp = 8 } ]
"#;
    fs::write(&path, marked).expect("written");
    let (code, out, err) = run(&["lab", "kernel", path.to_str().expect("text")]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("only the virtual lab can do that"), "{err}");
}
