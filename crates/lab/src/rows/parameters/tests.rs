use super::*;
use crate::experiment::{ExperimentError, Settings, run};
use crate::rows::LabPoints;

const SCENARIO: &str = r#"
duration = "2s"
[sweep]
gate.rate = ["5mbit", "10mbit"]
a.rtt = ["20ms", "40ms"]
gate.burst = ["auto", "30kB"]
b.count = [1, 2]
[[element]]
name = "gate"
kind = "policer"
rate = "5mbit"
[[flow]]
name = "a"
rtt = "20ms"
path = ["gate"]
[[flow]]
name = "b"
cc = "bbr"
rtt = "20ms"
path = ["gate"]
"#;

#[test]
fn values_of_one_type_are_numbers_in_base_units() {
    let scenario = Scenario::parse(SCENARIO).unwrap();
    let parameters = LabParameters::new(&scenario);
    let columns: Vec<_> = parameters.columns().iter().collect();
    let names: Vec<_> = columns
        .iter()
        .map(|column| (column.name.as_str(), column.kind))
        .collect();
    let expected = [
        ("gate.rate_bps", Kind::Integer),
        ("gate.burst", Kind::Text),
        ("a.rtt_s", Kind::Real),
        ("b.count", Kind::Real),
    ];
    assert_eq!(names, expected);
    let last = [
        Value::Integer(10_000_000),
        Value::from("30kB"),
        Value::Real(0.04),
        Value::Real(2.0),
    ];
    assert_eq!(parameters.values(15), last);
    assert!(parameters.values(16).is_empty());
}

#[test]
fn shares_of_all_flows_add_up_to_one() {
    let scenario = Scenario::parse(SCENARIO).unwrap();
    let (parameters, shares) = (
        LabParameters::new(&scenario),
        LabParameters::shares(&scenario),
    );
    assert_eq!(shares[1].name, "share_b");
    let mut points = LabPoints::new(&scenario);
    let settings = Settings {
        jobs: 1,
        ..Settings::default()
    };
    run::<ExperimentError>(&scenario, settings, |finished| {
        points.add(&finished);
        Ok(())
    })
    .unwrap();
    for row in points.finish() {
        let extras = row.extras(&parameters, &scenario);
        let share = |value: &Value| match value {
            Value::Real(share) => *share,
            other => panic!("{other:?}"),
        };
        let sum: f64 = extras[4..].iter().map(share).sum();
        assert!((sum - 1.0).abs() < 1e-5, "{extras:?}");
    }
}
