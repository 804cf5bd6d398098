//! What many transfers say together: verdicts, the rates of policers, and how losses and round-trip times are distributed.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidegate_trace::detect::{COVERED, Cause, rate_clusters};

use crate::line::Line;
use crate::panel::{Axis, Mark, Panel};
use crate::picture::cumulative;

/// The panels of a summary, and what it says.
pub fn of<'a>(lines: impl Iterator<Item = &'a Line> + Clone) -> (Vec<Panel>, Value) {
    let mut verdicts: BTreeMap<Cause, u64> = BTreeMap::new();
    for line in lines.clone() {
        *verdicts.entry(line.cause).or_default() += 1;
    }
    let mut verdicts: Vec<(Cause, u64)> = verdicts.into_iter().collect();
    verdicts.sort_by_key(|(cause, transfers)| (Reverse(*transfers), *cause));
    let policed = lines.clone().filter(|line| line.cause == Cause::Policer);
    let rates: Vec<f64> = policed.clone().filter_map(|line| line.rate_bps).collect();
    let clusters = rate_clusters(&rates, COVERED);
    let panels = [losses(lines.clone()), round_trips(lines.clone())];
    let panels: Vec<Panel> = panels
        .into_iter()
        .filter(|panel| !panel.curves.is_empty())
        .collect();
    let told = json!({
        "transfers": lines.count(),
        "verdicts": verdicts
            .iter()
            .map(|(cause, transfers)| json!({ "cause": cause.name(), "transfers": transfers }))
            .collect::<Vec<_>>(),
        "policed": policed.count(),
        "rates": clusters
            .iter()
            .map(|cluster| json!({ "bps": cluster.centre_bps, "transfers": cluster.rates }))
            .collect::<Vec<_>>(),
        "panels": panels.iter().map(Panel::to_json).collect::<Vec<_>>(),
    });
    (panels, told)
}

/// Transfers that have a curve.
struct Group {
    key: &'static str,
    ink: &'static str,
    label: &'static str,
    policed: bool,
}

/// Policed transfers, which lose far more, and the others [Flach16 Figure 4].
const GROUPS: [Group; 2] = [
    Group {
        key: "policed",
        ink: "red",
        label: "policed transfers",
        policed: true,
    },
    Group {
        key: "others",
        ink: "blue",
        label: "other transfers",
        policed: false,
    },
];

impl Group {
    fn has(&self, line: &Line) -> bool {
        (line.cause == Cause::Policer) == self.policed
    }
}

fn losses<'a>(lines: impl Iterator<Item = &'a Line> + Clone) -> Panel {
    let axis = Axis {
        title: "lost packets",
        unit: "%",
        log: false,
    };
    let mut panel = Panel::over(axis, "losses", "Loss rates, cumulative", "%");
    for group in &GROUPS {
        let lost = lines.clone().filter(|line| group.has(line));
        let lost = lost.map(|line| line.loss_rate * 100.0);
        panel.curve(
            (group.key, Mark::Steps, group.ink),
            group.label,
            cumulative(lost),
        );
    }
    panel
}

fn round_trips<'a>(lines: impl Iterator<Item = &'a Line> + Clone) -> Panel {
    let axis = Axis {
        title: "median round-trip time of a transfer",
        unit: "s",
        log: true,
    };
    let mut panel = Panel::over(axis, "rtts", "Round-trip times, cumulative", "%");
    for group in &GROUPS {
        let known = lines.clone().filter(|line| group.has(line));
        let known = known.filter_map(|line| line.rtt.filter(|rtt| *rtt > 0));
        let places = known.map(|rtt| (rtt as f64 / 1e9).log10());
        panel.curve(
            (group.key, Mark::Steps, group.ink),
            group.label,
            cumulative(places),
        );
    }
    panel
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{self, Read};
    use std::path::Path;

    use super::*;
    use crate::files::Files;
    use crate::reading::Reading;

    struct Policed;

    impl Files for Policed {
        fn open(&self, _: u32) -> io::Result<Box<dyn Read + Send>> {
            let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
            let file = File::open(corpus.join("policed-1500kbit/policed-1500kbit.pcap.xz"))?;
            Ok(Box::new(file))
        }
    }

    #[test]
    fn policed_transfers_without_a_rate_count() {
        let input = Policed.open(0).expect("a capture");
        let mut reading = Reading::new(0, "x".into(), input);
        while !reading.proceed(&Policed) {}
        let (mut lines, ..) = reading.finish();
        let policed = lines.iter_mut().filter(|line| line.cause == Cause::Policer);
        for line in policed.skip(2) {
            line.rate_bps = None;
        }
        let (_, told) = of(lines.iter());
        assert_eq!(
            (&told["policed"], &told["rates"][0]["transfers"]),
            (&json!(5), &json!(2))
        );
    }
}
