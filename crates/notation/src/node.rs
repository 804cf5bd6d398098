//! Values of each type, read from nodes. Every reader returns the mistake, if there is one: a caller
//! may stop at the first, or collect them and go on.

use std::ops::RangeInclusive;

use tidegate_limiter::DscpSet;

use crate::{Mistake, Node, Table, Value, instead};

impl Node {
    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self.value {
            Value::Text(_) => "text",
            Value::Integer(_) | Value::Real(_) => "a number",
            Value::Truth(_) => "true or false",
            Value::Date(_) => "a date",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }

    /// A mistake in this value.
    pub fn wrong(&self, message: impl Into<String>) -> Mistake {
        Mistake::new(self.place, message)
    }

    /// The table that it is; `what` it should be is for the message.
    ///
    /// # Errors
    /// If it is none.
    pub fn table(&self, what: &str) -> Result<&Table, Mistake> {
        match &self.value {
            Value::Table(table) => Ok(table),
            _ => Err(self.wrong(format!("{what} is a table, not {}", self.kind()))),
        }
    }

    /// The text that it is.
    ///
    /// # Errors
    /// If it is none.
    pub fn text(&self, key: &str) -> Result<&str, Mistake> {
        match &self.value {
            Value::Text(text) => Ok(text),
            _ => Err(self.wrong(format!("`{key}` is text in quotes, not {}", self.kind()))),
        }
    }

    /// The values of a list, or the only value.
    pub fn values(&self) -> &[Self] {
        match &self.value {
            Value::List(list) => list,
            _ => std::slice::from_ref(self),
        }
    }

    /// True or false.
    ///
    /// # Errors
    /// If it is neither.
    pub fn truth(&self, key: &str) -> Result<bool, Mistake> {
        match self.value {
            Value::Truth(truth) => Ok(truth),
            _ => Err(self.wrong(format!("`{key}` is true or false, not {}", self.kind()))),
        }
    }

    /// A whole number.
    ///
    /// # Errors
    /// If it is none, or out of range.
    pub fn integer(&self, key: &str, range: RangeInclusive<u64>) -> Result<u64, Mistake> {
        let Value::Integer(number) = self.value else {
            return Err(self.wrong(format!("`{key}` is a whole number, not {}", self.kind())));
        };
        let number = u64::try_from(number).ok();
        let (least, most) = (range.start(), range.end());
        number
            .filter(|number| range.contains(number))
            .ok_or_else(|| match *most {
                u64::MAX => self.wrong(format!("`{key}` must be at least {least}")),
                most => self.wrong(format!("`{key}` must be from {least} to {most}")),
            })
    }

    /// A number, with or without a fraction.
    ///
    /// # Errors
    /// If it is none, or out of range.
    pub fn real(&self, key: &str, range: RangeInclusive<f64>) -> Result<f64, Mistake> {
        let number = match self.value {
            Value::Integer(number) => number as f64,
            Value::Real(number) => number,
            _ => return Err(self.wrong(format!("`{key}` is a number, not {}", self.kind()))),
        };
        let (least, most) = (range.start(), range.end());
        match range.contains(&number) {
            true => Ok(number),
            false => Err(self.wrong(format!("`{key}` must be from {least} to {most}"))),
        }
    }

    /// The text of a quantity with its unit. For a bare number these are its digits: they lack a
    /// unit, and the reader of the quantity reports this.
    ///
    /// # Errors
    /// If it is neither.
    pub fn quantity_text(&self, key: &str) -> Result<String, Mistake> {
        match &self.value {
            Value::Text(text) => Ok(text.clone()),
            Value::Integer(number) => Ok(number.to_string()),
            Value::Real(number) => Ok(number.to_string()),
            _ => {
                let kind = self.kind();
                Err(self.wrong(format!("`{key}` is a quantity in quotes, not {kind}")))
            }
        }
    }

    /// A quantity with its unit, by one of the readers in [`quantity`](crate::quantity).
    ///
    /// # Errors
    /// If it is none.
    pub fn quantity(
        &self,
        key: &str,
        read: fn(&str) -> Result<u64, String>,
    ) -> Result<u64, Mistake> {
        let text = self.quantity_text(key)?;
        read(&text).map_err(|message| self.wrong(format!("`{key}`: {message}")))
    }

    /// One of several words.
    ///
    /// # Errors
    /// If it is another word.
    pub fn word<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Result<T, Mistake> {
        let names = || words.iter().map(|(name, _)| *name);
        let Value::Text(text) = &self.value else {
            let list: Vec<&str> = names().collect();
            let list = list.join(", ");
            return Err(self.wrong(format!("`{key}` is one of {list}, not {}", self.kind())));
        };
        let found = words.iter().find(|(name, _)| name == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let meant = instead(text, names());
            self.wrong(format!("`{key}` cannot be `{text}`{meant}"))
        })
    }

    /// One code point, by number or by name: `46`, `"ef"`.
    ///
    /// # Errors
    /// If it is none.
    pub fn code_point(&self, key: &str) -> Result<u8, Mistake> {
        let Value::Text(text) = &self.value else {
            return self.integer(key, 0..=63).map(|dscp| dscp as u8);
        };
        one_code_point(text).ok_or_else(|| {
            let message = format!("'{text}' is not one code point: write one such as \"cs1\" or 8");
            self.wrong(message)
        })
    }

    /// The fate of packets: `"drop"`, which is `None`, or the code point that they get.
    ///
    /// # Errors
    /// If it is neither.
    pub fn mark(&self, key: &str) -> Result<Option<u8>, Mistake> {
        match &self.value {
            Value::Text(text) if text == "drop" => Ok(None),
            Value::Text(text) => one_code_point(text).map(Some).ok_or_else(|| {
                self.wrong(format!(
                    "'{text}' is neither \"drop\" nor one code point: write one such as \"cs1\" or 8"
                ))
            }),
            Value::Integer(_) => self.code_point(key).map(Some),
            _ => {
                let kind = self.kind();
                Err(self.wrong(format!("`{key}` is \"drop\" or a code point, not {kind}")))
            }
        }
    }
}

/// The code point that a text names, if it is one.
fn one_code_point(text: &str) -> Option<u8> {
    let points = text.parse::<DscpSet>().map_or(0, DscpSet::bits);
    points
        .is_power_of_two()
        .then(|| points.trailing_zeros() as u8)
}
