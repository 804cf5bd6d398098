//! How burst control as in the paper is written.

use tidegate_limiter::{PaperControl, Thresholds};

use crate::{Fields, Key, Mistake, quantity};

/// T.
pub const PERIOD: Key = Key {
    name: "period",
    value: "time",
    default: PaperControl::DEFAULT_TEXTS[0],
    doc: "T of `bc-pqp-paper`: the time over which accepted bytes are counted.",
};
/// θ+.
pub const UPPER: Key = Key {
    name: "upper",
    value: "number",
    default: PaperControl::DEFAULT_TEXTS[1],
    doc: "θ+ of `bc-pqp-paper`: a queue that accepts more than this share of its rate in a period is filled with magic bytes.",
};
/// θ−.
pub const LOWER: Key = Key {
    name: "lower",
    value: "number",
    default: PaperControl::DEFAULT_TEXTS[2],
    doc: "θ− of `bc-pqp-paper`: a queue that accepts less than this share is cleared of them.",
};

/// Reads the keys of burst control from a table. Values that are not written stay.
///
/// # Errors
/// All mistakes in it.
pub fn read(fields: &Fields<'_>, mut control: PaperControl) -> Result<PaperControl, Vec<Mistake>> {
    let mut mistakes = Vec::new();
    if let Some(node) = fields.node(PERIOD.name) {
        let period = node.quantity(PERIOD.name, quantity::time);
        let set = period.and_then(|period| {
            let set = control.with_period(period);
            set.map_err(|error| node.wrong(error.to_string()))
        });
        match set {
            Ok(set) => control = set,
            Err(mistake) => mistakes.push(mistake),
        }
    }
    let Thresholds {
        mut upper,
        mut lower,
    } = control.thresholds();
    for (key, into) in [(UPPER.name, &mut upper), (LOWER.name, &mut lower)] {
        match fields.node(key).map(|node| node.real(key, 0.0..=1000.0)) {
            None => {}
            Some(Ok(share)) => *into = (share * 1000.0).round() as u32,
            Some(Err(mistake)) => mistakes.push(mistake),
        }
    }
    if mistakes.is_empty() {
        match control.with_thresholds(Thresholds { upper, lower }) {
            Ok(set) => return Ok(set),
            Err(error) => {
                // If only one threshold is written, that one is wrong.
                let written = [error.field().name(), UPPER.name, LOWER.name];
                let node = written.iter().find_map(|key| fields.node(key));
                let place = node.map_or(fields.place, |node| node.place);
                mistakes.push(Mistake::new(place, error.to_string()));
            }
        }
    }
    Err(mistakes)
}

#[cfg(test)]
mod tests;
