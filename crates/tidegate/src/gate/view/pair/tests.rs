use super::*;

fn pair() -> PairJson {
    PairJson {
        peer: "192.0.2.2:9642".into(),
        age_s: Some(0.62),
        follows_s: Some(300.0),
        asked_s: Some(0.4),
        unknown_limiters: 0,
        error: None,
    }
}

#[test]
fn a_pair_that_is_well_says_how_old_its_knowledge_is() {
    let lines = pair().lines();
    let expected = [
        "pair: follows 192.0.2.2:9642 for 5 min, knows it as of 0.6 s ago",
        "pair: 192.0.2.2:9642 asked this gate 0.4 s ago",
    ];
    assert_eq!(lines, expected.map(|line| (line.to_owned(), false)));
}

#[test]
fn all_that_is_wrong_is_said_with_its_cause_and_what_to_do() {
    let mut pair = PairJson {
        follows_s: None,
        asked_s: Some(7300.0),
        unknown_limiters: 1,
        error: Some("the other gate at 192.0.2.2:9642 cannot be asked: refused".into()),
        ..pair()
    };
    pair.age_s = Some(75.0);
    let lines = pair.lines();
    assert!(lines.iter().all(|(_, wrong)| *wrong), "{lines:?}");
    let parts = [
        "does not follow 192.0.2.2:9642, did 1 min ago: the other gate at 192.0.2.2:9642 cannot be asked",
        "it asked 2 h ago: see `tidegate gate status`",
        "1 limiter of 192.0.2.2:9642 unknown here",
    ];
    for ((line, _), part) in lines.iter().zip(parts) {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    let never = PairJson {
        age_s: None,
        asked_s: None,
        error: None,
        ..pair
    };
    let lines = never.lines();
    assert!(
        lines[0].0.ends_with("never did: it was not asked yet"),
        "{lines:?}"
    );
    assert!(lines[1].0.contains("never asked this gate"), "{lines:?}");
}
