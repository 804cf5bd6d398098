//! The time-sequence picture of a flow, as in [Flach16 Figures 1 and 10].

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::{self, Write};

use tidegate_trace::annotate::Sent;
use tidegate_trace::detect::pd::Answer;
use tidegate_trace::read::Nanos;

use super::account::{Account, Kept};
use super::scale::Scale;
use crate::units::rate;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 600.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 66.0;
const BOTTOM: f64 = 48.0;
/// Dots closer than this, in either direction, are drawn once, so that the size of the picture
/// does not grow with the number of packets.
const GRAIN: f64 = 0.6;

const STYLE: &str = "
  text { font: 13px system-ui, 'Helvetica Neue', Arial, sans-serif; fill: #222 }
  .title { font-size: 16px; font-weight: 600 }
  .small { font-size: 12px; fill: #555 }
  .grid { stroke: #e4e4e4 } .axis { stroke: #888 }
  .data { stroke: #1f5fa8; stroke-width: 2.4; stroke-linecap: round }
  .again { stroke: #e08a00; stroke-width: 2.8; stroke-linecap: round }
  .lost { stroke: #c4161c; stroke-width: 1.3; fill: none }
  .acks { stroke: #2c8c3c; stroke-width: 1.4; fill: none }
  .rate { stroke: #222; stroke-width: 1.6; stroke-dasharray: 7 4; fill: none }
";

pub(super) fn draw(out: &mut impl Write, account: &Account) -> io::Result<()> {
    let plot = Plot::of(account);
    let side = if account.transfers[0].transfer.id.from_client {
        "client"
    } else {
        "server"
    };
    let info = &account.info;
    let title = format!(
        "Flow {}: {} > {}, data from the {side}",
        info.number, info.client, info.server
    );
    let verdict = headline(account);
    write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\">\n\
         <title>{}</title>\n<desc>{}</desc>\n<style>{STYLE}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text class=\"title\" x=\"{LEFT}\" y=\"24\">{}</text>\n\
         <text x=\"{LEFT}\" y=\"44\">{}</text>\n",
        escape(&title),
        escape(&format!(
            "Time-sequence picture of {}: sequence numbers of data packets, losses, \
             retransmissions and acknowledgements over time. {verdict}",
            account.capture
        )),
        escape(&title),
        escape(&verdict),
    )?;
    plot.axes(out)?;
    let (mut data, mut again, mut lost) = (Dots::default(), Dots::default(), Dots::default());
    let mut acks = String::new();
    let mut policed = String::new();
    for kept in &account.transfers {
        for sent in &kept.sent {
            let place = plot.place(sent.at, sent.seq);
            if sent.lost() {
                lost.cross(place);
            } else if sent.is_retransmission() {
                again.dot(place);
            } else {
                data.dot(place);
            }
        }
        plot.acknowledgements(kept, &mut acks);
        plot.policing_line(kept, &mut policed);
    }
    for (class, path) in [
        ("acks", &acks),
        ("data", &data.path),
        ("again", &again.path),
        ("lost", &lost.path),
        ("rate", &policed),
    ] {
        if !path.is_empty() {
            writeln!(out, "<path class=\"{class}\" d=\"{path}\"/>")?;
        }
    }
    legend(out, !policed.is_empty())?;
    writeln!(out, "</svg>")
}

fn headline(account: &Account) -> String {
    let policed = account
        .transfers
        .iter()
        .filter(|kept| kept.judgement.is_policed())
        .count();
    let all = account.transfers.len();
    match (all, policed) {
        (1, _) => {
            let headline = account.transfers[0].headline();
            let (first, rest) = headline.split_at(1);
            first.to_uppercase() + rest
        }
        (_, 0) => format!("None of {all} segments is found to be policed"),
        _ => {
            let mut rates: Vec<f64> = account
                .transfers
                .iter()
                .filter_map(Kept::policed_rate)
                .collect();
            rates.sort_by(f64::total_cmp);
            let median = rates.get(rates.len() / 2);
            let median = median.map_or(String::new(), |&median| {
                format!(", at {} in the median", rate(median))
            });
            format!("{policed} of {all} segments policed{median}")
        }
    }
}

struct Plot {
    x: Scale,
    y: Scale,
    started_at: Nanos,
    origin: u64,
    /// Bytes in the unit of the vertical axis, and its name.
    unit: (f64, &'static str),
}

impl Plot {
    fn of(account: &Account) -> Self {
        let packets = || account.transfers.iter().flat_map(|kept| &kept.sent);
        let started_at = packets().map(|sent| sent.at).min().unwrap_or(0);
        let origin = packets().map(|sent| sent.seq).min().unwrap_or(0);
        let end = packets()
            .map(Sent::end)
            .max()
            .unwrap_or(0)
            .saturating_sub(origin);
        let last = packets()
            .map(|sent| sent.at.max(sent.acked_at))
            .max()
            .unwrap_or(0);
        let unit = match end {
            0..10_000 => (1.0, "B"),
            10_000..2_000_000 => (1e3, "kB"),
            2_000_000..2_000_000_000 => (1e6, "MB"),
            _ => (1e9, "GB"),
        };
        let seconds = last.saturating_sub(started_at) as f64 / 1e9;
        Self {
            x: Scale::new(0.0, seconds, LEFT, WIDTH - RIGHT),
            y: Scale::new(0.0, end as f64 / unit.0, HEIGHT - BOTTOM, TOP),
            started_at,
            origin,
            unit,
        }
    }

    fn place(&self, at: Nanos, seq: u64) -> (f64, f64) {
        let seconds = at.saturating_sub(self.started_at) as f64 / 1e9;
        let bytes = seq.saturating_sub(self.origin) as f64 / self.unit.0;
        (self.x.at(seconds), self.y.at(bytes))
    }

    fn axes(&self, out: &mut impl Write) -> io::Result<()> {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        let (ticks, decimals) = self.x.ticks(9);
        for tick in ticks {
            let x = self.x.at(tick);
            writeln!(
                out,
                "<path class=\"grid\" d=\"M{x:.1} {TOP}V{bottom}\"/><text class=\"small\" \
                 x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{tick:.decimals$}</text>",
                bottom + 18.0
            )?;
        }
        let (ticks, decimals) = self.y.ticks(7);
        for tick in ticks {
            let y = self.y.at(tick);
            writeln!(
                out,
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/><text class=\"small\" \
                 x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{tick:.decimals$}</text>",
                LEFT - 8.0,
                y + 4.0
            )?;
        }
        writeln!(
            out,
            "<path class=\"axis\" fill=\"none\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>\n\
             <text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">time since the first data packet, s</text>\n\
             <text transform=\"translate(20 {:.0}) rotate(-90)\" text-anchor=\"middle\">sequence number, {}</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 10.0,
            (TOP + bottom) / 2.0,
            self.unit.1
        )
    }

    /// The cumulative acknowledgement as a staircase: a byte is acknowledged when it and all
    /// before it are.
    fn acknowledgements(&self, kept: &Kept, path: &mut String) {
        let mut latest = 0;
        let mut last: Option<(f64, f64)> = None;
        let mut first_sends: Vec<&Sent> = kept
            .sent
            .iter()
            .filter(|sent| !sent.is_retransmission())
            .collect();
        first_sends.sort_by_key(|sent| sent.seq);
        for sent in first_sends {
            if sent.acked_at == 0 {
                break;
            }
            latest = latest.max(sent.acked_at);
            let (x, y) = self.place(latest, sent.end());
            match last {
                None => {
                    let _ = write!(path, "M{x:.1} {y:.1}");
                }
                Some((before, _)) if x - before < GRAIN => {
                    // The same step: only its top matters.
                    last = Some((before, y));
                    continue;
                }
                Some((_, top)) => {
                    let _ = write!(path, "V{top:.1}H{x:.1}");
                }
            }
            last = Some((x, y));
        }
        if let Some((_, top)) = last {
            let _ = write!(path, "V{top:.1}");
        }
    }

    /// The line that progress cannot cross for long: through the first loss with the policing
    /// rate as its slope, to where the transfer ends.
    fn policing_line(&self, kept: &Kept, path: &mut String) {
        let first = kept.judgement.details::<Answer>();
        let first = first.and_then(|answer| kept.sent.get(answer.deciding().first_loss?));
        let rate = kept.policed_rate().filter(|&rate| rate > 0.0);
        let (Some(rate), Some(first)) = (rate, first) else {
            return;
        };
        let last = kept
            .sent
            .iter()
            .map(|sent| sent.at.max(sent.acked_at))
            .max()
            .unwrap_or(0);
        let bytes = last.saturating_sub(first.at) as f64 / 8e9 * rate;
        let end = kept.sent.iter().map(Sent::end).max().unwrap_or(first.seq);
        // Cut where the transfer's last byte is.
        let share = ((end - first.seq) as f64 / bytes.max(1.0)).min(1.0);
        let (x, y) = self.place(first.at, first.seq);
        let (to_x, to_y) = self.place(
            first.at + (last.saturating_sub(first.at) as f64 * share) as u64,
            first.seq + (bytes * share) as u64,
        );
        let _ = write!(path, "M{x:.1} {y:.1}L{to_x:.1} {to_y:.1}");
    }
}

/// A path of many small marks, at most one at each place.
#[derive(Default)]
struct Dots {
    path: String,
    taken: HashSet<(i32, i32)>,
}

impl Dots {
    fn is_free(&mut self, (x, y): (f64, f64)) -> bool {
        self.taken.insert(((x / GRAIN) as i32, (y / GRAIN) as i32))
    }

    fn dot(&mut self, place: (f64, f64)) {
        if self.is_free(place) {
            let _ = write!(self.path, "M{:.1} {:.1}h0", place.0, place.1);
        }
    }

    fn cross(&mut self, place: (f64, f64)) {
        if self.is_free(place) {
            let (x, y) = place;
            let _ = write!(self.path, "M{:.1} {:.1}l5 5m0-5l-5 5", x - 2.5, y - 2.5);
        }
    }
}

fn legend(out: &mut impl Write, policed: bool) -> io::Result<()> {
    let mut entries = vec![
        ("data", "h0", "data"),
        ("again", "h0", "retransmission"),
        ("lost", "m-2.5-2.5l5 5m0-5l-5 5", "lost"),
        ("acks", "m-8 0h16", "acknowledged"),
    ];
    if policed {
        entries.push(("rate", "m-10 0h20", "policing rate"));
    }
    // The curves go from the lower left to the upper right, so the lower right is empty.
    let height = entries.len() as f64 * 19.0 + 8.0;
    let (x, mut y) = (WIDTH - RIGHT - 132.0, HEIGHT - BOTTOM - height + 6.0);
    writeln!(
        out,
        "<rect x=\"{:.0}\" y=\"{:.0}\" width=\"136\" height=\"{height:.0}\" fill=\"#fff\" \
         fill-opacity=\".85\" stroke=\"#ccc\"/>",
        x - 16.0,
        y - 14.0
    )?;
    for (class, mark, name) in entries {
        writeln!(
            out,
            "<path class=\"{class}\" d=\"M{x} {:.1}{mark}\"/><text x=\"{:.0}\" y=\"{y:.1}\">{name}</text>",
            y - 4.0,
            x + 18.0
        )?;
        y += 19.0;
    }
    Ok(())
}

fn escape(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_control())
        .flat_map(|c| match c {
            '&' => "&amp;".chars().collect::<Vec<_>>(),
            '<' => "&lt;".chars().collect(),
            '>' => "&gt;".chars().collect(),
            '"' => "&quot;".chars().collect(),
            other => vec![other],
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_stay_text() {
        assert_eq!(
            escape("a<b>&\"\u{1b}[31m.pcap"),
            "a&lt;b&gt;&amp;&quot;[31m.pcap"
        );
    }

    #[test]
    fn a_place_is_drawn_once() {
        let mut dots = Dots::default();
        dots.dot((10.0, 10.0));
        dots.dot((10.1, 10.1));
        dots.dot((12.0, 10.0));
        assert_eq!(dots.path, "M10.0 10.0h0M12.0 10.0h0");
    }
}
