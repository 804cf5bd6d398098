//! The story of a flow in words and numbers.

use std::io::{self, Write};

use tidegate_trace::annotate::{Layer, Pattern};
use tidegate_trace::detect::Judgement;
use tidegate_trace::detect::pd::{Answer, Check, Code, Run};
use tidegate_trace::flow::Ended;

use super::account::{Account, Kept};
use crate::table::Paint;
use crate::units::{bytes, percent, plural, rate, time};

pub(super) fn write_story(out: &mut impl Write, account: &Account, paint: Paint) -> io::Result<()> {
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
            "; the capture does not hold its beginning"
        },
    )?;
    let ended = match account.ended {
        Ended::Closed => "Its endpoints closed it.",
        Ended::Idle => "It went idle.",
        Ended::Reused => "Another connection reused its ports.",
        Ended::CaptureEnd => "The capture ended before the flow did.",
        Ended::Evicted => {
            "It was dropped because too many flows were active at once (see --max-flows)."
        }
    };
    let side = if account.transfers[0].transfer.id.from_client {
        "client"
    } else {
        "server"
    };
    writeln!(
        out,
        "{ended} The {side} sent data in {}:",
        plural(account.transfers.len() as u64, "segment", "segments")
    )?;
    for transfer in &account.transfers {
        writeln!(out)?;
        segment(out, account, transfer, paint)?;
    }
    writeln!(out)
}

fn segment(out: &mut impl Write, account: &Account, kept: &Kept, paint: Paint) -> io::Result<()> {
    let transfer = &kept.transfer;
    let (metrics, tally) = (&transfer.metrics, &transfer.tally);
    let headline = if kept.judgement.is_policed() {
        paint.alarm(&kept.headline())
    } else {
        kept.headline()
    };
    let continues = if transfer.continues {
        " (continued)"
    } else {
        ""
    };
    let title = format!("Segment {}{continues}", transfer.id.segment);
    writeln!(out, "{}: {headline}", paint.bold(&title))?;

    let at = metrics.first_sent.saturating_sub(account.info.started_at);
    let goodput = metrics.goodput_bps().map_or("-".to_owned(), rate);
    line(
        out,
        "sent",
        &format!(
            "{} delivered in {}, starting {} into the flow: {goodput} of payload",
            bytes(metrics.delivered_bytes),
            time(metrics.duration),
            time(at),
        ),
    )?;
    line(
        out,
        "packets",
        &format!(
            "{} of up to {} B, {} lost ({}), {} retransmissions, {} of them spurious",
            metrics.data_packets,
            transfer.mss,
            metrics.lost_packets,
            percent(metrics.loss_rate()),
            metrics.retransmitted_packets,
            metrics.spurious_packets,
        ),
    )?;
    if let Some(before) = metrics.bytes_before_loss {
        line(out, "first loss", &format!("after {}", bytes(before)))?;
    }
    if let Some(rtt) = metrics.rtt {
        line(
            out,
            "round trip",
            &format!(
                "{} minimum, {} median, {} at the 90th percentile",
                time(rtt.min),
                time(rtt.median),
                time(rtt.p90),
            ),
        )?;
    }
    if let Some(growth) = metrics.growth {
        let verdict = if metrics.bufferbloat {
            "delay grows with the bytes in flight: a bloated buffer"
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
                "{}, from the spacing of acknowledgements in {}",
                rate(capacity.bps),
                plural(capacity.trains as u64, "train", "trains"),
            ),
        )?;
    }
    let mut limits = vec![format!("application idle for {}", time(tally.idle))];
    if tally.window_known {
        limits.push(format!(
            "receive window full for {}",
            time(tally.window_limited)
        ));
    }
    line(out, "other limits", &limits.join(", "))?;
    if let Some(wait) = tally.wait {
        line(
            out,
            "wait",
            &format!("playback could have begun after {}", time(wait)),
        )?;
    }
    pattern(out, kept)?;
    for (number, what) in [
        (tally.unseen_bytes, "B are missing from the capture"),
        (tally.duplicates, "packets are in the capture twice"),
        (tally.probes, "keepalives or window probes"),
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
    let evidence = &kept.transfer.metrics.evidence;
    if evidence.loss_episodes == 0 {
        return Ok(());
    }
    let name = match kept.transfer.metrics.pattern {
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
            "{}, {:.0} losses in the median one; {} ({} of the time)",
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
            "before losses it sent at {:.1} times the goodput; {:.0} packets in flight",
            evidence.overshoot, evidence.flight_packets,
        ),
    )
}

fn verdict(out: &mut impl Write, account: &Account, kept: &Kept) -> io::Result<()> {
    let judgement = &kept.judgement;
    let answer = judgement.details::<Answer>();
    let at = |layer| judgement.policed_rate(&kept.transfer.tally, layer);
    let rates = (at(Layer::Payload), at(Layer::Ip), at(Layer::Link));
    if let (Some(payload), Some(ip), Some(link)) = rates {
        line(
            out,
            "policing rate",
            &format!(
                "{} as payload, {} as IP packets, {} on the link",
                rate(payload),
                rate(ip),
                rate(link),
            ),
        )?;
        if let Some(burst) = answer.and_then(|answer| answer.deciding().burst_bytes) {
            line(out, "", &format!("after a burst of {}", bytes(burst)))?;
        }
    }
    let says = format!("{} says", account.detector);
    let Some(answer) = answer else {
        return general(out, &says, judgement);
    };
    run(out, &says, &answer.all)?;
    if answer.cut.code == answer.all.code {
        let same = "same result without the first two and last two losses";
        return line(out, "second run", same);
    }
    run(out, "second run", &answer.cut)?;
    line(out, "", "(without the first two and last two losses)")
}

/// What every detector says in the same terms.
fn general(out: &mut impl Write, says: &str, judgement: &Judgement) -> io::Result<()> {
    let sure = judgement.confidence.map_or(String::new(), |confidence| {
        format!(" (confidence {})", percent(confidence))
    });
    let verdict = format!("{}: {}{sure}", judgement.cause, judgement.reason);
    line(out, says, &verdict)?;
    for evidence in &judgement.evidence {
        wrap(out, evidence)?;
    }
    for other in &judgement.ruled_out {
        wrap(out, &format!("Not {}: {}", other.cause, other.why))?;
    }
    let shares = judgement.shares.iter();
    let shares: Vec<String> = shares
        .map(|share| format!("{} {}", share.cause, percent(share.share)))
        .collect();
    if !shares.is_empty() {
        line(out, "limited by", &shares.join(", "))?;
    }
    Ok(())
}

fn run(out: &mut impl Write, name: &str, run: &Run) -> io::Result<()> {
    let code = format!("code {}: {}", run.code.number(), run.code.reason());
    line(out, name, &code)?;
    wrap(out, run.code.explanation())?;
    for check in &run.checks {
        // Tests for enough losses are of interest only where they fail.
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
        "{sign} {}: {}{unit} (limit {})",
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
