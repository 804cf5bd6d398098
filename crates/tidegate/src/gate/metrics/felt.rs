//! Metrics of what lines feel, if flows are watched.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use tidegate_gate::line::{Line, TripSummary};
use tidegate_gate::reading::Felt;
use tidegate_gate::table::Direction;

use super::{Scrape, family, in_seconds};

const TRIPS: &str = "Round trips on the subscribers' side of the gate (access) or the other (core), of the last 34 to 69 s";
const SCORE: &str = "Score of what a line feels, from 0 (useless) to 100";

/// The sides of the gate with their round trips: where there were some lately.
fn sides(line: &Line) -> impl Iterator<Item = (&'static str, TripSummary)> + use<> {
    let sides = [("access", line.access), ("core", line.core)];
    sides.into_iter().filter(|(_, trips)| trips.lately > 0)
}

/// Percentiles in seconds.
fn quantiles(trips: TripSummary) -> [(&'static str, f64); 2] {
    [
        ("0.5", trips.p50 as f64 / 1e9),
        ("0.95", trips.p95 as f64 / 1e9),
    ]
}

/// A score as the API has it.
fn tenths(score: f64) -> f64 {
    (score * 10.0).round() / 10.0
}

impl Scrape {
    pub(super) fn felt(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let reading = &self.everything.reading;
        let Some(felt) = &reading.felt else {
            return Ok(());
        };
        in_seconds("tidegate_gate_round_trip", TRIPS).gauges(
            encoder,
            sides(&felt.all).flat_map(|(side, trips)| {
                quantiles(trips)
                    .map(|(quantile, value)| ([("side", side), ("quantile", quantile)], value))
            }),
        )?;
        family(
            "tidegate_gate_subscribers_scored",
            "Listed subscribers with a score of their line",
        )
        .gauge(encoder, self.scores(felt).count() as f64)?;
        self.listed_felt(felt, encoder)
    }

    /// The names of listed subscribers with a score, and the score.
    fn scores<'a>(&'a self, felt: &'a Felt) -> impl Iterator<Item = (&'a str, f64)> {
        self.lines(felt)
            .filter_map(|(name, line)| Some((name, tenths(felt.requirement.score(line)?))))
    }

    /// The names of listed subscribers with a line.
    fn lines<'a>(&'a self, felt: &'a Felt) -> impl Iterator<Item = (&'a str, &'a Line)> {
        let roster = &self.everything.reading.roster;
        self.listed.iter().filter_map(move |&index| {
            let line = felt.lines[index].as_ref()?;
            Some((&*roster.subscribers[index].name, line))
        })
    }

    fn listed_felt(&self, felt: &Felt, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        in_seconds("tidegate_gate_subscriber_round_trip", TRIPS).gauges(
            encoder,
            self.lines(felt).flat_map(|(name, line)| {
                sides(line).flat_map(move |(side, trips)| {
                    quantiles(trips).map(move |(quantile, value)| {
                        let labels = [("subscriber", name), ("side", side), ("quantile", quantile)];
                        (labels, value)
                    })
                })
            }),
        )?;
        let score = self.scores(felt);
        family("tidegate_gate_subscriber_score", SCORE).gauges(
            encoder,
            score.map(|(name, score)| ([("subscriber", name)], score)),
        )?;
        family(
            "tidegate_gate_subscriber_segments",
            "Segments of TCP with data of a subscriber: new ones, and those that were sent again",
        )
        .counters(
            encoder,
            self.lines(felt).flat_map(|(name, line)| {
                Direction::BOTH.into_iter().flat_map(move |direction| {
                    let segments = line.segments[direction];
                    let counts = [
                        ("new", segments.all.saturating_sub(segments.again)),
                        ("again", segments.again),
                    ];
                    counts.map(|(sent, count)| {
                        let labels = [
                            ("subscriber", name),
                            ("direction", direction.name()),
                            ("sent", sent),
                        ];
                        (labels, count)
                    })
                })
            }),
        )
    }
}
