//! `tidegate serve` and `tidegate play`, as their users meet them.

#![cfg(target_os = "linux")]

mod program;
#[path = "serve/signals.rs"]
mod signals;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};

use serde_json::Value;

use program::{run, tidegate};

/// A server of a folder with `v.mp4`, 20 s of 0.8 Mbit/s; it ends with the test.
struct Server {
    child: Child,
    err: BufReader<ChildStderr>,
    folder: tempfile::TempDir,
    url: String,
}

impl Server {
    fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let video = folder.path().join("v.mp4");
        let path = video.to_str().expect("text");
        let made = ["make-video", path, "--duration", "20s", "--rate", "800kbit"];
        assert_eq!(run(&made), (0, String::new(), String::new()));
        let served = folder.path().to_str().expect("text").to_owned();
        Self::of(&served, folder, arguments)
    }

    /// A server of what is at this path in the folder.
    fn of(served: &str, folder: tempfile::TempDir, arguments: &[&str]) -> Self {
        let mut child = tidegate(&["serve", served, "--listen", "127.0.0.1:0"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("tidegate runs");
        let mut err = BufReader::new(child.stderr.take().expect("piped"));
        // Remarks may come first, of what this machine does not have.
        let mut line = String::new();
        while !line.contains(": serving ") {
            line.clear();
            assert!(err.read_line(&mut line).expect("text") > 0, "it ended");
        }
        let url = line
            .split_whitespace()
            .find(|word| word.starts_with("http"))
            .expect("a URL");
        let url = format!("{}v.mp4", url.trim_end_matches(','));
        Self {
            child,
            err,
            folder,
            url,
        }
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let killed = Command::new("kill").args(["-s", name, &id]).status();
        assert!(killed.expect("kill runs").success());
    }

    /// Its exit code, log and messages, after a signal.
    fn end(mut self, signal: &str) -> (Option<i32>, String, String) {
        self.signal(signal);
        let status = self.child.wait().expect("it ends");
        let (mut log, mut messages) = (String::new(), String::new());
        let mut out = self.child.stdout.take().expect("piped");
        out.read_to_string(&mut log).expect("text");
        self.err.read_to_string(&mut messages).expect("text");
        (status.code(), log, messages)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn viewers_of_a_split_server() {
    let split =
        "--split=baseline1=application-64k,baseline2=application-64k,shrunk-block=application-16k";
    let server = Server::start(&[split, "--seed=3", "--start-up=10s", "--log-format=json"]);
    // 5 s of video are sent at full speed beyond what is watched; then 1 Mbit/s.
    let watch = [
        "--watch=4s",
        "--start-up=10s",
        "--format=json",
        "--viewers=12",
    ];
    let mut arguments = vec!["play", &server.url];
    arguments.extend(watch);
    let (code, out, err) = run(&arguments);
    assert_eq!((code, err.as_str()), (0, ""));
    let all: Value = serde_json::from_str(&out).expect("JSON");
    let viewers = all["viewers"].as_array().expect("a list");
    assert_eq!(viewers.len(), 12);
    for viewer in viewers {
        assert_eq!(viewer["ended"], "left", "{viewer}");
        assert_eq!(viewer["encoding_bits_per_second"], 800_000, "{viewer}");
        assert_eq!(viewer["rebufferings"], 0, "{viewer}");
        assert_eq!(viewer["length"], 2_000_000, "{viewer}");
        assert!(viewer["join_seconds"].as_f64().expect("a number") < 3.0);
        // 1 MB at once, and 125,000 bytes a second for not quite 4 s, in blocks.
        let bytes = viewer["bytes"].as_u64().expect("a number");
        assert!((1_200_000..=1_500_000).contains(&bytes), "{viewer}");
    }
    let groups = all["groups"].as_array().expect("a list");
    let names: Vec<&str> = groups
        .iter()
        .filter_map(|group| group["group"].as_str())
        .collect();
    assert_eq!(names, ["baseline1", "baseline2", "shrunk-block"], "{all}");
    let (code, log, messages) = server.end("TERM");
    assert_eq!(code, Some(0), "{messages}");
    // A line for each response, and one for each connection, with the viewers' ports.
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let of = |event: &str| lines.iter().filter(|line| line["event"] == event).count();
    assert_eq!((of("request"), of("connection")), (12, 12), "{log}");
    for line in lines.iter().filter(|line| line["event"] == "connection") {
        assert_eq!(line["ended"], "client left", "{line}");
        assert!(line["throttled_bytes"].as_u64() > Some(100_000), "{line}");
        let viewer = viewers.iter().find(|viewer| viewer["port"] == line["port"]);
        assert_eq!(viewer.expect("its viewer")["group"], line["group"]);
    }
}

#[test]
fn a_video_to_its_end_by_ranges() {
    let server = Server::start(&["--way=none", "--no-log"]);
    let (code, out, err) = run(&["play", &server.url, "--range=300kB", "-f", "csv"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let mut lines = out.lines();
    let names: Vec<&str> = lines.next().expect("names").split(',').collect();
    let values: Vec<&str> = lines.next().expect("values").split(',').collect();
    let value = |name: &str| values[names.iter().position(|one| *one == name).expect("a name")];
    assert_eq!(value("bytes"), "2000000");
    assert_eq!(value("ended"), "complete");
    assert_eq!(value("rebufferings"), "0");
    let (code, log, _) = server.end("INT");
    assert_eq!((code, log.as_str()), (Some(0), ""));
}

/// What the player says of itself, watching to the end.
fn played(url: &str, arguments: &[&str]) -> (i32, Value) {
    let (code, out, err) = run(&[&["play", url, "-f", "jsonl"], arguments].concat());
    assert_eq!(err, "", "{arguments:?}");
    (code, serde_json::from_str(&out).expect("JSON"))
}

#[test]
fn all_protocols_are_played() {
    let keys = tempfile::tempdir().expect("a folder");
    // Signed by itself, as `openssl req -x509` makes it: also to sign others.
    let made = || {
        let mut wanted = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).expect("a name");
        wanted.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().expect("a key");
        (wanted.self_signed(&key).expect("a certificate"), key)
    };
    let ((made, key), (another, _)) = (made(), made());
    let [cert, key, foreign] = [
        ("cert", made.pem()),
        ("key", key.serialize_pem()),
        ("foreign", another.pem()),
    ]
    .map(|(name, pem)| {
        let path = keys.path().join(name);
        fs::write(&path, pem).expect("written");
        path.into_os_string().into_string().expect("text")
    });
    let (cert, key, foreign) = (&cert[..], &key[..], &foreign[..]);
    let plain = Server::start(&["--way=none", "--no-log"]);
    let keys = ["--cert", cert, "--key", key, "--http3"];
    let secure = Server::start(&[&["--way=none", "--no-log"], &keys[..]].concat());
    assert!(secure.url.starts_with("https://"), "{}", secure.url);
    for (server, arguments, http) in [
        (&plain, &[][..], "1.1"),
        (&plain, &["--http=2"], "2"),
        (&plain, &["--http=2", "--range=300kB"], "2"),
        (&secure, &["--ca", cert], "2"),
        (&secure, &["--ca", cert, "--range=300kB"], "2"),
        (&secure, &["--ca", cert, "--http=1.1"], "1.1"),
        (&secure, &["--insecure", "--http=2"], "2"),
        (&secure, &["--ca", cert, "--http=3"], "3"),
        (&secure, &["--ca", cert, "--http=3", "--range=300kB"], "3"),
        (
            &secure,
            &["--insecure", "--http=3", "--from=127.0.0.3"],
            "3",
        ),
    ] {
        let (code, viewer) = played(&server.url, arguments);
        assert_eq!((code, &viewer["http"]), (0, &http.into()), "{viewer}");
        assert_eq!(viewer["bytes"], 2_000_000, "{viewer}");
        assert_eq!(viewer["ended"], "complete", "{viewer}");
    }
    // Whoever is not known is not trusted, and another name than the certificate's is not it.
    let other = secure.url.replace("127.0.0.1", "localhost");
    let https = plain.url.replace("http:", "https:");
    for (url, arguments, why) in [
        (
            &secure.url,
            &["--ca", foreign][..],
            "invalid peer certificate",
        ),
        (&other, &["--ca", cert], "not valid for name"),
        (&https, &["--insecure"], "no TLS with 127.0.0.1"),
        (
            &secure.url,
            &["--ca", foreign, "--http=3"],
            "invalid peer certificate",
        ),
        (&other, &["--ca", cert, "--http=3"], "not valid for name"),
    ] {
        let (code, viewer) = played(url, arguments);
        let error = viewer["error"].as_str().expect("text");
        assert!(code == 1 && error.contains(why), "{viewer}");
        assert!(viewer["port"].as_u64() > Some(0), "{viewer}");
    }
    let (code, viewer) = played(&https, &["--insecure", "--http=3", "--timeout=500ms"]);
    let error = viewer["error"].as_str().expect("text");
    assert!(code == 1 && error.contains("no QUIC"), "{viewer}");
    let (code, out, err) = run(&["play", &secure.url, "--ca", key]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("no certificate in PEM"), "{err}");
}

/// Played above the rate at which it is sent, the buffer runs empty.
#[test]
fn rebuffering_is_seen() {
    let server = Server::start(&["--way=application-16k", "--start-up=1s", "--no-log"]);
    // 100 kB at once and 125,000 bytes a second, played at 250,000 bytes a second.
    let played = ["--rate=2mbit", "--watch=3s", "--start=300ms", "-f", "jsonl"];
    let mut arguments = vec!["play", &server.url];
    arguments.extend(played);
    let (code, out, _) = run(&arguments);
    assert_eq!(code, 0);
    let viewer: Value = serde_json::from_str(&out).expect("JSON");
    assert!(viewer["rebufferings"].as_u64() >= Some(1), "{viewer}");
    assert!(
        viewer["rebuffering_per_second"].as_f64() > Some(0.2),
        "{viewer}"
    );
}

#[test]
fn a_report_that_cannot_be_written_is_told_before_anything_is_fetched() {
    let server = Server::start(&["--way=none", "--log=-"]);
    let (code, _, messages) = run(&["play", &server.url, "-q", "-o", "/none/report"]);
    assert_eq!(code, 1);
    assert!(messages.contains("/none/report"), "{messages}");
    let (_, log, _) = server.end("TERM");
    assert_eq!(log, "", "something was fetched");
}

#[test]
fn wrong_use_is_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("text");
    for (arguments, code, message) in [
        (
            &["serve", path, "--way=fast"][..],
            2,
            "'fast' is not a way to pace: use trickle",
        ),
        (
            &["serve", path, "--split=a=fast"],
            2,
            "'fast' is not a way to pace",
        ),
        (
            &["serve", path, "--split=a=none,a=application-16k"],
            2,
            "two groups of connections have the same name",
        ),
        (&["serve", path, "--percent=90"], 2, "90 is not in 100..="),
        (&["serve", path, "--cert=x"], 2, "--key"),
        (&["serve", "/none"], 1, "cannot serve /none"),
        (
            &["serve", path, "--listen=192.0.2.1:1", "--way=none"],
            1,
            "cannot listen on 192.0.2.1:1",
        ),
        (
            &["serve", path, "--cert=/none", "--key=/none"],
            1,
            "/none: cannot be read: No such file",
        ),
        (
            &["play", "https://localhost/v", "--ca=/none"],
            1,
            "/none: no certificate in PEM",
        ),
        (&["play", "v.mp4"], 2, "write http://HOST:PORT/PATH"),
        (
            &["play", "http://h/", "--arrivals=soon"],
            2,
            "write once, spread:30s or poisson:2/s",
        ),
        (&["play", "http://h:65617/v"], 2, "65617 is not a port"),
        (
            &["play", "http://h/v", "--timeout=0s"],
            2,
            "0 leaves no time",
        ),
        (
            &["play", "http://h/v", "--http=3"],
            2,
            "HTTP/3 needs a URL of https",
        ),
        (&["play", "http://127.0.0.1:1/v"], 1, ""),
    ] {
        let (got, out, err) = run(arguments);
        assert_eq!(got, code, "{arguments:?}: {err}");
        assert!(err.contains(message), "{arguments:?}: {err}");
        // A viewer that failed is a row of the report.
        assert_eq!(message.is_empty(), out.contains("cannot connect"), "{out}");
    }
}

#[test]
fn what_it_made_is_found_again() {
    let server = Server::start(&["--way=none", "--index", "--log=/dev/null"]);
    let path = server.folder.path();
    for (name, layout) in [("w.webm", "webm"), ("f.mp4", "mp4-fragmented")] {
        let file = path.join(name);
        let made = [
            "make-video",
            file.to_str().expect("text"),
            "--layout",
            layout,
        ];
        let (code, _, err) = run(&[&made[..], &["--size=100kB", "--duration=4s"]].concat());
        assert_eq!(code, 0, "{err}");
        assert_eq!(fs::metadata(&file).expect("a file").len(), 100_000);
        let url = server.url.replace("v.mp4", name);
        let (code, out, err) = run(&["play", &url, "-f", "jsonl"]);
        assert_eq!(code, 0, "{err}");
        let viewer: Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(viewer["encoding_bits_per_second"], 200_000, "{viewer}");
    }
    // Headers behind the data, and no headers: the server states the rate.
    let last = path.join("l.mp4");
    let made = [
        "make-video",
        last.to_str().expect("text"),
        "--layout=mp4-headers-last",
    ];
    assert_eq!(run(&[&made[..], &["--size=3MB"]].concat()).0, 0);
    fs::write(path.join("bare.ts"), vec![0; 200_000]).expect("written");
    fs::write(path.join("bare.ts.rate"), "400kbit").expect("written");
    for (name, rate) in [("l.mp4", 400_000), ("bare.ts", 400_000)] {
        let (code, viewer) = played(&server.url.replace("v.mp4", name), &[]);
        assert_eq!(
            (code, &viewer["encoding_bits_per_second"]),
            (0, &rate.into()),
            "{viewer}"
        );
    }
    fs::write(path.join("none.ts"), vec![0; 200_000]).expect("written");
    let url = server.url.replace("v.mp4", "none.ts");
    let (code, out, _) = run(&["play", &url]);
    assert_eq!(code, 1);
    assert!(out.contains("give --rate"), "{out}");
    assert_eq!(run(&["play", &url, "--rate=1mbit"]).0, 0);
}

/// A show of 10 segments of 2 s in two renditions, as HLS and as DASH.
fn show(root: &std::path::Path) {
    let mut list = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n".to_owned();
    for number in 1..=10 {
        list += &format!("#EXTINF:2.0,\n{number:02}.ts\n");
    }
    list += "#EXT-X-ENDLIST\n";
    for (rate, bytes) in [("low", 50_000), ("high", 200_000)] {
        let folder = root.join(rate);
        fs::create_dir(&folder).expect("a folder");
        fs::write(folder.join("list.m3u8"), &list).expect("written");
        for number in 1..=10 {
            fs::write(folder.join(format!("{number:02}.ts")), vec![0; bytes]).expect("written");
        }
    }
    let master = "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=800000\nhigh/list.m3u8
#EXT-X-STREAM-INF:BANDWIDTH=200000\nlow/list.m3u8\n";
    fs::write(root.join("all.m3u8"), master).expect("written");
    let description = r#"<MPD mediaPresentationDuration="PT20S"><Period><AdaptationSet>
<SegmentTemplate duration="2" media="$RepresentationID$/$Number%02d$.ts"/>
<Representation id="low" bandwidth="200000"/><Representation id="high" bandwidth="800000"/>
</AdaptationSet></Period></MPD>"#;
    fs::write(root.join("all.mpd"), description).expect("written");
}

#[test]
fn adaptive_video_is_played_in_the_rendition_that_comes_in_time() {
    // At full speed the player changes to the better rendition after its first segment.
    let server = Server::start(&["--way=none", "--no-log"]);
    show(server.folder.path());
    for manifest in ["all.m3u8", "all.mpd"] {
        let (code, viewer) = played(&server.url.replace("v.mp4", manifest), &[]);
        assert_eq!(
            (code, &viewer["ended"]),
            (0, &"complete".into()),
            "{viewer}"
        );
        assert_eq!(viewer["bytes"], 50_000 + 9 * 200_000, "{viewer}");
        assert_eq!(viewer["switches"], 1, "{viewer}");
        assert_eq!(viewer["encoding_bits_per_second"], 740_000, "{viewer}");
        assert_eq!(viewer["rebufferings"], 0, "{viewer}");
    }
    // It fetches ahead only as far as its buffer goes.
    let few = ["--buffer=4s", "--watch=3s"];
    let (code, viewer) = played(&server.url.replace("v.mp4", "all.m3u8"), &few);
    assert_eq!((code, &viewer["ended"]), (0, &"left".into()), "{viewer}");
    let bytes = viewer["bytes"].as_u64().expect("a number");
    assert!((250_000..=1_050_000).contains(&bytes), "{viewer}");
    // A server that sends no more than the low rendition and a half keeps it there.
    let slow = [
        "--way=application-16k",
        "--start-up=0s",
        "--rate=1mbit",
        "--no-log",
    ];
    let server = Server::start(&slow);
    show(server.folder.path());
    for rate in ["low", "high"] {
        for number in 1..=10 {
            let beside = server
                .folder
                .path()
                .join(format!("{rate}/{number:02}.ts.rate"));
            fs::write(beside, "240kbit").expect("written");
        }
    }
    let (code, viewer) = played(&server.url.replace("v.mp4", "all.mpd"), &["--watch=8s"]);
    assert_eq!((code, &viewer["switches"]), (0, &0.into()), "{viewer}");
    assert_eq!(viewer["encoding_bits_per_second"], 200_000, "{viewer}");
    // What is no manifest, and one that leads nowhere.
    fs::write(server.folder.path().join("bad.m3u8"), "no").expect("written");
    for (name, why) in [("bad.m3u8", "cannot be read"), ("none.mpd", "404")] {
        let (code, viewer) = played(&server.url.replace("v.mp4", name), &[]);
        let error = viewer["error"].as_str().expect("text");
        assert!(code == 1 && error.contains(why), "{viewer}");
    }
}

/// What serves needs no privileges, once all is open.
#[test]
fn privileges_are_given_up() {
    let server = Server::start(&["--no-log"]);
    assert_eq!(run(&["play", &server.url, "--watch=1s"]).0, 0);
    let tasks = format!("/proc/{}/task", server.child.id());
    let mut threads = 0;
    for task in fs::read_dir(tasks).expect("its threads") {
        let status = task.expect("a thread").path().join("status");
        // A thread may be gone meanwhile.
        let Ok(status) = fs::read_to_string(status) else {
            continue;
        };
        for line in [
            "CapEff:\t0000000000000000\n",
            "CapPrm:\t0000000000000000\n",
            "NoNewPrivs:\t1\n",
        ] {
            assert!(status.contains(line), "{status}");
        }
        threads += 1;
    }
    assert!(threads > 1);
}

/// Messages have no colours if standard error is no terminal. With few file descriptors the server takes few connections.
#[test]
fn messages_are_plain_and_files_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = env!("CARGO_BIN_EXE_tidegate");
    let script = format!(
        "ulimit -n 1024; exec {program} serve {} --listen 127.0.0.1:0 --no-log",
        folder.path().display()
    );
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .env("RUST_LOG", "tidegate_serve=debug")
        .stderr(Stdio::piped())
        .spawn()
        .expect("sh runs");
    let mut err = BufReader::new(child.stderr.take().expect("piped"));
    let (mut all, mut line) = (String::new(), String::new());
    while !line.contains(": serving ") {
        line.clear();
        assert!(
            err.read_line(&mut line).expect("text") > 0,
            "it ended: {all}"
        );
        all.push_str(&line);
    }
    let url = line
        .split_whitespace()
        .find(|word| word.starts_with("http://"));
    let address = url.expect("a URL").trim_start_matches("http://");
    let mut socket =
        std::net::TcpStream::connect(address.trim_end_matches("/,")).expect("it listens");
    std::io::Write::write_all(&mut socket, b"nonsense\r\n\r\n").expect("sent");
    let _ = socket.read_to_end(&mut Vec::new());
    let id = child.id().to_string();
    let killed = Command::new("kill").arg(&id).status();
    assert!(killed.expect("kill runs").success());
    child.wait().expect("it ends");
    err.read_to_string(&mut all).expect("text");
    assert!(
        all.contains("1024 files may be open, which is enough for 137 connections"),
        "{all}"
    );
    assert!(
        all.contains("DEBUG tidegate_serve") && !all.contains('\u{1b}'),
        "{all}"
    );
}
