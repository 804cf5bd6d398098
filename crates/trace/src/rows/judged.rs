//! The columns that rows of segments, flows and clients have in common: the verdict.

use tidegate_table::convert::{bits, rounded};
use tidegate_table::{Column, columns};

use crate::annotate::{Layer, Tally};
use crate::detect::cause::{Course, Findings, Losses};
use crate::detect::{Burst, Cause, Estimate, Judgement, Limit};

/// A row with a verdict.
pub(super) trait Judged: Sized + 'static {
    /// The verdict.
    fn judgement(&self) -> &Judgement;

    /// Counts of the packets that it is about.
    fn tally(&self) -> &Tally;

    /// The limiter's settings on the link.
    fn limit(&self) -> Option<Limit> {
        Some(self.judgement().limit?.at(Layer::Link, self.tally()))
    }

    /// The limiter's rate on the link.
    fn rate(&self) -> Option<Estimate> {
        Some(self.limit()?.rate_bps)
    }

    /// The limiter's depth in bytes on the link.
    fn depth(&self) -> Option<Estimate> {
        self.limit()?.depth_bytes
    }

    /// What a burst-tolerant shaper lets pass before.
    fn burst(&self) -> Option<Burst> {
        self.limit()?.burst
    }

    /// The share of the time that a cause took; missing where the detector does not divide the time.
    fn share(&self, cause: Cause) -> Option<f64> {
        let shares = &self.judgement().shares;
        let found = shares.iter().find(|share| share.cause == cause);
        let share = found.map_or(0.0, |share| share.share);
        (!shares.is_empty()).then(|| rounded(share, 4))
    }

    /// The causes that are left, of a verdict that is unclear.
    fn left(&self) -> Option<String> {
        let left = &self.judgement().left;
        let names: Vec<&str> = left.iter().map(|cause| cause.name()).collect();
        (!names.is_empty()).then(|| names.join(" "))
    }

    /// What the detector `tidegate` measured.
    fn course(&self) -> Option<&Course> {
        self.judgement().details::<Findings>()?.course.as_ref()
    }

    fn losses(&self) -> Option<&Losses> {
        self.judgement().details::<Findings>()?.losses.as_ref()
    }

    /// The verdict and the limiter.
    const VERDICT: &'static [Column<Self>] = columns! { Self;
        verdict: Text [""] "What limited the data: policer, queue, aqm, shaper-burst, random-loss, receive-window, application, sender, round-trips, mixed or unclear." = |r| r.judgement().cause.name();
        verdict_confidence: Real [""] "How sure the detector is of that, 0 to 1; missing where it does not say." = |r| r.judgement().confidence.map(|confidence| rounded(confidence, 3));
        verdict_basis: Text [""] "Which packets the verdict rests on: those of the segment, the connection or the client." = |r| r.judgement().basis.name();
        verdict_shared: Truth [""] "Whether other connections use the limiter too, seen or not; missing where the detector cannot tell." = |r| r.judgement().shared;
        limit_rate_bps: Integer ["bit/s"] "The limiter's rate as frames on the link, where it is known: from its losses, or from the trains of packets that left a queue." = |r| r.rate().map(|rate| bits(rate.value));
        limit_rate_low_bps: Integer ["bit/s"] "The least rate that explains the packets nearly as well; missing where the detector gives no interval." = |r| r.rate().and_then(Estimate::interval).map(|range| bits(*range.start()));
        limit_rate_high_bps: Integer ["bit/s"] "The greatest such rate." = |r| r.rate().and_then(Estimate::interval).map(|range| bits(*range.end()));
        limit_depth_bytes: Integer ["B"] "What the limiter's bucket or queue holds, in bytes of frames." = |r| r.depth().map(|depth| bits(depth.value));
        limit_depth_low_bytes: Integer ["B"] "The least depth that explains the losses nearly as well." = |r| r.depth().and_then(Estimate::interval).map(|range| bits(*range.start()));
        limit_depth_high_bytes: Integer ["B"] "The greatest such depth." = |r| r.depth().and_then(Estimate::interval).map(|range| bits(*range.end()));
    };

    /// How the time divides.
    const SHARES: &'static [Column<Self>] = columns! { Self;
        verdict_left: Text [""] "The causes that cannot be distinguished, between spaces, where the verdict is unclear." = |r| r.left();
        share_policer: Real [""] "Share of the time in which a policer limited the data, 0 to 1; missing where the detector does not divide the time." = |r| r.share(Cause::Policer);
        share_queue: Real [""] "The same for a queue." = |r| r.share(Cause::Queue);
        share_aqm: Real [""] "The same for a managed queue." = |r| r.share(Cause::Aqm);
        share_shaper_burst: Real [""] "The same for a burst-tolerant shaper." = |r| r.share(Cause::ShaperBurst);
        share_random_loss: Real [""] "The same for random loss." = |r| r.share(Cause::RandomLoss);
        share_receive_window: Real [""] "The same for the receiver's window." = |r| r.share(Cause::ReceiveWindow);
        share_application: Real [""] "The same for the application." = |r| r.share(Cause::Application);
        share_sender: Real [""] "The same for the sender." = |r| r.share(Cause::Sender);
        share_round_trips: Real [""] "The same for the round trips while the window grows." = |r| r.share(Cause::RoundTrips);
        share_unclear: Real [""] "Share of the time in which the cause is not clear." = |r| r.share(Cause::Unclear);
    };

    /// What the verdict rests on.
    const EVIDENCE: &'static [Column<Self>] = columns! { Self;
        path_rtt_ms: Real ["ms"] "Round-trip time of the path without queues, as the verdict takes it. In rows of flows and clients, this column and the ten behind it are of the longest of the transfers with the verdict and its basis." = |r| r.course().map(|course| rounded(course.base * 1e3, 6));
        waiting_ms: Real ["ms"] "By how much the median round-trip time exceeds that." = |r| r.course().map(|course| rounded(course.waiting * 1e3, 6));
        round_trips: Real [""] "Round trips of the median length that the transfer took." = |r| r.course().map(|course| rounded(course.rounds, 2));
        loss_episodes_apart: Integer32 [""] "Episodes of losses at least a round-trip time of the path apart; missing with fewer than 3 losses, as are the next nine." = |r| r.losses().map(|losses| losses.episodes as u64);
        losses_explained: Real [""] "Share of the uncertainty about the losses that the best bucket removes (McFadden's R²), 1 at best; missing where none was fitted." = |r| r.losses().and_then(|losses| losses.explained).map(|share| rounded(share, 4));
        gain_over_bursts_nats: Real ["nats"] "By how much the best bucket is likelier than losses that come in bursts by chance." = |r| r.losses().and_then(|losses| losses.beats_bursts).map(|gain| rounded(gain, 2));
        gain_of_bursts_nats: Real ["nats"] "By how much losses in bursts by chance are likelier than losses by chance alone." = |r| r.losses().map(|losses| rounded(losses.bursts, 2));
        delay_at_losses_ms: Real ["ms"] "Least delay above the path's round-trip time of packets beside the median loss." = |r| r.losses().and_then(|losses| losses.delay?.at_losses()).map(|delay| rounded(delay * 1e3, 6));
        delay_p95_ms: Real ["ms"] "95th percentile of the delay of all packets." = |r| r.losses().and_then(|losses| losses.delay?.upper).map(|delay| rounded(delay * 1e3, 6));
        queue_filled: Real [""] "Delay at the median loss over the time that a full queue of the fitted size takes to drain: near 0 at a policer, near 1 at a queue." = |r| r.losses().and_then(|losses| losses.limiter).map(|limiter| rounded(limiter.filled, 4));
        unseen_users: Truth [""] "Whether the limiter's level is known from above only: packets that the capture does not hold use it too, or the capture was taken at the receiver." = |r| r.losses().and_then(|losses| losses.limiter).map(|limiter| limiter.unseen_users);
    };

    /// The allowance of a burst-tolerant shaper.
    const ALLOWANCE: &'static [Column<Self>] = columns! { Self;
        burst_bytes_allowed: Integer ["B"] "With a burst-tolerant shaper: bytes of frames that pass before packets wait, beyond the shaping rate." = |r| r.burst().map(|burst| bits(burst.bytes));
    };

    /// More of a burst-tolerant shaper.
    const BURST: &'static [Column<Self>] = columns! { Self;
        burst_rate_bps: Integer ["bit/s"] "With a burst-tolerant shaper: the rate of frames on the link that passed before packets waited. The shaping rate is limit_rate_bps." = |r| r.burst().and_then(|burst| burst.rate_bps).map(bits);
    };

    /// The kind of a queue.
    const KIND: &'static [Column<Self>] = columns! { Self;
        aqm_kind: Text [""] "With a managed queue, its kind: codel (or fq-codel), pie or red; missing where it is not known." = |r| r.judgement().aqm_kind.map(|kind| kind.name());
        queue_kind: Text [""] "With a queue: drop-tail where it dropped the packets that found it full, standing where packets waited and it did not overflow." = |r| r.judgement().queue_kind.map(|kind| kind.name());
    };
}
