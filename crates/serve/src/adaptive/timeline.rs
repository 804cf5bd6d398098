//! Where numbered segments lie in time (ISO/IEC 23009-1, 5.3.9.6).

use std::sync::Arc;
use std::time::Duration;

/// A line of a timeline: segments that last equally long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Line {
    /// Without it the line begins where the one before it ends.
    pub begins: Option<u64>,
    pub lasts: u64,
    /// How often it is repeated; less than 0: until the next line begins.
    pub repeated: i64,
}

/// A length of time as a fraction of seconds, because numbers of segments become large.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Step {
    pub units: u64,
    /// Units in a second.
    pub timescale: u64,
}

/// What tells a segment's time by its number.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Times {
    /// All last equally long.
    Alike(Step),
    /// A timeline, whose first segment has this number.
    Timeline {
        lines: Arc<Vec<Line>>,
        first: u64,
        /// The timeline's unit.
        unit: Step,
    },
}

impl Line {
    /// How many segments it has if it begins and ends at these times; `None`: all that are left.
    fn count(&self, begins: u64, until: Option<u64>) -> Option<u64> {
        if let Ok(more) = u64::try_from(self.repeated) {
            return Some(more + 1);
        }
        // The end need not be a whole number of segments: what is missing is less than a thousandth of one then.
        let left = until?.saturating_sub(begins.saturating_add(self.lasts / 1_000));
        Some(left.div_ceil(self.lasts.max(1)))
    }
}

impl Step {
    /// This many of it.
    pub fn times(self, number: u64) -> Option<Duration> {
        let units = u128::from(number) * u128::from(self.units);
        let nanos = units.checked_mul(1_000_000_000)? / u128::from(self.timescale.max(1));
        Some(Duration::from_nanos(nanos.try_into().ok()?))
    }
}

impl Times {
    /// When a segment begins. The timeline of a live presentation is a window that moves, and a number before or behind it is taken
    /// to follow at the distance of its nearest segments.
    pub fn at(&self, number: u64) -> Option<Duration> {
        let (lines, first, unit) = match self {
            Self::Alike(step) => return step.times(number),
            Self::Timeline { lines, first, unit } => (lines, *first, unit),
        };
        let begin = lines.first()?;
        if let Some(before @ 1..) = first.checked_sub(number) {
            let before = before.saturating_mul(begin.lasts);
            return unit.times(begin.begins.unwrap_or(0).saturating_sub(before));
        }
        let (mut at, mut left) = (0_u64, number - first);
        for (i, line) in lines.iter().enumerate() {
            at = line.begins.unwrap_or(at);
            let next = lines.get(i + 1);
            let count = line.count(at, next.and_then(|next| next.begins));
            match count.filter(|&count| next.is_some() && count <= left) {
                Some(count) => {
                    at = at.saturating_add(line.lasts.saturating_mul(count));
                    left -= count;
                }
                None => return unit.times(at.saturating_add(line.lasts.saturating_mul(left))),
            }
        }
        None
    }

    /// Bytes of memory that it needs beyond those that it has in common with another one.
    pub fn weight(&self, other: Option<&Self>) -> usize {
        match (self, other) {
            (Self::Alike(_), _) => 0,
            (Self::Timeline { lines, .. }, Some(Self::Timeline { lines: same, .. }))
                if Arc::ptr_eq(lines, same) =>
            {
                0
            }
            (Self::Timeline { lines, .. }, _) => lines.capacity() * size_of::<Line>(),
        }
    }
}
