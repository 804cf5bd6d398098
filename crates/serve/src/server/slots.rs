//! Slots for connections, and for files that are being sent. Both are bounded for all clients together, and for
//! each network.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use super::config::Limits;

/// The user of a slot.
#[derive(Debug, Clone, Copy)]
pub(super) enum SlotKind {
    Connection,
    File,
}

/// How many slots of each kind are taken.
#[derive(Debug, Default)]
struct Taken {
    by_all: [usize; 2],
    by_network: HashMap<IpAddr, [usize; 2]>,
}

/// All slots.
#[derive(Debug)]
pub(super) struct Slots {
    limits: Limits,
    taken: Mutex<Taken>,
}

/// A slot; free again when it is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Slots>,
    network: IpAddr,
    kind: SlotKind,
}

impl Slots {
    pub fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            taken: Mutex::default(),
        })
    }

    /// A slot for a client's address, or the reason that metrics give.
    pub fn take(self: &Arc<Self>, address: IpAddr, kind: SlotKind) -> Result<Slot, &'static str> {
        let limits = &self.limits;
        let (of_all, of_one, reasons) = match kind {
            SlotKind::Connection => (limits.connections, limits.per_address, ["full", "address"]),
            SlotKind::File => {
                let share = files_per_address(limits);
                (limits.files, share, ["files", "files of address"])
            }
        };
        let network = network(address);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.by_all[kind as usize] >= of_all {
            return Err(reasons[0]);
        }
        let count = taken.by_network.entry(network).or_default();
        if count[kind as usize] >= of_one {
            return Err(reasons[1]);
        }
        count[kind as usize] += 1;
        taken.by_all[kind as usize] += 1;
        drop(taken);
        Ok(Slot {
            slots: Arc::clone(self),
            network,
            kind,
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let taken = self.slots.taken.lock();
        let mut taken = taken.unwrap_or_else(PoisonError::into_inner);
        taken.by_all[self.kind as usize] -= 1;
        if let Some(count) = taken.by_network.get_mut(&self.network) {
            count[self.kind as usize] -= 1;
            if *count == [0; 2] {
                taken.by_network.remove(&self.network);
            }
        }
    }
}

/// An address has the same share of all files as of all connections, but at least one.
fn files_per_address(limits: &Limits) -> usize {
    let share =
        limits.files as u128 * limits.per_address as u128 / limits.connections.max(1) as u128;
    usize::try_from(share).unwrap_or(usize::MAX).max(1)
}

/// The network of an address: a line with IPv6 has a network of 64 bits.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            Ipv6Addr::from(network).into()
        }
        address => address,
    }
}
