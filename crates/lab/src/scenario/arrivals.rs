//! When flows begin that are not counted: at random, or as a trace says.

use std::sync::Arc;

use tidegate_limiter::Nanos;

/// The latest time of a trace, in seconds: a year.
const LATEST: f64 = 365.0 * 86_400.0;

/// When the flows of an entry begin, after the first one's `start`.
#[derive(Debug, Clone)]
pub(super) enum Arrivals {
    /// As a Poisson process: the mean time between two of them.
    Poisson(Nanos),
    /// As measured elsewhere.
    Trace(Arc<[Arrival]>),
}

/// A line of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrival {
    /// After the trace's beginning.
    pub(super) at: Nanos,
    /// What is transferred, if the trace says so.
    pub(super) bytes: Option<u64>,
}

/// Reads a trace: on each line a time in seconds, and the bytes of the transfer if they are known. Lines that begin
/// with `#` are comments.
pub(super) fn read(text: &str) -> Result<Arc<[Arrival]>, String> {
    let mut found: Vec<Arrival> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let wrong = |what: &str| format!("line {}: {what}", number + 1);
        let words: Vec<&str> = line.split_whitespace().collect();
        let (time, size) = match words[..] {
            [] => continue,
            [first, ..] if first.starts_with('#') => continue,
            [time] => (time, None),
            [time, size] => (time, Some(size)),
            _ => {
                return Err(wrong(
                    "a line has a time in seconds, and a number of bytes if it is known",
                ));
            }
        };
        let seconds = time.parse().ok().filter(|at| (0.0..=LATEST).contains(at));
        let seconds: f64 =
            seconds.ok_or_else(|| wrong("its time is not from 0 to a year, in seconds"))?;
        let bytes = size.map(|size| {
            let bytes = size.parse().ok().filter(|&bytes: &u64| bytes > 0);
            bytes.ok_or_else(|| wrong("its size is not a number of bytes above 0"))
        });
        let arrival = Arrival {
            at: (seconds * 1e9).round() as Nanos,
            bytes: bytes.transpose()?,
        };
        if found.last().is_some_and(|before| before.at > arrival.at) {
            return Err(wrong("its time is before that of the line above"));
        }
        found.push(arrival);
    }
    match found.is_empty() {
        true => Err("no flow arrives in it".to_owned()),
        false => Ok(found.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_times_and_sizes() {
        let found = read("# from a server's log\n0.5 14600\n\n 0.75\n0.75 1\n").expect("a trace");
        let arrival = |at, bytes| Arrival { at, bytes };
        let wanted = [
            arrival(500_000_000, Some(14_600)),
            arrival(750_000_000, None),
            arrival(750_000_000, Some(1)),
        ];
        assert_eq!(*found, wanted);
        for (text, why) in [
            ("", "no flow"),
            ("1\n0.5", "line 2: its time is before"),
            ("1 2 3", "line 1: a line has"),
            ("-1", "line 1: its time"),
            ("nan", "line 1: its time"),
            ("1e99", "line 1: its time"),
            ("1 0", "line 1: its size"),
            ("1 -5", "line 1: its size"),
        ] {
            let said = read(text).expect_err(text);
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
