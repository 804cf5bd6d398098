//! A subscriber's entry in the configuration, in the file and in the state of a gate.

use serde::{Deserialize, Serialize};

use crate::binding::Binding;
use crate::table::{Match, PerDirection};

/// A subscriber's entry in the configuration, without its name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Declaration {
    /// The plan's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Rates of the subscriber in bit/s, which take precedence over the plan's.
    pub rates: PerDirection<Option<u64>>,
    /// How its packets are recognised.
    #[serde(with = "as_text")]
    pub matches: Vec<Match>,
    /// What access servers call it in RADIUS, besides its name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
    /// Whether all its packets are dropped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspended: bool,
    /// The node of the network that it is below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Where its packets come from.
    #[serde(default, skip_serializing_if = "Binding::is_anywhere")]
    pub from: Binding,
}

/// Writes and reads matches as text.
pub(crate) mod as_text {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::table::Match;

    pub fn serialize<S: Serializer>(matches: &[Match], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(matches.iter().map(Match::to_string))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Match>, D::Error> {
        let texts: Vec<String> = Deserialize::deserialize(from)?;
        let read = |text: &String| text.parse().map_err(serde::de::Error::custom);
        texts.iter().map(read).collect()
    }
}
