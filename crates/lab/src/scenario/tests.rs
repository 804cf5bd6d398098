use std::collections::BTreeSet;

use proptest::prelude::*;

use tidegate_limiter::{BurstControl, LimiterConfig};

use super::*;
use crate::plan::{ElementKind, QueueKind, Traffic};
use crate::tcp::Algorithm;
use crate::{MILLISECOND, SECOND};

mod applications;
mod bounds;
mod defaults;
mod errors;
mod nodes;
mod rules;
mod varying;
mod videos;

const SMALL: &str = r#"duration = "2s"

[[element]]
name = "gate"
kind = "bc-pqp"
rate = "10mbit"

[[element]]
name = "radio"
kind = "link"
rate = "50mbit"
queue = "100 packets"

[[flow]]
name = "download"
count = 4
cc = ["reno", "cubic"]
rtt = "2ms..50ms"
path = ["gate", "radio"]
"#;

fn parse(text: &str) -> Result<Scenario, String> {
    Scenario::parse(Source {
        file: "a.toml",
        text,
        settings: &[],
    })
    .map_err(|error| error.to_string())
}

fn set(settings: &[&str]) -> Result<Scenario, String> {
    let settings: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
    Scenario::parse(Source {
        file: "a.toml",
        text: SMALL,
        settings: &settings,
    })
    .map_err(|error| error.to_string())
}

/// The rate of the limiter at the first point.
fn limit(scenario: &Scenario) -> u64 {
    let rate = one(scenario).limits[0].expect("a limiter");
    rate.bits_per_second()
}

fn one(scenario: &Scenario) -> Group {
    let mut groups = scenario
        .groups(Run {
            point: 0,
            seed: scenario.seeds()[0],
            taps: true,
        })
        .expect("sound");
    assert_eq!(groups.len(), 1);
    groups.remove(0)
}

#[test]
fn a_small_scenario_becomes_a_plan() {
    let scenario = parse(SMALL).expect("sound");
    assert_eq!((scenario.title(), scenario.points()), ("a.toml", 1));
    let Group { plan, limits, .. } = one(&scenario);
    assert_eq!(
        (plan.duration, plan.window),
        (2 * SECOND, 250 * MILLISECOND)
    );
    assert_eq!(plan.aggregates, ["all"]);
    assert_eq!(limits[0].map(Rate::bits_per_second), Some(10_000_000));
    let ElementKind::Limiter {
        config: LimiterConfig::PhantomQueues(config),
        classes: None,
        overhead: 0,
    } = &plan.elements[0].kind
    else {
        panic!("{:?}", plan.elements[0]);
    };
    let control = config.burst_control().expect("BC-PQP");
    assert_eq!(control, BurstControl::Bucket);
    // 10 times CUBIC's need at the upper end of the range, for every draw.
    assert!((1_400_000..1_700_000).contains(&config.queue()));
    let ElementKind::Link {
        queue:
            QueueKind::DropTail {
                bytes: None,
                packets: Some(100),
            },
        ..
    } = plan.elements[1].kind
    else {
        panic!("{:?}", plan.elements[1]);
    };
    let algorithms: Vec<Algorithm> = plan.flows.iter().map(|flow| flow.tcp.algorithm).collect();
    assert_eq!(
        algorithms,
        [
            Algorithm::Reno,
            Algorithm::Cubic,
            Algorithm::Reno,
            Algorithm::Cubic
        ]
    );
    let delays: BTreeSet<Nanos> = plan.flows.iter().map(|flow| flow.delay).collect();
    assert_eq!(delays.len(), 4, "each is drawn for itself");
    assert!(
        delays
            .iter()
            .all(|delay| (2 * MILLISECOND..=50 * MILLISECOND).contains(delay))
    );
    assert!(
        plan.flows
            .iter()
            .all(|flow| flow.forward == [0, 1] && flow.back.is_empty())
    );
}

#[test]
fn what_is_drawn_depends_on_the_seed_and_on_nothing_else() {
    let scenario = parse(SMALL).expect("sound");
    let delays = |scenario: &Scenario, seed| -> Vec<Nanos> {
        let group = scenario
            .groups(Run {
                point: 0,
                seed,
                taps: true,
            })
            .expect("sound")
            .remove(0);
        let flows = group.plan.flows.into_iter();
        flows
            .filter(|flow| flow.name == "download")
            .map(|flow| flow.delay)
            .collect()
    };
    assert_eq!(delays(&scenario, 1), delays(&scenario, 1));
    assert_ne!(delays(&scenario, 1), delays(&scenario, 2));
    let more = "[[flow]]\nname = \"a\"\nrtt = \"1ms..9ms\"\npath = [\"gate\"]\n";
    let more = SMALL.replace("[[flow]]", &format!("{more}[[flow]]"));
    assert_eq!(
        delays(&parse(&more).expect("sound"), 1),
        delays(&scenario, 1)
    );
}

#[test]
fn settings_replace_what_the_file_says() {
    let scenario = set(&[
        "gate.rate=5mbit",
        "duration = 1s",
        "download.cc=[\"vegas\"]",
        "seed=7",
    ]);
    let scenario = scenario.expect("sound");
    let Group { plan, limits, .. } = one(&scenario);
    assert_eq!(limits[0].map(Rate::bits_per_second), Some(5_000_000));
    assert_eq!((plan.duration, scenario.seeds()), (SECOND, &[7][..]));
    assert!(
        plan.flows
            .iter()
            .all(|flow| flow.tcp.algorithm == Algorithm::Vegas)
    );
    assert_eq!(
        set(&["gate.rate=fast"]).expect_err("no rate"),
        "--set gate.rate=fast: `rate`: 'fast' is not a rate: write a number and a unit, such as 10mbit, \
         1.5mbit or 500kbit"
    );
    assert!(
        set(&["gate"])
            .expect_err("no value")
            .contains("is a key and a value")
    );
    assert!(
        set(&["gate.policy={ fair = "])
            .expect_err("cut")
            .contains("this is not TOML")
    );
    // After a kind is set, some keys of the file have no meaning.
    let policed = SMALL.replace(
        "rate = \"10mbit\"",
        "rate = \"10mbit\"\npolicy = { fair = 4 }",
    );
    let setting = ["gate.kind=policer".to_owned()];
    assert!(
        Scenario::parse(Source {
            file: "a.toml",
            text: &policed,
            settings: &setting
        })
        .is_ok()
    );
    assert!(parse(&policed.replace("bc-pqp", "policer")).is_err());
}

#[test]
fn sweeps_are_products_in_the_order_of_the_file() {
    let sweep = "\n[sweep]\n\"gate.rate\" = [\"1mbit\", \"2mbit\"]\ngate.kind = [\"policer\", \"pqp\", \
                 \"shaper\"]\nseeds = 2\n";
    let scenario = parse(&format!("{SMALL}{sweep}")).expect("sound");
    assert_eq!((scenario.points(), scenario.seeds()), (6, &[1, 2][..]));
    let labels: Vec<String> = (0..6)
        .map(|point| {
            let values = scenario.parameters(point).into_iter().map(|one| one.value);
            values.collect::<Vec<_>>().join(" ")
        })
        .collect();
    assert_eq!(
        labels,
        [
            "1mbit policer",
            "1mbit pqp",
            "1mbit shaper",
            "2mbit policer",
            "2mbit pqp",
            "2mbit shaper"
        ]
    );
    let group = scenario
        .groups(Run {
            point: 5,
            seed: 1,
            taps: true,
        })
        .expect("sound")
        .remove(0);
    let ElementKind::Limiter {
        config: LimiterConfig::Shaper(config),
        ..
    } = &group.plan.elements[0].kind
    else {
        panic!("{:?}", group.plan.elements[0]);
    };
    assert_eq!(config.rate().bits_per_second(), 2_000_000);
    assert_eq!(scenario.work(), 12 * 2 * SECOND);
    assert!(scenario.work().is_multiple_of(scenario.simulated()));

    // A value that is set is not varied any more.
    let setting = ["gate.rate=3mbit".to_owned(), "seed=9".to_owned()];
    let scenario = Scenario::parse(Source {
        file: "a.toml",
        text: &format!("{SMALL}{sweep}"),
        settings: &setting,
    })
    .expect("sound");
    assert_eq!((scenario.points(), scenario.seeds()), (3, &[9][..]));
    // So are its keys, if it is a table.
    let setting = ["gate={rate = \"3mbit\"}".to_owned()];
    let scenario = Scenario::parse(Source {
        file: "a.toml",
        text: &format!("{SMALL}{sweep}"),
        settings: &setting,
    })
    .expect("sound");
    assert_eq!((scenario.points(), limit(&scenario)), (3, 3_000_000));

    // Several keys together.
    let sweep =
        "\n[sweep]\ngate = [{ kind = \"policer\", burst = \"8kB\" }, { rate = \"1mbit\" }]\n";
    let scenario = parse(&format!("{SMALL}{sweep}")).expect("sound");
    let parameters =
        [("gate.kind", "policer"), ("gate.burst", "8kB")].map(|(key, value)| Parameter {
            key: key.to_owned(),
            value: value.to_owned(),
        });
    assert_eq!(scenario.parameters(0), parameters);
    let group = scenario
        .groups(Run {
            point: 0,
            seed: 1,
            taps: true,
        })
        .expect("sound")
        .remove(0);
    let ElementKind::Limiter {
        config: LimiterConfig::Policer(config),
        ..
    } = &group.plan.elements[0].kind
    else {
        panic!("{:?}", group.plan.elements[0]);
    };
    assert_eq!(config.burst(), 8000);
    let values: String = (1..=20).map(|ms| format!("\"{ms}ms\",")).collect();
    let huge = (0..6).map(|i| format!("\"a{i}.rtt\" = [{values}]\n"));
    let huge: String = huge.collect();
    let error = parse(&format!("{SMALL}[sweep]\n{huge}")).expect_err("too many");
    assert!(error.contains("64000000 runs are too many"), "{error}");
}

/// A set value stands against those of tables that are varied, and the other keys of the tables are varied on.
#[test]
fn settings_end_the_variation_of_keys_in_tables() {
    let read = |sweep: &str, settings: &[&str]| {
        let settings: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
        let scenario = Scenario::parse(Source {
            file: "a.toml",
            text: &format!("{SMALL}[sweep]\n{sweep}\n"),
            settings: &settings,
        });
        scenario.map_err(|error| error.to_string())
    };
    let points = |scenario: &Scenario| -> Vec<String> {
        let points = (0..scenario.points()).map(|point| {
            let parameters = scenario.parameters(point);
            let parameters: Vec<_> = parameters.iter().map(Parameter::to_string).collect();
            parameters.join(", ")
        });
        points.collect()
    };
    let config = |scenario: &Scenario| match one(scenario).plan.elements.remove(0).kind {
        ElementKind::Limiter { config, .. } => config,
        kind => panic!("{kind:?}"),
    };
    let burst = |scenario: &Scenario| match config(scenario) {
        LimiterConfig::Policer(config) => config.burst(),
        config => panic!("{config:?}"),
    };
    let bursts = "gate = [{ kind = \"policer\", burst = \"8kB\" }, { kind = \"policer\", burst = \"64kB\" }]";
    let scenario = read(bursts, &["gate.burst=32kB"]).expect("sound");
    assert_eq!(points(&scenario), ["gate.kind=policer"]);
    assert_eq!(burst(&scenario), 32_000);
    let scenario = read(bursts, &["gate.burst=32kB", "gate.kind=policer"]).expect("sound");
    assert_eq!(
        (points(&scenario), burst(&scenario)),
        (vec![String::new()], 32_000)
    );
    let kinds = "gate = [{ kind = \"policer\", burst = \"8kB\" }, { kind = \"policer\", rate = \"1mbit\" }]";
    let scenario = read(kinds, &["gate.burst=32kB"]).expect("sound");
    assert_eq!(
        points(&scenario),
        ["gate.kind=policer", "gate.kind=policer, gate.rate=1mbit"]
    );
    assert_eq!(burst(&scenario), 32_000);

    // A table within a table is put in place of the file's, so the value is set there too.
    let sizes = |scenario: &Scenario| -> Vec<String> {
        let points = (0..scenario.points()).map(|point| {
            let run = Run {
                point,
                seed: 1,
                taps: true,
            };
            let traffic = &scenario.groups(run).expect("sound")[0].plan.flows[0].traffic;
            match traffic {
                Traffic::Bulk { bytes } => format!("{bytes:?}"),
                other => format!("{other:?}"),
            }
        });
        points.collect()
    };
    for sweep in [
        "download.traffic = [{ kind = \"bulk\", size = \"1MB\" }, { kind = \"bulk\", size = \"2MB\" }]",
        "download = [{ traffic = { kind = \"bulk\", size = \"1MB\" } }, { traffic = { kind = \"bulk\", size = \"2MB\" } }]",
    ] {
        let scenario = read(sweep, &["download.traffic.size=3MB"]).expect("sound");
        assert_eq!(sizes(&scenario), ["Some(3000000)"], "{sweep}");
    }
    // A value in place of a table ends the variation of what was in the table.
    let policies = "gate.policy.fair = [2, 4]";
    let scenario = read(policies, &["gate.policy={ fair = 8 }"]).expect("sound");
    assert_eq!(points(&scenario), [""]);
    let scenario = read(
        "download.traffic.size = [\"1MB\", \"2MB\"]",
        &["download.traffic=bulk"],
    );
    assert_eq!(sizes(&scenario.expect("sound")), ["None"]);

    let error = read(
        "download.traffic = [\"bulk\", \"video\"]",
        &["download.traffic.size=3MB"],
    );
    assert_eq!(
        error.expect_err("no table"),
        "--set download.traffic.size=3MB: `download.traffic` is varied over bulk, which is no table: set all of `download.traffic`"
    );
}

#[test]
fn aggregates_that_share_nothing_are_apart() {
    let text = SMALL.replace(
        "[[flow]]",
        "[[aggregate]]\nname = \"home\"\ncount = 3\n[[aggregate]]\nname = \"office\"\n[[flow]]",
    );
    let scenario = parse(&text).expect("sound");
    let groups = scenario
        .groups(Run {
            point: 0,
            seed: 1,
            taps: true,
        })
        .expect("sound");
    let names: Vec<&str> = groups
        .iter()
        .map(|group| group.plan.aggregates[0].as_str())
        .collect();
    assert_eq!(names, ["home-1", "home-2", "home-3", "office"]);
    assert!(groups.iter().all(|group| group.plan.flows.len() == 4));
    let seeds: BTreeSet<u64> = groups.iter().map(|group| group.plan.seed).collect();
    assert_eq!(seeds.len(), 4);

    let text = text.replace("kind = \"link\"", "kind = \"link\"\nshared = true");
    let scenario = parse(&text).expect("sound");
    let Group {
        plan,
        elements,
        limits,
        ..
    } = one(&scenario);
    assert_eq!(plan.aggregates.len(), 4);
    let names: Vec<&str> = plan
        .elements
        .iter()
        .map(|element| element.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "gate:home-1",
            "radio",
            "gate:home-2",
            "gate:home-3",
            "gate:office"
        ]
    );
    assert_eq!(
        (elements[0].aggregate, elements[1].aggregate),
        (Some(0), None)
    );
    assert!(limits.iter().all(Option::is_some));

    // One aggregate does not use the shared link.
    let text = text.replace("count = 4", "count = 4\naggregate = \"home\"");
    let text = format!(
        "{text}[[flow]]\nname = \"x\"\naggregate = \"office\"\npath = [\"gate\"]\nrtt = \"1ms\"\n"
    );
    let groups = parse(&text)
        .expect("sound")
        .groups(Run {
            point: 0,
            seed: 1,
            taps: true,
        })
        .expect("sound");
    let sizes: Vec<usize> = groups
        .iter()
        .map(|group| group.plan.aggregates.len())
        .collect();
    assert_eq!(sizes, [3, 1]);
}

#[test]
fn values_can_be_chosen_once_for_each_aggregate() {
    let text = SMALL.replace(
        "[[flow]]",
        "[[aggregate]]\nname = \"home\"\ncount = 4\n[[flow]]",
    );
    let text = text.replace(
        "count = 4\ncc",
        "count = 4\nper-aggregate = [\"cc\", \"rtt\"]\ncc",
    );
    let groups = parse(&text)
        .expect("sound")
        .groups(Run {
            point: 0,
            seed: 1,
            taps: true,
        })
        .expect("sound");
    for (number, group) in groups.iter().enumerate() {
        let wanted = [Algorithm::Reno, Algorithm::Cubic][number % 2];
        let first = group.plan.flows[0].delay;
        let same =
            |flow: &crate::plan::FlowPlan| flow.tcp.algorithm == wanted && flow.delay == first;
        assert!(group.plan.flows.iter().all(same));
    }
    assert_ne!(groups[0].plan.flows[0].delay, groups[1].plan.flows[0].delay);
}

#[test]
fn queues_of_their_own_are_numbered_through_an_aggregate() {
    let own = SMALL.replace("count = 4", "count = 4\nqueue = \"own\"");
    let more = "[[flow]]\nname = \"web\"\nqueue = \"own\"\nrtt = \"1ms\"\npath = [\"gate\"]\ntraffic = [\"video\"]\n";
    let Group { plan, numbers, .. } = one(&parse(&format!("{own}{more}")).expect("sound"));
    let queues: Vec<u16> = plan.flows.iter().filter_map(|flow| flow.queue).collect();
    assert_eq!(
        (queues, numbers),
        (vec![0, 1, 2, 3, 4], vec![0, 1, 2, 3, 0])
    );
    assert!(matches!(
        plan.flows[4].traffic,
        Traffic::Video {
            chunk: 2_000_000,
            ..
        }
    ));
    let error = parse(&own.replace("count = 4", "count = 17")).expect_err("too many");
    assert!(
        error.contains("there is no queue 16 in class 0 of `gate`: it has 16"),
        "{error}"
    );
}

#[test]
fn every_section_has_keys_that_are_described() {
    for section in SECTIONS {
        assert!(
            !section.keys.is_empty() && section.doc.ends_with('.'),
            "{}",
            section.name
        );
        let names: BTreeSet<&str> = section.keys.iter().map(|key| key.name).collect();
        assert_eq!(names.len(), section.keys.len(), "{}", section.name);
        for key in section.keys {
            assert!(!key.value.is_empty(), "{}", key.name);
            assert!(key.doc.ends_with('.'), "{}: {}", key.name, key.doc);
        }
    }
}

proptest! {
    /// Any text is either a scenario or an error with a place.
    #[test]
    fn damaged_files_never_panic(at in 0..SMALL.len(), length in 0usize..12, put in "[\\PC\n]{0,6}") {
        let end = (at + length).min(SMALL.len());
        let text = format!("{}{put}{}", &SMALL[..at], &SMALL[end..]);
        if let Err(error) = parse(&text) {
            prop_assert!(error.starts_with("a.toml:"));
        }
    }

    #[test]
    fn damaged_settings_never_panic(setting in "(gate|download|seed|x)?[.=]?(rate|policy|queue|rtt)?=?\\PC{0,12}") {
        let _ = set(&[&setting]);
    }
}

/// The documentation has exactly the tables that `tidegate lab schema` prints.
#[test]
fn every_key_is_documented() {
    let docs = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/scenarios.md"
    );
    let docs = std::fs::read_to_string(docs).expect("the documentation");
    assert!(docs.contains(&schema()), "put this into it:\n{}", schema());
}

#[test]
fn limits_of_the_ends_are_read() {
    let ends = "read-rate = \"1mbit\"\nread-block = \"8kB\"\nsend-buffer = \"64kB\"\n\
                slow-start-threshold = 20\nclient = \"10.200.0.7\"\npath =";
    let scenario = parse(&SMALL.replace("path =", ends)).expect("sound");
    for flow in one(&scenario).plan.flows {
        let tcp = flow.tcp;
        assert_eq!(tcp.read_rate.map(Rate::bits_per_second), Some(1_000_000));
        assert_eq!((tcp.read_block, tcp.send_buffer), (8000, Some(64_000)));
        assert_eq!(tcp.slow_start_threshold, Some(20));
        assert_eq!(flow.client, Some([10, 200, 0, 7].into()));
    }
    let elsewhere = SMALL.replace("path =", "client = \"10.1.0.7\"\npath =");
    let error = parse(&elsewhere).expect_err("not a client's address");
    assert!(error.contains("10.128.0.0/9"), "{error}");
    let server = SMALL.replace("path =", "address = \"10.200.0.7\"\npath =");
    let error = parse(&server).expect_err("a client's address");
    assert!(error.contains("10.128.0.0/9"), "{error}");
}
