//! Transfers that are judged together.

use std::net::IpAddr;

use crate::annotate::TransferSummary;
use crate::detect::Basis;
use crate::read::Clients;

/// What is judged together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// A connection, by its number.
    Connection(u64),
    /// What went to a client, or to another address.
    To(IpAddr),
    /// What came from a client.
    From(IpAddr),
}

impl Group {
    /// The group of a transfer between these clients; `None` where each is judged alone. `is_kept` says which groups there
    /// are.
    pub fn among(
        clients: Clients,
        summary: &TransferSummary,
        basis: Basis,
        is_kept: impl Fn(&Self) -> bool,
    ) -> Option<Self> {
        let connection = Self::Connection(summary.id.flow);
        match basis {
            Basis::Segment => None,
            Basis::Connection => Some(connection),
            Basis::Client => Some(match ends(clients, summary) {
                Some((sender, receiver)) => Self::of_client(summary, sender, receiver, is_kept),
                None => connection,
            }),
        }
    }

    /// Of what went from one client, or another address, to another one.
    fn of_client(
        summary: &TransferSummary,
        sender: IpAddr,
        receiver: IpAddr,
        is_kept: impl Fn(&Self) -> bool,
    ) -> Self {
        let to = Self::To(receiver);
        // What many clients send to one server has no limit in common. But what goes to a server
        // that is a client too shares its limit with what it receives as such. Where the client is a
        // guess, the receiver is the safer one.
        match summary.id.from_client && summary.flow.roles_known && !is_kept(&to) {
            true => Self::From(sender),
            false => to,
        }
    }

    /// The basis of judgements on it.
    pub(super) fn basis(self) -> Basis {
        match self {
            Self::Connection(_) => Basis::Connection,
            Self::To(_) | Self::From(_) => Basis::Client,
        }
    }
}

/// The clients that a transfer's sender and receiver belong to; `None` where clients cannot be told apart.
fn ends(clients: Clients, summary: &TransferSummary) -> Option<(IpAddr, IpAddr)> {
    let [sender, receiver] = [summary.sender.ip(), summary.receiver.ip()];
    let ends = clients.of(sender).zip(clients.of(receiver))?;
    // What stays inside a client's network has no limit in common with what comes from outside.
    match ends.0 == ends.1 {
        true => Some((sender, receiver)),
        false => Some(ends),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::testing::Made;

    /// What goes from one end to the other in a connection that the first or the second one opened.
    fn transfer(from: &str, to: &str, from_client: bool) -> TransferSummary {
        let mut summary = TransferSummary::new(&Made::new().transfer(), &Default::default());
        let end = |address: &str| SocketAddr::new(address.parse().expect("an address"), 443);
        summary.sender = end(from).into();
        summary.receiver = end(to).into();
        summary.id.from_client = from_client;
        summary.flow.roles_known = true;
        summary
    }

    fn group(bits: (u8, u8), kept: (u8, u8), transfer: &TransferSummary) -> Option<Group> {
        let clients = Clients::new(bits, kept);
        Group::among(clients, transfer, Basis::Client, |_| false)
    }

    const SERVER: &str = "2001:db8::443";

    #[test]
    fn addresses_of_a_household_are_one_client() {
        let all = Clients::ADDRESSES;
        let down = |to| transfer(SERVER, to, false);
        let up = |from| transfer(from, SERVER, true);
        let [one, other] = ["2001:db8:1:200::1", "2001:db8:1:2ff::9"];
        for bits in [56, 48] {
            let of = |summary| group((32, bits), all, &summary);
            assert_eq!(of(down(one)), of(down(other)));
            assert_eq!(of(up(one)), of(up(other)));
            assert_ne!(of(up(one)), of(down(one)));
        }
        // Longer prefixes, or nothing that says which addresses are one client.
        for bits in [64, 128] {
            let of = |summary| group((32, bits), all, &summary);
            assert_ne!(of(down(one)), of(down(other)));
        }
        let [one, other] = ["198.51.100.1", "198.51.100.2"];
        let down = |to| transfer("192.0.2.1", to, false);
        assert_ne!(
            group((32, 56), all, &down(one)),
            group((32, 56), all, &down(other))
        );
    }

    #[test]
    fn inside_a_network_each_address_is_a_client() {
        let of = |to| group((32, 32), Clients::ADDRESSES, &transfer(SERVER, to, false));
        let to = |address: &str| Some(Group::To(address.parse().expect("an address")));
        assert_eq!(of("2001:db8:1::1"), to("2001:db8:1::1"));
        assert_eq!(of("2001:db9:1::1"), to("2001:db9::"));
    }

    #[test]
    fn where_addresses_are_cut_connections_are_judged_alone() {
        let summary = transfer("192.0.2.0", "198.51.100.0", false);
        let of = |bits| group(bits, (24, 48), &summary);
        let connection = Group::Connection(summary.id.flow);
        assert_eq!(of(Clients::ADDRESSES), Some(connection));
        assert_eq!(connection.basis(), Basis::Connection);
        // Those of one network were sampled as one client.
        let client = Group::To(summary.receiver.ip());
        assert_eq!(of((24, 48)), Some(client));
        assert_eq!(client.basis(), Basis::Client);
    }
}
