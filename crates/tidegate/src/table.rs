//! The table for people: a heading for each flow, a line for each of its transfers, 80 columns.

use std::io::{self, IsTerminal, Write};
use std::net::IpAddr;
use std::sync::Arc;

use tidegate_story::brief;
use tidegate_trace::annotate::{Layer, Metrics, TransferSummary};
use tidegate_trace::detect::{Cause, Judgement, pd};
use tidegate_trace::read::Nanos;
use tidegate_trace::rows::{ClientRow, FlowRow, SegmentRow};
use tidegate_trace::wire::Endpoint;

use crate::cli::Color;
use crate::units::{count, percent, rate, time};

/// Colours, if they are wanted.
#[derive(Debug, Clone, Copy)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// Colours on standard output, if that is a terminal that has no other setting
    /// (<https://no-color.org>, <https://bixense.com/clicolors>).
    pub fn for_stdout(wish: Color, to_file: bool) -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let on = match wish {
            Color::Always => true,
            Color::Never => false,
            Color::Auto if is_set("NO_COLOR") => false,
            Color::Auto if std::env::var_os("CLICOLOR_FORCE").is_some_and(|v| v != "0") => true,
            Color::Auto => {
                !to_file
                    && io::stdout().is_terminal()
                    && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
            }
        };
        Self { on }
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.on {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    pub fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    pub fn alarm(self, text: &str) -> String {
        self.wrap("1;31", text)
    }

    pub fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }
}

/// A flow's heading, in two lines where its addresses are long.
fn heading(number: u64, client: Endpoint, server: Endpoint) -> String {
    let line = format!("flow {number}  {client} > {server}");
    if line.chars().count() <= 80 {
        line
    } else {
        format!("flow {number}  {client}\n      > {server}")
    }
}

/// The content of a line.
struct Line<'a> {
    file: &'a Arc<str>,
    flow: u64,
    /// Sender and receiver.
    ends: (Endpoint, Endpoint),
    from_client: bool,
    /// The segment's number, or the number of segments.
    number: u64,
    metrics: &'a Metrics,
    rtt: Option<Nanos>,
    confidence: Option<f64>,
    verdict: String,
}

/// Prints rows as they come.
pub struct Table {
    paint: Paint,
    all: bool,
    /// Whether to print the names of captures, since there are several.
    name_files: bool,
    file: Option<Arc<str>>,
    flow: Option<u64>,
    client: Option<IpAddr>,
    headed: bool,
    /// Rows that are not shown, since they are too short to be judged.
    pub hidden: u64,
    /// Whether a verdict was marked as the second run's.
    second_run: bool,
    /// Whether a verdict names a rate that counts frames on the link.
    link_rates: bool,
}

impl Table {
    pub fn new(paint: Paint, all: bool, name_files: bool) -> Self {
        Self {
            paint,
            all,
            name_files,
            file: None,
            flow: None,
            client: None,
            headed: false,
            hidden: 0,
            second_run: false,
            link_rates: false,
        }
    }

    pub fn segments(&mut self, out: &mut impl Write, rows: &[SegmentRow]) -> io::Result<()> {
        for row in rows {
            let verdict = self.verdict(row);
            let transfer = &row.transfer;
            let line = Line {
                file: &row.file,
                flow: transfer.id.flow,
                ends: (transfer.sender, transfer.receiver),
                from_client: transfer.id.from_client,
                number: u64::from(transfer.id.segment),
                metrics: &transfer.metrics,
                rtt: transfer.metrics.rtt.map(|rtt| rtt.median),
                confidence: row.judgement.confidence,
                verdict,
            };
            self.line(out, ["SEG", "VERDICT"], line)?;
        }
        Ok(())
    }

    pub fn flows(&mut self, out: &mut impl Write, rows: &[FlowRow]) -> io::Result<()> {
        for row in rows {
            let line = Line {
                file: &row.file,
                flow: row.info.number,
                ends: (row.sender, row.receiver),
                from_client: row.sender == row.info.client,
                number: row.totals.segments,
                metrics: &row.totals.metrics,
                rtt: row.totals.rtt_percentile(50),
                confidence: row.judgement.confidence,
                verdict: self.verdict_of_all(
                    &row.judgement,
                    row.policed_segments,
                    row.totals.segments,
                ),
            };
            self.line(out, ["SEGS", "VERDICT"], line)?;
        }
        Ok(())
    }

    pub fn clients(&mut self, out: &mut impl Write, rows: &[ClientRow]) -> io::Result<()> {
        for row in rows {
            let (sums, metrics) = (&row.sums, &row.sums.metrics);
            if !self.shows(metrics) {
                continue;
            }
            if !self.headed {
                self.headed = true;
                let heading = format!(
                    "{:>5} {:<6} {:>6} {:>7} {:>6} {:>11} {:>7} {:>4} VERDICT",
                    "FLOWS", "DATA", "TIME", "PACKETS", "LOSS", "GOODPUT", "MIN RTT", "SURE"
                );
                writeln!(out, "{}", self.paint.dim(&heading))?;
            }
            self.name_file(out, &row.file)?;
            if self.client != Some(row.client) {
                self.client = Some(row.client);
                let title = format!("client {}", row.client);
                writeln!(out, "{}", self.paint.bold(&title))?;
            }
            let verdict = self.verdict_of_all(&row.judgement, sums.policed, sums.segments);
            writeln!(
                out,
                "{:>5} {:<6} {:>6} {:>7} {:>6} {:>11} {:>7} {:>4} {verdict}",
                count(sums.flows),
                if row.from_client { "from" } else { "to" },
                time(metrics.duration),
                count(metrics.data_packets),
                percent(metrics.loss_rate()),
                metrics.goodput_bps().map_or("-".into(), rate),
                sums.rtt_min.map_or("-".into(), time),
                row.judgement
                    .confidence
                    .map_or("-".into(), brief::whole_percent),
            )?;
        }
        Ok(())
    }

    /// Whether a row is long enough to be shown; counts it otherwise.
    fn shows(&mut self, metrics: &Metrics) -> bool {
        let shown = self.all || metrics.data_packets >= brief::LEAST_PACKETS;
        self.hidden += u64::from(!shown);
        shown
    }

    /// Prints the name of the capture if it changed.
    fn name_file(&mut self, out: &mut impl Write, file: &Arc<str>) -> io::Result<()> {
        if self.file.as_ref() != Some(file) {
            self.file = Some(Arc::clone(file));
            self.flow = None;
            self.client = None;
            if self.name_files {
                writeln!(out, "{}", self.paint.bold(file))?;
            }
        }
        Ok(())
    }

    /// Prints a line. Before it prints the heading, and the names of the capture and the flow if
    /// they changed.
    fn line(
        &mut self,
        out: &mut impl Write,
        [number, verdict]: [&str; 2],
        line: Line<'_>,
    ) -> io::Result<()> {
        let metrics = line.metrics;
        if !self.shows(metrics) {
            return Ok(());
        }
        if !self.headed {
            self.headed = true;
            let heading = format!(
                "{number:>4} {:<6} {:>6} {:>7} {:>6} {:>11} {:>6} {:>4} {verdict}",
                "FROM", "TIME", "PACKETS", "LOSS", "GOODPUT", "RTT", "SURE"
            );
            writeln!(out, "{}", self.paint.dim(&heading))?;
        }
        self.name_file(out, line.file)?;
        if self.flow != Some(line.flow) {
            self.flow = Some(line.flow);
            let (sender, receiver) = line.ends;
            let title = if line.from_client {
                heading(line.flow, sender, receiver)
            } else {
                heading(line.flow, receiver, sender)
            };
            writeln!(out, "{}", self.paint.bold(&title))?;
        }
        writeln!(
            out,
            "{:>4} {:<6} {:>6} {:>7} {:>6} {:>11} {:>6} {:>4} {}",
            line.number,
            if line.from_client { "client" } else { "server" },
            time(metrics.duration),
            count(metrics.data_packets),
            percent(metrics.loss_rate()),
            metrics.goodput_bps().map_or("-".into(), rate),
            line.rtt.map_or("-".into(), time),
            line.confidence.map_or("-".into(), brief::whole_percent),
            line.verdict,
        )
    }

    fn verdict(&mut self, row: &SegmentRow) -> String {
        let (judgement, transfer) = (&row.judgement, &row.transfer);
        if let Some(answer) = judgement.details() {
            return self.of_pd(answer, judgement, transfer);
        }
        self.in_words(judgement)
    }

    /// The verdict on all segments of a flow or a client. `pd` only counts policed segments.
    fn verdict_of_all(&mut self, judgement: &Judgement, policed: u64, segments: u64) -> String {
        if judgement.details::<pd::Answer>().is_none() {
            return self.in_words(judgement);
        }
        let words = format!("policed: {policed} of {segments}");
        match policed {
            0 => words,
            _ => self.paint.alarm(&words),
        }
    }

    fn in_words(&mut self, judgement: &Judgement) -> String {
        let words = brief::verdict(judgement);
        if let Some(limit) = judgement.limit {
            self.link_rates |= limit.layer == Layer::Link;
        }
        match judgement.cause {
            Cause::Policer => self.paint.alarm(&words),
            _ => words,
        }
    }

    /// The verdict of `pd`, which looks for policers only.
    fn of_pd(
        &mut self,
        answer: &pd::Answer,
        judgement: &Judgement,
        transfer: &TransferSummary,
    ) -> String {
        if judgement.is_policed() {
            let second = !answer.all.is_policed();
            self.second_run |= second;
            let mark = if second { "*" } else { "" };
            let policed = judgement.policed_rate(&transfer.tally, Layer::Payload);
            let policed = policed.map_or(String::new(), |policed| format!(" {}", rate(policed)));
            return self.paint.alarm(&format!("policed{policed}{mark}"));
        }
        let too_few = answer.deciding().code == pd::Code::TooFewLosses;
        match transfer.metrics.lost_packets {
            0 if too_few => self.paint.dim("no losses"),
            _ => format!("- {}", judgement.reason),
        }
    }

    /// Explains the marks in the table, and how many rows are not shown.
    pub fn finish(&self, out: &mut impl Write) -> io::Result<()> {
        if self.headed {
            writeln!(out)?;
        }
        if self.second_run {
            writeln!(out, "* without the first two and last two losses")?;
        }
        if self.link_rates {
            let note = "Rates of verdicts count frames on the link; goodput counts payload.";
            writeln!(out, "{note}")?;
        }
        if self.hidden > 0 {
            writeln!(
                out,
                "{} of fewer than {} data packets not shown; --all shows them",
                crate::units::plural(self.hidden, "row", "rows"),
                brief::LEAST_PACKETS
            )?;
        }
        Ok(())
    }
}
