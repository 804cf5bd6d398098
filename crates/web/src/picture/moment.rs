//! Where in the picture one can see what a sentence says.

use serde_json::{Value, json};
use tidegate_story::account::Kept;
use tidegate_trace::annotate::{Marks, Sent};
use tidegate_trace::detect::{About, Cause};
use tidegate_trace::read::Nanos;

use super::Picture;

/// Losses further apart than this number of round trips are separate.
const APART: u64 = 4;

/// A panel, and the part of it that shows something.
struct Moment {
    panel: &'static str,
    from: Nanos,
    to: Nanos,
}

impl Picture {
    /// For each sentence of evidence and each cause that is ruled out: the panel and the part of it to look at.
    pub(super) fn moments(&self, kept: &Kept) -> (Value, Value) {
        let json = |about: About| {
            let moment = self.moment(about, kept);
            let in_time = |at: Nanos| self.since(at.clamp(self.start, self.end));
            json!({ "panel": moment.panel, "from": in_time(moment.from), "to": in_time(moment.to) })
        };
        let judgement = &kept.judgement;
        let evidence = judgement
            .evidence(&kept.transfer)
            .into_iter()
            .map(|clue| json(clue.about));
        let others = judgement.ruled_out(&kept.transfer).into_iter();
        let others = others.map(|other| json(against(other.cause)));
        (evidence.collect(), others.collect())
    }

    fn moment(&self, about: About, kept: &Kept) -> Moment {
        let round = self.round();
        let around = |panel, at: Nanos, rounds: u64| Moment {
            panel,
            from: at.saturating_sub(rounds * round),
            to: at.saturating_add(rounds * round),
        };
        let whole = |panel| Moment {
            panel,
            from: self.start,
            to: self.end,
        };
        let part = |panel, places: (usize, usize), rounds: u64| Moment {
            panel,
            from: self.sent[places.0].at.saturating_sub(rounds * round),
            to: self.sent[places.1].at.saturating_add(rounds * round),
        };
        let lost: Vec<usize> = self.places(Sent::lost).collect();
        match about {
            About::Whole => whole("sequence"),
            About::Losses => self
                .episode(&lost)
                .map_or(whole("sequence"), |places| part("sequence", places, 2)),
            About::Level => {
                let levels = ["tokens", "queued"];
                let mut panels = self.panels.iter().map(|panel| panel.key);
                let panel = panels.find(|key| levels.contains(key));
                let panel = panel.unwrap_or("sequence");
                self.episode(&lost)
                    .map_or(whole(panel), |places| part(panel, places, 6))
            }
            About::DelayBesideLosses => lost
                .get(lost.len() / 2)
                .map_or(whole("rtt"), |&place| around("rtt", self.sent[place].at, 6)),
            About::Switch => {
                let burst = kept.judgement.limit.and_then(|limit| limit.burst);
                let switch = burst.and_then(|burst| burst.switch);
                switch.map_or(whole("rtt"), |switch| {
                    around("rtt", self.start.saturating_add(switch.after), 10)
                })
            }
            About::RoundTrips => whole("rtt"),
            About::ReceiveWindow => {
                let full = self.places(|sent| sent.marks.has(Marks::WINDOW_FULL));
                longest_run(full).map_or(whole("flight"), |places| part("flight", places, 2))
            }
            About::InFlight => {
                let most = (0..self.sent.len()).max_by_key(|&place| self.sent[place].in_flight);
                most.map_or(whole("flight"), |place| {
                    around("flight", self.sent[place].at, 6)
                })
            }
            About::Idle => self.pause().map_or(whole("flight"), |(from, to)| Moment {
                panel: "flight",
                from: from.saturating_sub(2 * round),
                to: to.saturating_add(2 * round),
            }),
            About::Repair => {
                let again: Vec<usize> = self.places(Sent::is_retransmission).collect();
                self.episode(&again)
                    .map_or(whole("sequence"), |places| part("sequence", places, 2))
            }
            About::Beginning => Moment {
                panel: "flight",
                from: self.start,
                to: self.start.saturating_add(10 * round),
            },
            About::Spacing => whole("gaps"),
            About::BeforeLosses => lost.first().map_or(whole("throughput"), |&place| {
                around("throughput", self.sent[place].at, 2)
            }),
        }
    }

    /// A round trip, or what stands for one where none is known.
    fn round(&self) -> Nanos {
        let known = self.transfer.metrics.rtt.map(|rtt| rtt.median);
        let part = self.end.saturating_sub(self.start) / 20;
        known.unwrap_or(part).clamp(1_000, part.max(1_000))
    }

    /// The places of packets.
    fn places(&self, which: impl Fn(&Sent) -> bool) -> impl Iterator<Item = usize> {
        (0..self.sent.len()).filter(move |&place| which(&self.sent[place]))
    }

    /// The first and the last of the most packets that are close to each other.
    fn episode(&self, places: &[usize]) -> Option<(usize, usize)> {
        let apart = APART * self.round();
        let close = |one: &usize, other: &usize| {
            self.sent[*other].at.saturating_sub(self.sent[*one].at) <= apart
        };
        let episodes = places.chunk_by(close);
        // Of equals the first.
        let most = episodes.rev().max_by_key(|episode| episode.len())?;
        Some((*most.first()?, *most.last()?))
    }

    /// The longest time in which nothing was in flight.
    fn pause(&self) -> Option<(Nanos, Nanos)> {
        let pairs = self.sent.windows(2);
        // A packet that is alone in flight was sent when all before it was acknowledged.
        let alone = pairs.filter(|pair| pair[1].in_flight <= pair[1].len);
        let longest = alone.max_by_key(|pair| pair[1].at - pair[0].at)?;
        Some((longest[0].at, longest[1].at))
    }
}

/// What speaks against a cause.
fn against(cause: Cause) -> About {
    match cause {
        Cause::Policer | Cause::Queue | Cause::Aqm | Cause::ShaperBurst => About::DelayBesideLosses,
        Cause::RandomLoss => About::Level,
        Cause::ReceiveWindow => About::ReceiveWindow,
        Cause::Application => About::Idle,
        Cause::Sender => About::BeforeLosses,
        Cause::RoundTrips => About::Beginning,
        Cause::Mixed | Cause::Unclear => About::Whole,
    }
}

/// The first and the last of the longest run of places that follow each other.
fn longest_run(places: impl Iterator<Item = usize>) -> Option<(usize, usize)> {
    let places: Vec<usize> = places.collect();
    let runs = places.chunk_by(|one, other| one + 1 == *other);
    let longest = runs.rev().max_by_key(|run| run.len())?;
    Some((*longest.first()?, *longest.last()?))
}

#[cfg(test)]
mod tests {
    use super::longest_run;

    #[test]
    fn the_first_of_the_longest_runs() {
        assert_eq!(
            longest_run([1, 4, 5, 6, 9, 11, 12, 13].into_iter()),
            Some((4, 6))
        );
        assert_eq!(longest_run(std::iter::empty()), None);
    }
}
