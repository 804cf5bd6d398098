//! A column for each key that a sweep varies, beside the text of all of them.

use tidegate_notation::quantity;
use tidegate_table::convert::seconds;
use tidegate_table::{Extra, Kind, Value};

use crate::scenario::Scenario;

#[cfg(test)]
mod tests;

/// The varied keys of a scenario as columns, and their values by point.
#[derive(Debug, Clone, Default)]
pub struct LabParameters {
    columns: Vec<Extra>,
    points: Vec<Vec<Value>>,
}

/// Reads the text of a value; `None` if it is of another type.
type Read = fn(&str) -> Option<Value>;

/// A type of values that texts can have.
#[derive(Debug, Clone, Copy)]
struct Reader {
    kind: Kind,
    unit: &'static str,
    suffix: &'static str,
    read: Read,
}

/// The types of values, text last, which every value is.
const READERS: [Reader; 6] = [
    Reader {
        kind: Kind::Truth,
        unit: "",
        suffix: "",
        read: |text| text.parse().ok().map(Value::Truth),
    },
    Reader {
        kind: Kind::Real,
        unit: "",
        suffix: "",
        read: |text| text.parse::<f64>().ok().map(Value::from),
    },
    Reader {
        kind: Kind::Integer,
        unit: "bit/s",
        suffix: "_bps",
        read: |text| quantity::rate(text).ok().map(Value::Integer),
    },
    Reader {
        kind: Kind::Integer,
        unit: "B",
        suffix: "_bytes",
        read: |text| quantity::bytes(text).ok().map(Value::Integer),
    },
    Reader {
        kind: Kind::Real,
        unit: "s",
        suffix: "_s",
        read: |text| {
            quantity::time(text)
                .ok()
                .map(|time| Value::Real(seconds(time)))
        },
    },
    Reader {
        kind: Kind::Text,
        unit: "",
        suffix: "",
        read: |text| Some(Value::from(text.to_owned())),
    },
];

impl LabParameters {
    /// The columns of a scenario. A key whose values all are rates, sizes, times or numbers gives a column of them,
    /// in bit/s, bytes and seconds; other keys give columns of text.
    pub fn new(scenario: &Scenario) -> Self {
        let points: Vec<_> = (0..scenario.points())
            .map(|point| scenario.parameters(point))
            .collect();
        let mut keys: Vec<(String, usize)> = Vec::new();
        for parameter in points.iter().flatten() {
            let fits = |reader: &Reader| (reader.read)(&parameter.value).is_some();
            match keys.iter_mut().find(|(key, _)| *key == parameter.key) {
                Some((_, reader)) if fits(&READERS[*reader]) => {}
                // Values of several types are texts.
                Some((_, reader)) => *reader = READERS.len() - 1,
                None => {
                    let reader = READERS.iter().position(fits);
                    keys.push((parameter.key.clone(), reader.unwrap_or(READERS.len() - 1)));
                }
            }
        }
        let columns = keys.iter().map(|(key, reader)| {
            let reader = READERS[*reader];
            Extra {
                name: format!("{key}{}", reader.suffix),
                kind: reader.kind,
                unit: reader.unit,
                doc: format!("The value of `{key}` at the point of the sweep."),
            }
        });
        let values = points.iter().map(|parameters| {
            let value = |(key, reader): &(String, usize)| {
                let one = parameters.iter().find(|one| one.key == *key);
                one.and_then(|one| (READERS[*reader].read)(&one.value))
                    .unwrap_or(Value::Missing)
            };
            keys.iter().map(value).collect()
        });
        Self {
            columns: columns.collect(),
            points: values.collect(),
        }
    }

    /// Columns of the share that flows of each name got, for rows of points; none if all have the same name.
    pub fn shares(scenario: &Scenario) -> Vec<Extra> {
        let share = |name: &str| Extra {
            name: format!("share_{name}"),
            kind: Kind::Real,
            unit: "",
            doc: format!("Payload delivered to flows `{name}` over that of all flows, 0 to 1."),
        };
        let flows = scenario.flows();
        let several = flows.len() > 1;
        flows.into_iter().filter(|_| several).map(share).collect()
    }

    /// The columns, in the order of the sweep.
    pub fn columns(&self) -> &[Extra] {
        &self.columns
    }

    /// Their values at a point.
    pub fn values(&self, point: usize) -> &[Value] {
        self.points.get(point).map_or(&[], Vec::as_slice)
    }
}
