//! The values of a table, each of its type, every key known.

use std::ops::RangeInclusive;

use tidegate_limiter::{Nanos, Rate};
use tidegate_notation::{Section, instead, quantity, rule};

use super::draw::Draw;
use super::error::Problem;
use super::tree::{Node, Place, Table, Value};
use crate::SECOND;

const DAY: Nanos = 24 * 3600 * SECOND;

/// How one of several values is chosen for a flow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice {
    /// Of a list: the value of this number, from the beginning again after its end.
    pub turn: usize,
    /// Of a range: what ranges are drawn by.
    pub draw: Draw,
}

/// A table that is being read.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    table: &'a Table,
    place: Place,
    /// What the table is, for messages: `a policer`.
    what: &'a str,
    /// Where lists and ranges are allowed: how each key's value is chosen.
    choose: Option<&'a dyn Fn(&str) -> Choice>,
}

impl<'a> Fields<'a> {
    /// A table, once all of its keys are known to one of the sections; keys of `passed_over` are
    /// known, too, but of no meaning.
    pub fn new(
        node: &'a Node,
        what: &'a str,
        sections: &[Section],
        passed_over: &[Section],
    ) -> Result<Self, Problem> {
        let Value::Table(table) = &node.value else {
            return Err(node.wrong(format!("{what} is a table, not {}", node.kind())));
        };
        Self::of(table, node.place, what, sections, passed_over)
    }

    /// The same of a table that is not a value.
    pub fn of(
        table: &'a Table,
        place: Place,
        what: &'a str,
        sections: &[Section],
        passed_over: &[Section],
    ) -> Result<Self, Problem> {
        let names = |sections: &[Section]| -> Vec<&'static str> {
            let keys = sections.iter().flat_map(|section| section.keys);
            keys.map(|key| key.name).collect()
        };
        let (known, other) = (names(sections), names(passed_over));
        for (key, _) in &table.0 {
            let name = key.text.as_str();
            if !known.contains(&name) && !other.contains(&name) {
                let message = format!(
                    "unknown key `{name}` in {what}{}",
                    instead(name, known.iter().copied())
                );
                return Err(Problem::new(key.place, message));
            }
        }
        Ok(Self {
            table,
            place,
            what,
            choose: None,
        })
    }

    /// Allows lists and ranges.
    pub fn choosing(self, choose: &'a dyn Fn(&str) -> Choice) -> Self {
        Self {
            choose: Some(choose),
            ..self
        }
    }

    /// Chooses the values of a table within this one as those of this one.
    pub fn chosen_as(&self, inner: Fields<'a>) -> Fields<'a> {
        Fields {
            choose: self.choose,
            ..inner
        }
    }

    /// The value of a key as it was written.
    pub fn raw(&self, key: &str) -> Option<&'a Node> {
        self.table.get(key)
    }

    /// The value of a key; of a list, the one whose turn it is.
    pub fn node(&self, key: &str) -> Result<Option<&'a Node>, Problem> {
        let Some(node) = self.raw(key) else {
            return Ok(None);
        };
        match (&node.value, self.choose) {
            (Value::List(list), Some(choose)) => {
                match list.get(choose(key).turn % list.len().max(1)) {
                    Some(one) => Ok(Some(one)),
                    None => Err(node.wrong(format!(
                        "`{key}` is an empty list: write at least one value"
                    ))),
                }
            }
            _ => Ok(Some(node)),
        }
    }

    /// That a key is needed and not there.
    pub fn missing(&self, key: &str) -> Problem {
        Problem::new(self.place, format!("`{key}` is missing in {}", self.what))
    }

    /// A quantity of which both ends of a range must be allowed: other seeds draw other values.
    fn quantity(
        &self,
        key: &str,
        read: fn(&str) -> Result<u64, String>,
        complaint: impl Fn(u64) -> Option<String>,
    ) -> Result<Option<u64>, Problem> {
        let Some(node) = self.node(key)? else {
            return Ok(None);
        };
        let draw = self.choose.map(|choose| choose(key).draw);
        let (low, high) = range(node, key, read)?;
        if let Some(complaint) = complaint(low).or_else(|| complaint(high)) {
            return Err(node.wrong(format!("`{key}` {complaint}")));
        }
        match draw {
            _ if low == high => Ok(Some(low)),
            Some(draw) => Ok(Some(draw.between(low, high))),
            None => Err(node.wrong(format!(
                "`{key}` of {} is one value, not a range",
                self.what
            ))),
        }
    }

    /// A time. Sums of years are far from what 64 bits hold.
    pub fn time(&self, key: &str) -> Result<Option<Nanos>, Problem> {
        self.quantity(key, quantity::time, |time| most(time, 365 * DAY, "a year"))
    }

    /// A time that is not 0.
    pub fn positive_time(&self, key: &str) -> Result<Option<Nanos>, Problem> {
        self.quantity(key, quantity::time, |time| {
            not_zero(time).or_else(|| most(time, 365 * DAY, "a year"))
        })
    }

    /// A time that packets take.
    pub fn delay(&self, key: &str) -> Result<Option<Nanos>, Problem> {
        self.quantity(key, quantity::time, |time| most(time, DAY / 24, "an hour"))
    }

    /// A number of bytes.
    pub fn bytes(&self, key: &str) -> Result<Option<u64>, Problem> {
        self.quantity(key, quantity::bytes, |_| None)
    }

    /// A number of bytes that is not 0.
    pub fn positive_bytes(&self, key: &str) -> Result<Option<u64>, Problem> {
        self.quantity(key, quantity::bytes, not_zero)
    }

    /// A number of bytes of which 32 bits hold all that make sense.
    pub fn small_bytes(
        &self,
        key: &str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u32>, Problem> {
        let (least, most) = (range.start(), range.end());
        let complaint = |bytes| {
            let outside = !range.contains(&bytes);
            outside.then(|| format!("must be from {least}B to {most}B"))
        };
        let bytes = self.quantity(key, quantity::bytes, complaint)?;
        Ok(bytes.map(|bytes| bytes as u32))
    }

    /// A rate, of those that all limiters can keep.
    pub fn rate(&self, key: &str) -> Result<Option<Rate>, Problem> {
        let complaint = |bits| {
            let outside = !(8_000..=400_000_000_000).contains(&bits);
            outside.then(|| "must be from 8 kbit/s to 400 Gbit/s".to_owned())
        };
        let rate = self.quantity(key, quantity::rate, complaint)?;
        Ok(rate.map(Rate::from_bits_per_second))
    }

    /// A whole number.
    pub fn integer(&self, key: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, Problem> {
        let Some(node) = self.node(key)? else {
            return Ok(None);
        };
        integer(node, key, range).map(Some)
    }

    /// A number, maybe with a fraction.
    pub fn real(&self, key: &str, range: RangeInclusive<f64>) -> Result<Option<f64>, Problem> {
        let Some(node) = self.node(key)? else {
            return Ok(None);
        };
        let number = match node.value {
            Value::Integer(number) => number as f64,
            Value::Real(number) => number,
            _ => return Err(node.wrong(format!("`{key}` is a number, not {}", node.kind()))),
        };
        if range.contains(&number) {
            return Ok(Some(number));
        }
        let (least, most) = range.into_inner();
        Err(node.wrong(format!("`{key}` must be from {least} to {most}")))
    }

    /// True or false.
    pub fn truth(&self, key: &str) -> Result<Option<bool>, Problem> {
        match self.node(key)? {
            None => Ok(None),
            Some(Node {
                value: Value::Truth(truth),
                ..
            }) => Ok(Some(*truth)),
            Some(node) => Err(node.wrong(format!("`{key}` is true or false, not {}", node.kind()))),
        }
    }

    /// A code point, by its number or name.
    pub fn code_point(&self, key: &str) -> Result<Option<u8>, Problem> {
        let Some(node) = self.node(key)? else {
            return Ok(None);
        };
        let dscp = rule::code_point(key, node.in_rule());
        dscp.map(Some).map_err(|message| node.wrong(message))
    }

    /// One of several words.
    pub fn word<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Result<Option<T>, Problem> {
        match self.node(key)? {
            None => Ok(None),
            Some(node) => word(node, key, words).map(Some),
        }
    }

    /// An error about a key's value.
    pub fn wrong(&self, key: &str, message: String) -> Problem {
        let place = self.raw(key).map_or(self.place, |node| node.place);
        Problem::new(place, message)
    }
}

/// A complaint about 0.
fn not_zero(value: u64) -> Option<String> {
    (value == 0).then(|| "must be more than 0".to_owned())
}

/// A complaint about a longer time than this one, which is called so.
fn most(time: Nanos, most: Nanos, name: &str) -> Option<String> {
    (time > most).then(|| format!("must be {name} at most"))
}

/// One of several words.
pub(super) fn word<T: Copy>(node: &Node, key: &str, words: &[(&str, T)]) -> Result<T, Problem> {
    let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
    let Value::Text(text) = &node.value else {
        let list = names.join(", ");
        return Err(node.wrong(format!("`{key}` is one of {list}, not {}", node.kind())));
    };
    let found = words.iter().find(|(name, _)| name == text);
    found
        .map(|(_, value)| *value)
        .ok_or_else(|| node.wrong(format!("unknown {key} `{text}`{}", instead(text, names))))
}

/// A whole number.
pub(super) fn integer(node: &Node, key: &str, range: RangeInclusive<u64>) -> Result<u64, Problem> {
    let Value::Integer(number) = node.value else {
        return Err(node.wrong(format!("`{key}` is a whole number, not {}", node.kind())));
    };
    let number = u64::try_from(number).ok();
    number
        .filter(|number| range.contains(number))
        .ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            if *most == u64::MAX {
                return node.wrong(format!("`{key}` must be at least {least}"));
            }
            node.wrong(format!("`{key}` must be from {least} to {most}"))
        })
}

/// A quantity, or the range of one: least and most.
pub(super) fn range(
    node: &Node,
    key: &str,
    read: fn(&str) -> Result<u64, String>,
) -> Result<(u64, u64), Problem> {
    let text = match &node.value {
        Value::Text(text) => text.clone(),
        // Told as a missing unit.
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        _ => {
            let kind = node.kind();
            return Err(node.wrong(format!("`{key}` is a quantity in quotes, not {kind}")));
        }
    };
    let read = |text: &str| read(text).map_err(|message| node.wrong(format!("`{key}`: {message}")));
    match text.split_once("..") {
        None => read(&text).map(|value| (value, value)),
        Some((low, high)) => {
            let (low, high) = (read(low)?, read(high)?);
            if low > high {
                return Err(node.wrong(format!("`{key}`: the range {text} ends before it begins")));
            }
            Ok((low, high))
        }
    }
}
