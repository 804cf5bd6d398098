//! zstd without C: the frames of a file one after the other, with their checksums (RFC 8878).

use std::io::{self, BufRead, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Reads all frames of a zstd file. A frame may ask for a window of 128 MiB, the decoder's usual bound.
pub(super) struct Frames<R> {
    input: R,
    decoder: FrameDecoder,
    /// Whether a frame was begun and is not checked yet.
    open: bool,
}

impl<R: BufRead> Frames<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            decoder: FrameDecoder::new(),
            open: false,
        }
    }

    /// Begins the next frame, past those to be skipped. `false` at the end of the file.
    fn begin(&mut self) -> io::Result<bool> {
        loop {
            if self.input.fill_buf()?.is_empty() {
                return Ok(false);
            }
            match self.decoder.reset(&mut self.input) {
                Ok(()) => {
                    self.open = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let mut skipped = (&mut self.input).take(length.into());
                    io::copy(&mut skipped, &mut io::sink())?;
                }
                Err(error) => return Err(damaged(&error)),
            }
        }
    }

    /// Ends a frame whose bytes were all read.
    fn end(&mut self) -> io::Result<()> {
        self.open = false;
        let written = self.decoder.get_checksum_from_data();
        if written.is_some() && written != self.decoder.get_calculated_checksum() {
            return Err(io::Error::other("zstd: the checksum does not match"));
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if self.decoder.can_collect() > 0 {
                return self.decoder.read(buffer);
            }
            if self.open && self.decoder.is_finished() {
                self.end()?;
            }
            if !self.open && !self.begin()? {
                return Ok(0);
            }
            if !self.decoder.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                let decoded = self.decoder.decode_blocks(&mut self.input, one);
                decoded.map_err(|error| damaged(&error))?;
            }
        }
    }
}

fn damaged(error: &FrameDecoderError) -> io::Error {
    io::Error::other(format!("zstd: {error}"))
}
