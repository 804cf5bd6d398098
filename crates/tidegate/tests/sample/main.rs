//! `tidegate sample`, as its users meet it.

#![cfg(target_os = "linux")]

#[path = "../program/mod.rs"]
mod program;
mod rows;
#[cfg(feature = "s3")]
mod s3;
mod support;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use program::{run, tidegate};
use support::{Sampler, complete, detected, pair, transfers};

#[test]
fn sampled_flows_are_read_by_detect() {
    let Some((server, client)) = pair("sampled_flows_are_read_by_detect") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let to = folder.path().join("to");
    fs::create_dir(&to).expect("a folder");
    let out = folder.path().join("out");
    let shipped = [
        "--fraction",
        "100%",
        "--to",
        to.to_str().expect("text"),
        "--metrics",
        "127.0.0.1:0",
    ];
    let mut sampler = Sampler::start(&server, &out, &shipped);
    transfers(&server, &client, 20, 200_000);
    let (_, address) = sampler.heard.split_once("http://").expect("an address");
    let address: SocketAddr = address
        .split_once('/')
        .expect("a path")
        .0
        .parse()
        .expect("an address");
    let metrics = server.enter(|| {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text).map(|_| text)
    });
    let metrics = metrics.expect("the namespace").expect("text");
    assert!(
        metrics.contains("\ntidegate_sample_share 1.0\n"),
        "{metrics}"
    );
    // Twice at once, as timeout(1) does: that is one request.
    sampler.signal("TERM");
    let (code, said) = sampler.end("TERM");
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("sampling 100 % of the flows on inside into"),
        "{said}"
    );
    assert!(said.contains(", 0 dropped by the kernel, "), "{said}");
    assert!(complete(&out).is_empty() && !complete(&to).is_empty());
    // Rows are of a direction with data: requests and responses.
    assert_eq!(detected(&to), 40);
}

#[test]
fn a_client_is_sampled_with_all_of_its_flows_or_not_at_all() {
    let Some((server, client)) = pair("a_client_is_sampled_with_all_of_its_flows_or_not_at_all")
    else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let mut found = [0; 2];
    for number in 0..8 {
        let key = folder.path().join("key");
        fs::write(&key, format!("{number:064x}")).expect("written");
        let out = folder.path().join(number.to_string());
        let key = key.to_str().expect("text");
        let by = [
            "--by",
            "client",
            "--fraction",
            "50%",
            "--key",
            key,
            "--client-net",
            "192.0.2.2",
        ];
        let sampler = Sampler::start(&server, &out, &by);
        transfers(&server, &client, 6, 1000);
        assert_eq!(sampler.end("INT").0, Some(0));
        let flows = match complete(&out)[..] {
            [] => 0,
            _ => detected(&out),
        };
        assert!(flows == 0 || flows == 12, "{flows}");
        found[usize::from(flows > 0)] += 1;
    }
    // With these keys; the chance of all alike would be 1 in 128.
    assert!(found[0] > 0 && found[1] > 0, "{found:?}");
}

#[test]
fn a_killed_sampler_leaves_no_half_file_under_a_final_name() {
    let Some((server, client)) = pair("a_killed_sampler_leaves_no_half_file_under_a_final_name")
    else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let many = ["--fraction", "1", "--rotate", "1kB"];
    for kill in [true, true, false] {
        let mut sampler = Sampler::start(&server, folder.path(), &many);
        transfers(&server, &client, 400, 1000);
        sampler.until("packets");
        sampler.end(if kill { "KILL" } else { "TERM" });
        let files = complete(folder.path());
        assert!(!files.is_empty());
        for file in files {
            let (code, _, problems) = run(&["detect", file.to_str().expect("text")]);
            assert_eq!((code, problems), (0, String::new()), "{}", file.display());
        }
    }
    // The last one recovered what the others left.
    let parts = fs::read_dir(folder.path())
        .expect("a folder")
        .filter(|entry| {
            let name = entry.as_ref().expect("an entry").file_name();
            name.to_string_lossy().ends_with(".part")
        });
    assert_eq!(parts.count(), 0);
}

/// The end of a run reports what could not be written, and so does the exit code.
#[test]
fn a_disk_without_space_is_a_failure() {
    let Some((server, client)) = pair("a_disk_without_space_is_a_failure") else {
        return;
    };
    let disk = Path::new("/run/full");
    let made = server
        .enter(|| fs::create_dir(disk))
        .expect("the namespace");
    made.expect("a folder");
    server
        .run("mount", "-t tmpfs -o size=4k tmpfs /run/full")
        .expect("mounted");
    let sampler = Sampler::start(&server, disk, &["--fraction", "1"]);
    transfers(&server, &client, 400, 1000);
    let (code, said) = sampler.end("TERM");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("packets are lost in all"), "{said}");
}

#[test]
fn a_full_disk_and_a_budget_cost_the_oldest_files() {
    let Some((server, client)) = pair("a_full_disk_and_a_budget_cost_the_oldest_files") else {
        return;
    };
    // A disk of this namespace alone.
    let disk = Path::new("/run/small");
    let made = server
        .enter(|| fs::create_dir(disk))
        .expect("the namespace");
    made.expect("a folder");
    server
        .run("mount", "-t tmpfs -o size=96k tmpfs /run/small")
        .expect("mounted");
    for more in [&[][..], &["--keep", "40kB"]] {
        let many = [&["--fraction", "1", "--rotate", "1kB"], more].concat();
        let mut sampler = Sampler::start(&server, disk, &many);
        for _ in 0..4 {
            transfers(&server, &client, 500, 1000);
        }
        sampler.until("to make room");
        let (code, said) = sampler.end("TERM");
        assert_eq!(code, Some(0), "{said}");
        assert!(!said.contains("packets are lost"), "{said}");
        let names = || {
            let files = complete(disk);
            let sizes = files
                .iter()
                .map(|file| fs::metadata(file).expect("a file").len());
            (sizes.sum::<u64>(), files)
        };
        let (bytes, files) = server.enter(names).expect("the namespace");
        assert!(!files.is_empty());
        assert!(more.is_empty() || bytes <= 40_000, "{bytes}");
        for file in files {
            let mut detect = tidegate(&["detect", file.to_str().expect("text")]);
            let output = server.output(&mut detect).expect("tidegate runs");
            assert_eq!(output.status.code(), Some(0), "{output:?}");
        }
    }
}

/// A user without any rights but those of the service, which it gives up at once.
#[test]
fn the_rights_of_the_service_are_enough() {
    let unit = include_str!("../../../../packaging/systemd/tidegate-sample@.service");
    let line = unit
        .lines()
        .find_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let names = line.expect("a bounding set");
    sample_with("the_rights_of_the_service_are_enough", names, "socket");
}

#[test]
fn at_traffic_control_other_rights_are_enough() {
    let rights = "CAP_NET_ADMIN CAP_BPF";
    sample_with("at_traffic_control_other_rights_are_enough", rights, "tc");
}

fn sample_with(test: &str, rights: &str, hook: &str) {
    let Some((server, client)) = pair(test) else {
        return;
    };
    let names = rights.split_whitespace();
    let rights = names.fold("-all".to_owned(), |rights, name| {
        rights + ",+" + &name.trim_start_matches("CAP_").to_lowercase()
    });
    // Where everybody can reach it, in the namespace alone.
    let program = env!("CARGO_BIN_EXE_tidegate");
    let made = server.enter(|| {
        fs::write("/run/program", "")?;
        fs::create_dir("/run/out")?;
        std::os::unix::fs::chown("/run/out", Some(65534), Some(65534))
    });
    made.expect("the namespace").expect("made");
    server
        .run("mount", &format!("--bind {program} /run/program"))
        .expect("mounted");
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args(
            ["--inh-caps", "--ambient-caps", "--bounding-set"].map(|set| format!("{set}={rights}")),
        )
        .args(["/run/program", "sample", "inside", "--out", "/run/out"])
        .args([
            "--by",
            "client",
            "--fraction",
            "1",
            "--client-net",
            "192.0.2.2",
            "--hook",
            hook,
        ])
        .stderr(Stdio::piped());
    let mut sampler = Sampler::run(&server, &mut command);
    let status = fs::read_to_string(format!("/proc/{}/status", sampler.process.child().id()));
    let status = status.expect("a process");
    for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
        assert!(
            status.contains(&format!("{set}:\t0000000000000000\n")),
            "{status}"
        );
    }
    transfers(&server, &client, 3, 1000);
    let (code, said) = sampler.end("TERM");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(", 0 dropped by the kernel, "), "{said}");
}

#[test]
fn what_cannot_be_sampled_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().to_str().expect("text");
    let sample = |arguments: &[&str]| run(&[&["sample"], arguments, &["--out", out]].concat());
    let (code, _, error) = sample(&["lo", "--fraction", "2"]);
    assert_eq!(code, 2);
    assert!(
        error.contains("'2' is not a share of flows: write 1%"),
        "{error}"
    );
    let (code, _, error) = sample(&["lo", "--rows", "dataset"]);
    assert_eq!(code, 2);
    assert!(error.contains("cannot be used with"), "{error}");
    let (code, _, error) = run(&["sample", "lo", "--rows", out, "--to", "there"]);
    assert_eq!(code, 2);
    assert!(error.contains("cannot be used with"), "{error}");
    let (code, _, error) = sample(&["lo", "--client-net", "192.0.2.0/24"]);
    assert_eq!(code, 2);
    assert!(error.contains("add --by client"), "{error}");
    let (code, _, error) = sample(&["lo", "--addresses", "pseudonym"]);
    assert_eq!(code, 2);
    assert!(error.contains("needs --key"), "{error}");
    let (code, _, error) = sample(&["lo", "--metrics", "0.0.0.0:9105"]);
    assert_eq!(code, 2);
    assert!(error.contains("of this machine only"), "{error}");
    for (option, value, reason) in [
        ("--rotate", "1B", "headers and no packets"),
        ("--rotate", "-1", "'-1'"),
        ("--fraction", "-1%", "not a share of flows"),
        ("--every", "-1s", "invalid value '-1s'"),
        ("--ring", "0B", "at least 1MiB"),
        ("--ring", "1025MiB", "at most 1GiB"),
        ("--client-net", "10.0.0.1/8", "did you mean 10.0.0.0/8?"),
        (
            "--to",
            "/no/such/folder",
            "there is no folder /no/such/folder",
        ),
        ("--to", out, "is the folder of --out"),
        ("--asn", "networks.mmdb", "cannot be used with"),
        ("--detector", "pd", "cannot be used with"),
    ] {
        let (code, _, error) = sample(&["lo", option, value]);
        assert_eq!(code, 2, "{error}");
        assert!(error.contains(reason), "{error}");
        assert!(!error.contains("to pass"), "{error}");
    }
    let (code, _, error) = run(&["sample", "lo"]);
    assert_eq!(code, 2);
    assert!(error.contains("--out <DIR>|--rows <DIR>"), "{error}");
    let (code, _, error) = sample(&["lo", "--keep", "150MB"]);
    assert_eq!(code, 2);
    assert!(error.contains("at least twice --rotate"), "{error}");
    let key = folder.path().join("key");
    fs::write(&key, "secret").expect("written");
    let (code, _, error) = sample(&["lo", "--key", key.to_str().expect("text")]);
    assert_eq!(code, 2);
    assert!(error.contains("openssl rand -hex 32"), "{error}");
    // No advice to close what is no key.
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(folder.path(), open).expect("permissions");
    let (code, _, error) = sample(&["lo", "--key", out]);
    assert_eq!(code, 2);
    assert!(
        error.contains("cannot read") && !error.contains("chmod"),
        "{error}"
    );
    // Without rights this says so instead.
    let (code, _, error) = sample(&["no-such-device"]);
    assert_eq!(code, 3);
    assert!(
        error.contains("no interface no-such-device") || error.contains("CAP_NET_RAW"),
        "{error}"
    );
}
