//! The schemes of limiting, by name.

use std::fmt;
use std::str::FromStr;

use crate::units::choices;

/// A scheme of limiting. Files and commands know it by its [`name`](Self::name).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(into = "&'static str", try_from = "String"))]
pub enum Scheme {
    /// Phantom queues with burst control.
    BcPqp,
    /// Phantom queues with burst control as in the paper.
    BcPqpPaper,
    /// Phantom queues.
    Pqp,
    /// One token bucket.
    Policer,
    /// The single-rate three-colour marker.
    SingleRate,
    /// The two-rate three-colour marker.
    TwoRate,
    /// FairPolicer, in any of its forms.
    FairPolicer,
    /// Real queues.
    Shaper,
    /// No limit.
    Unlimited,
}

impl Scheme {
    /// All schemes.
    pub const ALL: [Self; 9] = [
        Self::BcPqp,
        Self::BcPqpPaper,
        Self::Pqp,
        Self::Policer,
        Self::SingleRate,
        Self::TwoRate,
        Self::FairPolicer,
        Self::Shaper,
        Self::Unlimited,
    ];

    /// The name as it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BcPqp => "bc-pqp",
            Self::BcPqpPaper => "bc-pqp-paper",
            Self::Pqp => "pqp",
            Self::Policer => "policer",
            Self::SingleRate => "srtcm",
            Self::TwoRate => "trtcm",
            Self::FairPolicer => "fair-policer",
            Self::Shaper => "shaper",
            Self::Unlimited => "unlimited",
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl From<Scheme> for &'static str {
    fn from(scheme: Scheme) -> Self {
        scheme.name()
    }
}

/// A text is not the name of a scheme.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not the name of a limiter: write {names}", names = choices(Scheme::ALL.map(Scheme::name)))]
pub struct SchemeError(String);

impl FromStr for Scheme {
    type Err = SchemeError;

    fn from_str(text: &str) -> Result<Self, SchemeError> {
        let found = Self::ALL.into_iter().find(|scheme| scheme.name() == text);
        found.ok_or_else(|| SchemeError(text.into()))
    }
}

impl TryFrom<String> for Scheme {
    type Error = SchemeError;

    fn try_from(text: String) -> Result<Self, SchemeError> {
        text.parse()
    }
}
