//! When a subscriber's plan changes by itself: at times of day, and when a month's volume is used up. This module
//! has no clock: the time is passed in.

use serde::{Deserialize, Serialize};

use crate::table::PerDirection;

#[cfg(test)]
mod tests;

/// A minute of local time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The year.
    pub year: i32,
    /// The month, from 1.
    pub month: u32,
    /// The day of the month, from 1.
    pub day: u32,
    /// The day of the week, from 0 for Monday.
    pub weekday: u32,
    /// Minutes since midnight.
    pub minute: u32,
}

/// A time of day with another plan.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Slot {
    /// A bit for each day of the week on which it begins, the lowest for Monday.
    pub days: u8,
    /// The minute of the day when it begins.
    pub from: u32,
    /// The minute when it ends, of the next day if it is not after `from`.
    pub to: u32,
    /// The plan in force then.
    pub plan: String,
}

impl Slot {
    /// Every day of the week.
    pub const ALL_DAYS: u8 = 0x7f;

    fn covers(&self, at: &Moment) -> bool {
        let begins = |weekday: u32| self.days >> (weekday % 7) & 1 == 1;
        match self.from < self.to {
            true => begins(at.weekday) && (self.from..self.to).contains(&at.minute),
            // Over midnight.
            false => {
                at.minute >= self.from && begins(at.weekday)
                    || at.minute < self.to && begins(at.weekday + 6)
            }
        }
    }
}

/// The month in which a volume is counted, by its first day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Period {
    /// The year.
    pub year: i32,
    /// The month, from 1.
    pub month: u32,
    /// The day, from 1 to 28.
    pub day: u32,
}

impl Period {
    /// The month that begins on this day of each month, and is not over at this time.
    pub fn at(at: &Moment, day: u32) -> Self {
        let (year, month) = match (at.day >= day, at.month) {
            (true, month) => (at.year, month),
            (false, 1) => (at.year - 1, 12),
            (false, month) => (at.year, month - 1),
        };
        Self { year, month, day }
    }

    /// The month after this one.
    pub fn next(self) -> Self {
        let (year, month) = match self.month {
            12 => (self.year + 1, 1),
            month => (self.year, month + 1),
        };
        Self {
            year,
            month,
            ..self
        }
    }
}

impl std::fmt::Display for Period {
    /// The first day, as ISO 8601 has it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

/// The bytes that count for a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Counts {
    /// Those in both directions together.
    #[default]
    Both,
    /// Those to the subscriber.
    Down,
    /// Those from it.
    Up,
}

/// A month's volume, and the plan in force once it is used up.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Quota {
    /// Bytes.
    pub bytes: u64,
    /// Which bytes count.
    pub counts: Counts,
    /// The day of the month on which it begins again, from 1 to 28.
    pub day: u32,
    /// The plan for the rest of the month.
    pub plan: String,
}

impl Quota {
    /// The bytes of a volume that count.
    pub fn counted(&self, volume: PerDirection<u64>) -> u64 {
        match self.counts {
            Counts::Both => volume.down.saturating_add(volume.up),
            Counts::Down => volume.down,
            Counts::Up => volume.up,
        }
    }
}

/// Why another plan than the subscriber's is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// It is the time of day.
    Schedule,
    /// The month's volume is used up.
    Quota,
}

impl Why {
    /// The word in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Quota => "quota",
        }
    }
}

/// Another plan than the subscriber's, which is in force for now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Its name.
    pub plan: String,
    /// The reason.
    pub why: Why,
}

/// When another plan takes the place of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Terms {
    /// Times of day. The first that fits counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedule: Vec<Slot>,
    /// The month's volume. It counts before times of day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
}

impl Terms {
    /// The names of all plans that may take the place of this one.
    pub fn plans(&self) -> impl Iterator<Item = &str> {
        let slots = self.schedule.iter().map(|slot| slot.plan.as_str());
        slots.chain(self.quota.iter().map(|quota| quota.plan.as_str()))
    }

    /// The plan in place of this one, at this time and with this volume of the month in bytes.
    pub fn turn(&self, at: &Moment, volume: PerDirection<u64>) -> Option<Turn> {
        let spent = |quota: &&Quota| quota.counted(volume) >= quota.bytes;
        if let Some(quota) = self.quota.as_ref().filter(spent) {
            return Some(Turn {
                plan: quota.plan.clone(),
                why: Why::Quota,
            });
        }
        let slot = self.schedule.iter().find(|slot| slot.covers(at))?;
        Some(Turn {
            plan: slot.plan.clone(),
            why: Why::Schedule,
        })
    }

    /// Whether no other plan ever takes its place.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
