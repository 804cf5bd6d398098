//! Plays the packetdrill scripts of Linux's TCP against the lab's. `TIDEGATE_PACKETDRILL` names the folder with them.
//!
//! `score.txt` has how each script ends. `UPDATE_EXPECT=1` writes it.

mod amended;
mod assertion;
#[cfg(target_os = "linux")]
mod kernel;
mod lab;
mod player;
mod script;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use amended::amended;
#[cfg(target_os = "linux")]
use kernel::Kernel;
use lab::Lab;
use player::{End, play};
#[cfg(target_os = "linux")]
use tidegate_testbed::{TestbedError, namespace::Namespace};

/// All scripts below a folder, by their names.
fn scripts(folder: &Path, below: &Path, found: &mut BTreeMap<String, PathBuf>) {
    for entry in fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry"))
    {
        let path = entry.path();
        if path.is_dir() {
            scripts(&path, below, found);
        } else if path.extension().is_some_and(|end| end == "pkt") {
            let name = path
                .strip_prefix(below)
                .expect("below it")
                .to_string_lossy();
            found.insert(name.trim_end_matches(".pkt").to_owned(), path);
        }
    }
}

/// The scripts of `TIDEGATE_PACKETDRILL` by their names. Without it, it says that the test is skipped.
fn texts(test: &str) -> Option<BTreeMap<String, String>> {
    let Some(folder) = std::env::var_os("TIDEGATE_PACKETDRILL") else {
        let line = format!("skipped {test}: TIDEGATE_PACKETDRILL is not set\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
        return None;
    };
    let below = Path::new(&folder).join("gtests/net/tcp");
    let mut found = BTreeMap::new();
    scripts(&below, &below, &mut found);
    let read = |path: PathBuf| fs::read(path).expect("a script");
    let text = |path| String::from_utf8_lossy(&read(path)).into_owned();
    Some((found.into_iter().map(|(name, path)| (name, text(path)))).collect())
}

#[test]
fn scripts_of_linux_end_as_in_the_score() {
    let Some(texts) = texts("scripts_of_linux_end_as_in_the_score") else {
        return;
    };
    let mut counts = [0; 4];
    let mut score = String::new();
    for (name, text) in texts {
        let (kind, end) = match play(&text, Lab::new) {
            End::Passed => (0, "passed".to_owned()),
            End::Failed(line, what) => {
                let failed = format!("failed in line {line}: {what}");
                match amended(&name, &text) {
                    Some((change, text)) if play(&text, Lab::new) == End::Passed => {
                        (1, format!("passed, amended for {change} ({failed})"))
                    }
                    _ => (2, failed),
                }
            }
            End::NotApplicable(what) => (3, format!("not applicable: {what}")),
        };
        counts[kind] += 1;
        let _ = writeln!(score, "{name}: {end}");
    }
    let [passed, amended, failed, not] = counts;
    let _ = writeln!(
        score,
        "\n{passed} passed, {amended} passed amended, {failed} failed, {not} not applicable"
    );
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packetdrill/score.txt");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&file, &score).expect("written");
    }
    let expected = fs::read_to_string(&file).expect("the score");
    assert_eq!(score, expected, "UPDATE_EXPECT=1 writes the score");
}

/// The lab passes the scripts that this kernel passes, but one. Where a script is amended for a change of Linux, the lab
/// passes it so. Kernels before that change pass it as it was.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "in real time, as root"]
fn the_lab_passes_what_this_kernel_passes() {
    let test = "the_lab_passes_what_this_kernel_passes";
    let Some(texts) = texts(test) else {
        return;
    };
    match Namespace::new() {
        Err(TestbedError::Rights { .. } | TestbedError::NoTun) => {
            let line = format!("skipped {test}: needs root and /dev/net/tun\n");
            let _ = std::io::stderr().write_all(line.as_bytes());
            return;
        }
        namespace => drop(namespace.expect("a namespace")),
    }
    // Another attempt if the machine was busy elsewhere.
    let kernel = |text: &str| {
        let mut attempts = (0..3).map(|_| play(text, Kernel::new));
        let last = attempts.try_fold(End::Passed, |_, end| match end {
            End::Passed => Err(end),
            end => Ok(end),
        });
        last.unwrap_or_else(|passed| passed)
    };
    let (mut both, mut otherwise) = (0, Vec::new());
    for (name, text) in texts {
        let lab = play(&text, Lab::new);
        if matches!(lab, End::NotApplicable(_)) {
            continue;
        }
        let end = kernel(&text);
        if end != lab {
            println!("{name}: the lab {lab:?}, the kernel {end:?}");
        }
        both += usize::from(lab == End::Passed && end == End::Passed);
        let mut right = lab == End::Passed || end != End::Passed;
        if let Some((change, text)) = amended(&name, &text) {
            let [lab, after] = [play(&text, Lab::new), kernel(&text)];
            println!("{name}, {change}: the lab {lab:?}, the kernel {after:?}, before {end:?}");
            both += usize::from(after == End::Passed);
            right = lab == End::Passed;
        }
        if !right {
            otherwise.push(name);
        }
    }
    otherwise.retain(|name| name != "fast_recovery/prr-ss-ack-below-snd_una-cubic");
    assert!(otherwise.is_empty(), "{otherwise:?}");
    // 39 with Linux 6.18.44. A busy machine may be too late for some.
    assert!(both >= 25, "only {both}");
}

/// A script in few lines, to test the runner without the others.
const SMALL: &str = "\
`../common/defaults.sh`
    0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
   +0 listen(3, 1) = 0
   +0 < S 0:0(0) win 32792 <mss 1000,sackOK,nop,nop,nop,wscale 7> // a client
   +0 > S. 0:0(0) ack 1 <mss 1460,nop,nop,sackOK,nop,wscale 8>
  +.1 < . 1:1(0) ack 1 win 257
   +0 write(4, ..., 2000) = 2000
   +0 > P. 1:2001(2000) ack 1
   +0 %{ assert tcpi_snd_cwnd == 10, tcpi_snd_cwnd }%
  +.1 < . 1:1(0) ack 2001 win 257
   +0 %{ assert 0 <= tcpi_unacked < 1 }%
";

#[test]
fn a_script_passes_and_each_change_of_it_fails() {
    assert_eq!(play(SMALL, Lab::new), End::Passed);
    for (from, to, line, what) in [
        ("1:2001(2000)", "1:3001(3000)", 8, "is not sent"),
        ("+0 > P.", "+.2 > P.", 8, "too early"),
        ("== 10", "== 11", 9, "here 10"),
        ("< 1 }%", "< 0 }%", 11, "here 0"),
    ] {
        let End::Failed(at, reason) = play(&SMALL.replace(from, to), Lab::new) else {
            panic!("{to}");
        };
        assert!(
            at == line && reason.contains(what),
            "{to}: line {at}: {reason}"
        );
    }
    for (from, to, what) in [
        ("write(4", "splice(4", "the call splice"),
        ("tcpi_unacked", "tcpi_advmss", "tcpi_advmss of tcp_info"),
        (
            "defaults.sh",
            "defaults.sh\nsysctl -q net.ipv4.tcp_x=1",
            "the setting tcp_x",
        ),
    ] {
        let end = play(&SMALL.replace(from, to), Lab::new);
        assert_eq!(end, End::NotApplicable(what.to_owned()));
    }
}
