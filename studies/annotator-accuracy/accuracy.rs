//! How far the annotator's figures are from what the lab's router was set to.

use std::fmt;

use crate::lab::{Analysed, Chunk, Device, MIN_LOSSES};
use crate::table3::Class;

/// Relative errors of some estimates.
#[derive(Debug, Default)]
struct Errors(Vec<f64>);

impl Errors {
    fn add(&mut self, estimate: f64, truth: f64) {
        self.0.push(estimate / truth - 1.0);
    }

    fn sorted(&self, key: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut errors: Vec<f64> = self.0.iter().copied().map(key).collect();
        errors.sort_by(f64::total_cmp);
        errors
    }
}

/// The nearest-rank percentile of sorted numbers.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    match (sorted.len() * percent).div_ceil(100).max(1) - 1 {
        _ if sorted.is_empty() => f64::NAN,
        rank => sorted[rank],
    }
}

impl fmt::Display for Errors {
    /// How many; the median without its sign; 10th percentile, median and 90th with theirs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (signed, absolute) = (self.sorted(|error| error), self.sorted(f64::abs));
        write!(f, "{:>6}", signed.len())?;
        if signed.is_empty() {
            return write!(f, " {:>8} {:>8} {:>8} {:>8}", "-", "-", "-", "-");
        }
        write!(f, " {:>6.2} %", percentile(&absolute, 50) * 100.0)?;
        for percent in [10, 50, 90] {
            write!(f, " {:>+6.2} %", percentile(&signed, percent) * 100.0)?;
        }
        Ok(())
    }
}

/// The errors, by what was estimated.
#[derive(Debug)]
pub struct Accuracy {
    sections: Vec<Section>,
}

#[derive(Debug)]
struct Section {
    title: String,
    rows: Vec<(String, Errors)>,
}

impl Accuracy {
    /// Measures over the analysed captures.
    pub fn of(all: &[Analysed]) -> Self {
        let sections = vec![policing_rates(all), capacities(all), round_trips(all)];
        Self { sections }
    }
}

/// Bytes at a level for each byte of payload.
fn ratio(bytes: u64, chunk: &Chunk) -> f64 {
    bytes as f64 / chunk.tally.payload_bytes.max(1) as f64
}

fn chunks(all: &[Analysed]) -> impl Iterator<Item = (&Analysed, &Chunk)> {
    all.iter()
        .flat_map(|capture| capture.chunks.iter().map(move |chunk| (capture, chunk)))
}

/// The detected rate of a policer is a goodput; the router counts link-layer bytes.
fn policing_rates(all: &[Analysed]) -> Section {
    let mut rows = Vec::new();
    for class in [Class::A, Class::B, Class::C] {
        for detector in ["pd", "pd-paper"] {
            let mut levels = [
                ("payload", Errors::default()),
                ("IP", Errors::default()),
                ("link", Errors::default()),
            ];
            for (capture, chunk) in chunks(all) {
                let judgement = if detector == "pd" {
                    &chunk.pd
                } else {
                    &chunk.paper
                };
                let truth = &capture.case.truth;
                if Class::of(truth) != class || chunk.published_losses < MIN_LOSSES {
                    continue;
                }
                let Some(rate) = judgement.deciding().rate_bps else {
                    continue;
                };
                let ratios = [
                    1.0,
                    ratio(chunk.tally.ip_bytes, chunk),
                    ratio(chunk.tally.link_bytes, chunk),
                ];
                for ((_, errors), ratio) in levels.iter_mut().zip(ratios) {
                    errors.add(rate * ratio, truth.rate_bps);
                }
            }
            for (level, errors) in levels {
                rows.push((format!("class {class:?}, {detector}, {level}"), errors));
            }
        }
    }
    Section {
        title: "policing rate, where policed".into(),
        rows,
    }
}

/// The capacity that the spacing of acknowledgements gives, at link level, behind a shaper.
fn capacities(all: &[Analysed]) -> Section {
    let mut rows: Vec<(String, Errors)> = Vec::new();
    for (capture, chunk) in chunks(all) {
        let truth = &capture.case.truth;
        let Some(capacity) = chunk
            .metrics
            .capacity
            .filter(|_| truth.device == Device::Shaper)
        else {
            continue;
        };
        let link = capacity.bps * ratio(chunk.tally.link_bytes, chunk);
        let shared = if truth.iperf_connections > 0 {
            ", shared"
        } else {
            ""
        };
        let queue = truth
            .burst_bytes
            .map_or("default".into(), |bytes| format!("{bytes} B"));
        let names = [
            "all".to_owned(),
            format!("rate {} Mbit/s{shared}", truth.rate_bps / 1e6),
            format!("queue {queue}{shared}"),
        ];
        for name in names {
            let i = rows
                .iter()
                .position(|(row, _)| *row == name)
                .unwrap_or_else(|| {
                    rows.push((name, Errors::default()));
                    rows.len() - 1
                });
            rows[i].1.add(link, truth.rate_bps);
        }
    }
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    Section {
        title: "capacity at link level, behind a shaper".into(),
        rows,
    }
}

/// The least round-trip time against the path's.
fn round_trips(all: &[Analysed]) -> Section {
    let (mut least, mut median) = (Errors::default(), Errors::default());
    for (capture, chunk) in chunks(all) {
        if let Some(rtt) = chunk.metrics.rtt {
            least.add(rtt.min as f64 / 1e6, capture.case.truth.rtt_ms);
            if capture.case.truth.device == Device::Policer {
                median.add(rtt.median as f64 / 1e6, capture.case.truth.rtt_ms);
            }
        }
    }
    Section {
        title: "round-trip time against the path's".into(),
        rows: vec![
            ("least".into(), least),
            ("median, where policed".into(), median),
        ],
    }
}

impl fmt::Display for Accuracy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, section) in self.sections.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            writeln!(
                f,
                "{:<40} {:>6} {:>8} {:>8} {:>8} {:>8}",
                section.title, "chunks", "|error|", "p10", "median", "p90"
            )?;
            for (name, errors) in &section.rows {
                writeln!(f, "  {name:<38} {errors}")?;
            }
        }
        Ok(())
    }
}
