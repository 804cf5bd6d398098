//! A row for each direction of a connection that two captures hold.

use std::sync::Arc;

use tidegate_table::convert::{bits, rounded};
use tidegate_table::{Column, Row, Time, columns};

use crate::pair::{Clocks, Diagnosis, Fits, Order, StreamReport, Transit, Way};

/// One direction of a connection, seen at two places.
#[derive(Debug, Clone)]
pub struct PairRow {
    /// The captures' names as they were given.
    pub files: [Arc<str>; 2],
    /// Its number in the comparison.
    pub number: u64,
    /// What both captures show of it.
    pub stream: StreamReport,
    /// The captures' clocks.
    pub clocks: Option<Clocks>,
    /// What is between the places on its way, found by all streams that go there, or by those to its
    /// receiver.
    pub fits: Fits,
    /// The name of that.
    pub between: &'static str,
}

impl PairRow {
    /// The rows of a diagnosis: what goes from A to B first.
    pub fn of<'a>(
        files: &'a [Arc<str>; 2],
        diagnosis: &'a Diagnosis,
    ) -> impl Iterator<Item = Self> + 'a {
        let of_way = |way: &'a Way| way.streams.iter().map(move |stream| (way, stream));
        let streams = diagnosis.ways.iter().flat_map(of_way).enumerate();
        streams.map(move |(number, (way, stream))| {
            let (fits, verdict) = way.judged(stream);
            Self {
                files: files.clone(),
                number: number as u64,
                stream: *stream,
                clocks: diagnosis.clocks,
                fits: *fits,
                between: verdict.name(),
            }
        })
    }
}

/// How it was found out which place packets pass first, in columns; names are stable.
fn order(order: Order) -> &'static str {
    match order {
        Order::RoundTrip => "round-trip",
        Order::Clocks => "clocks",
        Order::Hops => "hops",
        Order::Losses => "losses",
        Order::Assumed => "assumed",
    }
}

impl Row for PairRow {
    const TITLE: &'static str = "one direction of a connection, seen at two places";

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }
}

fn transit(row: &PairRow, time: impl Fn(Transit) -> f64) -> Option<f64> {
    let transit = row.stream.transit.map(time)?;
    Some(rounded(transit / 1e6, 6))
}

const COLUMNS: &[Column<PairRow>] = columns! { PairRow;
    file_a: Text [""] "The first capture, as it was named on the command line." = |r| r.files[0].to_string();
    file_b: Text [""] "The second capture." = |r| r.files[1].to_string();
    stream: Integer [""] "The number of the row in the comparison, from 0: what goes from A to B first." = |r| r.number;
    sender: Text [""] "Address of the sender, in the first capture." = |r| r.stream.at_a[0].ip().to_string();
    sender_port: Integer16 [""] "Its TCP port." = |r| r.stream.at_a[0].port();
    receiver: Text [""] "Address of the receiver, in the first capture." = |r| r.stream.at_a[1].ip().to_string();
    receiver_port: Integer16 [""] "Its TCP port." = |r| r.stream.at_a[1].port();
    sender_at_b: Text [""] "Address of the sender, in the second capture: another one behind address translation." = |r| r.stream.at_b[0].ip().to_string();
    sender_port_at_b: Integer16 [""] "Its TCP port." = |r| r.stream.at_b[0].port();
    receiver_at_b: Text [""] "Address of the receiver, in the second capture." = |r| r.stream.at_b[1].ip().to_string();
    receiver_port_at_b: Integer16 [""] "Its TCP port." = |r| r.stream.at_b[1].port();
    from_a: Truth [""] "Whether its packets pass the first capture's place first." = |r| r.stream.to_b;
    order: Text [""] "How that was found out: round-trip (packets of both directions), clocks (that other connections brought together), hops (the time to live), losses, or assumed." = |r| order(r.stream.order);
    start_s: Time ["s"] "When its first packet passed the first place, by that capture's clock, in seconds since 1970-01-01 UTC; in Parquet a timestamp." = |r| Time(r.stream.first_sent);
    packets: Integer ["packets"] "Packets that the first place saw while the second one was watched." = |r| r.stream.packets;
    data_packets: Integer ["packets"] "Of these, packets with data; super-packets count as the packets on the wire." = |r| r.stream.data_packets;
    payload_bytes: Integer ["B"] "Payload of these." = |r| r.stream.payload_bytes;
    lost: Integer ["packets"] "Data packets lost between the places." = |r| r.stream.lost;
    loss_rate: Real [""] "Of all data packets, 0 to 1." = |r| rounded(r.stream.loss_rate(), 6);
    lost_without_data: Integer ["packets"] "Packets without data lost between the places." = |r| r.stream.lost_bare;
    lost_before: Integer ["packets"] "Data packets lost before the first place, by holes that were filled later." = |r| r.stream.elsewhere.lost_before;
    lost_behind: Integer ["packets"] "Data packets lost behind the second place: sent again though they had passed it." = |r| r.stream.elsewhere.lost_after();
    retransmitted: Integer ["packets"] "Data packets that repeat bytes which the first place had seen." = |r| r.stream.elsewhere.retransmitted;
    missed: Integer ["packets"] "Data packets that the second capture missed: acknowledged, and never sent again." = |r| r.stream.missed;
    unseen: Integer ["packets"] "Packets of the second place that the first capture missed." = |r| r.stream.unseen;
    duplicated: Integer ["packets"] "Packets that came twice at the second place and once at the first." = |r| r.stream.duplicated;
    overtaken: Integer ["packets"] "Packets that another one overtook between the places." = |r| r.stream.overtaken;
    transit_min_ms: Real ["ms"] "Least time from the first place to the second, if it is the same both ways." = |r| transit(r, |t| t.least);
    transit_median_ms: Real ["ms"] "Median." = |r| transit(r, |t| t.median);
    transit_p99_ms: Real ["ms"] "99th percentile." = |r| transit(r, |t| t.p99);
    clock_offset_s: Real ["s"] "How much the second capture's clock is ahead of the first's." = |r| r.clocks.map(|c| rounded(c.offset / 1e9, 9));
    clock_offset_error_s: Real ["s"] "By how much that may be wrong to either side, as the ways there and back may differ; missing where packets went one way only." = |r| r.clocks.and_then(|c| c.offset_error).map(|e| rounded(e / 1e9, 9));
    clock_drift_ppm: Real ["ppm"] "How much the second clock gains." = |r| r.clocks.map(|c| rounded(c.drift * 1e6, 3));
    clock_drift_error_ppm: Real ["ppm"] "By how much that may be wrong to either side." = |r| r.clocks.map(|c| rounded(c.drift_error * 1e6, 3));
    between: Text [""] "What is between the places on this way: nothing, policer, queue, delay (a queue that does not overflow), aqm, shaper-burst, random-loss or unclear." = |r| r.between;
    limit_rate_bps: Integer ["bit/s"] "Rate of the policer or the full queue as frames on the link." = |r| r.limit().map(|fit| bits(fit.bucket.rate * 8.0));
    limit_rate_low_bps: Integer ["bit/s"] "The least rate that explains the losses nearly as well." = |r| r.limit().map(|fit| bits(fit.rate.low * 8.0));
    limit_rate_high_bps: Integer ["bit/s"] "The greatest such rate." = |r| r.limit().map(|fit| bits(fit.rate.high * 8.0));
    limit_depth_bytes: Integer ["B"] "What its bucket or queue holds, in bytes of frames." = |r| r.limit().map(|fit| bits(fit.bucket.depth));
    limit_depth_low_bytes: Integer ["B"] "The least depth that explains the losses nearly as well." = |r| r.limit().map(|fit| bits(fit.depth.low));
    limit_depth_high_bytes: Integer ["B"] "The greatest such depth." = |r| r.limit().map(|fit| bits(fit.depth.high));
    queue_rate_bps: Integer ["bit/s"] "Rate of the queue that explains the transit times, as frames on the link." = |r| r.fits.explaining_queue().map(|queue| bits(queue.rate * 8.0));
    queue_bytes: Integer ["B"] "The most that stood in it." = |r| r.fits.explaining_queue().map(|queue| bits(queue.backlog));
    between_confidence: Real [""] "How sure that is, 0 to 1, as measured on pairs of the lab; missing where it was not measured." = |r| r.fits.confidence();
};

impl PairRow {
    fn limit(&self) -> Option<&crate::pair::BucketFit> {
        self.fits.explaining_bucket()
    }
}
