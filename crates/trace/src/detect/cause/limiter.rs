//! Policer, queue or neither: buckets fitted at three scopes, held against chance and delay.

use std::cell::LazyCell;
use std::collections::BTreeMap;

use super::arrival::Arrival;
use super::bucket::{Bucket, Noise};
use super::delay::{self, Delay, Knee, Slope};
use super::fit::Fit;
use super::interval::Interval;
use super::managed::Managed;
use super::scope::Scope;
use super::shift;
use super::subject::Subject;
use super::unseen::Unseen;
use crate::detect::{Basis, Burst};
use crate::read::Nanos;

/// What drops the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// It drops what exceeds a token bucket, and delays nothing.
    Policer,
    /// It drops what exceeds a queue that drains at a rate.
    Queue,
    /// It lets a burst pass, then queues, and drops what exceeds the queue. The bucket is both together.
    BurstShaper,
    /// It drops as either of the first two. Its queue would be too short for its delay to show.
    Either,
}

/// A limiter that explains the losses of a transfer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limiter {
    /// What it does with packets.
    pub mechanism: Mechanism,
    /// The packets by which it was found.
    pub basis: Basis,
    /// Whether its level is known from above only: others use it whose packets the capture does not hold, or the
    /// capture was taken at the receiver. Its bucket is unknown then.
    pub unseen_users: bool,
    /// Nats by which it predicts the losses better than bursts of chance do.
    pub gain: f64,
    /// Whether more than one connection takes from it, seen or not.
    pub shared: bool,
    /// The bucket; for a queue the free space.
    pub bucket: Bucket,
    /// How much its level may be off.
    pub noise: Noise,
    /// The intervals of its rate (bytes a second) and depth (bytes), where they are known.
    pub intervals: Option<(Interval, Option<Interval>)>,
    /// The share of the uncertainty about the transfer's losses that the bucket removes: McFadden's
    /// R², 1 at best.
    pub explained: f64,
    /// Delay at the median loss over the time that a full queue of this size takes to drain.
    pub filled: f64,
    /// What a burst-tolerant shaper let pass before.
    pub burst: Option<Burst>,
}

impl Limiter {
    /// Whether the packets that are seen explain nearly all losses, so that others cannot have taken from it.
    pub(super) fn leaves_nothing_to_others(&self) -> bool {
        self.explained > WELL_EXPLAINED
    }
}

/// What became of the search for a limiter that explains a transfer's losses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Losses {
    /// The limiter, if one explains them.
    pub limiter: Option<Limiter>,
    /// How many packets were lost.
    pub lost: usize,
    /// How many episodes of losses there are, at least a path's round-trip time apart.
    pub episodes: usize,
    /// Delay beside the losses.
    pub delay: Option<Delay>,
    /// What a bucket explains at best, whether that is enough or not; `None` where none was fitted.
    pub explained: Option<f64>,
    /// Nats by which bursts of chance are likelier than chance alone.
    pub bursts: f64,
    /// Nats by which the best bucket is likelier than bursts of chance.
    pub beats_bursts: Option<f64>,
    /// The kind of managed queue that drops so, where no bucket explains the losses.
    pub managed: Option<Managed>,
    /// Whether something speaks for a policer whose other users are not seen, though not enough.
    pub might_be_policed: bool,
}

impl Losses {
    /// Whether they fit a policer.
    pub(super) fn is_policed(&self) -> bool {
        let mechanism = self.limiter.map(|limiter| limiter.mechanism);
        mechanism == Some(Mechanism::Policer)
    }
}

/// A bucket explains losses if it removes this share of the uncertainty about them …
const EXPLAINED: f64 = 0.6;
/// … and if it removes this, no comparison with bursts of chance is needed.
const WELL_EXPLAINED: f64 = 0.85;
/// Nats by which a bucket must be likelier than bursts of chance.
const LIKELIER: f64 = 3.0;
/// Far likelier than bursts of chance, in nats: then this share is enough, where jitter blurs the level.
const FAR_LIKELIER: f64 = 100.0;
const BLURRED: f64 = 0.4;
/// Where all that went to the client proves the bucket, this share is enough.
const HINTED: f64 = 0.2;
/// Bytes by which a level may at most be off, or what passes in this time, in seconds: times are no more
/// exact between the capture and the limiter.
const MOST_NOISE: f64 = 3_000.0;
const LEAST_TIME: f64 = 100e-6;
/// Below this share of a full queue's delay at losses there is no queue. Policers were found below
/// 0.11, queues above 0.33 (studies/verdict).
const EMPTY: f64 = 0.25;
/// Below this share, of a queue that takes at least this long to drain, in seconds, no queue was full.
const HARDLY_FILLED: f64 = 0.05;
const LONG_QUEUE: f64 = 1.0;
/// Delay in seconds below which a queue is not distinguished from none: acknowledgements are held back for up to
/// 1 ms.
const TOO_SHORT: f64 = 0.001_2;
/// A full queue that drains faster, in seconds, is not distinguished from none where the delay is that short.
/// Where the delay is, a longer one would have been at least half full.
const DRAINS_TOO_FAST: f64 = 0.002;
const HALF: f64 = 0.5;
/// In noise, delay beside three quarters of the losses below this share of a full queue's is no full queue's.
const MISSING: f64 = 0.6;
/// Where no packet beside three quarters of many losses waited for this share of a full queue's delay, none was full.
const NEARLY_FULL: f64 = 0.75;
const MOST_FULL: f64 = 0.87;
/// It takes this many losses or episodes to be sure of what they have in common.
const PEAKS: usize = 10;
/// Where round-trip times scatter by this many packets' times at the same backlog, the path delays packets in
/// batches. Delay below a multiple of that scatter, and this share of a full queue's, is no queue's.
const BATCH: f64 = 3.0;
const SCATTERED: f64 = 5.0;
/// A packet on the link, in bytes.
const PACKET: f64 = 1_518.0;
/// Delay of this many times the path's noise is not distinguished from none.
const NOISY: f64 = 3.0;
/// Where the round-trip time is seen not to rise with the backlog, and is no higher beside losses, it may be
/// this many times.
const LEVEL_NOISY: f64 = 6.0;
/// A burst-tolerant shaper's queue delays by at least this, in seconds, …
const SHORT_DELAY: f64 = 0.005;
/// … and is at least this share of the fitted bucket, and less than that.
const HARDLY: f64 = 0.04;
const MOST_QUEUE: f64 = 0.5;
/// Nats by which a bucket must be likelier than bursts of chance to be a policer's with fewer episodes, unless it
/// explains many losses well.
const FEW_EPISODES_GAIN: f64 = 25.0;
const MANY_LOSSES: usize = 10;
/// A bucket that explains this much leaves nothing to others.
const EXACTLY_EXPLAINED: f64 = 0.95;
/// Episodes of losses without which a policer is not distinguished from chance.
const EPISODES: usize = 3;
/// Episodes by which a transfer alone tells the rate of a bucket that others may use, unless it explains nearly
/// all losses.
const MANY_EPISODES: usize = 6;
/// A smaller bucket, in bytes, is full or empty most of the time: eight full packets.
const SOME_PACKETS: f64 = 12_000.0;
/// Nats that unseen users must gain.
const UNSEEN_GAIN: f64 = 8.0;
/// A transfer alone shows no policer with other users where packets beside losses waited for this, in seconds, and those
/// elsewhere for less: the mean rank exceeds 1/2 by more than this many standard errors.
const UNSEEN_DELAY: f64 = 0.001_5;
const UNSEEN_RANK: f64 = 1.0;
/// Nats from which they cannot be dismissed.
const UNSEEN_DOUBT: f64 = 5.0;
/// Nats that a transfer of a connection may contradict the unseen users that the others show.
const UNSEEN_CONTRADICTION: f64 = 3.0;
/// Losses of a transfer that counts among those of a connection with unseen users.
const UNSEEN_LOSSES: usize = 5;
/// Fewer losses are not explained.
pub const LEAST_LOSSES: usize = 3;
/// Where no round-trip time is known, in nanoseconds.
const USUAL_RTT: Nanos = 100_000_000;
/// Shares of its depth that a bucket may hold before a transfer in the middle of a connection.
const STARTS: [f64; 3] = [1.0, 0.3, 0.0];

/// Transfers towards one client, and all their packets.
#[derive(Debug, Default)]
pub struct Towards {
    /// The packets, by time; [`Arrival::transfer`] is an index into `flows`.
    pub arrivals: Vec<Arrival>,
    /// The number of each transfer's flow.
    pub flows: Vec<u64>,
    /// Number of the first transfers that are judged already: their packets count, and their losses are
    /// not explained again.
    pub judged: usize,
}

/// Explains the losses of every transfer that has at least [`LEAST_LOSSES`] and is not judged, by packets
/// of up to a basis.
pub fn explain(towards: &Towards, basis: Basis) -> Vec<Option<Losses>> {
    let mut explained = vec![None; towards.flows.len()];
    let transfers = by_transfer(towards);
    let lossy = |arrivals: &[Arrival]| arrivals.iter().filter(|a| a.lost).count() >= LEAST_LOSSES;
    let transfers_left = &transfers[towards.judged.min(transfers.len())..];
    if !transfers_left.iter().any(|arrivals| lossy(arrivals)) {
        return explained;
    }
    let apart = delay::base(towards.arrivals.iter()).map_or(USUAL_RTT, |base| (base * 1e9) as u64);
    let client = LazyCell::new(|| {
        let scope = Scope::new(towards.arrivals.clone(), &[1.0], apart);
        scope.used_by(&towards.flows)
    });
    let mut flows: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (i, &flow) in towards.flows.iter().enumerate() {
        flows.entry(flow).or_default().push(i);
    }
    for members in flows.into_values() {
        if !members
            .iter()
            .any(|&i| i >= towards.judged && lossy(&transfers[i]))
        {
            continue;
        }
        let mut together: Vec<Arrival> = members
            .iter()
            .flat_map(|&i| transfers[i].iter().copied())
            .collect();
        together.sort_by_key(|arrival| arrival.at);
        let base = delay::base(together.iter());
        let subjects: Vec<(usize, Subject)> = members
            .iter()
            .filter(|&&i| lossy(&transfers[i]))
            .map(|&i| (i, Subject::new(transfers[i].clone(), base, apart)))
            .collect();
        let connection = LazyCell::new(|| Scope::new(together, &[1.0], apart));
        let unseen = LazyCell::new(|| unseen_users(&subjects));
        for (i, subject) in subjects.iter().filter(|(i, _)| *i >= towards.judged) {
            let mut search = Search::new(subject);
            match basis {
                Basis::Segment => {
                    search.bucket(&Scope::new(subject.arrivals.clone(), &STARTS, apart), basis);
                    search.unseen();
                }
                Basis::Connection | Basis::Client => {
                    if basis == Basis::Client {
                        search.bucket(&client, basis);
                    }
                    if search.goes_on() {
                        let others = members.len() < transfers.len();
                        // A client's only connection is not fitted twice.
                        let fitted = basis == Basis::Client && !others;
                        let scope = if fitted { &*client } else { &*connection };
                        search.bucket(scope, Basis::Connection);
                        search.doubt_bucket(basis, others);
                    }
                    search.unseen();
                    if search.goes_on() && subject.is_flat() && connection.episodes >= EPISODES {
                        search.unseen_of_connection(*unseen);
                    }
                }
            }
            if search.goes_on() {
                let base = subject.delay.map(|delay| delay.base);
                search.losses.managed = base.and_then(|base| Managed::of(&subject.arrivals, base));
            }
            explained[*i] = Some(search.losses);
        }
    }
    suspect_proven_policer(&mut explained);
    explained
}

/// A policer that drops what goes to a client may have dropped what no bucket explains, too.
fn suspect_proven_policer(explained: &mut [Option<Losses>]) {
    let proves = |limiter: Limiter| {
        limiter.mechanism == Mechanism::Policer && limiter.basis == Basis::Client
    };
    let mut all = explained.iter().flatten();
    let proven = all.any(|losses| losses.limiter.is_some_and(proves));
    for losses in explained.iter_mut().flatten() {
        losses.might_be_policed |= proven;
    }
}

/// The packets of each transfer, by time.
fn by_transfer(towards: &Towards) -> Vec<Vec<Arrival>> {
    let mut transfers = vec![Vec::new(); towards.flows.len()];
    for arrival in &towards.arrivals {
        transfers[arrival.transfer as usize].push(*arrival);
    }
    transfers
}

/// One bucket with unseen users for all transfers of a connection whose delay is flat.
fn unseen_users(subjects: &[(usize, Subject)]) -> Option<Unseen> {
    let flat = subjects
        .iter()
        .map(|(_, subject)| subject)
        .filter(|subject| subject.losses >= UNSEEN_LOSSES && subject.is_mostly_flat());
    let arrivals: Vec<Arrival> = flat
        .flat_map(|subject| subject.arrivals.iter().copied())
        .collect();
    Unseen::find(&arrivals)
}

/// The search for what explains one transfer's losses.
struct Search<'a> {
    subject: &'a Subject,
    losses: Losses,
}

impl<'a> Search<'a> {
    fn new(subject: &'a Subject) -> Self {
        Self {
            subject,
            losses: Losses {
                limiter: None,
                lost: subject.losses,
                episodes: subject.episodes,
                delay: subject.delay,
                explained: None,
                bursts: subject.by_bursts - subject.by_chance,
                beats_bursts: None,
                managed: None,
                might_be_policed: false,
            },
        }
    }

    fn goes_on(&self) -> bool {
        self.losses.limiter.is_none()
    }

    /// Tries the bucket of a scope all of whose users are seen.
    fn bucket(&mut self, scope: &Scope, basis: Basis) {
        let (subject, Some(fit)) = (self.subject, scope.fit) else {
            return;
        };
        let likelihood = |noise: Noise| -> f64 {
            scope
                .of(subject.number)
                .map(|(level, arrival)| noise.log_likelihood(level, arrival))
                .sum()
        };
        let explains = |likelihood: f64| 1.0 - likelihood / subject.by_chance;
        let exactly = likelihood(fit.noise);
        let certain = explains(exactly) <= WELL_EXPLAINED && scope.is_certain();
        // Connections reach the limiter in another order than the capture, by the difference of their paths.
        let likelihood = match certain {
            true => exactly.max(likelihood(Noise { width: MOST_NOISE })),
            false => exactly,
        };
        let explained = explains(likelihood);
        self.losses.explained = Some(self.losses.explained.unwrap_or(explained).max(explained));
        let gain = likelihood - subject.by_bursts;
        self.losses.beats_bursts = Some(self.losses.beats_bursts.unwrap_or(gain).max(gain));
        let beats_bursts = || match basis {
            Basis::Client => likelihood - subject.by_bursts > LIKELIER,
            _ => subject
                .unseen()
                .is_some_and(|unseen| unseen.gain > LIKELIER),
        };
        let jitter = subject.delay.map_or(0.0, |delay| delay.noise);
        let most_noise = (fit.bucket.rate * LEAST_TIME.max(2.0 * jitter)).max(MOST_NOISE);
        let fits = explained >= EXPLAINED
            && (explained > WELL_EXPLAINED || beats_bursts() || certain)
            || explained >= BLURRED && gain > FAR_LIKELIER
            || explained >= HINTED && gain > LIKELIER && certain;
        let fits = fits && fit.noise.width <= most_noise;
        self.losses.might_be_policed |= explained >= EXPLAINED;
        let filled = subject.filled(fit.bucket.rate, fit.bucket.depth);
        let (true, Some(filled), Some(delay)) = (fits, filled, subject.delay) else {
            return;
        };
        let slope = Slope::of(scope.of(subject.number), &fit);
        // Delayed acknowledgements can look like a slope. But what passes beside a loss has waited in a full queue.
        let rises = slope.is_some_and(Slope::is_queue) && !subject.is_exactly_flat();
        let level = slope.is_some_and(Slope::is_level);
        let at_losses = delay.at_losses().unwrap_or(0.0);
        let knee = (at_losses > SHORT_DELAY && (HARDLY..MOST_QUEUE).contains(&filled))
            .then(|| delay::knee(scope.arrivals_and_levels(), &fit, delay.base, at_losses))
            .flatten();
        let drains = fit.bucket.depth / fit.bucket.rate;
        let in_noise = delay.near.is_some() && at_losses < NOISY * jitter && !rises;
        let known = delay.is_known_at_losses() || level;
        let short = at_losses < TOO_SHORT && drains >= DRAINS_TOO_FAST;
        let held_back = delay.is_held_back() && scope.episodes >= PEAKS;
        // Far less than a queue that takes this long to drain would add, however long a receiver holds acknowledgements back.
        let hardly_filled = filled < HARDLY_FILLED && drains > LONG_QUEUE;
        let empty = hardly_filled
            || (filled < EMPTY || short && filled < HALF)
                && (!delay.waited_at_losses() || held_back)
            || at_losses < TOO_SHORT
                && subject.losses >= PEAKS
                && delay.peaks_below(NEARLY_FULL * drains);
        // What a full queue would add stands out from the noise, and is missing beside most losses.
        let missing = in_noise
            && !subject.waits_beside_losses()
            && delay
                .at_most_losses()
                .is_some_and(|most| most < MISSING * drains);
        // Nor does a queue scatter: with the same backlog all wait as long, but for a packet's time.
        let packet = PACKET / fit.bucket.rate;
        let scatters = slope.is_some_and(|slope| {
            slope.noise >= BATCH * packet && at_losses < SCATTERED * slope.noise
        });
        let scattered = scatters
            && jitter >= packet
            && !delay.is_highest_at_losses()
            && explained > WELL_EXPLAINED
            && at_losses < NEARLY_FULL * drains
            && delay
                .near
                .is_some_and(|near| near.peaks[1] < MOST_FULL * drains);
        let mechanism = if knee == Some(Knee::Sharp) {
            Mechanism::BurstShaper
        } else if knee == Some(Knee::Round) {
            Mechanism::Queue
        } else if (empty
            || missing
            || scattered
            || level && at_losses < LEVEL_NOISY * jitter && !delay.is_higher_at_losses())
            && !rises
            && known
        {
            Mechanism::Policer
        } else if in_noise || drains < DRAINS_TOO_FAST && at_losses < TOO_SHORT || empty && !rises {
            Mechanism::Either
        } else {
            Mechanism::Queue
        };
        let sure = scope.episodes >= EPISODES
            || gain > FEW_EPISODES_GAIN
            || explained > WELL_EXPLAINED && gain > LIKELIER && subject.losses >= MANY_LOSSES;
        if mechanism == Mechanism::Policer && !sure {
            self.losses.might_be_policed = true;
            return;
        }
        self.losses.limiter = Some(Limiter {
            mechanism,
            basis,
            unseen_users: false,
            gain,
            shared: scope.is_shared,
            bucket: fit.bucket,
            noise: fit.noise,
            intervals: self
                .knows_settings(scope, &fit, basis, explained)
                .then(|| scope.intervals())
                .flatten(),
            explained,
            filled,
            burst: (mechanism == Mechanism::BurstShaper).then(|| {
                let queue = at_losses * fit.bucket.rate;
                let first = scope
                    .of(subject.number)
                    .position(|(level, _)| level < queue);
                let allowance = fit.bucket.depth - queue;
                shift::burst_until(&subject.arrivals, first, allowance, fit.bucket.rate)
            }),
        });
    }

    /// Whether rate and depth are known. Where others may use the bucket unseen, only a bucket that leaves little
    /// to them is known. A transfer alone must also show what the bucket gained between many episodes, and that
    /// it holds enough for its level to tell what others took.
    fn knows_settings(&self, scope: &Scope, fit: &Fit, basis: Basis, explained: f64) -> bool {
        match basis {
            Basis::Client => true,
            Basis::Connection => explained > WELL_EXPLAINED,
            Basis::Segment => {
                let exactly = scope.episodes >= EPISODES && explained > EXACTLY_EXPLAINED;
                (exactly || scope.episodes >= MANY_EPISODES && explained > WELL_EXPLAINED)
                    && fit.bucket.depth >= SOME_PACKETS
            }
        }
    }

    /// Where a connection's bucket explains what that of all the client's connections does not, others
    /// take from it too, and its rate and depth are not known.
    fn doubt_bucket(&mut self, basis: Basis, others: bool) {
        if basis != Basis::Client || !others {
            return;
        }
        if let Some(limiter) = &mut self.losses.limiter {
            limiter.intervals = None;
        }
    }

    /// Tries a bucket with unseen users for the transfer alone.
    fn unseen(&mut self) {
        let subject = self.subject;
        if !self.goes_on() || !subject.is_flat() {
            return;
        }
        let many = subject.episodes >= EPISODES;
        // With few episodes a bucket of the packets that are seen must speak for it, too.
        let few = subject.has_hardly_waited()
            && self
                .losses
                .explained
                .is_some_and(|explained| explained >= BLURRED);
        if many || few {
            let unseen = subject.unseen();
            self.losses.might_be_policed |=
                many && unseen.is_some_and(|unseen| unseen.gain > UNSEEN_DOUBT);
            let least = if many { UNSEEN_GAIN } else { FEW_EPISODES_GAIN };
            let unseen = unseen.filter(|unseen| unseen.gain > least);
            self.losses.limiter =
                unseen.and_then(|unseen| hidden(subject, &unseen, Basis::Segment));
        }
    }

    /// Tries the bucket with unseen users that all transfers of the connection show together.
    fn unseen_of_connection(&mut self, unseen: Option<Unseen>) {
        let subject = self.subject;
        let unseen = unseen.filter(|unseen| {
            unseen.gain > UNSEEN_GAIN && unseen.gain_for(&subject.arrivals) > -UNSEEN_CONTRADICTION
        });
        self.losses.limiter = unseen.and_then(|unseen| hidden(subject, &unseen, Basis::Connection));
    }
}

fn hidden(subject: &Subject, unseen: &Unseen, basis: Basis) -> Option<Limiter> {
    let filled = subject.filled(unseen.rate, unseen.depth)?;
    let rises = basis == Basis::Segment
        && subject.delay.is_some_and(|delay| {
            let above = delay.rank.is_some_and(|rank| rank.excess() > UNSEEN_RANK);
            above && delay.near.is_some_and(|near| near.median > UNSEEN_DELAY)
        });
    let bucket = Bucket {
        rate: unseen.rate,
        depth: unseen.depth,
        start: 1.0,
    };
    (filled < EMPTY && !rises).then_some(Limiter {
        mechanism: Mechanism::Policer,
        basis,
        unseen_users: true,
        gain: unseen.gain,
        shared: true,
        bucket,
        noise: Noise { width: MOST_NOISE },
        intervals: None,
        explained: f64::NAN,
        filled,
        burst: None,
    })
}
