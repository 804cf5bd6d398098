//! The figures of a transfer, one to a line.

use std::io::{self, Write};

use tidegate_trace::annotate::Pattern;

use crate::units::{bytes, percent, plural, rate, time};
use tidegate_story::account::{Account, Kept};

/// What was measured, whatever the detector.
pub(super) fn write(out: &mut impl Write, account: &Account, kept: &Kept) -> io::Result<()> {
    let transfer = &kept.transfer;
    let (metrics, tally) = (&transfer.metrics, &transfer.tally);
    let at = metrics.first_sent.saturating_sub(account.info.started_at);
    let goodput = metrics.goodput_bps().map_or("-".to_owned(), rate);
    line(
        out,
        "sent",
        &format!(
            "{} delivered in {}, starting {}: {goodput} of payload",
            bytes(metrics.delivered_bytes),
            time(metrics.duration),
            match at {
                0 => "with the flow".to_owned(),
                at => format!("{} into the flow", time(at)),
            },
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
    let handshake = &transfer.flow.handshake;
    match (handshake.rtt(), handshake.retransmissions) {
        (_, again @ 1..) => {
            let packets = plural(u64::from(again), "packet", "packets");
            line(out, "handshake", &format!("{packets} of it sent again"))?;
        }
        (Some(rtt), 0) => line(out, "handshake", &format!("took {}", time(rtt)))?,
        (None, 0) => {}
    }
    let mut limits = vec![match tally.idle {
        0 => "application never idle".to_owned(),
        idle => format!("application idle for {}", time(idle)),
    }];
    if tally.window_known {
        limits.push(match tally.window_limited {
            0 => "receive window never full".to_owned(),
            full => format!("receive window full for {}", time(full)),
        });
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
        (
            tally.strays,
            "packets are far ahead of all others, damaged or forged, and left out",
        ),
        (tally.probes, "keepalives or window probes"),
    ] {
        if number > 0 {
            line(out, "note", &format!("{number} {what}"))?;
        }
    }
    Ok(())
}

/// A name, and a figure beside it.
pub(super) fn line(out: &mut impl Write, name: &str, text: &str) -> io::Result<()> {
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
            "{}, {} in the median one; {} ({} of the time)",
            plural(
                u64::from(evidence.loss_episodes),
                "loss episode",
                "loss episodes"
            ),
            plural(evidence.losses_per_episode.round() as u64, "loss", "losses"),
            plural(u64::from(evidence.stalls), "stall", "stalls"),
            percent(evidence.stalled),
        ),
    )?;
    if !kept.transfer.metrics.acknowledged {
        return Ok(());
    }
    line(
        out,
        "",
        &format!(
            "before losses it sent at {:.1} times the goodput; {:.0} packets in flight",
            evidence.overshoot, evidence.flight_packets,
        ),
    )
}
