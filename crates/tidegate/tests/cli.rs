//! The program as its users meet it: input, errors, exit codes, pipes.

mod captures;
mod program;

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use captures::capture;
use program::{parts, run, tidegate};

#[test]
fn colours_are_as_asked() {
    let coloured = |command: &mut Command| {
        let output = command.output().expect("tidegate runs");
        String::from_utf8_lossy(&output.stdout).contains('\u{1b}')
    };
    assert!(coloured(&mut tidegate(&[
        "detect",
        "--color",
        "always",
        &capture()
    ])));
    assert!(coloured(
        tidegate(&["detect", &capture()]).env("CLICOLOR_FORCE", "1")
    ));
    let forced = tidegate(&["detect", &capture()])
        .env("CLICOLOR_FORCE", "1")
        .env("NO_COLOR", "1")
        .output();
    assert!(!String::from_utf8_lossy(&forced.expect("runs").stdout).contains('\u{1b}'));
}

/// As when a log's disk is full.
#[test]
fn messages_that_cannot_be_written_end_nothing() {
    let full = || fs::File::options().write(true).open("/dev/full");
    let mut bad = tidegate(&["detect", "no-such-capture"]);
    let code = bad.stderr(full().expect("it is there")).status();
    assert_eq!(code.expect("tidegate runs").code(), Some(1));
    let sizes = ["lab", "run", "--set", "duration=1s"];
    let scenario =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/burst-control/behind.toml");
    let mut run = tidegate(&sizes);
    run.arg(scenario).stdout(Stdio::null());
    let code = run.stderr(full().expect("it is there")).status();
    assert_eq!(code.expect("tidegate runs").code(), Some(0));
}

#[test]
fn reads_standard_input_and_folders() {
    let bytes = fs::read(capture()).expect("the capture");
    let mut child = tidegate(&["detect", "-f", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("tidegate runs");
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(&bytes)
        .expect("written");
    let output = child.wait_with_output().expect("ends");
    let (code, piped, _) = parts(&output);
    assert_eq!(code, 0);
    assert_eq!(piped.lines().count(), 11);
    assert!(piped.lines().skip(1).all(|row| row.starts_with("-,")));

    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("in")).expect("a folder in it");
    fs::copy(capture(), folder.path().join("in/a.pcap.xz")).expect("copied");
    fs::write(folder.path().join("notes.txt"), "no capture").expect("written");
    let (code, out, err) = run(&["detect", "-f", "csv", folder.path().to_str().expect("text")]);
    assert_eq!((code, err.as_str(), out.lines().count()), (0, "", 11));
}

/// One line on standard error with file, offset and reason. Results of what came before are there.
#[test]
fn bad_input_is_reported_and_does_not_hide_the_good() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (_, whole, _) = run(&["detect", "-f", "csv", &capture()]);
    let compressed = fs::read(capture()).expect("the capture");
    fs::write(at("cut.pcap.xz"), &compressed[..compressed.len() / 2]).expect("written");
    fs::write(at("empty.pcap"), "").expect("written");
    fs::write(at("text.pcap"), "this is not a capture, it is a text").expect("written");

    for (name, reason) in [
        (
            "empty.pcap",
            "the input is empty: a capture has at least a header (at byte 0)",
        ),
        (
            "text.pcap",
            "not a packet capture: neither pcap nor pcapng (at byte 0)",
        ),
        ("missing.pcap", "No such file or directory"),
    ] {
        let (code, out, err) = run(&["detect", "-f", "csv", &at(name)]);
        assert_eq!(code, 1, "{name}");
        assert_eq!(err.lines().count(), 1, "{err}");
        assert!(
            err.starts_with(&format!("tidegate: {}: {reason}", at(name))),
            "{err}"
        );
        assert_eq!(out.lines().count(), 1, "only the header");
    }
    let (code, out, err) = run(&["detect", "-f", "csv", &at("cut.pcap.xz"), &capture()]);
    assert_eq!(code, 1);
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(err.contains("of the decompressed data"), "{err}");
    let (cut, good): (Vec<&str>, Vec<&str>) = out
        .lines()
        .skip(1)
        .partition(|row| row.contains("cut.pcap.xz"));
    assert!(!cut.is_empty(), "what was read of it");
    assert_eq!(
        good,
        whole.lines().skip(1).collect::<Vec<_>>(),
        "and all of the other"
    );
}

/// A path that cannot be read does not keep the others from being read.
#[test]
fn an_empty_folder_is_reported_and_the_rest_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().to_str().expect("text");
    let (code, out, err) = run(&["detect", "-f", "csv", empty, &capture()]);
    assert_eq!((code, out.lines().count()), (1, 11));
    assert!(err.contains("no captures in this folder"), "{err}");
}

#[test]
fn a_capture_is_never_written_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.pcap.xz");
    fs::copy(capture(), &path).expect("copied");
    let before = fs::read(&path).expect("the capture");
    let name = path.to_str().expect("text");
    for arguments in [
        &["detect", "-f", "csv", "-o", name, name][..],
        &["explain", name, "--svg", name],
    ] {
        let (code, _, err) = run(arguments);
        assert_eq!(code, 2, "{err}");
        assert_eq!(fs::read(&path).expect("the capture"), before);
    }
}

/// The file behind standard output is appended to, not replaced.
#[test]
fn output_to_dev_stdout_is_added() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    fs::write(&path, "before\n").expect("written");
    let log = fs::File::options()
        .append(true)
        .open(&path)
        .expect("opened");
    let mut command = tidegate(&["detect", "-f", "csv", "-o", "/dev/stdout", &capture()]);
    assert!(command.stdout(log).status().expect("runs").success());
    let text = fs::read_to_string(&path).expect("read");
    assert!(text.starts_with("before\nfile,flow,"), "{text:.40}");
    assert_eq!(text.lines().count(), 12);
}

/// A silent pipe does not keep the program from ending.
#[test]
fn a_silent_pipe_can_be_left() {
    let mut child = tidegate(&["detect", "-f", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tidegate runs");
    // The first bytes of a capture, and then nothing: it waits for more.
    let mut pipe = child.stdin.take().expect("a pipe");
    pipe.write_all(&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0])
        .expect("written");
    std::thread::sleep(std::time::Duration::from_millis(300));
    let id = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &id])
            .status()
            .expect("kill runs")
            .success()
    );
    let (code, _, err) = parts(&child.wait_with_output().expect("ends"));
    assert_eq!(code, 130, "{err}");
    drop(pipe);
}

#[test]
fn wrong_use_is_code_2() {
    for arguments in [
        &["detect", "--frmat", "csv"][..],
        &["detect", "--jobs", "0", "x.pcap"],
        &["detect", "--max-flows", "0", "x.pcap"],
        &["detect", "--playback-rate", "10", "x.pcap"],
        &["detect", "--summary", "-f", "csv", "x.pcap"],
        &["detect", "--detector", "oracle", "x.pcap"],
        &["detect", "--basis", "world", "x.pcap"],
        &["detect", "--follow", "x.pcap", "y.pcap"],
        &["detect", "-", "-"],
        &["explain", &capture(), "--flow", "7"],
        &["frobnicate"],
    ] {
        let (code, out, err) = run(arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}");
        assert!(!err.is_empty());
    }
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    for format in ["csv", "json", "jsonl", "parquet"] {
        let capture = capture();
        let mut child = tidegate(&["detect", "--by", "packet", "-f", format, &capture, &capture])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("tidegate runs");
        let mut first = [0; 2];
        child
            .stdout
            .take()
            .expect("a pipe")
            .read_exact(&mut first)
            .expect("the output begins");
        let output = child.wait_with_output().expect("ends");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{format}");
        assert_eq!(output.status.code(), Some(0), "{format}");
    }
}

#[test]
fn a_full_disk_is_reported() {
    if !Path::new("/dev/full").exists() {
        eprintln!("SKIPPED: no /dev/full here");
        return;
    }
    for arguments in [
        &["detect", "-f", "csv"][..],
        &["detect"],
        &["detect", "-f", "parquet"],
        &["detect", "--summary"],
        &["explain", "--no-svg"],
        &["explain", "--json"],
        &["diagnose"],
    ] {
        let full = fs::File::options()
            .write(true)
            .open("/dev/full")
            .expect("/dev/full");
        let output = tidegate(arguments)
            .arg(capture())
            .stdout(full)
            .output()
            .expect("runs");
        let (code, _, err) = parts(&output);
        assert_eq!(code, 1, "{arguments:?}");
        let told =
            "tidegate: cannot write to standard output: No space left on device (os error 28)";
        assert_eq!(err.trim_end(), told, "{arguments:?}");
    }
    let (code, _, err) = run(&["detect", "-f", "parquet", "-o", "/dev/full", &capture()]);
    let told = "tidegate: cannot write /dev/full: No space left on device (os error 28)";
    assert_eq!((code, err.trim_end()), (1, told));
}

#[test]
fn options_that_contradict_themselves_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().to_str().expect("text");
    let capture = capture();
    let cases = [
        (
            &["explain", folder][..],
            "is a directory: name a capture in it, or add --join",
        ),
        (&["explain", folder, "--flow", "0"], "is a directory"),
        (&["diagnose", folder], "is a directory"),
        (
            &["detect", "--idle-timeout", "0s", &capture],
            "--idle-timeout must be more than 0",
        ),
        (
            &["explain", "--max-flows", "0", &capture],
            "--max-flows must be at least 1",
        ),
        (
            &[
                "diagnose", &capture, &capture, "--svg", "x.svg", "--from", "5s", "--to", "1s",
            ],
            "--from must be before --to",
        ),
    ];
    for (arguments, told) in cases {
        let (code, out, err) = run(arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}");
        assert!(err.contains(told), "{err}");
    }
}

#[test]
fn a_port_that_no_flow_has_is_named() {
    let (code, out, _) = run(&["detect", "--port", "1", &capture()]);
    assert_eq!(code, 0);
    assert!(
        out.contains("1 capture, no flow with port 1 among 1 flow, "),
        "{out}"
    );
    let (_, out, _) = run(&["detect", "--port", "1234", "--summary", &capture()]);
    assert!(
        out.starts_with("1 capture, 1 of 1 flow with port 1234, "),
        "{out}"
    );
}

/// Ctrl-C while a capture still comes in: the results so far are reported.
#[test]
fn an_interrupted_run_reports_what_it_has() {
    let mut bytes = Vec::new();
    let decompressed = Command::new("xz").args(["-dc", &capture()]).output();
    match decompressed {
        Ok(output) if output.status.success() => bytes.extend(output.stdout),
        _ => {
            eprintln!("SKIPPED: no xz here");
            return;
        }
    }
    let mut child = tidegate(&["detect", "-f", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tidegate runs");
    let mut pipe = child.stdin.take().expect("a pipe");
    pipe.write_all(&bytes).expect("written");
    let id = child.id().to_string();
    let killed = Command::new("kill")
        .args(["-INT", &id])
        .status()
        .expect("kill runs");
    assert!(killed.success());
    // More must come for the reader to wake up.
    let _ = pipe.write_all(&bytes[24..]);
    drop(pipe);
    let (code, out, err) = parts(&child.wait_with_output().expect("ends"));
    assert_eq!(code, 130, "{err}");
    assert!(out.lines().count() > 1, "rows of what was read");
    assert!(err.contains("interrupted"), "{err}");
}

#[test]
fn help_completions_and_manual_pages() {
    let (code, help, _) = run(&["detect", "--help"]);
    assert_eq!(code, 0);
    assert!(
        help.contains("Examples:") && help.contains("Exit codes:"),
        "{help}"
    );
    for shell in ["bash", "zsh", "fish"] {
        let (code, script, _) = run(&["completions", shell]);
        assert!(
            code == 0 && script.contains("tidegate") && script.contains("explain"),
            "{shell}"
        );
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (code, _, _) = run(&["man", "--dir", folder.path().to_str().expect("text")]);
    assert_eq!(code, 0);
    for page in ["tidegate.1", "tidegate-detect.1", "tidegate-explain.1"] {
        let text = fs::read_to_string(folder.path().join(page)).expect(page);
        assert!(text.contains(".TH"), "{page}");
    }
}
