//! Hours of the calendar, in UTC.

use std::fmt;

/// An hour since 1970-01-01 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hour(u64);

impl Hour {
    /// The hour that a time in nanoseconds since 1970-01-01 UTC is in.
    pub(crate) fn of(nanos: u64) -> Self {
        Self(nanos / 3_600_000_000_000)
    }
}

/// The folders of a partition, as Hive names them.
impl fmt::Display for Hour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, hour) = (self.0 / 24, self.0 % 24);
        let (year, month, day) = date(days);
        write!(f, "date={year:04}-{month:02}-{day:02}/hour={hour:02}")
    }
}

/// Year, month and day of a day since 1970-01-01. Years begin in March here, so that leap days come last; they
/// repeat after 400 years. (Hinnant, chrono-Compatible Low-Level Date Algorithms, civil_from_days)
fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let of_month = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (era * 400 + year + next, month, of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beside `date -u -d @SECONDS '+%F %H'` of GNU coreutils.
    #[test]
    fn hours_are_those_of_the_calendar() {
        for (seconds, folders) in [
            (0, "date=1970-01-01/hour=00"),
            (951_782_399, "date=2000-02-28/hour=23"),
            (951_782_400, "date=2000-02-29/hour=00"),
            (1_709_251_199, "date=2024-02-29/hour=23"),
            (1_709_251_200, "date=2024-03-01/hour=00"),
            (1_795_305_600, "date=2026-11-22/hour=00"),
            (4_107_542_399, "date=2100-02-28/hour=23"),
            (4_107_542_400, "date=2100-03-01/hour=00"),
            (18_446_744_073, "date=2554-07-21/hour=23"),
        ] {
            assert_eq!(Hour::of(seconds * 1_000_000_000).to_string(), folders);
        }
    }
}
