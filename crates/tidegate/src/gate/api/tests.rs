mod absent;
mod addresses;
mod flows;
mod tls;
mod usage;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::access::{Access, Token, guarded};
use super::*;
use crate::gate::testing::{self, Fake};

/// A daemon's API, on a Unix socket unless it says otherwise, which ends with it.
struct Running {
    api: Api,
    /// Of the socket.
    folder: tempfile::TempDir,
    /// Of the events.
    _files: tempfile::TempDir,
    end: watch::Sender<bool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    fn new(fake: Fake, access: Access) -> Self {
        Self::new_with(fake, access, Keeper::open(None).expect("no file"))
    }

    fn new_with(fake: Fake, access: Access, keeper: Keeper) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let address = tidegate_gate::config::Listen::Unix(folder.path().join("s"));
        let socket = listen::open(&address, None, None).expect("open");
        let mut running = Self::on_with(socket, fake, access, Vec::new(), keeper);
        running.folder = folder;
        running
    }

    fn on(
        socket: listen::Socket,
        fake: Fake,
        access: Access,
        certificates: Vec<Certificate>,
    ) -> Self {
        let keeper = Keeper::open(None).expect("no file");
        Self::on_with(socket, fake, access, certificates, keeper)
    }

    fn on_with(
        socket: listen::Socket,
        fake: Fake,
        access: Access,
        certificates: Vec<Certificate>,
        keeper: Keeper,
    ) -> Self {
        let (folder, files) = (tempfile::tempdir(), tempfile::tempdir());
        let (folder, files) = (folder.expect("a folder"), files.expect("a folder"));
        let (end, ended) = watch::channel(false);
        let bounds = Bounds {
            subscribers: 5,
            queues: 5,
        };
        let gate = Arc::new(SharedGate::new(Box::new(fake)));
        let api = Api {
            gate,
            bounds,
            keeper: Arc::new(keeper),
            events: Arc::new(Events::new(Some(&files.path().join("events")))),
            certificates: certificates.into(),
            pair: None,
            stands_by: None,
            end: Arc::default(),
        };
        let router = guarded(router(api.clone()), access);
        let thread = testing::serving(socket, router, ended);
        Self {
            api,
            folder,
            _files: files,
            end,
            thread: Some(thread),
        }
    }

    fn connect(&self) -> UnixStream {
        UnixStream::connect(self.folder.path().join("s")).expect("connected")
    }

    /// Status and body of the answer to these bytes.
    fn raw(&self, request: &str) -> (u16, String) {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
        let status = head.split(' ').nth(1).expect("a status");
        (status.parse().expect("a number"), body.to_owned())
    }

    fn with(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, Value) {
        let length = body.len();
        let (status, body) = self.raw(&format!(
            "{method} {path} HTTP/1.1\r\nHost: gate\r\nConnection: close\r\n{headers}\
             Content-Length: {length}\r\n\r\n{body}"
        ));
        let body = serde_json::from_str(&body).unwrap_or(Value::String(body));
        (status, body)
    }

    fn get(&self, path: &str) -> (u16, Value) {
        self.with("GET", path, "", "")
    }

    fn patch(&self, path: &str, body: &str) -> (u16, Value) {
        self.with("PATCH", path, "Content-Type: application/json\r\n", body)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.end.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn running(subscribers: u32) -> Running {
    Running::new(Fake::new(subscribers), Access::Anybody)
}

#[test]
fn every_route_is_in_the_description_and_nothing_else() {
    let text = serde_json::to_value(openapi()).expect("JSON");
    let mut described = BTreeSet::new();
    for (path, methods) in text["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            described.insert((method.clone(), path.clone()));
            assert!(operation["summary"].is_string(), "{method} {path}");
        }
    }
    let routed = ROUTES
        .iter()
        .map(|route| (route.method.as_str().to_lowercase(), route.path.to_owned()));
    assert_eq!(described, routed.collect());

    // Each is there under its method.
    let gate = running(1);
    for route in ROUTES {
        let path = route
            .path
            .replace("{name}", "s000000")
            .replace("{address}", "vlan%201");
        let method = route.method.as_str();
        let (status, body) = gate.with(method, &path, "", "");
        let error = body["error"].as_str().unwrap_or("");
        let known = status != 405 && !error.starts_with("there is no path");
        assert!(known, "{method} {path}: {body}");
        let (status, body) = gate.with("BREW", &path, "", "");
        assert_eq!(status, 405, "{path}");
        assert!(body["error"].is_string(), "{body}");
    }
    assert_eq!(gate.get("/openapi.json").1, text);
}

#[test]
fn tells_the_whole_and_pages_of_subscribers() {
    let gate = running(250);
    let (status, whole) = gate.get("/v1/status");
    assert_eq!(status, 200);
    assert_eq!(whole["subscribers"], 250);
    assert_eq!(whole["attachments"][0]["hook"], "tc-egress");
    assert_eq!(whole["down"]["passed_bytes"], 31_375_000_000_u64);

    let mut names = Vec::new();
    let mut path = "/v1/subscribers".to_owned();
    loop {
        let (status, page) = gate.get(&path);
        assert_eq!(status, 200);
        assert_eq!(page["matched"], 250);
        let subscribers = page["subscribers"].as_array().expect("a list");
        names.extend(subscribers.iter().map(|one| one["name"].clone()));
        let Some(next) = page["next"].as_str() else {
            break;
        };
        path = format!("/v1/subscribers?after={next}");
    }
    assert_eq!(names.len(), 250);
    assert!(
        names
            .windows(2)
            .all(|two| two[0].as_str() < two[1].as_str())
    );

    let (_, page) = gate.get("/v1/subscribers?name=s00001&plan=basic&limit=2");
    assert_eq!(page["matched"], 5);
    assert_eq!(page["subscribers"][1]["name"], "s000013");
    assert_eq!(page["subscribers"][1]["down"]["rate"], 50_000_000);
    assert_eq!(page["next"], "s000013");
    assert_eq!(gate.get("/v1/subscribers?set=true").1["matched"], 0);
    let number = "and must be a number from 1 to 10000";
    for (bad, reason) in [
        ("limit=0", number),
        ("limit=10001", number),
        ("limit=x", number),
        ("set=1", "set is `1`: write true or false"),
        (
            "sort=name",
            "the query has an unknown parameter `sort`, did you mean `set`?",
        ),
    ] {
        let (status, body) = gate.get(&format!("/v1/subscribers?{bad}"));
        assert_eq!(status, 400, "{bad}");
        let text = body["error"].as_str().expect("a reason");
        assert!(text.contains(reason), "{text}");
    }
}

#[test]
fn answers_keep_their_form() {
    let gate = running(1);
    let counted = |n: u64| {
        json!({ "passed_packets": n, "passed_bytes": 1000 * n,
            "excess_packets": n / 10, "excess_bytes": 100 * n, "marked_packets": n / 50 })
    };
    let trips = |p50: f64, p95: f64| json!({ "p50_ms": p50, "p95_ms": p95, "lately": 100, "measured": 500 });
    let line = json!({
        "score": 77.8, "access": trips(20.0, 60.0), "core": trips(8.0, 350.0),
        "down": { "segments": 1000, "again": 30, "again_share": 0.03 },
        "up": { "segments": 0, "again": 0, "again_share": null },
    });
    let status = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "file": "/etc/tidegate/gate.toml",
        "attachments": [{ "interface": "eth0", "hook": "tc-egress", "direction": "down", "attached": true }],
        "plans": 2, "subscribers": 1, "set": 0, "shadow": false, "unsettled": false, "line": line,
        "down": counted(1000), "up": counted(0),
        "unlimited": [{ "reason": "no_subscriber", "packets": 7 }, { "reason": "malformed", "packets": 0 }],
    });
    // How old the counters are depends on when they are asked for.
    let without_age = |path: &str| {
        let mut answer = gate.get(path).1;
        let age = answer
            .as_object_mut()
            .and_then(|fields| fields.remove("age_s"));
        assert!(
            age.and_then(|age| age.as_f64())
                .is_some_and(|age| age >= 0.0)
        );
        answer
    };
    assert_eq!(without_age("/v1/status"), status);
    let limited = |rate: u64, counted: Value| {
        let mut limited = counted;
        limited["rate"] = rate.into();
        limited
    };
    let mut subscriber = json!({
        "name": "s000000", "plan": "gold", "set": false, "suspended": false, "moved": false, "turn": null, "matches": ["vlan 1"], "from": [], "line": line,
        "down": limited(50_000_000, counted(1000)), "up": limited(10_000_000, counted(0)),
    });
    let page = json!({ "matched": 1, "subscribers": [subscriber], "next": null });
    assert_eq!(without_age("/v1/subscribers"), page);
    let queue = |length: u64, magic: u64, passed: u64| json!({ "length": length, "magic": magic, "passed_bytes": passed, "excess_bytes": 1 });
    for (direction, limiter) in [("down", 0), ("up", 1)] {
        let queues = [(3000, 1000), (500, 500), (0, 0)];
        let queues = queues.map(|(length, magic)| queue(length, magic, limiter));
        let rate = subscriber[direction]["rate"].as_u64().expect("a rate");
        subscriber[direction] = limited(
            rate,
            json!({ "passed_packets": 1, "passed_bytes": 1000,
            "excess_packets": 0, "excess_bytes": 100, "marked_packets": 0, "queues": queues }),
        );
    }
    assert_eq!(gate.get("/v1/subscribers/s000000").1, subscriber);
    let reloaded = json!({
        "added": 0, "removed": 0, "limited": 0, "moved": 0, "unchanged": 1, "reset": [],
        "attached": [], "detached": [], "missing": [], "settings": false, "skipped_lines": 0, "skipped": [],
    });
    assert_eq!(gate.with("POST", "/v1/reload", "", "").1, reloaded);
}

#[test]
fn sets_and_resets_one_subscriber() {
    let gate = running(2);
    let path = "/v1/subscribers/s000001";
    let (status, one) = gate.get(path);
    assert_eq!((status, &one["plan"]), (200, &json!("basic")));
    assert_eq!(one["down"]["queues"][0]["magic"], 1000);

    let (status, one) = gate.patch(path, r#"{"plan": "gold", "down": "20 Mbit/s"}"#);
    assert_eq!(status, 200);
    assert_eq!((&one["plan"], &one["set"]), (&json!("gold"), &json!(true)));
    assert_eq!(one["down"]["rate"], 20_000_000);
    assert_eq!(one["up"]["rate"], 10_000_000);
    assert_eq!(gate.get("/v1/subscribers?set=true").1["matched"], 1);

    let bad = [
        (r#"{"plan": "lead"}"#, "there is no plan 'lead'"),
        (
            r#"{"reset": true, "plan": "lead"}"#,
            "there is no plan 'lead'",
        ),
        (r#"{"down": "20"}"#, "down: '20' has no known unit"),
        (r#"{}"#, "nothing to change"),
        (
            r#"{"rate": "20mbit"}"#,
            "the body has an unknown key `rate`: there are reset, plan, down, up",
        ),
        (
            r#"{"dwn": "20mbit"}"#,
            "unknown key `dwn`, did you mean `down`?",
        ),
        (
            r#"{"down": 20}"#,
            r#"`down` is a number: write a text in quotes, such as "50mbit""#,
        ),
        (
            r#"{"reset": "yes"}"#,
            "`reset` is a text: write true or false",
        ),
        (
            "[]",
            r#"the body is a list: send an object, such as {"down": "50mbit"}"#,
        ),
    ];
    for (body, reason) in bad {
        let (status, answer) = gate.patch(path, body);
        assert_eq!(status, 422, "{body}");
        let text = answer["error"].as_str().expect("a reason");
        assert!(text.contains(reason), "{text}");
        assert_eq!(gate.get(path).1["plan"], "gold");
    }
    let (_, one) = gate.patch(path, r#"{"reset": true, "up": "3mbit"}"#);
    assert_eq!(
        (&one["plan"], &one["up"]["rate"]),
        (&json!("basic"), &json!(3_000_000))
    );
    let (status, answer) = gate.patch(path, r#"{"plan": "gold" "down": "1mbit"}"#);
    assert_eq!(status, 400);
    assert_eq!(
        answer["error"],
        "the body is not JSON at line 1 column 17: check quotes, commas and brackets up to there"
    );
    assert_eq!(gate.with("PATCH", path, "", "{}").0, 415);
    assert_eq!(gate.patch(path, &" ".repeat(BODY + 1)).0, 413);
    let (status, answer) = gate.patch("/v1/subscribers/bob", r#"{"plan": "gold"}"#);
    assert_eq!(status, 404);
    assert_eq!(answer["error"], "there is no subscriber `bob`");

    let (status, one) = gate.with("DELETE", &format!("{path}/set"), "", "");
    assert_eq!((status, &one["set"]), (200, &json!(false)));
}

#[test]
fn changes_everything_of_a_subscriber() {
    let gate = running(3);
    let path = "/v1/subscribers/s000001";
    let body = r#"{"suspended": true, "assign": ["192.0.2.8-192.0.2.9", "pppoe 5"], "release": ["vlan 2"]}"#;
    let (status, one) = gate.patch(path, body);
    assert_eq!((status, &one["suspended"]), (200, &json!(true)));
    assert_eq!(one["matches"], json!(["192.0.2.8/31", "pppoe 5"]));
    let body = r#"{"keys": {"boost": "10MB", "policy": {"hosts": [4, 4]}}}"#;
    let (status, one) = gate.patch(path, body);
    let keys = json!({"boost": "10MB", "policy": {"hosts": [4, 4]}});
    assert_eq!((status, &one["keys"]), (200, &keys));
    let (status, error) = gate.patch(path, r#"{"keys": {"quota": "1GB"}}"#);
    assert_eq!(status, 422);
    let text = error["error"].as_str().expect("a text");
    assert!(text.contains("add [usage]"), "{text}");
    let (_, one) = gate.patch(path, r#"{"suspended": false, "qinq": ["100.200"]}"#);
    assert_eq!(
        (&one["suspended"], &one["matches"]),
        (&json!(false), &json!(["qinq 100.200"]))
    );
    for (body, reason) in [
        (
            r#"{"addresses": "192.0.2.1"}"#,
            "`addresses` is a text: write a list of texts, such as [\"192.0.2.1\"]",
        ),
        (r#"{"assign": [7]}"#, "`assign` is a number: write a list"),
        (r#"{"vlan": ["4095"]}"#, "vlan: '4095' is not a VLAN tag"),
        (r#"{"release": ["192.0.2.300"]}"#, "release: "),
        (
            r#"{"keys": ["quota"]}"#,
            "`keys` is a list: write an object, such as {\"quota\": \"500GB\"}",
        ),
        (
            r#"{"suspended": "no"}"#,
            "`suspended` is a text: write true or false",
        ),
    ] {
        let (status, answer) = gate.patch(path, body);
        let text = answer["error"].as_str().expect("a reason");
        assert!(status == 422 && text.contains(reason), "{text}");
    }
}

#[test]
fn events_tell_who_changed_what() {
    let gate = running(2);
    gate.patch("/v1/subscribers/s000001", r#"{"down": "20mbit"}"#);
    gate.patch("/v1/subscribers/s000000", r#"{"suspended": true}"#);
    gate.with("DELETE", "/v1/addresses/vlan%201", "", "");
    gate.with("POST", "/v1/reload", "", "");
    let (status, events) = gate.get("/v1/events");
    let events = events.as_array().expect("a list");
    let told: Vec<_> = events
        .iter()
        .map(|one| (&one["event"], &one["subscriber"]))
        .collect();
    let (set, first, second) = (json!("set"), json!("s000000"), json!("s000001"));
    let last = (&json!("reload"), &Value::Null);
    assert_eq!(
        (status, told),
        (
            200,
            vec![(&set, &second), (&set, &first), (&set, &first), last]
        )
    );
    assert_eq!(events[2]["addresses"], json!(["vlan 1 released"]));
    let by = events[0]["by"].as_str().expect("who");
    assert!(by.starts_with("uid "), "{by}");
    let (_, events) = gate.get("/v1/events?subscriber=s000000&limit=1");
    assert_eq!(events.as_array().map(Vec::len), Some(1));
    assert_eq!(gate.get("/v1/events?limit=0").0, 400);
}

#[test]
fn a_name_may_hold_anything() {
    let mut fake = Fake::new(1);
    Arc::make_mut(&mut fake.roster).subscribers[0].name = "Dr. Ö/7 ?".into();
    let gate = Running::new(fake, Access::Anybody);
    let (status, one) = gate.get("/v1/subscribers/Dr.%20%C3%96%2F7%20%3F");
    assert_eq!((status, &one["name"]), (200, &json!("Dr. Ö/7 ?")));
    assert_eq!(gate.get("/v1/subscribers/%FF").0, 400);
}

#[test]
fn reloads_and_says_why_not() {
    let gate = running(3);
    let (status, body) = gate.with("POST", "/v1/reload", "", "");
    assert_eq!((status, &body["unchanged"]), (200, &json!(3)));
    let mut fake = Fake::new(3);
    fake.reload = Err("gate.toml:3:5: there is no key 'rat'");
    let gate = Running::new(fake, Access::Anybody);
    let (status, body) = gate.with("POST", "/v1/reload", "", "");
    assert_eq!(status, 422);
    assert_eq!(body["error"], "gate.toml:3:5: there is no key 'rat'");
    let (status, body) = gate.get("/metrics");
    assert_eq!(status, 200);
    let text = body.as_str().expect("text");
    assert!(text.contains(r#"tidegate_gate_reloads_total{result="failed"} 1"#));
}

#[test]
fn only_who_knows_the_token_is_answered() {
    let gate = Running::new(
        Fake::new(1),
        Access::Token(Token::new("0123456789abcdef"), None),
    );
    let with = |value: &str| {
        let header = format!("Authorization: {value}\r\n");
        gate.with("GET", "/v1/status", &header, "").0
    };
    assert_eq!(with("Bearer 0123456789abcdef"), 200);
    assert_eq!(with("bearer  0123456789abcdef"), 200);
    for wrong in [
        "Bearer 0123456789abcdeF",
        "Bearer 0123456789abcde",
        "Bearer 0123456789abcdef0",
        "Bearer",
        "Basic 0123456789abcdef",
    ] {
        assert_eq!(with(wrong), 401, "{wrong}");
    }
    for path in ["/v1/status", "/metrics", "/openapi.json", "/nowhere"] {
        let (status, body) = gate.get(path);
        assert_eq!(status, 401, "{path}");
        assert!(body["error"].is_string());
    }
}

#[test]
fn pages_of_a_browser_are_not_answered_on_loopback() {
    let gate = Running::new(Fake::new(1), Access::Local);
    let ask = |host: &str, more: &str| {
        gate.raw(&format!(
            "GET /v1/status HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n"
        ))
        .0
    };
    for host in [
        "127.0.0.1:9642",
        "localhost:9642",
        "localhost",
        "[::1]:9642",
        "[::1]",
    ] {
        assert_eq!(ask(host, ""), 200, "{host}");
    }
    for host in [
        "evil.example:9642",
        "evil.example",
        "192.0.2.1",
        "127.0.0.1.evil.example",
    ] {
        assert_eq!(ask(host, ""), 403, "{host}");
    }
    assert_eq!(
        ask("127.0.0.1:9642", "Origin: http://evil.example\r\n"),
        403
    );
}

#[test]
fn what_is_no_http_is_closed_and_others_are_served() {
    let gate = running(1);
    let idle: Vec<UnixStream> = (0..10).map(|_| gate.connect()).collect();
    let mut noise = gate.connect();
    noise.write_all(&[0xff; 4096]).expect("sent");
    let mut answer = Vec::new();
    let _ = noise.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"));
    assert_eq!(gate.get("/v1/status").0, 200);
    assert_eq!(gate.get("/nowhere").0, 404);
    drop(idle);
}

#[test]
fn slow_clients_keep_nobody_from_the_api() {
    let gate = running(1);
    let slow: Vec<UnixStream> = (0..300)
        .map(|_| {
            let mut stream = gate.connect();
            stream.write_all(b"GET /v1/status HT").expect("sent");
            stream
        })
        .collect();
    let (asked, answered) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| asked.send(gate.get("/v1/status").0));
        // The head of a request may take 10 s, and a connection 300 s: nobody waits for that.
        let status = answered.recv_timeout(std::time::Duration::from_secs(8));
        assert_eq!(status, Ok(200));
    });
    drop(slow);
}

#[test]
fn a_second_token_only_reads() {
    let (all, reads) = (
        Token::new("0123456789abcdef"),
        Token::new("fedcba9876543210"),
    );
    let gate = Running::new(Fake::new(1), Access::Token(all, Some(reads)));
    let with = |token: &str, method: &str, path: &str, body: &str| {
        let kind = "Content-Type: application/json\r\n";
        let header = format!("Authorization: Bearer {token}\r\n{kind}");
        gate.with(method, path, &header, body)
    };
    let path = "/v1/subscribers/s000000";
    for token in ["0123456789abcdef", "fedcba9876543210"] {
        for path in ["/v1/status", path, "/metrics"] {
            assert_eq!(with(token, "GET", path, "").0, 200, "{token} {path}");
        }
    }
    let reads = "fedcba9876543210";
    for (method, path, body) in [
        ("PATCH", path, r#"{"plan": "gold"}"#),
        ("DELETE", "/v1/subscribers/s000000/set", ""),
        ("POST", "/v1/reload", "{}"),
        ("POST", "/v1/stop", ""),
    ] {
        let (status, answer) = with(reads, method, path, body);
        assert_eq!(status, 403, "{method} {path}");
        let text = answer["error"].as_str().expect("a reason");
        assert!(text.contains("may only read"), "{text}");
    }
    let patch = r#"{"plan": "gold"}"#;
    assert_eq!(with("0123456789abcdef", "PATCH", path, patch).0, 200);
    assert_eq!(with("0123456789abcde0", "GET", path, "").0, 401);
}
