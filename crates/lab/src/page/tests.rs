use super::*;
use crate::MILLISECOND;
use crate::random::Owner;

/// A page of a document, a style sheet and a script in its head, a font that the style sheet names, a picture that the
/// script fetches from another host, and what does not count.
const ARCHIVE: &str = r#"{"log": {"version": "1.2",
"pages": [{"id": "p1", "startedDateTime": "2026-02-28T23:59:59.900Z", "pageTimings": {"onLoad": 900}}],
"entries": [
 {"pageref": "p1", "startedDateTime": "2026-02-28T23:59:59.900Z", "time": 200,
  "request": {"url": "https://a.example/", "headersSize": 300, "bodySize": 0},
  "response": {"status": 200, "headersSize": 200, "bodySize": 9800}, "timings": {"wait": 50, "receive": 100}},
 {"pageref": "p1", "startedDateTime": "2026-03-01T00:00:00.025Z", "time": 60,
  "request": {"url": "https://a.example/style.css", "headersSize": -1, "bodySize": -1},
  "response": {"status": 200, "headersSize": -1, "bodySize": -1, "_transferSize": 5000},
  "timings": {"wait": 40, "receive": 10}, "_initiator": {"type": "parser", "url": "https://a.example/"}},
 {"pageref": "p1", "startedDateTime": "2026-03-01T00:00:00.050Z", "time": 100,
  "request": {"url": "https://a.example/app.js", "headersSize": 350, "bodySize": 0},
  "response": {"status": 200, "headersSize": 100, "bodySize": 900}, "timings": {"wait": 70, "receive": 30}},
 {"pageref": "p1", "startedDateTime": "2026-03-01T00:00:00.105+00:00", "time": 50,
  "request": {"url": "https://a.example/font.woff2", "headersSize": 350, "bodySize": 0},
  "response": {"status": 200, "headersSize": 100, "bodySize": 29900}, "timings": {"wait": 40, "receive": 10},
  "_initiator": {"type": "parser", "url": "https://a.example/style.css"}},
 {"pageref": "p1", "startedDateTime": "2026-03-01T01:00:00.200+01:00", "time": 50,
  "request": {"url": "http://b.example/picture.png", "headersSize": 350, "bodySize": 0},
  "response": {"status": 200, "headersSize": 0, "bodySize": 70000}, "timings": {"wait": 40, "receive": 10},
  "_initiator": {"type": "script", "stack": {"callFrames": [], "parent": {"callFrames": [{"url": "https://a.example/app.js"}]}}}},
 {"pageref": "p1", "startedDateTime": "2026-03-01T00:00:00.210Z", "time": 5,
  "request": {"url": "https://a.example/cached.png", "headersSize": 350, "bodySize": 0},
  "response": {"status": 200, "headersSize": 100, "bodySize": 100}, "timings": {}, "_fromCache": "disk"},
 {"pageref": "p1", "startedDateTime": "2026-03-01T00:00:00.210Z", "time": 5,
  "request": {"url": "data:image/png;base64,AAAA"}, "response": {"status": 200, "bodySize": 3}, "timings": {}},
 {"pageref": "p1", "startedDateTime": "2026-03-01T00:00:02.000Z", "time": 50,
  "request": {"url": "https://a.example/beacon", "headersSize": 350, "bodySize": 0},
  "response": {"status": 204, "headersSize": 100, "bodySize": 0}, "timings": {"wait": 40, "receive": 10}},
 {"pageref": "p2", "startedDateTime": "2026-03-01T00:00:00.300Z", "time": 50,
  "request": {"url": "https://c.example/", "headersSize": 350, "bodySize": 0},
  "response": {"status": 200, "headersSize": 100, "bodySize": 900}, "timings": {"wait": 40, "receive": 10}}
]}}"#;

#[test]
fn objects_of_an_archive_wait_for_what_names_them() {
    let page = Page::from_har(ARCHIVE).expect("an archive");
    let after = |object, bytes, delay| {
        Some(After {
            object,
            bytes,
            delay: delay * MILLISECOND,
        })
    };
    let object = |number, request, bytes, wait, after| Object {
        host: Host {
            number,
            plain: number == 1,
        },
        request,
        bytes,
        wait: wait * MILLISECOND,
        after,
    };
    assert_eq!(
        page.objects(),
        [
            // Of its host, the quickest answers took 40 ms.
            object(0, 300, 10_000, 10, None),
            // Asked for 25 ms after the first byte of the document, which took 100 ms.
            object(0, 400, 5000, 0, after(0, 2500, 0)),
            // No initiator is known, and the document was half there.
            object(0, 350, 1000, 30, after(0, 5000, 0)),
            object(0, 350, 30_000, 0, after(1, 5000, 20)),
            object(1, 350, 70_000, 0, after(2, 1000, 50)),
        ]
    );
    assert_eq!(page.bytes(), 116_000);
    // The last byte came 350 ms after the page's beginning.
    assert_eq!(page.work(), 550 * MILLISECOND);
}

/// The load event counts from the page's beginning, here 400 ms before the first request.
#[test]
fn what_is_requested_after_the_load_event_is_not_of_the_page() {
    let began = r#""p1", "startedDateTime": "2026-02-28T23:59:59.500Z""#;
    let page = |beacon: &str| {
        let first = r#""p1", "startedDateTime": "2026-02-28T23:59:59.900Z""#;
        let text = ARCHIVE.replacen(first, began, 1);
        let text = text.replace("2026-03-01T00:00:02.000Z", beacon);
        Page::from_har(&text).expect("an archive").objects().len()
    };
    assert_eq!(page("2026-03-01T00:00:00.390Z"), 6);
    assert_eq!(page("2026-03-01T00:00:00.410Z"), 5);
    // An archive that does not say when the page began.
    let text = ARCHIVE.replacen(r#""p1", "startedDateTime""#, r#""p1", "none""#, 1);
    assert_eq!(
        Page::from_har(&text).expect("an archive").objects().len(),
        5
    );
}

/// RFC 3986 §6.2: case, and the port that a scheme has anyway, say nothing.
#[test]
fn hosts_are_those_of_schemes_names_and_ports() {
    let hosts = |url: &str| {
        let text = ARCHIVE.replace("https://a.example/app.js", url);
        let page = Page::from_har(&text).expect("an archive");
        let objects = page.objects();
        (objects[2].host == objects[0].host, objects[2].host.plain)
    };
    for (url, found) in [
        ("https://a.example/app.js", (true, false)),
        ("HTTPS://A.Example:443/app.js", (true, false)),
        ("https://a.example:8443/app.js", (false, false)),
        ("https://a.example:80?app.js", (false, false)),
        ("http://a.example/app.js", (false, true)),
        ("http://a.example:443/app.js", (false, true)),
    ] {
        assert_eq!(hosts(url), found, "{url}");
    }
    let text = ARCHIVE.replace("https://a.example/app.js", "http://B.EXAMPLE:80/app.js");
    let page = Page::from_har(&text).expect("an archive");
    assert_eq!(page.objects()[2].host, page.objects()[4].host);
}

/// A browser's connections are looked through for each packet.
#[test]
fn a_page_has_a_thousand_hosts_at_most() {
    let page = |hosts: u16| {
        let object = |number| Object {
            host: Host {
                number,
                plain: false,
            },
            request: 400,
            bytes: 500,
            wait: 0,
            after: None,
        };
        Page::new((0..hosts).map(object).collect())
    };
    assert!(page(1000).is_ok());
    let error = page(1001).expect_err("too many");
    assert_eq!(error, "a page has objects of at most 1000 hosts, not 1001");
}

/// Playwright adds the handshake of TLS to the time of a connection, which has it already (HAR 1.2, `timings`).
#[test]
fn a_handshake_that_is_counted_twice_ends_no_object_later() {
    let twice = r#""time": 260,"#;
    let parts = r#""timings": {"connect": 50, "ssl": 60, "wait": 50, "receive": 100}}"#;
    let text = ARCHIVE.replacen(r#""time": 200,"#, twice, 1).replacen(
        r#""timings": {"wait": 50, "receive": 100}}"#,
        parts,
        1,
    );
    let [page, wanted] = [&text[..], ARCHIVE].map(|text| Page::from_har(text).expect("an archive"));
    assert_eq!(page, wanted);
}

#[test]
fn what_is_no_archive_is_refused_with_a_reason() {
    for (text, complaint) in [
        ("{", "not JSON"),
        ("{}", "no log.entries"),
        (r#"{"log": {"entries": []}}"#, "no object"),
        (r#"{"log": {"entries": [{"request": {}}]}}"#, "no URL"),
    ] {
        let error = Page::from_har(text).expect_err(text);
        assert!(error.contains(complaint), "{text}: {error}");
    }
    for time in [
        "",
        "today",
        "2026-99-99",
        "2026-03-01T00:00:00",
        "2026-03-01T00:00:00+é",
    ] {
        let text = ARCHIVE.replace("2026-03-01T00:00:00.025Z", time);
        let error = Page::from_har(&text).expect_err(time);
        assert!(
            error.contains("style.css") && error.contains("ISO 8601"),
            "{error}"
        );
    }
}

/// Any damage gives a page or an error, and what a page's objects wait for is before them.
#[test]
fn damaged_archives_give_pages_or_reasons() {
    let mut random = Random::new(1, Owner::Hash);
    for _ in 0..2000 {
        let mut text = ARCHIVE.as_bytes().to_vec();
        for _ in 0..3 {
            let at = (random.uniform() * text.len() as f64) as usize;
            text[at] = b"0123456789-\"{}[],:eE."[(random.uniform() * 21.0) as usize];
        }
        if let Ok(page) = Page::from_har(&String::from_utf8_lossy(&text)) {
            for (index, object) in page.objects().iter().enumerate() {
                assert!(object.after.is_none_or(|after| after.object < index));
            }
        }
    }
}

#[test]
fn drawn_pages_have_their_mean_and_shares() {
    let drawn = Drawn {
        objects: 50,
        mean: 20_000.0,
        shape: 2.0,
        max: 1e6,
        nested: 0.3,
        request: 400,
    };
    let mut random = Random::new(3, Owner::Hash);
    let (mut bytes, mut nested) = (0, 0);
    for _ in 0..400 {
        let page = drawn.page(&mut random);
        assert!(Page::new(page.objects().to_vec()).is_ok());
        bytes += page.bytes();
        let is_nested = |object: &&Object| object.after.is_some_and(|after| after.object > 0);
        nested += page.objects().iter().filter(is_nested).count();
    }
    let mean = bytes as f64 / 20_000.0;
    assert!((mean / 20_000.0 - 1.0).abs() < 0.05, "{mean}");
    // The document and the first object that it names cannot be nested.
    let share = nested as f64 / (400.0 * 48.0);
    assert!((share - 0.3).abs() < 0.02, "{share}");
}
