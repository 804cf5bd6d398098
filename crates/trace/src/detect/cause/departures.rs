//! The rate of a queue, from the trains of packets that left it.
//!
//! Acknowledgements of packets that waited together come at the rate of the queue. Where others' packets were among them,
//! trains are slower by as much, and differ.

#[cfg(test)]
mod tests;

use crate::annotate::{Layer, Metrics, Tally, TransferSummary, Vantage};
use crate::detect::{Estimate, Limit};

/// Trains on which a rate may rest, and how far it may be below and above the goodput: a transfer that keeps a queue
/// filled gets nearly all of what leaves it.
const TRAINS: usize = 8;
const SATURATED: std::ops::Range<f64> = 0.95..1.6;
/// The quartiles of the trains' rates agree within this share, and so well that they tell more than a fit to losses,
/// within the second. Chosen on the tuned half of the lab's transfers, as what follows.
const AGREE: f64 = 0.2;
const TELL_MORE: f64 = 0.05;
/// This many trains whose quartiles agree within the second share tell the rate whatever the goodput is: others' packets among
/// them would make them differ. A sender that was slow to repair its losses did not keep the queue filled.
const MANY_TRAINS: usize = 30;
const SAME: f64 = 0.01;
/// The interval reaches to each side by at least this, since the shapers of the published captures are up to 2.8 % off
/// what they are set to, and beyond that by this share of what the trains' quartiles differ by.
const LEAST_REACH: f64 = 0.03;
const REACH: f64 = 0.5;
/// A queue holds whole packets, so its size is uncertain by one: a full frame, in bytes.
const PACKET: f64 = 1_518.0;

/// A queue's limit, given the one that fits the losses, if any does. What a queue holds is not told by the packets that
/// left it.
pub(super) fn limit(transfer: &TransferSummary, fitted: Option<Limit>) -> Option<Limit> {
    // At the receiver, acknowledgements leave when the receiver sends them.
    let spaced = transfer.path.vantage() != Vantage::Receiver;
    let rate = |within| rate(&transfer.metrics, &transfer.tally, within).filter(|_| spaced);
    let Some(fitted) = fitted else {
        return Some(Limit {
            rate_bps: rate(AGREE)?,
            layer: Layer::Link,
            depth_bytes: None,
            burst: None,
        });
    };
    let rate_bps = rate(TELL_MORE).unwrap_or_else(|| fitted_without_trains(fitted));
    let depth_bytes = fitted_size(fitted, rate_bps.value);
    Some(Limit {
        rate_bps,
        depth_bytes,
        ..fitted
    })
}

/// What a fitted queue holds, where its rate is known. Losses of one episode tell the size for a rate only: a slower queue
/// that held more would lose the same packets.
fn fitted_size(fitted: Limit, rate_bps: f64) -> Option<Estimate> {
    let slower = fitted.rate_bps.value / rate_bps;
    fitted.depth_bytes.map(|size| Estimate {
        low: (size.low * slower.min(1.0) - PACKET).max(0.0),
        high: size.high * slower.max(1.0) + PACKET,
        ..size
    })
}

fn fitted_without_trains(fitted: Limit) -> Estimate {
    let Estimate { value, low, high } = fitted.rate_bps;
    Estimate {
        value,
        low: low.min(value * (1.0 - LEAST_REACH)),
        high: high.max(value * (1.0 + LEAST_REACH)),
    }
}

/// The rate on the link in bit/s, if the trains' quartiles agree within a share.
fn rate(metrics: &Metrics, tally: &Tally, within: f64) -> Option<Estimate> {
    let (trains, goodput) = (metrics.capacity?, metrics.goodput_bps()?);
    let differ = trains.bps / trains.lower_bps - 1.0;
    let over_goodput = trains.bps / goodput;
    let same = trains.trains >= MANY_TRAINS && differ <= SAME && over_goodput >= SATURATED.start;
    let is_certain =
        trains.trains >= TRAINS && differ <= within && SATURATED.contains(&over_goodput) || same;
    let value = tally.convert(trains.bps, Layer::Payload, Layer::Link);
    let reach = LEAST_REACH + REACH * differ;
    is_certain.then_some(Estimate {
        value,
        low: value * (1.0 - reach),
        high: value * (1.0 + reach),
    })
}
