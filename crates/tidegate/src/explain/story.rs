//! The story of a flow in words and numbers.

use std::io::{self, Write};

use tidegate_trace::annotate::Pattern;
use tidegate_trace::detect::{Check, Code, Verdict};
use tidegate_trace::flow::Ended;

use super::{Account, Kept};
use crate::table::Paint;
use crate::units::{bytes, percent, plural, rate, time};

pub(super) fn tell(out: &mut impl Write, account: &Account, paint: Paint) -> io::Result<()> {
    let info = &account.info;
    let title = format!("Flow {} of {}", info.number, account.capture);
    writeln!(out, "{}", paint.bold(&title))?;
    writeln!(
        out,
        "{} (client) to {} (server), from {} into the capture{}.",
        info.client,
        info.server,
        time(info.started_at.saturating_sub(account.capture_start)),
        if info.syn_seen {
            ""
        } else {
            "; its beginning was not captured"
        },
    )?;
    let ended = match account.ended {
        Ended::Closed => "It was closed.",
        Ended::Idle => "It went idle.",
        Ended::Reused => "Its ports were taken for another connection.",
        Ended::CaptureEnd => "The capture ended before it did.",
        Ended::Evicted => "It was given up for others: see --max-flows.",
    };
    let side = if account.transfers[0].from_client {
        "client"
    } else {
        "server"
    };
    writeln!(
        out,
        "{ended} What the {side} sent, in {}:",
        plural(account.transfers.len() as u64, "segment", "segments")
    )?;
    for transfer in &account.transfers {
        writeln!(out)?;
        segment(out, account, transfer, paint)?;
    }
    writeln!(out)
}

fn segment(out: &mut impl Write, account: &Account, kept: &Kept, paint: Paint) -> io::Result<()> {
    let metrics = &kept.metrics;
    let deciding = kept.judgement.deciding();
    let headline = match deciding.rate_bps {
        Some(policed) => paint.alarm(&format!("policed at {}", rate(policed))),
        None => format!("not found to be policed: {}", deciding.code.reason()),
    };
    let continues = if kept.continues { " (continued)" } else { "" };
    let title = format!("Segment {}{continues}", kept.segment);
    writeln!(out, "{}: {headline}", paint.bold(&title))?;

    let at = metrics.first_sent.saturating_sub(account.info.started_at);
    let goodput = metrics.goodput_bps().map_or("-".to_owned(), rate);
    line(
        out,
        "sent",
        &format!(
            "{} delivered in {}, from {} on: {goodput} of payload",
            bytes(metrics.delivered_bytes),
            time(metrics.duration),
            time(at),
        ),
    )?;
    line(
        out,
        "packets",
        &format!(
            "{} of up to {} B, {} lost ({}), {} retransmissions, {} of them in vain",
            metrics.data_packets,
            kept.mss,
            metrics.lost_packets,
            percent(metrics.loss_rate()),
            metrics.retransmitted_packets,
            metrics.spurious_packets,
        ),
    )?;
    if let Some(before) = metrics.bytes_before_loss {
        line(out, "first loss", &format!("behind {}", bytes(before)))?;
    }
    if let Some(rtt) = metrics.rtt {
        line(
            out,
            "round trip",
            &format!(
                "{} at least, {} median, {} at the 90th percentile",
                time(rtt.min),
                time(rtt.median),
                time(rtt.p90),
            ),
        )?;
    }
    if let Some(growth) = metrics.growth {
        let verdict = if metrics.bufferbloat {
            "grows: a bloated buffer"
        } else {
            "no bloat"
        };
        line(
            out,
            "queueing",
            &format!(
                "{verdict} (correlation of delay and bytes in flight {:+.2})",
                growth.correlation
            ),
        )?;
    }
    if let Some(capacity) = metrics.capacity {
        line(
            out,
            "bottleneck",
            &format!(
                "{}, by the spacing of acknowledgements in {}",
                rate(capacity.bps),
                plural(capacity.trains as u64, "train", "trains"),
            ),
        )?;
    }
    let mut limits = vec![format!("application idle for {}", time(kept.tally.idle))];
    if kept.tally.window_known {
        limits.push(format!(
            "receive window full for {}",
            time(kept.tally.window_limited)
        ));
    }
    line(out, "other limits", &limits.join(", "))?;
    if let Some(wait) = kept.tally.wait {
        line(
            out,
            "wait",
            &format!("{} until playback could have begun", time(wait)),
        )?;
    }
    pattern(out, kept)?;
    for (number, what) in [
        (kept.tally.unseen_bytes, "B that the capture missed"),
        (
            kept.tally.duplicates,
            "packets that the capture holds twice",
        ),
        (kept.tally.probes, "keepalives or window probes"),
    ] {
        if number > 0 {
            line(out, "note", &format!("{number} {what}"))?;
        }
    }
    verdict(out, account, kept)
}

fn line(out: &mut impl Write, name: &str, text: &str) -> io::Result<()> {
    writeln!(out, "  {name:<13} {text}")
}

fn pattern(out: &mut impl Write, kept: &Kept) -> io::Result<()> {
    let evidence = &kept.metrics.evidence;
    if evidence.loss_episodes == 0 {
        return Ok(());
    }
    let name = match kept.metrics.pattern {
        Pattern::None => "none of the known patterns",
        Pattern::CongestionAvoidance => "congestion avoidance: the window overshoots by little",
        Pattern::Staircase => "staircase: bursts, then stagnation",
        Pattern::DoublingWindow => "doubling window: one packet in flight or two",
    };
    line(out, "interaction", name)?;
    line(
        out,
        "",
        &format!(
            "{} of {:.0} losses in the median; {} ({} of the time)",
            plural(
                u64::from(evidence.loss_episodes),
                "loss episode",
                "loss episodes"
            ),
            evidence.losses_per_episode,
            plural(u64::from(evidence.stalls), "stall", "stalls"),
            percent(evidence.stalled),
        ),
    )?;
    line(
        out,
        "",
        &format!(
            "sent at {:.1} times the goodput before losses; {:.0} packets in flight",
            evidence.overshoot, evidence.flight_packets,
        ),
    )
}

fn verdict(out: &mut impl Write, account: &Account, kept: &Kept) -> io::Result<()> {
    let deciding = kept.judgement.deciding();
    if let (Some(policed), Some(burst)) = (deciding.rate_bps, deciding.burst_bytes) {
        line(
            out,
            "policing rate",
            &format!(
                "{} as payload, {} as IP packets, {} on the link",
                rate(policed),
                rate(kept.tally.at_ip(policed)),
                rate(kept.tally.at_link(policed)),
            ),
        )?;
        line(out, "", &format!("behind a burst of {}", bytes(burst)))?;
    }
    run(
        out,
        &format!("{} says", account.detector),
        &kept.judgement.verdict,
    )?;
    match &kept.judgement.cut {
        Some(cut) if cut.code != kept.judgement.verdict.code => {
            run(out, "second run", cut)?;
            line(out, "", "(without the first and last two losses)")
        }
        Some(_) => line(
            out,
            "second run",
            "the same without the first and last two losses",
        ),
        None => Ok(()),
    }
}

fn run(out: &mut impl Write, name: &str, verdict: &Verdict) -> io::Result<()> {
    let code = format!("code {}: {}", verdict.code.number(), verdict.code.reason());
    line(out, name, &code)?;
    wrap(out, verdict.code.explanation())?;
    for check in &verdict.checks {
        // Too few losses stop everything else; of the tests that hold, the telling ones suffice.
        if !check.holds || check.rules_out != Code::TooFewLosses {
            line(out, "", &describe(check))?;
        }
    }
    Ok(())
}

fn describe(check: &Check) -> String {
    let unit = if check.unit.is_empty() {
        String::new()
    } else {
        format!(" {}", check.unit)
    };
    let sign = if check.holds { "+" } else { "-" };
    let number = |value: f64| {
        if value.abs() >= 1000.0 || value.fract() == 0.0 {
            format!("{value:.0}")
        } else {
            format!("{value:.1}")
        }
    };
    format!(
        "{sign} {}: {}{unit}, held against {}",
        check.what,
        number(check.found),
        number(check.limit)
    )
}

/// A sentence in lines that fit 80 columns.
fn wrap(out: &mut impl Write, text: &str) -> io::Result<()> {
    let mut current = String::new();
    for word in text.split(' ') {
        if current.len() + word.len() > 62 {
            line(out, "", &current)?;
            current.clear();
        }
        if !current.is_empty() {
            current.push(' ');
        }
        current.push_str(word);
    }
    line(out, "", &current)
}
