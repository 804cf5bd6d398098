//! Lines of comma-separated values, RFC 4180.

use std::fmt::Write as _;
use std::io::{self, Write};

use tidegate_table::{Value, csv};

/// Bytes that are written together.
const TOGETHER: usize = 1 << 16;

/// Writes lines. Rows have more than a hundred values, mostly numbers: they are formatted where they are written from, and only text is
/// looked through for what needs quotes.
pub struct Lines<W> {
    out: W,
    waiting: String,
    /// Whether the line has a value already.
    begun: bool,
}

impl<W: Write> Lines<W> {
    pub fn new(out: W) -> Self {
        Self {
            out,
            waiting: String::new(),
            begun: false,
        }
    }

    pub fn value(&mut self, value: &Value) {
        if let Value::Text(text) = value {
            return self.text(text);
        }
        self.separate();
        // A string takes everything.
        let _ = write!(self.waiting, "{value}");
    }

    pub fn text(&mut self, text: &str) {
        self.separate();
        self.waiting.push_str(&csv::field(text));
    }

    fn separate(&mut self) {
        if self.begun {
            self.waiting.push(',');
        }
        self.begun = true;
    }

    /// Ends the line.
    pub fn end(&mut self) -> io::Result<()> {
        self.begun = false;
        self.waiting.push('\n');
        match self.waiting.len() < TOGETHER {
            true => Ok(()),
            false => self.hand_on(),
        }
    }

    fn hand_on(&mut self) -> io::Result<()> {
        self.out.write_all(self.waiting.as_bytes())?;
        self.waiting.clear();
        Ok(())
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.hand_on()?;
        self.out.flush()
    }

    /// Gives the output back.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        Ok(self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_of_csv_finds_the_same_values() {
        let texts = ["a", "", "b,c", "say \"so\"", "two\nlines", "\r", "ü"];
        let mut lines = Lines::new(Vec::new());
        for _ in 0..3 {
            texts.iter().for_each(|text| lines.text(text));
            lines.value(&Value::Missing);
            lines.value(&Value::Real(1e-7));
            lines.end().unwrap();
        }
        let written = lines.finish().unwrap();
        let mut reader = ::csv::ReaderBuilder::new();
        let mut reader = reader.has_headers(false).from_reader(&written[..]);
        let found: Vec<::csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(found.len(), 3);
        for line in found {
            let read: Vec<&str> = line.iter().collect();
            assert_eq!(read, [&texts[..], &["", "0.0000001"]].concat());
        }
    }
}
