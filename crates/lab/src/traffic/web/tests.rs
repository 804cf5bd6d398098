use crate::capacity::{Capacity, Steps};
use crate::outcome::Outcome;
use crate::page::{After, Host, Object, Page};
use crate::plan::{ElementKind, Http, Noting, Pages, QueueKind, Traffic, WebPlan};
use crate::run;
use crate::testing::*;
use crate::{MILLISECOND, Nanos, SECOND};

const SIX: Http = Http::One { connections: 6 };

fn object(bytes: u64, after: Option<(usize, u64, Nanos)>) -> Object {
    Object {
        host: Host::default(),
        request: 400,
        bytes,
        wait: 0,
        after: after.map(|(object, bytes, delay)| After {
            object,
            bytes,
            delay,
        }),
    }
}

/// A document, and objects that it names at its end.
fn fan(objects: usize, bytes: u64) -> Vec<Object> {
    let others = (0..objects).map(|_| object(bytes, Some((0, 5000, 0))));
    [object(5000, None)].into_iter().chain(others).collect()
}

fn visit(objects: Vec<Object>, http: Http, handshake: u32) -> Outcome {
    let web = WebPlan {
        page: Pages::Same(Page::new(objects).expect("sound")),
        http,
        handshake,
        pause: 300 * MILLISECOND,
        visits: Some(2),
    };
    let mut plan = plan(
        vec![link("link", 1_000_000_000, 1000)],
        vec![flow(Traffic::Web(web))],
    );
    plan.connections = Some(Noting::Changes);
    run(&plan, &mut |_| true).expect("a run")
}

/// The time of the first visit in round trips of 20 ms. The link takes next to nothing of one.
fn round_trips(outcome: &Outcome) -> f64 {
    let first = outcome.flows[0].completions[0];
    (first.end - first.start) as f64 / (20 * MILLISECOND) as f64
}

fn assert_round_trips(outcome: &Outcome, wanted: f64) {
    let found = round_trips(outcome);
    assert!(
        (wanted..wanted + 0.1).contains(&found),
        "{found}, not {wanted}"
    );
}

fn connections(outcome: &Outcome) -> u32 {
    let states = outcome.flows[0].states.iter();
    states.map(|state| state.connection + 1).max().unwrap_or(0)
}

#[test]
fn visits_take_the_round_trips_of_their_protocols() {
    // The connection, and the request.
    let plain = visit(vec![object(5000, None)], Http::Two, 0);
    assert_round_trips(&plain, 2.0);
    // TLS 1.3 takes another one.
    let secure = visit(vec![object(5000, None)], Http::Two, 4000);
    assert_round_trips(&secure, 3.0);
    assert_eq!(connections(&secure), 2, "one for each visit");
    // Twelve objects come at once.
    let two = visit(fan(12, 500), Http::Two, 0);
    assert_round_trips(&two, 3.0);
    // Over six connections, one of which is open: 1, then 6 (the five others have opened), then 5.
    let one = visit(fan(12, 500), SIX, 0);
    assert_round_trips(&one, 5.0);
    assert_eq!(connections(&one), 12);
    let single = visit(fan(12, 500), Http::One { connections: 1 }, 0);
    assert_round_trips(&single, 14.0);
}

#[test]
fn objects_come_after_what_names_them_and_when_the_server_has_them() {
    let mut chain = vec![
        object(5000, None),
        // Named in the first packet of the document, and asked for later.
        object(700, Some((0, 100, 50 * MILLISECOND))),
        object(700, Some((1, 700, 0))),
    ];
    // 2 round trips, 50 ms, and one round trip each.
    let outcome = visit(chain.clone(), Http::Two, 0);
    assert_round_trips(&outcome, 2.0 + 2.5 + 2.0);
    chain[2].wait = 30 * MILLISECOND;
    let outcome = visit(chain.clone(), SIX, 0);
    assert_round_trips(&outcome, 2.0 + 2.5 + 2.0 + 1.5);
    // Another host needs another connection.
    chain[2].host.number = 7;
    for http in [SIX, Http::Two] {
        let outcome = visit(chain.clone(), http, 0);
        assert_round_trips(&outcome, 2.0 + 2.5 + 3.0 + 1.5);
        assert_eq!(connections(&outcome), 4);
    }
}

/// A connection without TLS, and then another one with it: 2 and 3 round trips.
#[test]
fn what_redirects_to_tls_needs_another_connection() {
    let entry = |second: u32, url: &str, status: u32| {
        format!(
            r#"{{"startedDateTime": "2026-03-01T00:00:0{second}.000Z", "time": 1000, "request": {{"url": "{url}"}},
            "response": {{"status": {status}, "_transferSize": 500}}, "timings": {{"wait": 40}}}}"#
        )
    };
    let (first, second) = (
        entry(0, "http://a.example/", 301),
        entry(1, "https://a.example/", 200),
    );
    let archive = format!(r#"{{"log": {{"entries": [{first}, {second}]}}}}"#);
    let page = Page::from_har(&archive).expect("an archive");
    for http in [SIX, Http::Two] {
        let outcome = visit(page.objects().to_vec(), http, 4000);
        assert_round_trips(&outcome, 5.0);
        assert_eq!(connections(&outcome), 4);
    }
}

#[test]
fn visits_follow_each_other_and_are_counted() {
    let objects = fan(3, 200_000);
    for (http, extra) in [(SIX, 0), (Http::Two, 9 * (1 + 3 * 13))] {
        let outcome = visit(objects.clone(), http, 4000);
        let flow = &outcome.flows[0];
        let [first, second] = flow.completions[..] else {
            panic!("{:?}", flow.completions);
        };
        assert_eq!(second.start - first.end, 300 * MILLISECOND);
        assert_eq!((first.bytes, second.bytes), (605_000, 605_000));
        let handshakes = 4000 * u64::from(connections(&outcome));
        assert_eq!(flow.delivered, 2 * (605_000 + extra) + handshakes);
        assert_eq!((flow.open, flow.end), (None, second.end));
    }
}

/// A visit ends with the load event of its archive, 200 ms after the last byte and 30 ms of work before the first request.
#[test]
fn the_browser_s_work_belongs_to_the_visit() {
    let visit = |page| {
        let web = WebPlan {
            page: Pages::Same(page),
            http: Http::Two,
            handshake: 4000,
            pause: SECOND,
            visits: Some(2),
        };
        let flow = flow(Traffic::Web(web));
        let plan = plan(vec![link("link", 20_000_000, 100)], vec![flow]);
        let outcome = run(&plan, &mut |_| true).expect("a run");
        let flow = outcome.flows.into_iter().next().expect("a flow");
        assert_eq!((flow.completions.len(), flow.open), (2, None));
        flow.completions
            .into_iter()
            .map(|one| one.end - one.start)
            .collect::<Vec<_>>()
    };
    let archive = r#"{"log": {"pages": [{"startedDateTime": "2026-03-01T00:00:00.000Z", "pageTimings": {"onLoad": 330}}],
        "entries": [{"startedDateTime": "2026-03-01T00:00:00.030Z", "time": 100, "request": {"url": "https://a.example/", "headersSize": 400},
        "response": {"status": 200, "_transferSize": 50000}, "timings": {"wait": 40, "receive": 60}}]}}"#;
    let worked = Page::from_har(archive).expect("an archive");
    let plain = Page::new(worked.objects().to_vec()).expect("sound");
    let [worked, plain] = [visit(worked), visit(plain)];
    let wanted: Vec<_> = plain.iter().map(|time| time + 230 * MILLISECOND).collect();
    assert_eq!(worked, wanted);
}

/// On a slow link the frames of HTTP/2 take turns, so that a small object does not wait for a large one before it.
#[test]
fn responses_take_turns() {
    let large = object(1_000_000, Some((0, 5000, 0)));
    let small = object(20_000, Some((0, 5000, 0)));
    let last = object(1000, Some((2, 20_000, 0)));
    let web = |http| WebPlan {
        page: Pages::Same(
            Page::new(vec![
                object(5000, None),
                large.clone(),
                small.clone(),
                last.clone(),
            ])
            .expect("sound"),
        ),
        http,
        handshake: 0,
        pause: SECOND,
        visits: None,
    };
    let mut took = Vec::new();
    for http in [Http::Two, Http::One { connections: 1 }] {
        let plan = plan(
            vec![link("link", 2_000_000, 100)],
            vec![flow(Traffic::Web(web(http)))],
        );
        let outcome = run(&plan, &mut |_| true).expect("a run");
        let first = outcome.flows[0].completions[0];
        took.push((first.end - first.start) as f64 / 1e9);
    }
    // Both transfer the same, but one after the other costs a request and the last object in addition.
    assert!(took[0] > 4.1 && took[0] + 0.02 < took[1], "{took:?}");
}

/// Once nothing arrives any more, the connections change by their timers alone.
#[test]
fn changes_by_timers_are_noted_for_each_connection() {
    let steps = vec![(0, rate(8_000_000)), (300 * MILLISECOND, rate(0))];
    let dies = ElementKind::Varying {
        capacity: Capacity::Steps(Steps::new(steps, None).expect("sound")),
        queue: QueueKind::DropTail {
            bytes: None,
            packets: Some(1000),
        },
    };
    let web = WebPlan {
        page: Pages::Same(Page::new(fan(6, 1_000_000)).expect("sound")),
        http: SIX,
        handshake: 0,
        pause: SECOND,
        visits: Some(1),
    };
    let mut plan = plan(vec![element("link", dies)], vec![flow(Traffic::Web(web))]);
    plan.connections = Some(Noting::Changes);
    let outcome = run(&plan, &mut |_| true).expect("a run");
    assert_eq!(connections(&outcome), 6);
    for connection in 0..6 {
        let states = outcome.flows[0].states.iter();
        let mut last = states.filter(|state| state.connection == connection);
        let last = last.next_back().expect("it was noted");
        assert!(last.snapshot.counts.timeouts > 2, "{last:?}");
        assert!(last.at > 2 * SECOND, "{last:?}");
    }
}
