//! The viewers of a run, each with what Trickle's authors recorded of a connection.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use tidegate_lab::experiment::Finished;
use tidegate_lab::plan::Traffic;
use tidegate_studies::experiment::simulate;
use tidegate_trace::annotate::{Metrics, Transfer, burst};
use tidegate_trace::flow::Settings;
use tidegate_trace::{Options, Sink, analyse};

/// The groups of [Trickle §3], as the scenario calls them.
pub const GROUPS: [&str; 4] = ["baseline1", "baseline2", "trickle", "shrunk-block"];
pub const BASELINE: usize = 0;
pub const TRICKLE: usize = 2;
pub const SHRUNK: usize = 3;

/// A connection that reached its throttling phase.
pub struct Viewer {
    /// Index in [`GROUPS`].
    pub group: usize,
    /// The line's bandwidth: the point of the scenario.
    pub bandwidth: usize,
    /// Packets sent again over packets sent, in the throttling phase.
    pub retransmitted: f64,
    /// Smoothed round trip at the end, ms.
    pub srtt: f64,
    /// Mbit/s of payload in the throttling phase, over the target rate R.
    pub rate: f64,
    /// Rebuffering events.
    pub rebufferings: u64,
    /// Of the connection, s.
    pub duration: f64,
    /// From the request to the first picture, s.
    pub join: f64,
}

/// All viewers of a scenario under some settings.
pub fn watch(scenario: &str, settings: &[&str]) -> Result<Vec<Viewer>> {
    let settings: Vec<String> = settings.iter().copied().map(String::from).collect();
    let mut viewers = Vec::new();
    simulate("trickle.toml", scenario, &settings, None, |_, finished| {
        viewers.extend(of(&finished));
        Ok(())
    })?;
    Ok(viewers)
}

fn of(finished: &Finished) -> impl Iterator<Item = Viewer> {
    let plan = &finished.group.plan;
    let flows = plan.flows.iter().zip(&finished.outcome.flows);
    flows.filter_map(|(flow, outcome)| {
        let Traffic::Stream(stream) = &flow.traffic else {
            return None;
        };
        let (seen, phase) = outcome
            .stream
            .and_then(|seen| Some((seen, seen.throttled?)))?;
        let group = &plan.aggregates[flow.aggregate];
        let seconds = (phase.end - phase.start) as f64 / 1e9;
        let target = stream.throttled_bytes_per_second() as f64;
        Some(Viewer {
            group: GROUPS.iter().position(|name| group.starts_with(name))?,
            bandwidth: finished.point,
            retransmitted: phase.retransmission_rate()?,
            srtt: seen.srtt? as f64 / 1e6,
            rate: phase.delivered as f64 / seconds / target,
            rebufferings: seen.viewing.rebufferings,
            duration: (outcome.end - outcome.start) as f64 / 1e9,
            join: seen.viewing.join? as f64 / 1e9,
        })
    })
}

/// Sizes of bursts in the throttling phase, from captures at the servers of some viewers: by
/// bandwidth, group.
pub fn bursts(scenario: &str, settings: &[&str]) -> Result<Vec<[Vec<u32>; 4]>> {
    let settings: Vec<String> = settings.iter().copied().map(String::from).collect();
    let folder = tempfile::tempdir()?;
    let mut sizes: Vec<[Vec<u32>; 4]> = Vec::new();
    let mut each = |finished: &Finished| -> Result<()> {
        let plan = &finished.group.plan;
        let video = plan.flows.iter().find_map(|flow| match &flow.traffic {
            Traffic::Stream(stream) => Some((flow, stream)),
            _ => None,
        });
        let Some((flow, stream)) = video else {
            return Ok(());
        };
        let name = &plan.aggregates[flow.aggregate];
        let point = finished.point;
        let capture = folder
            .path()
            .join(finished.captures.first().context("a tap")?);
        let startup = u128::from(stream.rate.bits_per_second()) * u128::from(stream.startup);
        sizes.resize_with(sizes.len().max(point + 1), Default::default);
        let group = GROUPS.iter().position(|group| name.starts_with(group));
        if let Some(group) = group {
            let behind = (startup / 8_000_000_000) as i64;
            sizes[point][group].extend(captured(&capture, behind)?);
        }
        std::fs::remove_file(&capture)?;
        Ok(())
    };
    simulate(
        "trickle.toml",
        scenario,
        &settings,
        Some(folder.path()),
        |_, finished| each(&finished),
    )?;
    Ok(sizes)
}

/// The bursts of a capture's server after this many bytes of its video.
pub fn captured(capture: &Path, behind: i64) -> Result<Vec<u32>> {
    struct Sizes(i64, Vec<u32>);
    impl Sink for Sizes {
        fn transfer(&mut self, transfer: &Transfer<'_>, metrics: &Metrics) {
            // Not the request.
            if metrics.data_packets > 100 {
                let first = transfer
                    .sent
                    .iter()
                    .position(|sent| transfer.relative(sent) > self.0);
                let throttled = &transfer.sent[first.unwrap_or(transfer.sent.len())..];
                self.1
                    .extend(burst::bursts(throttled.iter().map(|sent| sent.at)));
            }
        }
    }
    let mut sizes = Sizes(behind, Vec::new());
    let options = Options::measuring(Settings::default());
    analyse(File::open(capture)?, options, &mut sizes).whole()?;
    Ok(sizes.1)
}
