//! When packets of ECN-capable senders are marked.

use super::SizedPhantomQueues;
use super::queue::Queue;
use super::tree::is_behind;
use crate::{Decision, Ecn, Nanos, PacketMeta};

/// The excess of a sender over its rate is multiplied by this before it is subtracted from the room.
///
/// A real queue delays packets as it fills, and so slows its senders down. A phantom queue does not: it holds the integral of
/// what a window exceeds the rate by, and the window grows by each round trip meanwhile. Marks by the room alone come
/// late, and end late, and rates swing: DCTCP, which answers to each of them a little, overfills its queue again and again. The
/// trend damps that. It is a mean of the last 0.1 to 0.2 s: three times as much is what 0.3 to 0.6 s will add.
const TREND: i64 = 3;

/// Marks an ECN-capable packet if the room in its queue will be less than `level`, or than twice as much for ECT(1): senders of
/// L4S are told early, since they answer only a little to each mark. The packet left this much `room`, and the bytes that
/// the queue `exceeded` its rate by say how the room changes.
#[inline]
fn mark(ecn: Ecn, room: u64, level: u32, exceeded: i64) -> Decision {
    let level = i64::from(level) << u32::from(ecn == Ecn::Ect1);
    let expected = (room as i64).wrapping_sub(exceeded.wrapping_mul(TREND));
    match expected < level {
        true => Decision::Ce,
        false => Decision::Pass,
    }
}

impl<const QUEUES: usize, const SHARES: usize> SizedPhantomQueues<QUEUES, SHARES> {
    /// Marks an ECN-capable packet or not, which left this much room, as long as decisions are computed ahead.
    // Apart, since most packets do not come here.
    #[inline(never)]
    pub(super) fn mark_ahead(&self, packet: &PacketMeta, room: u64) -> Decision {
        if self.mark == 0 {
            return Decision::Pass;
        }
        let at = &self.tree.queues[usize::from(packet.queue)];
        let left = self.due - self.ahead.latest;
        let exceeded = exceeded(at, left, (self.served_each, self.period));
        mark(packet.ecn, room, self.mark_each, exceeded)
    }

    /// Marks an ECN-capable packet or not, which was put into its queue; all that it depends on is settled.
    pub(super) fn mark_settled(&self, now: Nanos, packet: &PacketMeta) -> Decision {
        let (tree, program) = (&self.tree, &*self.program);
        let (queue, path) = (usize::from(packet.queue), program.path(packet.queue));
        let share = |total| tree.share_by_weight(path, total);
        let level = mark_level(share(self.mark.into()), tree.size);
        // Behind queues of higher priority, what it is served is all and nothing in turn.
        let exceeded = match is_behind(program, path) {
            true => 0,
            false => {
                let served = (share(self.thresholds.0), self.period);
                exceeded(&tree.queues[queue], self.due - now, served)
            }
        };
        let room = tree.size - tree.length(path, queue);
        mark(packet.ecn, room, level, exceeded)
    }
}

/// By how many bytes a queue that is filled accepted more lately than it was served; below 0 if it accepted less. The next
/// look is due in `left`, and in two periods it is `served` so much. What it accepted is halved at each look, so it is what
/// was accepted since the look, and as much as in a period before. Without burst control nothing is known of it.
#[inline]
fn exceeded(at: &Queue, left: Nanos, (served, period): (u64, Nanos)) -> i64 {
    if !at.is_filled() || period == Nanos::MAX {
        return 0;
    }
    let elapsed = 2 * period - left;
    let served = served * elapsed / (2 * period);
    at.accepted().wrapping_sub(served) as i64
}

/// With less room than this a queue of this size marks packets, where `share` is its share of what the aggregate does.
pub(super) fn mark_level(share: u64, size: u64) -> u32 {
    u32::try_from(share.min(size / 4)).unwrap_or(u32::MAX)
}
