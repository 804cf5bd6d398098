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

use super::today::Today;
use crate::cli::Common;
use crate::cli::advise::Advise;
use crate::detect;
use crate::input::Input;
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
        bail!("{name}: {error}");
    }
    detect::print_problems(&report);
    let Some((transfer, judgement)) = search.best else {
        bail!(
            "{name}: no transfer in it was limited by a policer or a queue: `tidegate detect {name}` says what limited \
             them"
        );
    };
    let Some(kind) = kind(options, &transfer, &judgement) else {
        let (what, option) = match judgement.cause {
            Cause::Policer => ("bucket", "--burst"),
            _ => ("queue", "--queue"),
        };
        bail!(
            "{name}: its packets do not tell how large the {what} is: give the size with {option}"
        );
    };
    let limit = rate_of(&transfer, &judgement);
    let setting = Setting {
        rate: Rate::from_bits_per_second(limit.value.round().max(0.0) as u64),
        kind,
        overhead: ETHERNET,
    };
    let depth = judgement.limit.and_then(|limit| limit.depth_bytes);
    let depth = depth.map_or(String::new(), |depth| {
        let depth = at_link(&transfer, &judgement, depth);
        let [low, high] = [depth.low, depth.high].map(|end| bytes(end.max(0.0) as u64));
        format!(", and the depth in {low} to {high}")
    });
    let origin = Origin {
        vendor: None,
        place: Some(format!("flow {} of {name}", transfer.id.flow)),
        assumed: vec![format!(
            "The limit is the verdict `{}` on flow {} of {name}, counted with Ethernet headers. The rate is in {} to {}{depth}.",
            judgement.cause,
            transfer.id.flow,
            rate(limit.low),
            rate(limit.high),
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
    let depth = limit
        .depth_bytes
        .map(|depth| at_link(transfer, judgement, depth));
    let depth = depth.map(|depth| depth.value.round().max(FULL as f64) as u64);
    let or = |given: Option<Bytes>| given.map(Bytes::get).or(depth);
    Some(match judgement.cause {
        Cause::Policer => Kind::Policer {
            burst: or(options.burst)?,
        },
        _ => Kind::Shaper {
            queue: or(options.queue)?,
            burst: limit
                .burst
                .map_or(FULL, |burst| burst.bytes.max(FULL as f64) as u64),
        },
    })
}

/// The rate of frames.
fn rate_of(transfer: &TransferSummary, judgement: &Judgement) -> Estimate {
    let rate = judgement.limit.map(|limit| limit.rate_bps);
    at_link(transfer, judgement, rate.unwrap_or(Estimate::exact(0.0)))
}

/// What a limit counts at its layer, in bytes of frames.
fn at_link(transfer: &TransferSummary, judgement: &Judgement, estimate: Estimate) -> Estimate {
    let from = judgement.limit.map_or(Layer::Link, |limit| limit.layer);
    let convert = |value: f64| transfer.tally.convert(value, from, Layer::Link);
    Estimate {
        value: convert(estimate.value),
        low: convert(estimate.low),
        high: convert(estimate.high),
    }
}
