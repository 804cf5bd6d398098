use super::*;

#[test]
fn a_flood_of_packets_that_are_ignored_is_a_line_a_second() {
    let mut ignored = IgnoredPackets::default();
    let begin = Instant::now();
    let from = "198.51.100.7:1700".parse().expect("an address");
    assert_eq!((ignored.due(), ignored.take(begin)), (None, None));
    let mut lines = Vec::new();
    // A packet each millisecond, for a bit more than two seconds; every tenth is of another kind.
    for number in 0..2100u64 {
        let now = begin + Duration::from_millis(number);
        let why = match number % 10 {
            9 => "it is no packet of RADIUS",
            _ => "its sender has another secret",
        };
        ignored.add(from, why.to_owned());
        lines.extend(ignored.take(now));
    }
    assert_eq!(
        lines,
        [
            (1, "its sender has another secret".to_owned()),
            (
                1000,
                "100: it is no packet of RADIUS; 900: its sender has another secret".to_owned()
            ),
            (
                1000,
                "100: it is no packet of RADIUS; 900: its sender has another secret".to_owned()
            ),
        ]
    );
    // The count of the last packets is logged even if no packet follows them.
    let due = ignored.due().expect("a rest");
    assert_eq!(due, begin + Duration::from_secs(3));
    assert_eq!(ignored.take(due).expect("a line").0, 99);
    assert_eq!((ignored.due(), ignored.take(due)), (None, None));
    // A packet of each code there is.
    for code in 0..=255 {
        ignored.add(from, format!("its code is {code}"));
    }
    let line = ignored.take(due + IgnoredPackets::PAUSE);
    let (packets, why) = line.expect("a line");
    assert_eq!(packets, 256);
    assert!(why.ends_with("; 248: other reasons"), "{why}");
}
