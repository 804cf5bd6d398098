//! Segments that a host merges before TCP sees them (generic receive offload): one acknowledgement answers them, so the sender answers
//! with a longer burst. Network cards hand over together what comes within their interrupt's delay, and Linux merges it (`tcp_gro_receive`).

use tidegate_limiter::Nanos;

use crate::tcp::Segment;

#[cfg(test)]
mod tests;

/// Payload that is merged at most: a packet of 64 KiB (`GRO_LEGACY_MAX_SIZE`), less its headers.
const MOST: u32 = 65_536 - 52;

/// A segment as TCP sees it, and of how many it was merged (`gso_segs`).
pub(super) type Seen = (Segment, u16);

/// A segment that is held for others to follow it.
#[derive(Debug, Clone)]
pub(super) struct Merge {
    /// How long it waits for the next one.
    within: Nanos,
    held: Option<(Seen, Nanos)>,
}

impl Merge {
    /// Segments merge that come within this time after one another.
    pub(super) fn new(within: Nanos) -> Self {
        Self { within, held: None }
    }

    /// Takes a segment. Returns what TCP sees now, in order.
    pub(super) fn take(&mut self, now: Nanos, segment: &Segment) -> [Option<Seen>; 2] {
        if let Some(((held, segments), due)) = &mut self.held
            && now <= *due
            && follows(held, segment)
        {
            held.payload += segment.payload;
            held.psh = segment.psh;
            *segments += 1;
            *due = now.saturating_add(self.within);
            // What is pushed ends a burst.
            return [segment.psh.then(|| self.release()).flatten(), None];
        }
        let before = self.release();
        if segment.payload == 0 || segment.syn || segment.fin || segment.psh {
            return [before, Some((*segment, 1))];
        }
        self.held = Some(((*segment, 1), now.saturating_add(self.within)));
        [before, None]
    }

    /// When TCP sees what is held.
    pub(super) fn due(&self) -> Option<Nanos> {
        self.held.as_ref().map(|&(_, due)| due)
    }

    /// What TCP sees, if it is time.
    pub(super) fn on_timeout(&mut self, now: Nanos) -> Option<Seen> {
        self.due().filter(|&due| due <= now)?;
        self.release()
    }

    fn release(&mut self) -> Option<Seen> {
        self.held.take().map(|(seen, _)| seen)
    }
}

/// Whether it goes on where the other one ends, and has the same headers otherwise.
fn follows(held: &Segment, segment: &Segment) -> bool {
    segment.payload > 0
        && segment.seq == held.end()
        && !(segment.syn || segment.fin)
        && segment.timestamps == held.timestamps
        && (segment.ecn, segment.ece, segment.cwr, segment.ae)
            == (held.ecn, held.ece, held.cwr, held.ae)
        && held.payload.saturating_add(segment.payload) <= MOST
}
