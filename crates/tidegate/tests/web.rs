//! `tidegate web`: what it serves, and to whom.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

struct Server {
    process: Child,
    port: u16,
    /// What follows the # in the printed address.
    view: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    fn start(page: &Path) -> Self {
        Self::with(page, &[])
    }

    fn with(page: &Path, options: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["web", "--quiet", "--port", "0", "--page"])
            .arg(page)
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut line = String::new();
        let out = process.stdout.take().expect("its output");
        BufReader::new(out)
            .read_line(&mut line)
            .expect("an address");
        let address = line.trim().strip_prefix("http://127.0.0.1:");
        let (port, view) = address
            .and_then(|rest| rest.split_once('/'))
            .expect("a port");
        Self {
            process,
            port: port.parse().expect("a port"),
            view: view.to_owned(),
        }
    }

    /// What requests for captures carry.
    fn key(&self) -> &str {
        self.view.strip_prefix("#key=").expect("a key")
    }

    /// The whole answer to a request for a path with these lines in its head.
    fn ask(&self, request: &str, head: &[String]) -> String {
        self.ask_with(request, head, "")
    }

    fn ask_with(&self, request: &str, head: &[String], body: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        let head = head.join("\r\n");
        write!(
            stream,
            "{request} HTTP/1.1\r\n{head}\r\nConnection: close\r\n\r\n{body}"
        )
        .expect("sent");
        let longest = Some(Duration::from_secs(60));
        stream.set_read_timeout(longest).expect("a time");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn get(&self, path: &str) -> String {
        self.ask(&format!("GET {path}"), &[self.host("127.0.0.1")])
    }

    /// The captures that are listed, by their names.
    fn listed(&self) -> BTreeMap<String, u64> {
        let (status, body) = self.api("GET /api/captures", "");
        assert_eq!(status, "200");
        let list: Value = serde_json::from_str(&body).expect("JSON");
        let list = list["captures"].as_array().expect("a list").iter();
        list.map(|one| {
            let number = one["number"].as_u64().expect("a number");
            (one["name"].as_str().expect("a name").to_owned(), number)
        })
        .collect()
    }

    /// What the list of captures leaves out.
    fn left_out(&self) -> Value {
        let (_, body) = self.api("GET /api/captures", "");
        let list: Value = serde_json::from_str(&body).expect("JSON");
        list["left_out"].clone()
    }

    /// Asks with the key: the status and the body.
    fn api(&self, request: &str, body: &str) -> (String, String) {
        let head = [
            self.host("127.0.0.1"),
            format!("Authorization: Bearer {}", self.key()),
            format!("Content-Length: {}", body.len()),
        ];
        let answer = self.ask_with(request, &head, body);
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        (
            head.split(' ').nth(1).expect("a status").to_owned(),
            body.to_owned(),
        )
    }

    fn host(&self, name: &str) -> String {
        format!("Host: {name}:{}", self.port)
    }
}

fn page() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("assets")).expect("a folder");
    fs::write(folder.path().join("index.html"), "<p>the page").expect("a file");
    fs::write(folder.path().join("assets/a.wasm"), "engine").expect("a file");
    fs::write(folder.path().join(".hidden"), "secret").expect("a file");
    folder
}

#[test]
fn the_page_is_served_with_a_strict_policy() {
    let folder = page();
    let server = Server::start(folder.path());
    let index = server.get("/");
    assert!(
        index.starts_with("HTTP/1.1 200") && index.ends_with("<p>the page"),
        "{index}"
    );
    for part in [
        "content-security-policy: default-src 'none'; script-src 'self' 'wasm-unsafe-eval';",
        "frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "cross-origin-resource-policy: same-origin",
    ] {
        assert!(index.contains(part), "{part}: {index}");
    }
    let engine = server.get("/assets/a.wasm");
    assert!(engine.contains("content-type: application/wasm") && engine.ends_with("engine"));
}

#[test]
fn other_hosts_and_pages_are_refused() {
    let folder = page();
    let server = Server::start(folder.path());
    let (ours, port) = (server.host("localhost"), server.port);
    let ask = |head: &[String]| server.ask("GET /", head);
    let origin = |text: &str| format!("Origin: {text}");
    assert!(ask(std::slice::from_ref(&ours)).starts_with("HTTP/1.1 200"));
    let same = origin(&format!("http://localhost:{port}"));
    let fetch = |site: &str, mode: &str| {
        vec![
            ours.clone(),
            format!("Sec-Fetch-Site: {site}"),
            format!("Sec-Fetch-Mode: {mode}"),
        ]
    };
    for head in [
        vec![ours.clone(), same],
        fetch("same-origin", "cors"),
        fetch("none", "navigate"),
        // A link on another page.
        fetch("cross-site", "navigate"),
    ] {
        assert!(ask(&head).starts_with("HTTP/1.1 200"), "{head:?}");
    }
    for head in [
        vec![server.host("rebound.example")],
        vec!["Host: 127.0.0.1".to_owned()],
        vec![server.host("127.0.0.1"), server.host("rebound.example")],
        vec![ours.clone(), origin("http://other.example")],
        vec![ours.clone(), origin("null")],
        // A script or a picture of ours in another page, which has no origin.
        fetch("cross-site", "no-cors"),
        fetch("same-site", "no-cors"),
        vec![ours.clone(), origin(&format!("https://localhost:{port}"))],
    ] {
        let answer = ask(&head);
        let refused = answer.starts_with("HTTP/1.1 403") || answer.starts_with("HTTP/1.1 400");
        assert!(refused, "{head:?}: {answer}");
        assert!(!answer.contains("the page"), "{head:?}: {answer}");
    }
}

#[test]
fn only_the_pages_files_are_read() {
    let folder = page();
    std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link")).expect("a link");
    let server = Server::start(folder.path());
    for path in [
        "/.hidden",
        "/link",
        "/../index.html",
        "/%2e%2e/etc/passwd",
        "/etc/passwd",
        "//etc/passwd",
    ] {
        let answer = server.get(path);
        assert!(answer.starts_with("HTTP/1.1 404"), "{path}: {answer}");
    }
    let posted = server.ask("POST /", &[server.host("localhost")]);
    assert!(posted.starts_with("HTTP/1.1 405"), "{posted}");
}

/// A gate's API that answers each request with what it was asked.
fn echo(path: &Path) {
    let listener = UnixListener::bind(path).expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut request = [0; 1024];
            let count = stream.read(&mut request).expect("a request");
            let text = String::from_utf8_lossy(&request[..count]);
            let head = text.replace("\r\n", "|");
            write!(stream, "HTTP/1.0 200 OK\r\nA: b\r\n\r\n<{head}>").expect("answered");
        }
    });
}

#[test]
fn a_gate_is_asked_only_with_the_key_and_changed_only_where_that_was_allowed() {
    let folder = page();
    let socket = folder.path().join("api.sock");
    let token = folder.path().join("token");
    fs::write(&token, "its-token-of-16-letters\n").expect("a file");
    echo(&socket);
    let gate = format!("unix:{}", socket.display());
    let page = page();
    let options = ["--gate", &gate, "--gate-token", &token.to_string_lossy()].map(str::to_owned);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    for changes in [false, true] {
        let mut options = options.clone();
        options.extend(changes.then_some("--gate-change"));
        let server = Server::with(page.path(), &options);
        let key = server.view.strip_prefix("#view=gate&key=").expect("a key");
        assert_eq!(key.len(), 32);
        let ask = |request: &str, key: &str| {
            let head = [
                server.host("localhost"),
                format!("Authorization: Bearer {key}"),
            ];
            server.ask(request, &head)
        };
        let listed = ask("GET /gate/v1/subscribers?limit=5", key);
        assert!(
            listed.starts_with("HTTP/1.1 200")
                && listed.contains("<GET /v1/subscribers?limit=5 HTTP/1.0|Host: localhost|"),
            "{listed}"
        );
        assert!(listed.contains("Authorization: Bearer its-token-of-16-letters|"));
        let access = ask("GET /gate/access", key);
        let may = match changes {
            true => r#"{"change":true}"#,
            false => r#"{"change":false,"why":"start `tidegate web` with `--gate-change`"}"#,
        };
        assert!(access.ends_with(may), "{access}");
        let set = ask("PATCH /gate/v1/subscribers/alice", key);
        let status = if changes { "200" } else { "403" };
        assert!(set.starts_with(&format!("HTTP/1.1 {status}")), "{set}");
        for (request, key, status) in [
            ("GET /gate/v1/status", "", "401"),
            (
                "GET /gate/v1/status",
                "0123456789abcdef0123456789abcdef",
                "401",
            ),
            ("PATCH /gate/v1/subscribers/alice", "", "401"),
            ("POST /gate/v1/stop", key, "404"),
            ("GET /gate/metrics", key, "404"),
        ] {
            let answer = ask(request, key);
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status}")),
                "{request}: {answer}"
            );
            assert!(!answer.contains("<"), "{answer}");
        }
    }
}

#[test]
fn a_gate_that_does_not_answer_is_named_with_the_remedy() {
    let page = page();
    let server = Server::with(page.path(), &["--gate", "unix:/nowhere/api.sock"]);
    let key = server.view.strip_prefix("#view=gate&key=").expect("a key");
    let head = [
        server.host("localhost"),
        format!("Authorization: Bearer {key}"),
    ];
    let answer = server.ask("GET /gate/v1/status", &head);
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    assert!(
        answer.contains("unix:/nowhere/api.sock") && answer.contains("tidegate gate run"),
        "{answer}"
    );
}

#[test]
fn a_folder_without_a_page_is_named_with_the_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["web", "--port", "0", "--page"])
        .arg(folder.path())
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("make web"), "{said}");
}

fn corpus(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../corpus")
        .join(name)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// A folder with two captures in it and one beside it.
fn captures() -> (tempfile::TempDir, std::path::PathBuf) {
    let outer = tempfile::tempdir().expect("a folder");
    let folder = outer.path().join("captures");
    fs::create_dir_all(folder.join("more")).expect("a folder");
    let policed = corpus("policed-1500kbit/policed-1500kbit.pcap.xz");
    fs::copy(&policed, folder.join("a.pcap.xz")).expect("a copy");
    fs::copy(&policed, folder.join("more/b.pcap.xz")).expect("a copy");
    fs::copy(&policed, outer.path().join("secret.pcap.xz")).expect("a copy");
    fs::write(folder.join("notes.txt"), "no capture").expect("a file");
    (outer, folder)
}

#[test]
fn captures_of_folders_are_read_here() {
    let (page, (_outer, folder)) = (page(), captures());
    fs::write(page.path().join("index.html"), "<head></head>").expect("a file");
    let server = Server::with(page.path(), &[&text(&folder)]);
    assert!(
        server
            .get("/")
            .contains("name=\"tidegate-serves\" content=\"captures\"")
    );
    let listed = server.listed();
    let name = |end: &str| folder.join(end).display().to_string();
    let names: Vec<&String> = listed.keys().collect();
    assert_eq!(names, [&name("a.pcap.xz"), &name("more/b.pcap.xz")]);
    let number = listed[&name("more/b.pcap.xz")];
    let ask = |body: String| server.api("POST /api/desks/7", &body);
    let (status, report) = ask(format!(
        r#"{{"ask":"read","capture":{number},"name":"b.pcap.xz"}}"#
    ));
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!((status.as_str(), &report["transfers"]), ("200", &10.into()));
    let place = r#""flow":0,"segment":0,"from_client":false"#;
    let (_, story) = ask(format!(r#"{{"ask":"explain","capture":{number},{place}}}"#));
    let story: Value = serde_json::from_str(&story).expect("JSON");
    assert_eq!(story["verdict"], "policer");
    // Another page has a desk of its own, which has read nothing.
    let explain = format!(r#"{{"ask":"explain","capture":{number},{place}}}"#);
    let (status, why) = server.api("POST /api/desks/8", &explain);
    assert!(status == "422" && why.contains("open it first"), "{why}");
    // Bytes of the whole file were read, twice.
    let (_, read) = server.api("GET /api/desks/7", "");
    let size = fs::metadata(folder.join("a.pcap.xz"))
        .expect("a file")
        .len();
    assert_eq!(read, size.to_string());
    assert_eq!(server.api("DELETE /api/desks/7", "").0, "200");
    assert_eq!(ask(explain).0, "422");
}

#[test]
fn nothing_outside_of_the_folders_is_read() {
    let (page, (outer, folder)) = (page(), captures());
    let secret = outer.path().join("secret.pcap.xz");
    symlink(&secret, folder.join("link.pcap.xz")).expect("a link");
    symlink(outer.path(), folder.join("up")).expect("a link");
    let server = Server::with(page.path(), &[&text(&folder)]);
    let listed = server.listed();
    assert_eq!(listed.len(), 2, "{listed:?}");
    let read = |capture: &str| {
        let body = format!(r#"{{"ask":"read","capture":{capture},"name":"x"}}"#);
        server.api("POST /api/desks/1", &body)
    };
    for capture in ["2", "4294967295", "-1", "\"../secret.pcap.xz\"", "null"] {
        let (status, why) = read(capture);
        assert_eq!(status, "422", "{capture}: {why}");
    }
    // What was listed becomes a link, itself or a folder on the way to it.
    let number = |end: &str| listed[&folder.join(end).display().to_string()].to_string();
    fs::remove_file(folder.join("a.pcap.xz")).expect("removed");
    symlink(&secret, folder.join("a.pcap.xz")).expect("a link");
    fs::rename(folder.join("more"), outer.path().join("moved")).expect("moved");
    symlink(outer.path().join("moved"), folder.join("more")).expect("a link");
    for end in ["a.pcap.xz", "more/b.pcap.xz"] {
        let (status, why) = read(&number(end));
        assert_eq!(status, "422", "{end}: {why}");
    }
    // A pipe does not keep the server waiting.
    fs::remove_file(folder.join("a.pcap.xz")).expect("removed");
    let made = Command::new("mkfifo")
        .arg(folder.join("a.pcap.xz"))
        .status();
    assert!(made.expect("mkfifo").success());
    let (status, why) = read(&number("a.pcap.xz"));
    assert!(status == "422" && why.contains("not a file"), "{why}");
}

#[test]
fn captures_are_only_for_who_has_the_key_and_for_our_page() {
    let (page, (_outer, folder)) = (page(), captures());
    let server = Server::with(page.path(), &[&text(&folder)]);
    let key = format!("Authorization: Bearer {}", server.key());
    let ask = |request: &str, head: &[String]| server.ask(request, head);
    let refused = |head: &[String], status: &str| {
        for request in [
            "GET /api/captures",
            "POST /api/desks/1",
            "GET /api/desks/1",
            "DELETE /api/desks/1",
        ] {
            let answer = ask(request, head);
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status}")),
                "{head:?}: {answer}"
            );
            assert!(!answer.contains("a.pcap"), "{answer}");
        }
    };
    let ours = server.host("localhost");
    refused(std::slice::from_ref(&ours), "401");
    refused(&[ours.clone(), "Authorization: Bearer ".to_owned()], "401");
    refused(&[ours.clone(), format!("{key}0")], "401");
    refused(&[server.host("rebound.example"), key.clone()], "403");
    refused(
        &[ours, key, "Origin: http://other.example".to_owned()],
        "403",
    );
    // Without folders there is nothing to ask for.
    let plain = Server::start(page.path());
    assert!(plain.get("/api/captures").starts_with("HTTP/1.1 404"));
}

/// Files have the names, the units and the digits of the command line, whose columns are documented.
#[test]
fn the_table_is_saved_with_the_columns_of_detect() {
    let (page, capture) = (
        page(),
        text(&corpus("policed-1500kbit/policed-1500kbit.pcap.xz")),
    );
    let server = Server::with(page.path(), &[&capture]);
    server.listed();
    let ask = |body: &str| server.api("POST /api/desks/7", body).1;
    ask(r#"{"ask":"read","capture":0,"name":"a.pcap.xz"}"#);
    ask(r#"{"ask":"arrange","all":true}"#);
    let csv = ask(r#"{"ask":"csv"}"#);
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().expect("names");
    let lines: Vec<_> = lines.collect();
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["detect", "--quiet", "-f", "json", &capture])
        .output()
        .expect("the program starts");
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((lines.len(), rows.len()), (10, 10));
    for name in [
        "flow",
        "segment",
        "start_offset_s",
        "duration_s",
        "data_packets",
        "loss_rate",
        "goodput_bps",
        "rtt_median_ms",
        "verdict_confidence",
        "limit_rate_bps",
        "limit_depth_bytes",
    ] {
        let place = names.iter().position(|one| *one == name).expect(name);
        for (line, row) in lines.iter().zip(&rows) {
            let number = line[place].parse().ok();
            assert_eq!(number, row[name].as_f64(), "{name} of {line:?}");
        }
    }
}

#[test]
fn what_is_too_deep_to_be_listed_is_said() {
    let (page, (_outer, folder)) = (page(), captures());
    let down = |depth: usize| folder.join(vec!["d"; depth].join("/"));
    fs::create_dir_all(down(17)).expect("folders");
    for depth in [16, 17] {
        fs::write(down(depth).join("deep.pcap"), "").expect("a file");
    }
    let server = Server::with(page.path(), &[&text(&folder)]);
    let listed = server.listed();
    let has = |depth| listed.contains_key(&text(&down(depth).join("deep.pcap")));
    assert_eq!((listed.len(), has(16), has(17)), (3, true, false));
    let said = server.left_out()[0].as_str().expect("a text").to_owned();
    assert!(
        said.starts_with("1 folder is not looked into, below 16 others"),
        "{said}"
    );
    fs::remove_dir_all(down(1)).expect("removed");
    assert_eq!(server.left_out(), Value::Array(Vec::new()));
}

#[test]
fn a_single_capture_is_a_list_of_one() {
    let (page, (_outer, folder)) = (page(), captures());
    let server = Server::with(page.path(), &[&text(&folder.join("a.pcap.xz"))]);
    let name = folder.join("a.pcap.xz").display().to_string();
    assert_eq!(server.listed(), BTreeMap::from([(name, 0)]));
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["web", "--port", "0", "/nowhere", "--page"])
        .arg(page.path())
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("cannot open /nowhere") && output.status.code() == Some(1),
        "{said}"
    );
}

/// A server that reads a capture of terabytes: its packets are empty, and so is the file. And the connection of who asked.
fn endless() -> (tempfile::TempDir, Server, TcpStream) {
    let (folder, page) = (tempfile::tempdir().expect("a folder"), page());
    let path = folder.path().join("endless.pcap");
    let mut file = fs::File::create(&path).expect("a file");
    let header: [u32; 6] = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65535, 1];
    file.write_all(&header.map(u32::to_le_bytes).concat())
        .expect("written");
    file.set_len(4 << 40).expect("a file with a hole");
    let server = Server::with(page.path(), &[&text(&path)]);
    let number = server.listed()[&text(&path)];
    let body = format!(r#"{{"ask":"read","capture":{number},"name":"endless.pcap"}}"#);
    let mut asker = TcpStream::connect(("127.0.0.1", server.port)).expect("it listens");
    let (host, key, length) = (server.host("127.0.0.1"), server.key(), body.len());
    write!(
        asker,
        "POST /api/desks/1 HTTP/1.1\r\n{host}\r\nAuthorization: Bearer {key}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .expect("sent");
    until("it reads", || server.api("GET /api/desks/1", "").1 != "0");
    (folder, server, asker)
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}: not yet");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_signal_ends_the_server_while_it_reads() {
    for signal in [Signal::INT, Signal::TERM] {
        let (_folder, mut server, _asker) = endless();
        let process = Pid::from_child(&server.process);
        kill_process(process, signal).expect("a signal");
        let mut ended = None;
        until("it ends", || {
            ended = server.process.try_wait().expect("a state");
            ended.is_some()
        });
        assert_eq!(ended.and_then(|status| status.code()), Some(0));
    }
}

#[test]
fn a_capture_is_read_no_further_when_who_asked_is_gone() {
    let (_folder, server, asker) = endless();
    drop(asker);
    // Questions are answered one after the other.
    let columns = server.api("POST /api/desks/1", r#"{"ask":"columns"}"#);
    assert_eq!(columns.0, "200");
}
