use super::*;
use crate::cli::Color;
use crate::gate::testing::Fake;

fn paint() -> Paint {
    Paint::for_stdout(Color::Never, true)
}

fn text(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&mut out).expect("written");
    String::from_utf8(out).expect("text")
}

#[test]
fn a_shadow_is_no_limit() {
    let mut fake = Fake::new(1);
    fake.shadow = true;
    let status = view::status(&fake.overview().expect("one"), &fake.read().expect("read"));
    let whole = text(|out| whole(out, &status, paint()));
    assert!(
        whole.contains("shadow: nothing is dropped or marked"),
        "{whole}"
    );
}

#[test]
fn programs_of_another_version_are_named() {
    let mut fake = Fake::new(1);
    let mut overview = fake.overview().expect("one");
    overview.outdated = vec!["tc_down", "tc_up"];
    let status = view::status(&overview, &fake.read().expect("read"));
    let whole = text(|out| whole(out, &status, paint()));
    assert!(
        whole.contains("tc_down, tc_up: of another version of tidegate; restart the daemon"),
        "{whole}"
    );
}

#[test]
fn shows_the_whole_and_the_heaviest_in_80_columns() {
    let mut fake = Fake::new(30);
    fake.set("s000029", &Default::default()).expect("set");
    let reading = fake.read().expect("read");
    let overview = fake.overview().expect("one");
    let status = view::status(&overview, &reading);
    let whole = text(|out| whole(out, &status, paint()));
    assert!(
        whole.contains("eth0            tc-egress   down\n"),
        "{whole}"
    );
    assert!(
        whole.contains("30 subscribers, 1 set live, 2 plans"),
        "{whole}"
    );
    assert!(
        whole.contains(
            "down     465 MB passed,   46.5 MB beyond limits (9.1% of packets), 1.8% marked"
        ),
        "{whole}"
    );
    assert!(
        whole.contains("without a limiter: 7 no subscriber\n"),
        "{whole}"
    );

    let heaviest = sorted(&reading, SortStatus::Bytes, 2);
    let list = text(|out| list(out, &heaviest, paint()));
    let lines: Vec<&str> = list.lines().collect();
    assert!(
        lines[1].starts_with("s000029*   basic      down 50.0 Mbit/s"),
        "{list}"
    );
    assert!(
        lines[1].ends_with("30.0 MB   3.00 MB   9.1%   1.8%"),
        "{list}"
    );
    assert!(
        lines[2].trim_start().starts_with("up   10.0 Mbit/s"),
        "{list}"
    );
    assert!(lines[3].starts_with("s000028 "), "{list}");
    assert_eq!(lines[5], "* set live: differs from the configuration");
    assert!(
        (whole + &list)
            .lines()
            .all(|line| line.chars().count() <= 80)
    );

    let by_name = sorted(&reading, SortStatus::Name, 1);
    assert_eq!(by_name[0].name, "s000000");
}

#[test]
fn columns_are_as_wide_as_the_longest_name_that_is_shown() {
    let mut fake = Fake::new(4);
    let roster = std::sync::Arc::make_mut(&mut fake.roster);
    let long = "a".repeat(60);
    roster.subscribers[0].name = long.as_str().into();
    roster.subscribers[1].name = "ünïcode-names-count".into();
    roster.subscribers[1].plan = Some("business-gold".into());
    roster.subscribers[2].plan = Some("p".repeat(30).into());
    roster.subscribers[3].plan = None;
    let reading = fake.read().expect("read");
    let shown = |from: usize, columns: &str| {
        let all = sorted(&reading, SortStatus::Name, usize::MAX);
        let text = text(|out| list(out, &all[from..], paint()));
        let mut lines = text.lines();
        assert!(
            lines.next().expect("a heading").starts_with(columns),
            "{text}"
        );
        // The columns of the limit begin below their heading in each line.
        let end = columns.chars().count() + " WAY        LIMIT".len();
        for line in lines {
            let limit: String = line.chars().take(end).collect();
            assert!(limit.ends_with("bit/s"), "{text}");
        }
        text
    };
    let (name, plan) = ("SUBSCRIBER", "PLAN");
    let text = shown(0, &format!("{name:<40} {plan:<20}"));
    assert!(text.contains(&format!("{}… gold  ", &long[..39])), "{text}");
    assert!(
        text.contains(&format!("{}… down", "p".repeat(19))),
        "{text}"
    );
    assert!(
        text.contains("\ns000003                                  -     "),
        "{text}"
    );
    shown(1, &format!("{name:<19} {plan:<20}"));
    shown(3, &format!("{name:<10} {plan:<10}"));
}

#[test]
fn a_suspended_subscriber_is_no_limit_of_0() {
    let mut fake = Fake::new(1);
    let suspended = &mut std::sync::Arc::make_mut(&mut fake.roster).subscribers[0];
    suspended.suspended = true;
    suspended.limits.down.rate = Some(0);
    suspended.limits.up.rate = Some(0);
    let all = sorted(&fake.read().expect("read"), SortStatus::Name, 1);
    let list = text(|out| list(out, &all, paint()));
    assert!(list.contains("down   suspended"), "{list}");
    let one = subscriber_json(&mut fake, "s000000").expect("there");
    let detail = text(|out| detail(out, &one, paint()));
    assert!(detail.contains("\ndown  suspended, "), "{detail}");
    assert!(!(list + &detail).contains("0 bit/s"));
}

#[test]
fn shows_one_subscriber_with_its_queues() {
    let mut fake = Fake::new(2);
    let roster = std::sync::Arc::make_mut(&mut fake.roster);
    roster.subscribers[1].limits.down.boost = 10_000_000;
    let subscriber = subscriber_json(&mut fake, "s000001").expect("there");
    let detail = text(|out| detail(out, &subscriber, paint()));
    assert_eq!(
        detail.matches("boost: 2.00 MB of 10.0 MB saved").count(),
        1,
        "{detail}"
    );
    assert!(
        detail.starts_with("s000001  plan basic\nvlan 2\n"),
        "{detail}"
    );
    assert!(detail.contains("    0   3.00 kB   1.00 kB"), "{detail}");
    assert!(matches!(
        subscriber_json(&mut fake, "bob"),
        Err(ControlError::Unknown(_))
    ));
}

#[test]
fn the_other_gate_of_a_pair_is_shown() {
    let mut fake = Fake::new(1);
    let mut status = view::status(&fake.overview().expect("one"), &fake.read().expect("read"));
    let without = text(|out| whole(out, &status, paint()));
    assert!(!without.contains("pair"), "{without}");
    status.pair = Some(view::pair::PairJson {
        peer: "192.0.2.2:9642".into(),
        age_s: Some(0.7),
        follows_s: Some(90.0),
        asked_s: None,
        unknown_limiters: 3,
        error: None,
    });
    let whole = text(|out| whole(out, &status, paint()));
    for line in [
        "  pair: follows 192.0.2.2:9642 for 1 min, knows it as of 0.7 s ago",
        "  pair: 192.0.2.2:9642 never asked this gate: see `tidegate gate status` on its machine",
        "  pair: 3 limiters of 192.0.2.2:9642 unknown here or with other limits: give both gates the same file",
    ] {
        assert!(
            whole.lines().any(|has| has == line),
            "{line} is not in\n{whole}"
        );
    }
}

#[test]
fn a_gate_that_is_attached_nowhere_says_so() {
    let mut fake = Fake::new(1);
    let reading = fake.read().expect("read");
    let mut overview = fake.overview().expect("one");
    overview.attachments[0].attached = false;
    let status = view::status(&overview, &reading);
    let whole = text(|out| whole(out, &status, paint()));
    assert!(whole.contains("nothing is limited"), "{whole}");
}

#[test]
fn a_device_without_a_link_is_shown() {
    let mut fake = Fake::new(1);
    let reading = fake.read().expect("read");
    let mut overview = fake.overview().expect("one");
    for (link, shown, absent) in [
        (Some(false), "no link: no packet passes", "link up"),
        (Some(true), "link up", "no link"),
        (None, "eth0", "link"),
    ] {
        overview.attachments[0].link = link;
        let status = view::status(&overview, &reading);
        let whole = text(|out| whole(out, &status, paint()));
        assert!(whole.contains(shown) && !whole.contains(absent), "{whole}");
    }
}

#[test]
fn usage_is_exported_as_csv() {
    let mut fake = Fake::new(2);
    let roster = std::sync::Arc::make_mut(&mut fake.roster);
    roster.subscribers[0].name = "Ann, 1st floor".into();
    roster.subscribers[1].plan = None;
    let reading = fake.read().expect("read");
    let text = text(|out| csv(out, &sorted(&reading, SortStatus::Name, usize::MAX)));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "name,plan,direction,rate_bps,passed_packets,passed_bytes,excess_packets,excess_bytes,marked_packets"
    );
    assert_eq!(
        lines[1..],
        [
            "\"Ann, 1st floor\",gold,down,50000000,1000,1000000,100,100000,20",
            "\"Ann, 1st floor\",gold,up,10000000,0,0,0,0,0",
            "s000001,,down,50000000,2000,2000000,200,200000,40",
            "s000001,,up,10000000,0,0,0,0,0",
        ]
    );
}
