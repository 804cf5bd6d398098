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
        whole.contains("down     465 MB passed,   46.5 MB beyond"),
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
    assert!(lines[1].ends_with("30.0 MB   3.00 MB   9.1%"), "{list}");
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
fn shows_one_subscriber_with_its_queues() {
    let mut fake = Fake::new(2);
    let subscriber = one(&mut fake, "s000001").expect("there");
    let detail = text(|out| detail(out, &subscriber, paint()));
    assert!(
        detail.starts_with("s000001  plan basic\nvlan 2\n"),
        "{detail}"
    );
    assert!(detail.contains("    0   3.00 kB   1.00 kB"), "{detail}");
    assert!(matches!(
        one(&mut fake, "bob"),
        Err(ControlError::Unknown(_))
    ));
}

#[test]
fn a_gate_that_is_attached_nowhere_says_so() {
    let mut fake = Fake::new(1);
    let reading = fake.read().expect("read");
    let mut overview = fake.overview().expect("one");
    overview.attachments[0].1 = false;
    let status = view::status(&overview, &reading);
    let whole = text(|out| whole(out, &status, paint()));
    assert!(whole.contains("nothing is limited"), "{whole}");
}
