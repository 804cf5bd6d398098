//! How a caller observes a simulation while it runs.

use tidegate_limiter::Nanos;

use crate::outcome::Sample;

/// Watches a simulation while it runs.
///
/// A closure that takes the time and returns whether to continue is an observer too. It sees no
/// packets.
pub trait Observer {
    /// Is called from time to time with the virtual time. The run ends if it returns false.
    fn progress(&mut self, now: Nanos) -> bool;

    /// Is called after [`progress`](Self::progress), with what was counted up to then.
    fn counted(&mut self, so_far: &dyn SoFar) {
        let _ = so_far;
    }

    /// Is called for every packet that passes a tap.
    fn packet(&mut self, packet: &TappedPacket<'_>) {
        let _ = packet;
    }
}

/// What a running simulation has counted.
pub trait SoFar {
    /// The virtual time.
    fn now(&self) -> Nanos;

    /// Bytes at the IP layer that reached a flow's client, by window from time 0. The last window is not over yet.
    fn windows(&self, flow: usize) -> &[u64];

    /// How full an element was, if the plan wants samples.
    fn samples(&self, element: usize) -> &[Sample];

    /// How many packets an element has dropped in each [step](crate::outcome::drop_step), up to the last step with a drop.
    fn drops(&self, element: usize) -> &[u64];
}

impl<F: FnMut(Nanos) -> bool> Observer for F {
    fn progress(&mut self, now: Nanos) -> bool {
        self(now)
    }
}

/// A packet as a tap sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TappedPacket<'a> {
    /// The tap: its index among the plan's elements.
    pub element: usize,
    /// The virtual time.
    pub at: Nanos,
    /// The Ethernet frame, cut to the tap's `snaplen`.
    pub frame: &'a [u8],
    /// The frame's length on the wire in bytes.
    pub length: u32,
}
