//! A capture on its way into the table. In a browser its bytes come a part at a time, while what came before is analysed.

use std::io::Read;
use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_story::remarks;
use tidegate_trace::annotate::TransferSummary;
use tidegate_trace::detect::Judgement;
use tidegate_trace::read::{Capture, Nanos, ReadError};
use tidegate_trace::{Analysis, Options, Sink};

use crate::files::Files;
use crate::line::Line;

/// A capture that is being read.
pub struct Reading {
    /// Its number.
    pub capture: u32,
    pub name: Arc<str>,
    /// Its frames; none if it is no capture.
    frames: Option<Capture>,
    /// Why it cannot be read, or not to its end.
    error: Option<ReadError>,
    analysis: Analysis,
    lines: Lines,
}

impl Reading {
    pub fn new(capture: u32, name: Arc<str>, input: Box<dyn Read + Send>) -> Self {
        let (frames, error) = match Capture::new(input) {
            Ok(frames) => (Some(frames), None),
            Err(error) => (None, Some(error)),
        };
        Self {
            capture,
            frames,
            error,
            analysis: Analysis::new(Options::default()),
            lines: Lines {
                capture,
                name: Arc::clone(&name),
                start: 0,
                lines: Vec::new(),
            },
            name,
        }
    }

    /// Takes frames until reading pauses. Answers whether there are no more.
    pub fn proceed(&mut self, files: &impl Files) -> bool {
        let Some(frames) = &mut self.frames else {
            return true;
        };
        loop {
            match frames.frame() {
                Ok(Some(frame)) => {
                    let at = frame.at;
                    self.analysis.frame(&frame, &mut self.lines);
                    self.analysis.said(at, frames.sampled(), &mut self.lines);
                }
                Ok(None) => return true,
                Err(error) => {
                    self.error = Some(error);
                    return true;
                }
            }
            if files.pauses() {
                return false;
            }
        }
    }

    /// The transfers, a report for the page, and why the capture was not read to its end.
    pub fn finish(mut self) -> (Vec<Line>, Value, Option<ReadError>) {
        let counters = self.analysis.finish(&mut self.lines);
        let error = self.error.as_ref().map(ToString::to_string);
        let passed_over = self.frames.map(|frames| frames.passed_over());
        let passed_over = passed_over.unwrap_or_default();
        let problems = remarks::problems(&passed_over, error.as_deref());
        let remarks = remarks::remarks(&counters);
        let mut lines = self.lines.lines;
        // As the command line lists them: the client first.
        lines.sort_by_key(|line| (line.id.flow, line.id.segment, !line.id.from_client));
        let problems = problems.iter().chain(&remarks);
        let problems = problems.map(|problem| format!("{}: {problem}", self.name));
        let report = json!({
            "name": *self.name,
            "packets": counters.frames,
            "flows": counters.flows,
            "transfers": lines.len(),
            "problems": problems.collect::<Vec<_>>(),
        });
        (lines, report, self.error)
    }
}

/// Collects the lines of a capture.
struct Lines {
    capture: u32,
    name: Arc<str>,
    start: Nanos,
    lines: Vec<Line>,
}

impl Sink for Lines {
    fn begin(&mut self, at: Nanos) {
        self.start = at;
    }

    fn verdict(&mut self, transfer: &TransferSummary, judgement: Judgement) {
        let of = (self.capture, &self.name);
        self.lines
            .push(Line::new(of, self.start, transfer, &judgement));
    }
}
