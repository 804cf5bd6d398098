//! How a caller observes a simulation while it runs.

use tidegate_limiter::Nanos;

/// Watches a simulation while it runs.
///
/// A closure that takes the time and returns whether to continue is an observer too. It sees no
/// packets.
pub trait Observer {
    /// Is called from time to time with the virtual time. The run ends if it returns false.
    fn progress(&mut self, now: Nanos) -> bool;

    /// Is called for every packet that passes a tap.
    fn packet(&mut self, packet: &TappedPacket<'_>) {
        let _ = packet;
    }
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
