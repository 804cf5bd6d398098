//! Answers the page.

use std::io::Read;
use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_story::account::Keeper;
use tidegate_trace::detect::DETECTORS;
use tidegate_trace::pair::{Diagnosis, Gathered};
use tidegate_trace::read::{Capture, ReadError, Reason};
use tidegate_trace::{Analysis, Options};

use crate::acks::Acks;
use crate::between::{self, Between, Crossing};
use crate::complete;
use crate::files::Files;
use crate::lab::{self, Ran};
use crate::panel::Panel;
use crate::picture::{self, Picture};
use crate::reading::Reading;
use crate::request::{Place, Request, View};
use crate::sizes;
use crate::summary;
use crate::table::Table;
use crate::turn;

const NOT_COMPARED: &str =
    "no captures of the same traffic were compared: choose two and compare them";
const NO_TRANSFER: &str = "no transfer is shown: choose one in the table";

/// What the page gets.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// JSON, or CSV where that was asked for.
    Text(String),
    /// Times and values by turns.
    Numbers(Vec<f64>),
    /// A file.
    Bytes(Vec<u8>),
}

/// A capture that was read.
struct Known {
    capture: u32,
    name: Arc<str>,
    /// Why it was not read to its end, which its report says.
    error: Option<ReadError>,
}

impl Known {
    /// What is wrong when the capture is read again. What its report said is not said twice, nor what is wrong with its bytes; but
    /// without the rest of a file that cannot be read any more, what is said of it would be wrong.
    fn again(&self, read: Result<(), ReadError>) -> Result<(), String> {
        let Err(error) = read else { return Ok(()) };
        // Decompressors do not give the same number of bytes before an error each time.
        let is_known = self.error.as_ref().is_some_and(|known| {
            known.reason == error.reason && (error.decompressed || known.offset == error.offset)
        });
        if is_known || !matches!(error.reason, Reason::Io(_)) {
            return Ok(());
        }
        Err(format!(
            "{}: {error}: open it again if it changed",
            self.name
        ))
    }
}

/// The captures that were read, and the transfer that is shown.
pub struct Desk<F> {
    files: F,
    known: Vec<Known>,
    table: Table,
    picture: Option<Picture>,
    ran: Option<Ran>,
    between: Option<Between>,
    summary: Vec<Panel>,
    reading: Option<Reading>,
}

impl<F: Files> Desk<F> {
    /// A desk without captures.
    pub fn new(files: F) -> Self {
        Self {
            files,
            known: Vec::new(),
            table: Table::default(),
            picture: None,
            ran: None,
            between: None,
            summary: Vec::new(),
            reading: None,
        }
    }

    /// Where the bytes of captures are.
    pub fn files(&mut self) -> &mut F {
        &mut self.files
    }

    /// Answers a request, which is in JSON.
    ///
    /// # Errors
    /// What is wrong with the request, the capture or the scenario, as a sentence for people.
    pub fn answer(&mut self, request: &str) -> Result<Reply, String> {
        let request = serde_json::from_str(request)
            .map_err(|error| format!("the request is not understood: {error}"))?;
        let json = |value: Value| Ok(Reply::Text(value.to_string()));
        match request {
            Request::Read { capture, name } => self.read(capture, name),
            Request::Forget { capture } => {
                self.known.retain(|known| known.capture != capture);
                self.table.forget(capture);
                json(Value::Null)
            }
            Request::Columns => json(Table::columns()),
            Request::Arrange(arrangement) => json(self.table.arrange(&arrangement)),
            Request::Lines { from, count } => json(self.table.part(from, count)),
            Request::Csv => Ok(Reply::Text(self.table.csv())),
            Request::Explain(place) => self.explain(place).and_then(json),
            Request::Panel { panel, view } => self.panel(&panel, view),
            Request::Packet { at } => json(self.picture()?.packet(at)),
            Request::PacketAt { place, lost } => json(self.picture()?.packet_at(place, lost)),
            Request::Window { seconds } => {
                let picture = self.picture.as_mut().ok_or(NO_TRANSFER)?;
                picture.count_in(seconds)?;
                json(json!({ "window_s": picture.window() }))
            }
            Request::Packets { from, to } => Ok(Reply::Text(self.picture()?.csv(from, to))),
            Request::Measure { from, to } => json(self.picture()?.measure(from, to)),
            Request::Summary => {
                let (panels, told) = summary::of(self.table.shown());
                self.summary = panels;
                json(told)
            }
            Request::SummaryPanel { panel, view } => {
                Ok(Reply::Numbers(find(&self.summary, &panel)?.draw(view)))
            }
            Request::Compare { captures } => self.compare(captures).and_then(json),
            Request::BetweenPanel { panel, view } => {
                let between = self.between.as_ref().ok_or(NOT_COMPARED)?;
                Ok(Reply::Numbers(find(&between.panels, &panel)?.draw(view)))
            }
            Request::BetweenPacket { at } => json(self.crossing()?.packet(at)),
            Request::BetweenMeasure { from, to } => json(self.crossing()?.measure(from, to)),
            Request::BetweenPackets { from, to } => Ok(Reply::Text(self.crossing()?.csv(from, to))),
            Request::Examples => json(lab::examples()),
            Request::Check { scenario } => lab::check(&scenario).and_then(json),
            Request::Complete { scenario, at } => json(complete::complete(&scenario, at)),
            Request::Limiters { scenario } => json(turn::limiters(&scenario)),
            Request::Turn {
                scenario,
                number,
                key,
                value,
            } => turn::turn(&scenario, number, &key, &value).map(Reply::Text),
            Request::Sizes { kind, bps, rtt_s } => json(sizes::sizes(&kind, bps, rtt_s)),
            Request::Simulate { scenario } => self.simulate(&scenario).and_then(json),
            Request::PointPanel { point, panel, view } => {
                let panels = self.ran()?.panels(point);
                Ok(Reply::Numbers(find(panels, &panel)?.draw(view)))
            }
            Request::Results => Ok(Reply::Text(self.ran()?.csv().to_owned())),
            Request::Capture { name } => Ok(Reply::Bytes(self.ran()?.capture(&name)?.to_vec())),
        }
    }

    /// Begins to read a capture.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn begin(&mut self, capture: u32, name: String) -> Result<(), String> {
        let name: Arc<str> = name.into();
        let input = self.open(capture, &name)?;
        self.reading = Some(Reading::new(capture, name, input));
        Ok(())
    }

    /// Reads on, until [`Files::pauses`] or to the end of the capture; then its transfers are in the table, and the answer is a report in JSON.
    pub fn proceed(&mut self) -> Option<String> {
        let mut reading = self.reading.take()?;
        if !reading.proceed(&self.files) {
            self.reading = Some(reading);
            return None;
        }
        let (capture, name) = (reading.capture, Arc::clone(&reading.name));
        let (lines, report, error) = reading.finish();
        self.table.extend(lines);
        self.known.push(Known {
            capture,
            name,
            error,
        });
        Some(report.to_string())
    }

    fn read(&mut self, capture: u32, name: String) -> Result<Reply, String> {
        self.begin(capture, name)?;
        loop {
            if let Some(report) = self.proceed() {
                return Ok(Reply::Text(report));
            }
        }
    }

    fn open(&self, capture: u32, name: &str) -> Result<Box<dyn Read + Send>, String> {
        let opened = self.files.open(capture);
        opened.map_err(|error| format!("{name}: {error}"))
    }

    fn known(&self, capture: u32) -> Result<&Known, String> {
        let known = self.known.iter().find(|known| known.capture == capture);
        known.ok_or_else(|| "this capture was not read: open it first".to_owned())
    }

    fn compare(&mut self, captures: [u32; 2]) -> Result<Value, String> {
        self.between = None;
        let [a, b] = captures;
        if a == b {
            return Err("both are one capture: choose two".to_owned());
        }
        let (a, b) = (self.known(a)?, self.known(b)?);
        let names = [Arc::clone(&a.name), Arc::clone(&b.name)];
        let gather = |known: &Known| -> Result<Gathered, String> {
            let mut gathered = Gathered::new(between::MOST);
            let input = self.open(known.capture, &known.name)?;
            known.again(Capture::new(input).and_then(|mut capture| {
                while let Some(frame) = capture.frame()? {
                    gathered.frame(&frame);
                }
                Ok(())
            }))?;
            Ok(gathered)
        };
        let diagnosis = Diagnosis::new(gather(a)?, gather(b)?);
        let (between, told) = between::compare(&names, diagnosis);
        self.between = Some(between);
        Ok(told)
    }

    fn explain(&mut self, place: Place) -> Result<Value, String> {
        let known = self.known(place.capture)?;
        let name = &known.name;
        let mut keeper = Keeper::new(place.flow, Some(place.segment));
        let line = self.table.find(place);
        let mut acks = line.map(|line| Acks::new(line.sender, line.receiver));
        let input = self.open(place.capture, name)?;
        known.again(keep(input, &mut keeper, acks.as_mut()))?;
        let detector = DETECTORS[0].name;
        let account = keeper.account(name, detector, Some(place.from_client));
        let account = account.map_err(|absent| absent.to_string())?;
        let (picture, story) = picture::explain(&account, acks.as_ref());
        self.picture = Some(picture);
        Ok(story)
    }

    fn picture(&self) -> Result<&Picture, String> {
        self.picture.as_ref().ok_or_else(|| NO_TRANSFER.to_owned())
    }

    fn crossing(&self) -> Result<&Crossing, String> {
        let between = self.between.as_ref();
        let crossing = between.and_then(|between| between.crossing.as_ref());
        crossing.ok_or_else(|| NOT_COMPARED.to_owned())
    }

    fn panel(&self, key: &str, view: View) -> Result<Reply, String> {
        let panel = find(&self.picture()?.panels, key)?;
        Ok(Reply::Numbers(panel.draw(view)))
    }

    fn simulate(&mut self, scenario: &str) -> Result<Value, String> {
        self.ran = None;
        let ran = lab::simulate(scenario, &self.files)?;
        let told = ran.to_json();
        self.ran = Some(ran);
        Ok(told)
    }

    fn ran(&self) -> Result<&Ran, String> {
        let none = || "no scenario was run".to_owned();
        self.ran.as_ref().ok_or_else(none)
    }
}

/// Hands a capture to an account, and its acknowledgements to those who draw them.
fn keep(
    input: Box<dyn Read + Send>,
    keeper: &mut Keeper,
    mut acks: Option<&mut Acks>,
) -> Result<(), ReadError> {
    let mut analysis = Analysis::new(Options::default());
    let read = Capture::new(input).and_then(|mut capture| {
        while let Some(frame) = capture.frame()? {
            if let Some(acks) = &mut acks {
                acks.frame(&frame);
            }
            let at = frame.at;
            analysis.frame(&frame, keeper);
            analysis.said(at, capture.sampled(), keeper);
        }
        Ok(())
    });
    analysis.finish(keeper);
    read
}

fn find<'a>(panels: &'a [Panel], key: &str) -> Result<&'a Panel, String> {
    let found = panels.iter().find(|panel| panel.key == key);
    found.ok_or_else(|| format!("there is no panel {key}"))
}
