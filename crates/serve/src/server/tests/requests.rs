//! Which answers requests get.

use std::fs;

use super::{log_to, start, start_with};
use crate::server::LogFormat;

#[tokio::test]
async fn a_file_and_its_head() {
    let server = start(|_| {}).await;
    let (status, head, body) = server.ask("GET", "/abc.txt", &[]).await;
    assert_eq!((status, &body[..]), (200, &b"abcdefghij"[..]));
    for line in [
        "content-length: 10",
        "content-type: text/plain; charset=utf-8",
        "accept-ranges: bytes",
        "etag: \"",
        "last-modified: ",
        "date: ",
    ] {
        assert!(head.contains(line), "{line}: {head}");
    }
    assert!(!head.contains("tidegate-group"), "{head}");
    let (status, head, body) = server.ask("HEAD", "/v.mp4", &["Range: bytes=0-1"]).await;
    assert_eq!((status, body.len()), (200, 0));
    assert!(head.contains("content-length: 1000000"), "{head}");
    assert!(head.contains("content-type: video/mp4"), "{head}");
    let (status, _, body) = server.ask("GET", "/v.mp4", &[]).await;
    let file = fs::read(server.folder.path().join("v.mp4")).unwrap();
    assert!(status == 200 && body == file);
}

#[tokio::test]
async fn parts_of_a_file() {
    let server = start(|_| {}).await;
    for (range, status, content_range, expected) in [
        ("bytes=0-0", 206, Some("bytes 0-0/10"), "a"),
        ("bytes=3-5", 206, Some("bytes 3-5/10"), "def"),
        ("bytes=7-", 206, Some("bytes 7-9/10"), "hij"),
        ("bytes=-2", 206, Some("bytes 8-9/10"), "ij"),
        ("bytes=8-99", 206, Some("bytes 8-9/10"), "ij"),
        ("bytes=10-", 416, Some("bytes */10"), ""),
        ("bytes=0-1,4-5", 200, None, "abcdefghij"),
        ("lines=0-1", 200, None, "abcdefghij"),
    ] {
        let line = format!("Range: {range}");
        let (got, head, body) = server.ask("GET", "/abc.txt", &[&line]).await;
        assert_eq!(got, status, "{range}");
        assert_eq!(String::from_utf8(body).unwrap(), expected, "{range}");
        match content_range {
            Some(value) => {
                let line = format!("content-range: {value}");
                assert!(head.contains(&line), "{range}: {head}");
            }
            None => assert!(!head.contains("content-range"), "{range}: {head}"),
        }
    }
    fs::write(server.folder.path().join("empty"), "").unwrap();
    assert_eq!(server.ask("GET", "/empty", &[]).await.0, 200);
    let nothing = server.ask("GET", "/empty", &["Range: bytes=0-"]).await;
    assert_eq!(nothing.0, 416);
}

#[tokio::test]
async fn conditions() {
    let server = start(|_| {}).await;
    let (_, head, _) = server.ask("GET", "/abc.txt", &[]).await;
    let value = |name: &str| {
        let line = head.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_once(": ").unwrap().1.to_owned()
    };
    let etag = value("etag");
    let same = format!("If-None-Match: {etag}");
    let (status, head, body) = server.ask("GET", "/abc.txt", &[&same]).await;
    assert_eq!((status, body.len()), (304, 0));
    assert!(head.contains(&etag), "{head}");
    let since = "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT";
    assert_eq!(server.ask("GET", "/abc.txt", &[since]).await.0, 304);
    let other = "If-Match: \"other\"";
    assert_eq!(server.ask("GET", "/abc.txt", &[other]).await.0, 412);
    // A part of the same version, or the whole of another one.
    let range = "Range: bytes=1-2";
    let same = format!("If-Range: {etag}");
    assert_eq!(server.ask("GET", "/abc.txt", &[range, &same]).await.0, 206);
    let other = "If-Range: \"other\"";
    assert_eq!(server.ask("GET", "/abc.txt", &[range, other]).await.0, 200);
    fs::write(server.folder.path().join("abc.txt"), "changed").unwrap();
    let (status, _, body) = server.ask("GET", "/abc.txt", &[range, &same]).await;
    assert_eq!((status, &body[..]), (200, &b"changed"[..]));
}

#[tokio::test]
async fn what_is_not_served() {
    let server = start(|_| {}).await;
    fs::write(server.folder.path().join(".hidden"), "x").unwrap();
    for (method, target, expected) in [
        ("GET", "/none", 404),
        ("GET", "/", 404),
        ("GET", "/abc.txt/", 404),
        ("GET", "/.hidden", 404),
        ("GET", "/../../../../etc/passwd", 404),
        ("GET", "/%2e%2e/%2e%2e/etc/passwd", 404),
        ("GET", "/..%2f..%2fetc/passwd", 400),
        ("GET", "/%00", 400),
        ("GET", "*", 400),
        ("POST", "/abc.txt", 405),
        ("PUT", "/new", 405),
        ("DELETE", "/abc.txt", 405),
        ("OPTIONS", "*", 405),
    ] {
        let (status, ..) = server.ask(method, target, &["Content-Length: 0"]).await;
        assert_eq!(status, expected, "{method} {target}");
    }
    assert!(server.folder.path().join("abc.txt").exists());
}

#[tokio::test]
async fn folders_are_listed_if_wanted() {
    let server = start(|config| config.index = true).await;
    let path = server.folder.path();
    fs::create_dir(path.join("sub")).unwrap();
    fs::write(path.join("sub/a b<c>\"d&.mp4"), "x").unwrap();
    let (status, head, body) = server.ask("GET", "/sub/", &[]).await;
    let body = String::from_utf8(body).unwrap();
    assert_eq!(status, 200);
    assert!(head.contains("text/html"), "{head}");
    assert!(
        body.contains("<a href=\"./a%20b%3Cc%3E%22d%26.mp4\">a b&lt;c>&quot;d&amp;.mp4</a>"),
        "{body}"
    );
    let (status, _, body) = server.ask("GET", "/sub/a%20b%3Cc%3E%22d%26.mp4", &[]).await;
    assert_eq!((status, &body[..]), (200, &b"x"[..]));
    for (target, to) in [
        ("/sub", "/sub/"),
        ("//sub", "/sub/"),
        ("/sub?x=1", "/sub/?x=1"),
    ] {
        let (status, head, _) = server.ask("GET", target, &[]).await;
        assert_eq!(status, 301);
        assert!(head.contains(&format!("location: {to}\r\n")), "{head}");
    }
}

#[tokio::test]
async fn a_connection_is_kept() {
    let server = start(|_| {}).await;
    let one = "GET /abc.txt HTTP/1.1\r\nHost: t\r\nRange: bytes=0-0\r\n\r\n";
    let last = "GET /none HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
    // Pipelined, too.
    let response = server.raw(format!("{one}{one}{last}").as_bytes()).await;
    let response = String::from_utf8(response).unwrap();
    assert_eq!(response.matches("HTTP/1.1 206").count(), 2, "{response}");
    assert_eq!(response.matches("HTTP/1.1 404").count(), 1, "{response}");
}

#[tokio::test]
async fn logs_and_metrics() {
    let mut server = start_with(
        |config| config.metrics = Some(([127, 0, 0, 1], 0).into()),
        log_to("log", LogFormat::Json),
    )
    .await;
    server
        .ask("GET", "/abc.txt?x=%22", &["Referer: a\"b"])
        .await;
    server.ask("GET", "/none", &[]).await;
    // The last line is written when the connection ends; the client need not wait for it.
    let mut metrics = String::new();
    for _ in 0..50 {
        let address = server.metrics.unwrap();
        let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let request = b"GET /metrics HTTP/1.1\r\nHost: t\r\n\r\n";
        socket.write_all(request).await.unwrap();
        metrics.clear();
        socket.read_to_string(&mut metrics).await.unwrap();
        if metrics.contains("connections_ended_total{reason=\"done\"} 2") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    for line in [
        "tidegate_serve_connections_total{group=\"none\",way=\"none\"} 2",
        "tidegate_serve_requests_total{code=\"200\",protocol=\"HTTP/1.1\"} 1",
        "tidegate_serve_requests_total{code=\"404\",protocol=\"HTTP/1.1\"} 1",
        "tidegate_serve_connections_open 0",
        "tidegate_serve_connections_ended_total{reason=\"done\"} 2",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    server.stop().await;
    let log = fs::read_to_string(server.folder.path().join("log")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 4, "{log}");
    let requests = lines
        .iter()
        .filter(|line| line.contains("\"event\":\"request\""));
    assert_eq!(requests.count(), 2, "{log}");
    assert!(log.contains("\"target\":\"/abc.txt?x=%22\""), "{log}");
    assert!(log.contains("\"referer\":\"a\\\"b\""), "{log}");
    assert!(log.contains("\"status\":200,\"bytes\":10,"), "{log}");
    assert!(log.contains("\"ended\":\"done\""), "{log}");
    // Over loopback a round trip is measured.
    assert!(!log.contains("\"srtt_us\":0,"), "{log}");
}

/// Connections without a request do not keep monitoring away for longer than a second or two.
#[tokio::test]
async fn metrics_are_served_beside_silent_connections() {
    let server = start(|config| config.metrics = Some(([127, 0, 0, 1], 0).into())).await;
    let address = server.metrics.unwrap();
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(tokio::net::TcpStream::connect(address).await.unwrap());
    }
    let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let request = b"GET /metrics HTTP/1.1\r\nHost: t\r\n\r\n";
    socket.write_all(request).await.unwrap();
    let mut metrics = String::new();
    socket.read_to_string(&mut metrics).await.unwrap();
    assert!(
        metrics.contains("tidegate_serve_connections_open 0"),
        "{metrics}"
    );
}

#[tokio::test]
async fn the_combined_format() {
    let mut server = start_with(|_| {}, log_to("log", LogFormat::Common)).await;
    server
        .ask("GET", "/abc.txt", &["User-Agent: me\"\x01"])
        .await;
    server.ask("GET", "/abc.txt", &["User-Agent: me\""]).await;
    // Those who read the log to block addresses must see what is no request, as the first one is not either.
    server.raw(b"GARBAGE\r\n\r\n").await;
    server.stop().await;
    let log = fs::read_to_string(server.folder.path().join("log")).unwrap();
    let refused = log
        .lines()
        .filter(|line| line.contains("] \"-\" 400 0 \"-\" \"-\" "));
    assert_eq!(refused.count(), 2, "{log}");
    let last = log.lines().rfind(|line| line.contains("GET")).unwrap();
    assert!(last.starts_with("127.0.0.1 - - ["), "{log}");
    let known = "] \"GET /abc.txt HTTP/1.1\" 200 10 \"-\" \"me\\\"\" 0.";
    assert!(last.contains(known), "{log}");
    // The last field says how it was really paced.
    assert!(last.ends_with(" nothing"), "{log}");
}

#[tokio::test]
async fn a_folder_answers_with_its_page() {
    let server = start(|config| config.cache = vec!["*.html=no-cache".parse().unwrap()]).await;
    let path = server.folder.path();
    fs::create_dir(path.join("site")).unwrap();
    assert_eq!(server.ask("GET", "/site/", &[]).await.0, 404);
    fs::write(path.join("site/index.html"), "<p>here").unwrap();
    let (status, head, body) = server.ask("GET", "/site/", &[]).await;
    assert_eq!((status, &body[..]), (200, &b"<p>here"[..]));
    assert!(head.contains("content-type: text/html"), "{head}");
    assert!(head.contains("cache-control: no-cache"), "{head}");
    let (status, head, _) = server.ask("GET", "/site", &[]).await;
    assert_eq!(status, 301);
    assert!(head.contains("location: /site/\r\n"), "{head}");
}

/// RFC 9112, section 3.2.
#[tokio::test]
async fn one_host_is_named() {
    let server = start(|_| {}).await;
    for (head, expected) in [
        ("HTTP/1.1\r\n", 400),
        ("HTTP/1.1\r\nHost: a\r\nHost: b\r\n", 400),
        ("HTTP/1.1\r\nHost: a\r\n", 200),
        ("HTTP/1.1\r\nHost:\r\n", 200),
        ("HTTP/1.1\r\nHost: a_b.example:80\r\n", 200),
        ("HTTP/1.1\r\nHost: [::1]:80\r\n", 200),
        ("HTTP/1.1\r\nHost: a b/@\r\n", 400),
        ("HTTP/1.1\r\nHost: user@a\r\n", 400),
        ("HTTP/1.1\r\nHost: a:b\r\n", 400),
        ("HTTP/1.0\r\nHost: a/b\r\n", 400),
        ("HTTP/1.0\r\n", 200),
    ] {
        let request = format!("GET /abc.txt {head}Connection: close\r\n\r\n");
        let answer = server.raw(request.as_bytes()).await;
        assert_eq!(super::split(&answer).0, expected, "{head}");
    }
}

/// RFC 9110, section 8.8.2.1.
#[tokio::test]
async fn no_file_was_changed_in_the_future() {
    let server = start(|_| {}).await;
    let path = server.folder.path().join("abc.txt");
    let file = fs::File::options().write(true).open(path).unwrap();
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(86_400);
    file.set_modified(later).unwrap();
    let request = b"HEAD /abc.txt HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
    let head = String::from_utf8(server.raw(request).await).unwrap();
    let date = |name: &str| {
        let mut fields = head.lines().filter_map(|line| line.split_once(": "));
        let (_, value) = fields
            .find(|(field, _)| field.eq_ignore_ascii_case(name))
            .unwrap();
        httpdate::parse_http_date(value).unwrap()
    };
    assert!(date("last-modified") <= date("date"), "{head}");
}

/// Servers behind a balancer have copies of a file.
#[tokio::test]
async fn copies_have_the_same_tag() {
    let server = start(|_| {}).await;
    let path = server.folder.path();
    let times = fs::metadata(path.join("abc.txt"))
        .unwrap()
        .modified()
        .unwrap();
    fs::copy(path.join("abc.txt"), path.join("copy.txt")).unwrap();
    let copy = fs::File::options()
        .write(true)
        .open(path.join("copy.txt"))
        .unwrap();
    copy.set_modified(times).unwrap();
    let mut tags = Vec::new();
    for target in ["/abc.txt", "/copy.txt", "/v.mp4"] {
        let (_, head, _) = server.ask("HEAD", target, &[]).await;
        tags.push(
            head.lines()
                .find(|line| line.starts_with("etag"))
                .unwrap()
                .to_owned(),
        );
    }
    assert_eq!(tags[0], tags[1]);
    assert_ne!(tags[0], tags[2]);
}

#[tokio::test]
async fn pages_of_allowed_origins_may_read() {
    let allow = "access-control-allow-origin: ";
    for (origins, asks, expected) in [
        (&[][..], "http://a", None),
        (&["*"], "http://a", Some("*")),
        (
            &["http://a", "https://b:8443"],
            "https://b:8443",
            Some("https://b:8443"),
        ),
        (&["http://a"], "http://b", None),
    ] {
        let list = origins.iter().map(|text| text.parse().unwrap());
        let server = start(|config| config.cors = list.collect()).await;
        let origin = format!("Origin: {asks}");
        let (_, head, _) = server.ask("GET", "/abc.txt", &[&origin]).await;
        let found = head.lines().find_map(|line| line.strip_prefix(allow));
        assert_eq!(found, expected, "{head}");
        let (status, head, _) = server.ask("OPTIONS", "/abc.txt", &[&origin]).await;
        let described = head.contains("access-control-allow-methods: get, head");
        let expected = if origins.is_empty() {
            (405, false)
        } else {
            (204, true)
        };
        assert_eq!((status, described), expected);
    }
    for text in ["", "example.org", "https://", "https://a/b", "ftp://a"] {
        assert!(text.parse::<crate::server::Origin>().is_err(), "{text}");
    }
}

#[tokio::test]
async fn the_first_rule_for_caches_holds() {
    let rules = [
        "/live/*=no-store",
        "*.txt=max-age=60, public",
        "*=max-age=1",
    ];
    let rules = rules.map(|text| text.parse().unwrap());
    let server = start(|config| config.cache = rules.to_vec()).await;
    let path = server.folder.path();
    fs::create_dir(path.join("live")).unwrap();
    fs::write(path.join("live/a.txt"), "x").unwrap();
    for (target, expected) in [
        ("/live/a.txt", Some("no-store")),
        ("/abc.txt", Some("max-age=60, public")),
        ("/v.mp4", Some("max-age=1")),
        ("/none", None),
    ] {
        let (_, head, _) = server.ask("GET", target, &[]).await;
        let control = head
            .lines()
            .find_map(|line| line.strip_prefix("cache-control: "));
        assert_eq!(control, expected, "{target}");
    }
    for text in ["*.mp4", "=no-store", "*.mp4=", "[=no-store", "*=a\nb"] {
        assert!(text.parse::<crate::server::CacheRule>().is_err(), "{text}");
    }
}

/// The rate that the server would pace at, also if it is not in the file.
#[tokio::test]
async fn answers_state_the_rate() {
    let server = start(|_| {}).await;
    let (_, head, _) = server.ask("GET", "/v.mp4", &[]).await;
    assert!(head.contains("tidegate-rate: 800000\r\n"), "{head}");
    std::fs::write(server.folder.path().join("v.mp4.rate"), "1.5mbit").unwrap();
    let (status, head, _) = server.ask("HEAD", "/v.mp4", &[]).await;
    assert!(
        status == 200 && head.contains("tidegate-rate: 1500000\r\n"),
        "{head}"
    );
    let (_, head, _) = server.ask("GET", "/abc.txt", &[]).await;
    assert!(!head.contains("tidegate-rate"), "{head}");
}

/// Several threads serve connections, and end with the server.
#[tokio::test]
async fn threads_share_the_connections() {
    let mut server = start(|config| config.threads = 3).await;
    let video = std::fs::read(server.folder.path().join("v.mp4")).unwrap();
    let threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let names =
            tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.filter(|name| name == "connections\n").count()
    };
    for _ in 0..6 {
        let (status, _, body) = server.ask("GET", "/v.mp4", &[]).await;
        assert!(status == 200 && body == video);
    }
    // They have their names by now.
    assert!(threads() >= 3);
    server.stop().await;
}
