//! Captures of the packets that taps see. The caller decides where they are written.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_trace::read::LinkType;
use tidegate_trace::write::{PcapWriter, Resolution};

use crate::RunError;
use crate::observer::TappedPacket;
use crate::plan::Plan;

#[cfg(test)]
mod tests;

/// Opens the destinations of captures.
pub trait Captures: Sync {
    /// Opens a capture. The name is unique among all captures of a scenario.
    ///
    /// # Errors
    /// The capture cannot be opened.
    fn create(&self, name: &str) -> io::Result<Box<dyn CaptureWriter>>;

    /// The name of this capture in errors, such as its path.
    fn describe(&self, name: &str) -> String {
        name.to_owned()
    }
}

/// Takes the bytes of a capture, in pcap format. It is dropped without [`finish`](Self::finish) if
/// the simulation fails or is interrupted: the capture is incomplete then.
pub trait CaptureWriter: Write {
    /// The capture is complete.
    ///
    /// # Errors
    /// The capture cannot be completed.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// Keeps captures in memory.
#[derive(Debug, Default)]
pub struct InMemory {
    complete: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
}

impl InMemory {
    /// The captures that are complete, by name: each a pcap file.
    pub fn into_captures(self) -> BTreeMap<String, Vec<u8>> {
        let mut complete = self.complete.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *complete)
    }
}

impl Captures for InMemory {
    fn create(&self, name: &str) -> io::Result<Box<dyn CaptureWriter>> {
        Ok(Box::new(Buffer {
            name: name.to_owned(),
            bytes: Vec::new(),
            complete: Arc::clone(&self.complete),
        }))
    }
}

/// A capture in memory.
struct Buffer {
    name: String,
    bytes: Vec<u8>,
    complete: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
}

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl CaptureWriter for Buffer {
    fn finish(self: Box<Self>) -> io::Result<()> {
        let mut complete = self.complete.lock().unwrap_or_else(PoisonError::into_inner);
        complete.insert(self.name, self.bytes);
        Ok(())
    }
}

/// Writes the packets that the taps of a plan see.
pub(crate) struct Recorder<'a> {
    captures: &'a dyn Captures,
    /// By the index of the tap.
    open: BTreeMap<usize, Open>,
}

/// A capture being written.
struct Open {
    name: String,
    /// The first error ends the writing. It is reported at the end of the run.
    writer: io::Result<PcapWriter<Box<dyn CaptureWriter>>>,
}

impl<'a> Recorder<'a> {
    /// Opens a capture for each tap; see [`Plan::captures`] for their names.
    pub(crate) fn new(
        plan: &Plan,
        suffix: &str,
        captures: &'a dyn Captures,
    ) -> Result<Self, RunError> {
        let elements = plan.elements.iter().enumerate();
        let taps = elements.filter(|(_, element)| element.kind.is_tap());
        let mut open = BTreeMap::new();
        for ((index, _), name) in taps.zip(plan.captures(suffix)) {
            let writer = captures
                .create(&name)
                .and_then(|out| PcapWriter::new(out, LinkType::ETHERNET, Resolution::Nanos));
            let writer = Ok(writer.map_err(|error| failed(captures, &name, error))?);
            open.insert(index, Open { name, writer });
        }
        Ok(Self { captures, open })
    }

    /// Writes a packet to its tap's capture.
    pub(crate) fn packet(&mut self, packet: &TappedPacket<'_>) {
        if let Some(open) = self.open.get_mut(&packet.element)
            && let Ok(writer) = &mut open.writer
            && let Err(error) = writer.frame(packet.at, packet.frame, packet.length)
        {
            open.writer = Err(error);
        }
    }

    /// Completes all captures, and returns their names in the order of the taps.
    pub(crate) fn finish(self) -> Result<Vec<String>, RunError> {
        let mut names = Vec::new();
        for Open { name, writer } in self.open.into_values() {
            let written = writer.and_then(PcapWriter::finish);
            written
                .and_then(CaptureWriter::finish)
                .map_err(|error| failed(self.captures, &name, error))?;
            names.push(name);
        }
        Ok(names)
    }
}

fn failed(captures: &dyn Captures, name: &str, error: io::Error) -> RunError {
    RunError::Capture {
        file: captures.describe(name),
        error,
    }
}
