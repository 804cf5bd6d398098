//! Places among what is open at a time: connections, and files that are being sent. Both are bounded for all, and for each network.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, PoisonError};

use super::{Limits, Shared};

/// What has a place.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Connection,
    File,
}

/// What is open, by kind.
#[derive(Debug, Default)]
pub(super) struct Open {
    all: [usize; 2],
    by_network: HashMap<IpAddr, [usize; 2]>,
}

/// A place; free again when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    shared: Arc<Shared>,
    network: IpAddr,
    kind: Kind,
}

impl Place {
    pub fn take(shared: &Arc<Shared>, address: IpAddr, kind: Kind) -> Option<Self> {
        let limits = &shared.config.limits;
        let (of_all, of_one, reasons) = match kind {
            Kind::Connection => (limits.connections, limits.per_address, ["full", "address"]),
            Kind::File => {
                let share = limits.files_per_address();
                (limits.files, share, ["files", "files of address"])
            }
        };
        let network = network(address);
        let mut open = shared.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.all[kind as usize] >= of_all {
            shared.metrics.refused(reasons[0]);
            return None;
        }
        let count = open.by_network.entry(network).or_default();
        if count[kind as usize] >= of_one {
            shared.metrics.refused(reasons[1]);
            return None;
        }
        count[kind as usize] += 1;
        open.all[kind as usize] += 1;
        drop(open);
        Some(Self {
            shared: shared.clone(),
            network,
            kind,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let open = self.shared.open.lock();
        let mut open = open.unwrap_or_else(PoisonError::into_inner);
        open.all[self.kind as usize] -= 1;
        if let Some(count) = open.by_network.get_mut(&self.network) {
            count[self.kind as usize] -= 1;
            if *count == [0; 2] {
                open.by_network.remove(&self.network);
            }
        }
    }
}

impl Limits {
    /// The same share of all files as of all connections, and one at least.
    fn files_per_address(&self) -> usize {
        let share = self.files as u128 * self.per_address as u128 / self.connections.max(1) as u128;
        usize::try_from(share).unwrap_or(usize::MAX).max(1)
    }
}

/// Whose an address is: of IPv6 one line has a network of 64 bits.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            Ipv6Addr::from(network).into()
        }
        address => address,
    }
}
