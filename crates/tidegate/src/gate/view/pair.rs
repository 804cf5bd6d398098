//! The other gate of a pair, as an object of the HTTP API and as text.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::units::{count, plural};

#[cfg(test)]
mod tests;

/// The other gate of a pair.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Pair)]
pub struct PairJson {
    /// The address of its API.
    pub peer: String,
    /// Seconds since this gate knew all that the other one does; null if it never did.
    pub age_s: Option<f64>,
    /// Seconds for which this gate has followed the other one without a break; null while it does not.
    #[serde(default)]
    pub follows_s: Option<f64>,
    /// Seconds since the other gate asked this one, as a gate that follows does every second; null if it never did.
    #[serde(default)]
    pub asked_s: Option<f64>,
    /// Limiters of the other gate that are unknown here, or have other limits: the files differ.
    pub unknown_limiters: u64,
    /// Why this gate does not follow the other one; null if it does.
    pub error: Option<String>,
}

/// A gate that follows another one asks it every second.
const LONG_S: f64 = 10.0;

impl PairJson {
    /// What is to be said, a line each, and whether something is wrong.
    pub fn lines(&self) -> Vec<(String, bool)> {
        let peer = &self.peer;
        let mut lines = vec![match (self.follows_s, self.age_s) {
            (Some(follows), Some(age)) => {
                let (follows, age) = (duration(follows), duration(age));
                (
                    format!("pair: follows {peer} for {follows}, knows it as of {age} ago"),
                    false,
                )
            }
            (_, age) => {
                let since = age.map_or("never did".to_owned(), |age| {
                    format!("did {} ago", duration(age))
                });
                let why = self.error.as_deref().unwrap_or("it was not asked yet");
                (
                    format!("pair: does not follow {peer}, {since}: {why}"),
                    true,
                )
            }
        }];
        let hint = "see `tidegate gate status` on its machine";
        lines.push(match self.asked_s {
            Some(asked) if asked <= LONG_S => (
                format!("pair: {peer} asked this gate {} ago", duration(asked)),
                false,
            ),
            Some(asked) => (
                format!(
                    "pair: {peer} follows no longer, it asked {} ago: {hint}",
                    duration(asked)
                ),
                true,
            ),
            None => (format!("pair: {peer} never asked this gate: {hint}"), true),
        });
        if self.unknown_limiters > 0 {
            let limiters = plural(self.unknown_limiters, "limiter", "limiters");
            let text = format!(
                "pair: {limiters} of {peer} unknown here or with other limits: give both gates the same file"
            );
            lines.push((text, true));
        }
        lines
    }
}

/// A time in seconds for people.
fn duration(seconds: f64) -> String {
    let whole = seconds as u64;
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{} min", whole / 60),
        3600..172_800 => format!("{} h", whole / 3600),
        _ => format!("{} days", count(whole / 86_400)),
    }
}
