//! Adaptive videos and web pages.

use super::*;
use crate::plan::{AdaptationRule, Http, Pages};
use crate::{MILLISECOND, SECOND};

fn with(traffic: &str) -> String {
    format!(
        "duration = \"1s\"\n[[element]]\nname = \"line\"\nkind = \"link\"\nrate = \"1mbit\"\n\
         [[flow]]\nname = \"f\"\nrtt = \"10ms\"\npath = [\"line\"]\ntraffic = {traffic}\n"
    )
}

fn read(traffic: &str) -> Traffic {
    let mut group = one(&parse(&with(traffic)).expect(traffic));
    group.plan.flows.remove(0).traffic
}

fn complain(cases: &[(&str, &str)]) {
    for (traffic, complaint) in cases {
        let error = parse(&with(traffic)).expect_err(traffic);
        assert!(error.contains(complaint), "{traffic}: {error}");
    }
}

#[test]
fn videos_have_ladders() {
    let Traffic::Adaptive(video) = read(
        "{ kind = \"adaptive\", ladder = [\"300kbit\", \"1mbit\"], rule = \"bola\", segment = \"2s\", unmeasured = \"16kB\", weight = 1.5 }",
    ) else {
        panic!("another kind");
    };
    let ladder: Vec<u64> = video
        .ladder
        .iter()
        .map(|rate| rate.bits_per_second())
        .collect();
    assert_eq!(
        (ladder, video.rule),
        (vec![300_000, 1_000_000], AdaptationRule::Bola)
    );
    assert_eq!((video.segment, video.buffer), (2 * SECOND, 30 * SECOND));
    assert_eq!((video.unmeasured, video.weight), (16_000, 1500));
    // As written, though the product 1.001 · 1000 is below 1001.
    let Traffic::Adaptive(video) = read(
        "{ kind = \"adaptive\", ladder = [\"1mbit\"], segment-sizes = [1.001, 0.999], weight = 1.005 }",
    ) else {
        panic!("another kind");
    };
    assert_eq!((&video.sizes[..], video.weight), (&[1001, 999][..], 1005));
    complain(&[
        ("\"adaptive\"", "`ladder` is missing"),
        (
            "{ kind = \"adaptive\", ladder = \"1mbit\" }",
            "list of ascending rates",
        ),
        ("{ kind = \"adaptive\", ladder = [] }", "1 to 100 rates"),
        (
            "{ kind = \"adaptive\", ladder = [\"1mbit\", \"1mbit\"] }",
            "list of ascending rates",
        ),
        ("{ kind = \"adaptive\", ladder = [\"1bit\"] }", "8 kbit/s"),
        (
            "{ kind = \"adaptive\", ladder = [\"1mbit\"], rule = \"bolo\" }",
            "did you mean `bola`?",
        ),
        (
            "{ kind = \"adaptive\", ladder = [\"1mbit\"], buffer = \"4s\" }",
            "buffer must hold the video",
        ),
        (
            "{ kind = \"adaptive\", ladder = [\"1mbit\"], segment = \"1us\" }",
            "use longer ones",
        ),
        (
            "{ kind = \"adaptive\", ladder = [\"400gbit\"], length = \"10000000s\", segment = \"10000s\", segment-sizes = [100] }",
            "a.toml:6:1: the video has more than 1152921504606846976 bytes in its highest quality",
        ),
        (
            "{ kind = \"adaptive\", ladder = [\"1mbit\"], preface = [\"2000GB\"] }",
            "objects come before",
        ),
    ]);
}

#[test]
fn browsers_visit_pages() {
    let web = |traffic: &str| match read(traffic) {
        Traffic::Web(web) => web,
        other => panic!("{other:?}"),
    };
    let usual = web("\"web\"");
    assert_eq!(
        (usual.http, usual.handshake, usual.visits),
        (Http::Two, 4000, None)
    );
    let given = web(
        "{ kind = \"web\", http = \"http/1.1\", connections = 2, handshake = \"0B\", pause = \"50ms\", visits = 3, \
         page = { objects = 7, nested = 0 } }",
    );
    assert_eq!(given.http, Http::One { connections: 2 });
    assert_eq!((given.handshake, given.pause), (0, 50 * MILLISECOND));
    let Pages::Drawn(drawn) = given.page else {
        panic!("{:?}", given.page);
    };
    assert_eq!((drawn.objects, drawn.nested, drawn.max), (7, 0.0, 2e6));
    complain(&[
        ("{ kind = \"web\", connections = 6 }", "no meaning with h2"),
        ("{ kind = \"web\", http = \"h3\" }", "`http`"),
        ("{ kind = \"web\", page = { objects = 0 } }", "`objects`"),
        (
            "{ kind = \"web\", page = { mean = \"1MB\", max = \"1MB\" } }",
            "more than `mean`",
        ),
        (
            "{ kind = \"web\", page = { object = 3 } }",
            "did you mean `objects`?",
        ),
        (
            "{ kind = \"web\", page = 3 }",
            "the name of a file, or a table",
        ),
        (
            "{ kind = \"web\", page = \"site.har\" }",
            "files cannot be read here",
        ),
    ]);
}

#[test]
fn pages_are_read_from_archives_once() {
    const ARCHIVE: &str = r#"{"log": {"entries": [{"startedDateTime": "2026-03-01T00:00:00Z", "time": 1,
        "request": {"url": "https://a.example/"}, "response": {"status": 200, "bodySize": 7000}, "timings": {}}]}}"#;
    let count = std::cell::Cell::new(0);
    let files = |name: &str| {
        count.set(count.get() + 1);
        match name {
            "a.har" => Ok(ARCHIVE.to_owned()),
            _ => Ok("{}".to_owned()),
        }
    };
    let traffic =
        "[{ kind = \"web\", page = \"a.har\" }, { kind = \"web\", page = \"a.har\" }]\ncount = 2";
    let scenario = Scenario::parse_with(&with(traffic), &files).expect("sound");
    for flow in one(&scenario).plan.flows {
        let Traffic::Web(web) = flow.traffic else {
            panic!("{:?}", flow.traffic);
        };
        let Pages::Same(page) = web.page else {
            panic!("{:?}", web.page);
        };
        assert_eq!(page.bytes(), 7000);
    }
    assert_eq!(count.get(), 1);
    let wrong = with("{ kind = \"web\", page = \"b.har\" }");
    let error = Scenario::parse_with(&wrong, &files).expect_err("no archive");
    let error = error.to_string();
    assert!(error.contains("`b.har`: not an HTTP archive"), "{error}");
}
