//! The plans of the file, by their names.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::PlanTemplate;

#[cfg(test)]
mod tests;

/// The plans of the file in its order. They are found by name without a search: each look at the time asks for the plan of
/// every subscriber.
#[derive(Debug, Clone, Default)]
pub struct Templates {
    all: Arc<[(String, PlanTemplate)]>,
    places: Arc<HashMap<String, usize>>,
}

impl Templates {
    /// The plan of this name.
    pub fn get(&self, name: &str) -> Option<&PlanTemplate> {
        let place = *self.places.get(name)?;
        self.all.get(place).map(|(_, template)| template)
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|(name, _)| name.as_str())
    }

    /// Number of plans.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

impl From<Vec<(String, PlanTemplate)>> for Templates {
    fn from(all: Vec<(String, PlanTemplate)>) -> Self {
        let mut places = HashMap::with_capacity(all.len());
        for (place, (name, _)) in all.iter().enumerate() {
            places.entry(name.clone()).or_insert(place);
        }
        Self {
            all: all.into(),
            places: places.into(),
        }
    }
}

impl PartialEq for Templates {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

impl Eq for Templates {}

impl Serialize for Templates {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.all.iter())
    }
}

impl<'de> Deserialize<'de> for Templates {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Vec::deserialize(from).map(Self::from)
    }
}
