//! Where a row comes from: the columns that a dataset has beside those of the segment.

use std::net::IpAddr;
use std::sync::Arc;

use tidegate_table::{Column, Row, columns};

use crate::network::Network;

/// The capture that a row is of, and the network of its client.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The capture's name in the dataset.
    pub capture: Arc<str>,
    /// The client's address.
    pub client: IpAddr,
    /// The server's address.
    pub server: IpAddr,
    /// The client's network.
    pub network: Arc<Network>,
    /// The share of all flows that the capture holds, 0 to 1.
    pub sampled: f64,
}

impl Row for Origin {
    const TITLE: &'static str = "the origin of a row of a dataset";

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }
}

const COLUMNS: &[Column<Origin>] = columns! { Origin;
    capture: Text [""] "The capture's name in the dataset: the beginning of its content's SHA-256. `captures/` has a file of this name with its details." = |r| r.capture.to_string();
    client_address: Address [""] "The client's address in 16 bytes, as IPv6; of IPv4 as ::ffff:a.b.c.d. A prefix is a range of values." = |r| r.client;
    server_address: Address [""] "The server's address." = |r| r.server;
    client_family: Integer16 [""] "4 or 6: the version of IP." = |r| if r.client.is_ipv4() { 4u16 } else { 6 };
    client_prefix: Text [""] "The client's network, as the tables of --asn divide addresses; missing where they do not know it, as are the next four." = |r| r.network.prefix.clone();
    client_asn: Integer32 [""] "The number of the client's autonomous system." = |r| r.network.asn;
    client_organisation: Text [""] "The organisation that runs it." = |r| r.network.organisation.clone();
    client_country: Text [""] "The client's country: two letters of ISO 3166." = |r| r.network.country.clone();
    client_continent: Text [""] "The client's continent: AF, AN, AS, EU, NA, OC or SA." = |r| r.network.continent.clone();
    sampled_fraction: Real [""] "The share of all flows that the capture holds, 0 to 1: as --sampled said, or as the captures of `tidegate sample` say, or 1. If it changed during the transfer, this is the smallest one. Divide counts by it." = |r| r.sampled;
};
