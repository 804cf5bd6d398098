//! The verdict on several transfers together: those of a flow or a client.

use std::sync::Arc;

use super::judgement::{AqmKind, Basis, Cause, Details, Judgement, Limit, QueueKind, Share};
use crate::annotate::{Layer, TransferSummary};

/// A cause that takes this share of the time decides alone.
const DECIDES: f64 = 0.5;
/// A cause with a smaller share than this is not part of a mixture.
const PART: f64 = 0.25;
/// What a transfer of a single packet counts, in seconds.
const LEAST: f64 = 1e-6;

/// Sums up verdicts on transfers, by time. Its size is bounded by the number of causes.
///
/// Each transfer counts with its duration for its verdict; a mixed one divides its time by its
/// shares. What has half of the time, or more than any other where no second has a quarter, is
/// the verdict. So where the transfers were fitted jointly, the group gets what they share.
#[derive(Debug, Clone, Default)]
pub struct Together {
    causes: Vec<Sums>,
    seconds: f64,
    basis: Option<Basis>,
}

/// What is known of a cause.
#[derive(Debug, Clone)]
struct Sums {
    cause: Cause,
    /// Seconds of transfers with this verdict, …
    decided: f64,
    /// … that this cause took by the shares of all transfers, …
    attributed: f64,
    /// … and of the former by their confidence. `None`: the detector does not say.
    sure: Option<f64>,
    shared: Option<bool>,
    /// Of managed queues: each kind that was named.
    kinds: Vec<AqmKind>,
    /// Of queues: whether one overflowed.
    queue: Option<QueueKind>,
    left: Vec<Cause>,
    found: Option<Found>,
    longest: Option<Longest>,
}

/// The details of the longest transfer of the widest basis.
#[derive(Debug, Clone)]
struct Longest {
    basis: Basis,
    seconds: f64,
    details: Arc<dyn Details>,
}

/// The limit of the transfer with the widest basis, and of these the longest.
#[derive(Debug, Clone, Copy)]
struct Found {
    basis: Basis,
    seconds: f64,
    /// On the link.
    limit: Limit,
}

impl Together {
    /// Takes the verdict on a transfer.
    pub fn add(&mut self, transfer: &TransferSummary, judgement: &Judgement) {
        let seconds = (transfer.metrics.duration as f64 / 1e9).max(LEAST);
        self.seconds += seconds;
        self.basis = self.basis.max(Some(judgement.basis));
        let whole = [Share {
            cause: judgement.cause,
            share: 1.0,
        }];
        let shares = match &judgement.shares[..] {
            [] => &whole[..],
            shares => shares,
        };
        for share in shares {
            self.of(share.cause).attributed += share.share * seconds;
        }
        let verdict = match judgement.cause {
            Cause::Mixed => shares,
            _ => &whole,
        };
        for share in verdict {
            let part = share.share * seconds;
            let sums = self.of(share.cause);
            sums.decided += part;
            if let Some(confidence) = judgement.confidence {
                sums.sure = Some(sums.sure.unwrap_or(0.0) + confidence * part);
            }
        }
        let sums = self.of(judgement.cause);
        sums.shared = sums.shared.max(judgement.shared);
        sums.queue = sums.queue.max(judgement.queue_kind);
        if let Some(kind) = judgement.aqm_kind.filter(|kind| !sums.kinds.contains(kind)) {
            sums.kinds.push(kind);
        }
        for &cause in &judgement.left {
            if !sums.left.contains(&cause) {
                sums.left.push(cause);
            }
        }
        let longest = sums
            .longest
            .as_ref()
            .map(|longest| (longest.basis, longest.seconds));
        if let Some(details) = judgement.any_details()
            && longest.is_none_or(|longest| longest < (judgement.basis, seconds))
        {
            sums.longest = Some(Longest {
                basis: judgement.basis,
                seconds,
                details: Arc::clone(details),
            });
        }
        let Some(limit) = judgement.limit else {
            return;
        };
        let before = sums.found.map(|found| (found.basis, found.seconds));
        if before.is_none_or(|before| before < (judgement.basis, seconds)) {
            sums.found = Some(Found {
                basis: judgement.basis,
                seconds,
                limit: limit.at(Layer::Link, &transfer.tally),
            });
        }
    }

    fn of(&mut self, cause: Cause) -> &mut Sums {
        let place = self.causes.iter().position(|sums| sums.cause == cause);
        let place = place.unwrap_or_else(|| {
            self.causes.push(Sums {
                cause,
                decided: 0.0,
                attributed: 0.0,
                sure: None,
                shared: None,
                kinds: Vec::new(),
                queue: None,
                left: Vec::new(),
                found: None,
                longest: None,
            });
            self.causes.len() - 1
        });
        &mut self.causes[place]
    }

    /// The verdict on all of them.
    pub fn judgement(&self) -> Judgement {
        let mut order: Vec<&Sums> = self.causes.iter().collect();
        // Of equals, the first of all causes.
        order.sort_by(|a, b| b.decided.total_cmp(&a.decided).then(a.cause.cmp(&b.cause)));
        let share = |seconds: f64| seconds / self.seconds.max(LEAST);
        let decided = |place: usize| order.get(place).map_or(0.0, |sums| share(sums.decided));
        let Some(first) = order.first() else {
            return Judgement::new(Cause::Unclear, "nothing was sent");
        };
        let mixed = decided(0) < DECIDES && decided(1) >= PART;
        let mut judgement = if mixed {
            let reason = "several causes, each for a part of the time";
            let mut judgement = Judgement::new(Cause::Mixed, reason);
            let sure = order.iter().filter_map(|sums| sums.sure);
            judgement.confidence = sure.reduce(|a, b| a + b).map(share);
            judgement
        } else {
            let percent = 100.0 * decided(0);
            let reason = format!("{} for {percent:.0} % of the time", first.cause);
            let mut judgement = Judgement::new(first.cause, reason);
            judgement.confidence = first.sure.map(|sure| sure / first.decided.max(LEAST));
            judgement.limit = first.found.map(|found| found.limit);
            judgement.shared = first.shared;
            judgement.queue_kind = first.queue;
            if let [kind] = first.kinds[..] {
                judgement.aqm_kind = Some(kind);
            }
            judgement.left.clone_from(&first.left);
            match &first.longest {
                Some(longest) => judgement.with_details_of(&longest.details),
                None => judgement,
            }
        };
        judgement.basis = self.basis.unwrap_or(Basis::Segment);
        judgement.shares = order
            .iter()
            .map(|sums| Share {
                cause: sums.cause,
                share: share(sums.attributed),
            })
            .filter(|share| share.share > 0.0)
            .collect();
        judgement.shares.sort_by(|a, b| b.share.total_cmp(&a.share));
        judgement
    }
}

#[cfg(test)]
mod tests;
