//! A tap: what passes is written to a capture.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_limiter::Nanos;
use tidegate_trace::read::LinkType;
use tidegate_trace::write::{PcapWriter, Resolution};

use crate::sim::RunError;
use crate::sim::packet::Packet;
use crate::sim::wire::Wire;

#[cfg(test)]
mod tests;

/// A capture being written, under another name until it is complete.
#[derive(Debug)]
pub struct Tap {
    file: PathBuf,
    partial: PathBuf,
    snaplen: usize,
    wires: Arc<[Wire]>,
    frame: Vec<u8>,
    /// The first error ends the writing; it is told in the end.
    writer: Result<Writer, io::Error>,
}

type Writer = Option<PcapWriter<BufWriter<File>>>;

impl Tap {
    /// Begins a capture that will be at `file`.
    ///
    /// # Errors
    /// If no file can be made there.
    pub fn create(file: &Path, snaplen: u32, wires: Arc<[Wire]>) -> Result<Self, RunError> {
        let mut name = file.file_name().unwrap_or_default().to_owned();
        name.push(".partial");
        let partial = file.with_file_name(name);
        let writer = File::create(&partial)
            .and_then(|out| {
                let out = BufWriter::with_capacity(1 << 16, out);
                PcapWriter::new(out, LinkType::ETHERNET, Resolution::Nanos)
            })
            .map_err(|error| RunError::tap(file, error))?;
        Ok(Self {
            file: file.to_owned(),
            partial,
            snaplen: snaplen as usize,
            wires,
            frame: Vec::new(),
            writer: Ok(Some(writer)),
        })
    }

    /// Writes a packet as it passes.
    pub fn write(&mut self, now: Nanos, packet: &Packet) {
        let Ok(Some(writer)) = &mut self.writer else {
            return;
        };
        let wire = &self.wires[packet.flow as usize];
        let length = wire.encode(packet, self.snaplen, &mut self.frame);
        if let Err(error) = writer.frame(now, &self.frame, length) {
            self.writer = Err(error);
        }
    }

    /// Gives the capture its name.
    ///
    /// # Errors
    /// If it could not be written in full.
    pub fn finish(mut self) -> Result<(), RunError> {
        let writer = std::mem::replace(&mut self.writer, Ok(None));
        writer
            .and_then(|writer| writer.map_or(Ok(()), |writer| writer.finish().map(drop)))
            .and_then(|()| fs::rename(&self.partial, &self.file))
            .map_err(|error| RunError::tap(&self.file, error))
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        // Renamed by now, unless something went wrong: nothing half-written stays.
        let _ = fs::remove_file(&self.partial);
    }
}
