//! What people write: scenarios, and the gate's file.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use tidegate_gate::change::{self, Change};
use tidegate_gate::config::{Config, ConfigErrors};
use tidegate_gate::state::GateState;
use tidegate_lab::scenario::{Run, Scenario, Source};

/// Scenario files: any text is refused with its place, or gives plans, and small ones run.
pub fn scenario(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let short = ["duration=50ms".to_owned(), "window=10ms".to_owned()];
    let scenario = match Scenario::parse(Source {
        file: "fuzzed.toml",
        text,
        settings: &short,
    }) {
        Ok(scenario) => scenario,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert!(scenario.points() > 0 && !scenario.seeds().is_empty());
    let seed = scenario.seeds()[0];
    let groups = scenario
        .groups(Run {
            point: 0,
            seed,
            taps: false,
        })
        .expect("it was checked");
    for group in groups.iter().take(2) {
        if group.plan.flows.len() > 4 || group.plan.elements.len() > 4 {
            continue;
        }
        // Fast links carry much in little time.
        let mut calls = 0;
        let _ = tidegate_lab::run(&group.plan, &mut |_| {
            calls += 1;
            calls < 4
        });
    }
}
/// The gate's file, and after a line of three dashes the one that it imports: any text is refused with
/// places in it, or is what a gate can be changed to, from nothing and from itself.
pub fn gate(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let (text, imported) = text.split_once("\n---\n").unwrap_or((text, ""));
    let file = Path::new("gate.toml");
    let load = |_: &Path| Ok(imported.to_owned());
    let config = match Config::parse(file, text.to_owned(), &load) {
        Ok(config) => config,
        Err(errors) => {
            let problems = &errors.problems;
            assert!(!problems.is_empty() && problems.len() <= ConfigErrors::MOST);
            for problem in problems {
                assert!(!problem.message.is_empty());
                let lines = if problem.file == file { text } else { imported }.len() + 1;
                if let Some(at) = problem.position {
                    assert!((1..=lines).contains(&at.line) && at.column > 0, "{at:?}");
                }
            }
            // It is shown on a terminal.
            let shown = errors.to_string();
            assert!(
                !shown.contains(|c: char| c.is_control() && c != '\n'),
                "{shown:?}"
            );
            return;
        }
    };
    let (mut names, mut matches) = (HashSet::new(), HashSet::new());
    for subscriber in &config.subscribers {
        assert!(names.insert(&subscriber.name));
        assert!(!subscriber.declared.matches.is_empty());
        let mut new = subscriber.declared.matches.iter();
        assert!(new.all(|what| matches.insert(*what)));
        for (_, limits) in subscriber.limits.iter() {
            limits.plan().expect("limits that a limiter takes");
        }
    }
    config.doubts();
    let empty = GateState::empty(PathBuf::from("pins"), [1, 2]);
    let (state, report) = change::next(&empty, &config).expect("few plans");
    assert_eq!(report.added.len(), config.subscribers.len());
    let led = change::changes(&empty, &state, &[], true).into_iter();
    let led = led.map(|change| match change {
        Change::Seat(seats) => seats.len(),
        _ => 0,
    });
    assert_eq!(led.sum::<usize>(), matches.len());
    let (same, report) = change::next(&state, &config).expect("the same plans");
    assert_eq!(report.unchanged, config.subscribers.len());
    assert_eq!(change::changes(&state, &same, &state.attachments, true), []);
}
