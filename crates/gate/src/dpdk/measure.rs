//! What decisions cost on DPDK, for studies: packets are taken from one port and sent at the other by the calling thread, in
//! a time that the load gives.

use std::path::Path;

use super::{Devices, Dpdk, DpdkError, sys};
use crate::table::Settings;

pub use super::sys::Cost;

/// Packets to the subscribers 10.0.0.0 and those that follow, of 16 flows each.
#[derive(Debug)]
pub struct Load(sys::Load);

impl Load {
    /// Packets of this many bytes to a number of subscribers, in no order, each `gap` nanoseconds after the other.
    pub fn new(subscribers: u32, bytes: u32, gap: f64) -> Self {
        let mut load = Self(sys::Load {
            now: 1 << 40,
            gap: 0,
            aggregates: subscribers,
            each: 0,
            drawn: 0,
            bytes,
        });
        load.pace(gap, 0);
        load
    }

    /// Another gap from now on, and this number of packets to one subscriber after the other, from the first one on; 0
    /// for no order.
    pub fn pace(&mut self, gap: f64, each: u32) {
        self.0.gap = (gap * 65_536.0) as u64;
        self.0.each = each;
        self.0.drawn = 0;
    }
}

/// A data path whose ports are open, while no core takes packets.
#[derive(Debug)]
pub struct Bench {
    /// Plans and seats.
    pub path: Dpdk,
    /// The time of the last load, which the next one goes on from: packets may wait for a later time.
    now: u64,
}

impl Bench {
    /// Opens the ports of these devices, with room for this many packets that wait.
    ///
    /// # Errors
    /// As of [`Dpdk::create`], or if a port is missing.
    pub fn new(devices: Devices, settings: &Settings, packets: u32) -> Result<Self, DpdkError> {
        devices.choose();
        let path = Dpdk::create(Path::new("/bench"), settings)?;
        sys::open(path.devices.ports(), packets)?;
        Ok(Self { path, now: 0 })
    }

    /// Takes this many packets, which the gate decides about, or passes all of them without `limits`.
    ///
    /// # Errors
    /// If no packets come, since limiters hold all that there is room for.
    pub fn run(&mut self, load: &mut Load, packets: u64, limits: bool) -> Result<Cost, DpdkError> {
        load.0.now = load.0.now.max(self.now);
        let cost = sys::measure(&mut load.0, packets, limits);
        self.now = load.0.now;
        cost
    }

    /// Cycles of the time stamp counter in a second.
    pub fn hertz(&self) -> u64 {
        sys::hertz()
    }
}
