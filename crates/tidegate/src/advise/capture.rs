//! Today's limit as a capture shows it: the verdict on its largest limited transfer.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::bail;
use tidegate_advise::setting::{ETHERNET, FULL, Kind, Setting};
use tidegate_advise::text::Origin;
use tidegate_limiter::{Bytes, Nanos, Rate};
use tidegate_story::units::{bytes, rate};
use tidegate_trace::annotate::{Layer, TransferSummary};
use tidegate_trace::detect::{Cause, Estimate, Judgement};
use tidegate_trace::{Options, Sink};

use super::today::{self, Today};
use crate::cli::Common;
use crate::cli::advise::Advise;
use crate::detect;
use crate::input::{Input, is_capture};
use crate::pipeline;

/// Finds the transfer of most payload that a policer or a queue limited, and the round trips of all of these.
#[derive(Default)]
struct Search {
    best: Option<(TransferSummary, Judgement)>,
    rtt: Option<(Nanos, Nanos)>,
}

impl Sink for Search {
    fn verdict(&mut self, transfer: &TransferSummary, judgement: Judgement) {
        let limits = matches!(
            judgement.cause,
            Cause::Policer | Cause::Queue | Cause::ShaperBurst
        );
        if !limits || judgement.limit.is_none() {
            return;
        }
        if let Some(rtt) = transfer.metrics.rtt {
            let (low, high) = self.rtt.unwrap_or((rtt.min, rtt.min));
            self.rtt = Some((low.min(rtt.min), high.max(rtt.min)));
        }
        let size = |transfer: &TransferSummary| transfer.tally.payload_bytes;
        let larger = |(best, _): &(TransferSummary, Judgement)| size(transfer) > size(best);
        if self.best.as_ref().is_none_or(larger) {
            self.best = Some((*transfer, judgement));
        }
    }
}

/// The limit in a capture; `None` if reading was interrupted.
pub fn read(
    path: &Path,
    options: &Advise,
    common: &Common,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Option<Today>> {
    let input = Input::file(path);
    let bar = pipeline::progress(std::slice::from_ref(&input), common.quiet);
    let mut search = Search::default();
    let judging = Options {
        cancel: Some(Arc::clone(stop)),
        ..Options::default()
    };
    let report = pipeline::analyse(&input, &bar, stop, judging, &mut search);
    bar.finish_and_clear();
    if stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let name = &input.name;
    if let Some(error) = report
        .error
        .as_ref()
        .filter(|_| report.counters.frames == 0)
    {
        let hint = match is_capture(path) {
            true => "",
            false => ". A router's configuration is given with --config",
        };
        bail!("{name}: {error}{hint}");
    }
    detect::print_problems(&report);
    let Some((transfer, judgement)) = search.best else {
        bail!(
            "{name}: no transfer in it was limited by a policer or a queue: `tidegate detect {name}` says what limited \
             them"
        );
    };
    if judgement.cause == Cause::Policer {
        today::without_queue(options, "this capture shows a policer")?;
    }
    let Some(kind) = kind(options, &transfer, &judgement) else {
        let (what, option) = match judgement.cause {
            Cause::Policer => ("bucket", "--burst"),
            _ => ("queue", "--queue"),
        };
        bail!(
            "{name}: its packets do not tell how large the {what} is: give the size with {option}"
        );
    };
    let overhead = overhead(options);
    let limit = rate_of(overhead, &transfer, &judgement);
    let setting = Setting {
        rate: Rate::from_bits_per_second(limit.value.round().max(0.0) as u64),
        kind,
        overhead,
    };
    let depth = judgement.limit.and_then(|limit| limit.depth_bytes);
    let depth = depth.map_or(String::new(), |depth| {
        let depth = counted(overhead, &transfer, &judgement, depth);
        let [low, high] = [depth.low, depth.high].map(|end| bytes(end.max(0.0) as u64));
        let of = match judgement.cause {
            Cause::ShaperBurst => " of bucket and queue together",
            _ => "",
        };
        format!(", and the depth{of} in {low} to {high}")
    });
    let ends = [rate(limit.low), rate(limit.high)];
    let ends = match &ends {
        [low, high] if low == high => format!("about {low}"),
        [low, high] => format!("in {low} to {high}"),
    };
    let headers = match overhead {
        0 => "from the IP header on",
        _ => "with Ethernet headers",
    };
    let origin = Origin {
        vendor: None,
        place: Some(format!("flow {} of {name}", transfer.id.flow)),
        assumed: vec![format!(
            "The limit is the verdict `{}` on flow {} of {name}, counted {headers}. The rate is {ends}{depth}.",
            judgement.cause, transfer.id.flow,
        )],
    };
    Ok(Some(Today {
        setting,
        origin,
        rtt: search.rtt,
    }))
}

/// What enforces the limit, if its depth is known or given.
fn kind(options: &Advise, transfer: &TransferSummary, judgement: &Judgement) -> Option<Kind> {
    let limit = judgement.limit?;
    let overhead = overhead(options);
    let at_layer = |bytes| counted(overhead, transfer, judgement, Estimate::exact(bytes)).value;
    let size = |bytes: f64| bytes.round().max(FULL as f64) as u64;
    let depth = limit.depth_bytes.map(|depth| at_layer(depth.value));
    let or = |given: Option<Bytes>, found: Option<f64>| given.map(Bytes::get).or(found.map(size));
    let burst = match judgement.cause {
        Cause::Policer => {
            let burst = or(options.burst, depth)?;
            return Some(Kind::Policer { burst });
        }
        _ => or(
            options.burst,
            limit.burst.map(|burst| at_layer(burst.bytes)),
        ),
    };
    // Losses show what bucket and queue hold together.
    let queue = depth.map(|depth| depth - burst.unwrap_or(0) as f64);
    Some(Kind::Shaper {
        queue: or(options.queue, queue)?,
        burst: burst.unwrap_or(FULL),
    })
}

/// What the limit counts of each packet beyond its IP packet.
fn overhead(options: &Advise) -> u32 {
    today::overhead(options).unwrap_or(ETHERNET)
}

/// The rate of packets with this overhead.
fn rate_of(overhead: u32, transfer: &TransferSummary, judgement: &Judgement) -> Estimate {
    let rate = judgement.limit.map(|limit| limit.rate_bps);
    let rate = rate.unwrap_or(Estimate::exact(0.0));
    counted(overhead, transfer, judgement, rate)
}

/// What a limit counts at its layer, in bytes of packets with this overhead.
fn counted(
    overhead: u32,
    transfer: &TransferSummary,
    judgement: &Judgement,
    estimate: Estimate,
) -> Estimate {
    let from = judgement.limit.map_or(Layer::Link, |limit| limit.layer);
    let to = match overhead {
        0 => Layer::Ip,
        _ => Layer::Link,
    };
    let convert = |value: f64| transfer.tally.convert(value, from, to);
    Estimate {
        value: convert(estimate.value),
        low: convert(estimate.low),
        high: convert(estimate.high),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use clap::Parser;
    use tidegate_trace::annotate::{FlowInfo, Handshake, Metrics, Path, Tally, TransferId};
    use tidegate_trace::detect::{Burst, Limit};

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        advise: Advise,
    }

    fn options(arguments: &[&str]) -> Advise {
        Line::parse_from(["advise"].iter().chain(arguments)).advise
    }

    /// Packets of 1000 bytes of payload, 1250 as frames.
    fn transfer() -> TransferSummary {
        let endpoint = |text: &str| text.parse::<SocketAddr>().expect("an address").into();
        let (client, server) = (endpoint("10.0.0.1:10000"), endpoint("10.0.0.2:443"));
        TransferSummary {
            id: TransferId {
                flow: 0,
                segment: 0,
                from_client: false,
            },
            flow: FlowInfo {
                number: 0,
                client,
                server,
                started_at: 0,
                syn_seen: true,
                roles_known: true,
                handshake: Handshake::default(),
            },
            sender: server,
            receiver: client,
            continues: false,
            under_way: 0,
            mss: 1000,
            path: Path::default(),
            tally: Tally {
                payload_bytes: 1000,
                ip_bytes: 1040,
                link_bytes: 1250,
                ..Tally::default()
            },
            metrics: Metrics::default(),
        }
    }

    fn judgement(cause: Cause, layer: Layer, depth: f64, burst: Option<f64>) -> Judgement {
        let mut judgement = Judgement::new(cause, "for a test");
        judgement.limit = Some(Limit {
            rate_bps: Estimate::exact(1e6),
            layer,
            depth_bytes: Some(Estimate::exact(depth)),
            burst: burst.map(|bytes| Burst {
                rate_bps: None,
                bytes,
                switch: None,
            }),
        });
        judgement
    }

    fn found(arguments: &[&str], judgement: &Judgement) -> Option<Kind> {
        kind(&options(arguments), &transfer(), judgement)
    }

    #[test]
    fn the_queue_of_a_burst_tolerant_shaper_is_what_its_bucket_leaves() {
        let shaper = |queue, burst| Some(Kind::Shaper { queue, burst });
        let by_losses = |layer| judgement(Cause::ShaperBurst, layer, 300e3, Some(200e3));
        let at_link = found(&[], &by_losses(Layer::Link));
        assert_eq!(at_link, shaper(100_000, 200_000));
        let of_payload = found(&[], &by_losses(Layer::Payload));
        assert_eq!(of_payload, shaper(125_000, 250_000));
        let given = found(&["--queue", "50kB"], &by_losses(Layer::Link));
        assert_eq!(given, shaper(50_000, 200_000));
        let given = found(&["--burst", "50kB"], &by_losses(Layer::Link));
        assert_eq!(given, shaper(250_000, 50_000));
        // At least a packet waits.
        let short = judgement(Cause::ShaperBurst, Layer::Link, 200_100.0, Some(200e3));
        assert_eq!(found(&[], &short), shaper(FULL, 200_000));
    }

    #[test]
    fn a_limit_of_layer_3_counts_ip_packets() {
        let policer = judgement(Cause::Policer, Layer::Link, 125e3, None);
        let burst = 104_000;
        let counted = found(&["--layer", "3"], &policer);
        assert_eq!(counted, Some(Kind::Policer { burst }));
        assert_eq!(rate_of(0, &transfer(), &policer).value, 832e3);
        // A size that is given is one of that layer.
        let given = found(&["--layer", "3", "--burst", "8kB"], &policer);
        assert_eq!(given, Some(Kind::Policer { burst: 8_000 }));
    }

    #[test]
    fn other_limits_are_as_deep_as_losses_show() {
        let queue = judgement(Cause::Queue, Layer::Link, 300e3, None);
        let shaper = Kind::Shaper {
            queue: 300_000,
            burst: FULL,
        };
        assert_eq!(found(&[], &queue), Some(shaper));
        let policer = judgement(Cause::Policer, Layer::Payload, 100.0, None);
        assert_eq!(found(&[], &policer), Some(Kind::Policer { burst: FULL }));
    }
}
