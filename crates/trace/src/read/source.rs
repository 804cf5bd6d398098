//! Bytes: decompressed where they need to be, and seen through one bounded window.

use std::io::{self, Read};

use super::decompress::decompress;
use super::error::{ReadError, Reason};
use super::frame::MAX_RECORD;

/// The window's usual size. It fits a core's second-level cache, so that a capture in the page
/// cache is copied into cache, not into memory.
const WINDOW: usize = 256 << 10;

/// A window on the decompressed input.
pub(super) struct Window {
    input: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes of input before `start`.
    passed: u64,
    ended: bool,
    compressed: bool,
}

impl Window {
    pub(super) fn new(input: Box<dyn Read + Send>) -> Result<Self, ReadError> {
        let (input, compressed) = decompress(input).map_err(|error| ReadError {
            offset: 0,
            decompressed: false,
            reason: Reason::from(&error),
        })?;
        Ok(Self {
            input,
            buffer: vec![0; WINDOW],
            start: 0,
            end: 0,
            passed: 0,
            ended: false,
            compressed,
        })
    }

    /// An error at the window's first byte.
    pub(super) fn error(&self, reason: Reason) -> ReadError {
        ReadError {
            offset: self.passed,
            decompressed: self.compressed,
            reason,
        }
    }

    /// Whether nothing is left: true only after a [`peek`](Self::peek) that found the end.
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The next `n` bytes, which stay in the window; `None` if the input ends before.
    /// `n` must not exceed [`MAX_RECORD`] and a few headers: the caller has checked it.
    #[inline]
    pub(super) fn peek(&mut self, n: usize) -> Result<Option<&[u8]>, ReadError> {
        if self.end - self.start < n && !self.fill(n)? {
            return Ok(None);
        }
        Ok(Some(&self.buffer[self.start..self.start + n]))
    }

    /// The next `n` bytes, or an error that says what is cut off. `None` at a proper end.
    #[inline]
    pub(super) fn record(
        &mut self,
        n: usize,
        what: &'static str,
    ) -> Result<Option<&[u8]>, ReadError> {
        if self.end - self.start < n && !self.fill(n)? {
            if self.is_empty() {
                return Ok(None);
            }
            return Err(self.cut_off(n, what));
        }
        Ok(Some(&self.buffer[self.start..self.start + n]))
    }

    /// Takes `n` bytes out of the window. A `peek` or `record` of at least `n` must come before.
    #[inline]
    pub(super) fn take(&mut self, n: usize) -> &[u8] {
        let at = self.start;
        self.start += n;
        self.passed += n as u64;
        &self.buffer[at..at + n]
    }

    /// Skips `n` bytes without holding them. `false` if the input ends before.
    pub(super) fn skip(&mut self, n: u64) -> Result<bool, ReadError> {
        let mut left = n;
        loop {
            let here = left.min((self.end - self.start) as u64);
            self.take(here as usize);
            left -= here;
            if left == 0 {
                return Ok(true);
            }
            if !self.fill(1)? {
                return Ok(false);
            }
        }
    }

    pub(super) fn cut_off(&self, needed: usize, what: &'static str) -> ReadError {
        self.error(Reason::CutOff {
            what,
            needed,
            available: self.end - self.start,
        })
    }

    /// Reads until `n` bytes are in the window. `false` if the input ends before.
    #[cold]
    fn fill(&mut self, n: usize) -> Result<bool, ReadError> {
        debug_assert!(n <= MAX_RECORD + 64);
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.buffer.len() < n {
            self.buffer.resize(n.next_power_of_two(), 0);
        }
        while self.end < n {
            if self.ended {
                return Ok(false);
            }
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // What came before the damage is good: the reader uses it up first, and meets the
                    // error when it asks for more.
                    let reason = if self.compressed {
                        Reason::Io(format!(
                            "the compressed data is damaged or cut off: {error}"
                        ))
                    } else {
                        Reason::from(&error)
                    };
                    return Err(ReadError {
                        offset: self.passed + self.end as u64,
                        decompressed: self.compressed,
                        reason,
                    });
                }
            }
        }
        Ok(true)
    }
}
