use super::*;
use crate::parse_value;

fn control(toml: &str) -> Result<PaperControl, Vec<(usize, String)>> {
    let node = parse_value(0, &format!("{{ {toml} }}")).expect("TOML");
    let fields = Fields::of(&node, "a plan").expect("a table");
    let read = read(&fields, PaperControl::DEFAULT);
    read.map_err(|mistakes| {
        let located = |mistake: Mistake| (mistake.place.byte, mistake.message);
        mistakes.into_iter().map(located).collect()
    })
}

/// The documentation of the keys says what the limiter's default is.
#[test]
fn documented_defaults_are_those_of_the_limiter() {
    let written = [PERIOD, UPPER, LOWER].map(|key| match key.value {
        "time" => format!("{} = '{}'", key.name, key.default),
        _ => format!("{} = {}", key.name, key.default),
    });
    assert_eq!(control(&written.join(", ")), Ok(PaperControl::DEFAULT));
    assert_eq!(control(""), Ok(PaperControl::DEFAULT));
}

#[test]
fn mistakes_are_at_their_keys() {
    for (toml, wanted) in [
        ("period = '0s'", vec![(11, "the period of burst control")]),
        ("period = '61s'", vec![(11, "the period of burst control")]),
        ("lower = 1.5", vec![(10, "the lower threshold")]),
        ("upper = 0.5", vec![(10, "the lower threshold")]),
        ("upper = 2000", vec![(10, "`upper` must be from 0 to 1000")]),
        (
            "period = 1, lower = 'x'",
            vec![
                (11, "`period`: '1' is not a time"),
                (22, "`lower` is a number"),
            ],
        ),
    ] {
        let found = control(toml).expect_err(toml);
        assert_eq!(found.len(), wanted.len());
        for ((byte, message), (at, start)) in found.iter().zip(wanted) {
            assert!(
                *byte == at && message.starts_with(start),
                "{byte}: {message}"
            );
        }
    }
}
