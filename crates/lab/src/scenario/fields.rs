//! Reads the values of a table by their types, and checks that every key is known. Lists and ranges
//! are values to choose from.

use std::ops::RangeInclusive;

use tidegate_limiter::{Nanos, Rate};
use tidegate_notation::{Fields as Known, Mistake, Node, Place, Section, Table, Value, quantity};

use super::draw::Draw;
use crate::SECOND;

const DAY: Nanos = 24 * 3600 * SECOND;

/// How one of several values is chosen for a flow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice {
    /// For a list: the index of the value. It begins again after the end of the list.
    pub turn: usize,
    /// For a range: the seed of its draws.
    pub draw: Draw,
}

/// A table that is being read.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    known: Known<'a>,
    /// If lists and ranges are allowed: how each key's value is chosen.
    choose: Option<&'a dyn Fn(&str) -> Choice>,
}

impl<'a> Fields<'a> {
    /// A table, after a check that each key is in one of the sections. Keys of `passed_over` are
    /// allowed too, but have no meaning.
    pub fn new(
        node: &'a Node,
        what: &'a str,
        sections: &[Section],
        passed_over: &[Section],
    ) -> Result<Self, Mistake> {
        Self::checked(Known::of(node, what)?, sections, passed_over)
    }

    /// The same for a table that is not a value.
    pub fn of(
        table: &'a Table,
        place: Place,
        what: &'a str,
        sections: &[Section],
        passed_over: &[Section],
    ) -> Result<Self, Mistake> {
        Self::checked(Known { table, place, what }, sections, passed_over)
    }

    fn checked(
        known: Known<'a>,
        sections: &[Section],
        passed_over: &[Section],
    ) -> Result<Self, Mistake> {
        match known.unknown_keys(sections, passed_over).next() {
            Some(mistake) => Err(mistake),
            None => Ok(Self {
                known,
                choose: None,
            }),
        }
    }

    /// The table, for readers of several of its keys.
    pub fn known(&self) -> &Known<'a> {
        &self.known
    }

    /// Allows lists and ranges.
    pub fn choosing(self, choose: &'a dyn Fn(&str) -> Choice) -> Self {
        Self {
            choose: Some(choose),
            ..self
        }
    }

    /// Chooses the values of a table within this one in the same way as for this one.
    pub fn chosen_as(&self, inner: Fields<'a>) -> Fields<'a> {
        Fields {
            choose: self.choose,
            ..inner
        }
    }

    /// The seed of what is drawn for a key, if values are chosen.
    pub fn draw(&self, key: &str) -> Option<Draw> {
        self.choose.map(|choose| choose(key).draw)
    }

    /// The value of a key as it was written.
    pub fn raw(&self, key: &str) -> Option<&'a Node> {
        self.known.node(key)
    }

    /// The value of a key. If it is a list, this is the value that is chosen.
    pub fn node(&self, key: &str) -> Result<Option<&'a Node>, Mistake> {
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

    /// A mistake: a needed key is missing.
    pub fn missing(&self, key: &str) -> Mistake {
        self.known.missing(key)
    }

    /// The value of a key, as `read` reads it.
    fn read<T>(
        &self,
        key: &str,
        read: impl FnOnce(&'a Node) -> Result<T, Mistake>,
    ) -> Result<Option<T>, Mistake> {
        self.node(key)?.map(read).transpose()
    }

    /// A quantity. Both ends of a range must be allowed, because other seeds draw other values.
    fn quantity(
        &self,
        key: &str,
        read: fn(&str) -> Result<u64, String>,
        complaint: impl Fn(u64) -> Option<String>,
    ) -> Result<Option<u64>, Mistake> {
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
                self.known.what
            ))),
        }
    }

    /// A time. Sums of years are far below the bound of 64 bits.
    pub fn time(&self, key: &str) -> Result<Option<Nanos>, Mistake> {
        self.quantity(key, quantity::time, |time| most(time, 365 * DAY, "a year"))
    }

    /// A time that is not 0.
    pub fn positive_time(&self, key: &str) -> Result<Option<Nanos>, Mistake> {
        self.quantity(key, quantity::time, |time| {
            not_zero(time).or_else(|| most(time, 365 * DAY, "a year"))
        })
    }

    /// A delay of packets.
    pub fn delay(&self, key: &str) -> Result<Option<Nanos>, Mistake> {
        self.quantity(key, quantity::time, |time| most(time, DAY / 24, "an hour"))
    }

    /// A number of bytes.
    pub fn bytes(&self, key: &str) -> Result<Option<u64>, Mistake> {
        self.quantity(key, quantity::bytes, |_| None)
    }

    /// A number of bytes that is not 0.
    pub fn positive_bytes(&self, key: &str) -> Result<Option<u64>, Mistake> {
        self.quantity(key, quantity::bytes, not_zero)
    }

    /// A size that is not 0; `None` if it is `auto`.
    pub fn auto_bytes(&self, key: &str) -> Result<Option<u64>, Mistake> {
        match self.node(key)?.map(|node| &node.value) {
            Some(Value::Text(text)) if text == "auto" => Ok(None),
            _ => self.positive_bytes(key),
        }
    }

    /// A number of bytes that fits into 32 bits, as every reasonable value does.
    pub fn small_bytes(
        &self,
        key: &str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u32>, Mistake> {
        let (least, most) = (range.start(), range.end());
        let complaint = |bytes| {
            let outside = !range.contains(&bytes);
            outside.then(|| format!("must be from {least}B to {most}B"))
        };
        let bytes = self.quantity(key, quantity::bytes, complaint)?;
        Ok(bytes.map(|bytes| bytes as u32))
    }

    /// A rate that all limiters can keep.
    pub fn rate(&self, key: &str) -> Result<Option<Rate>, Mistake> {
        let complaint = |bits| {
            let outside = !Rate::LIMITABLE.contains(&Rate::from_bits_per_second(bits));
            outside.then(|| format!("must be {}", Rate::LIMITABLE_TEXT))
        };
        let rate = self.quantity(key, quantity::rate, complaint)?;
        Ok(rate.map(Rate::from_bits_per_second))
    }

    /// A whole number.
    pub fn integer(&self, key: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, Mistake> {
        self.read(key, |node| node.integer(key, range))
    }

    /// A number, maybe with a fraction.
    pub fn real(&self, key: &str, range: RangeInclusive<f64>) -> Result<Option<f64>, Mistake> {
        self.read(key, |node| node.real(key, range))
    }

    /// True or false.
    pub fn truth(&self, key: &str) -> Result<Option<bool>, Mistake> {
        self.read(key, |node| node.truth(key))
    }

    /// A code point, by its number or name.
    pub fn code_point(&self, key: &str) -> Result<Option<u8>, Mistake> {
        self.read(key, |node| node.code_point(key))
    }

    /// One of several words.
    pub fn word<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Result<Option<T>, Mistake> {
        self.read(key, |node| node.word(key, words))
    }

    /// A mistake in a key's value.
    pub fn wrong(&self, key: &str, message: impl Into<String>) -> Mistake {
        self.known.wrong(key, message)
    }
}

/// A complaint about the value 0.
fn not_zero(value: u64) -> Option<String> {
    (value == 0).then(|| "must be more than 0".to_owned())
}

/// A complaint about a time that is longer than this one, which has this name.
fn most(time: Nanos, most: Nanos, name: &str) -> Option<String> {
    (time > most).then(|| format!("must be {name} at most"))
}

/// The values of a key: those of its list, or the only one.
pub(super) fn values<'a>(table: &'a Table, key: &str) -> &'a [Node] {
    match table.get(key) {
        None => &[],
        Some(Node {
            value: Value::List(list),
            ..
        }) => list,
        Some(node) => std::slice::from_ref(node),
    }
}

/// A quantity, or a range of them: smallest and largest.
pub(super) fn range(
    node: &Node,
    key: &str,
    read: fn(&str) -> Result<u64, String>,
) -> Result<(u64, u64), Mistake> {
    let text = node.quantity_text(key)?;
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
