//! The parts of a file that only the start of a daemon reads.

use std::path::PathBuf;

use super::{Api, Config, Log, Metrics, Pair, Radius};

/// What a daemon read of a file at its start. A reload does not change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtStart {
    log: Log,
    api: Option<Api>,
    metrics: Option<Metrics>,
    usage: Option<PathBuf>,
    events: Option<PathBuf>,
    radius: Option<Radius>,
    pair: Option<Pair>,
}

impl From<&Config> for AtStart {
    fn from(config: &Config) -> Self {
        Self {
            log: config.log,
            api: config.api.clone(),
            metrics: config.metrics.clone(),
            usage: config.usage.clone(),
            events: config.events.clone(),
            radius: config.radius.clone(),
            pair: config.pair.clone(),
        }
    }
}

impl AtStart {
    /// The tables and keys of a file that say something else than at the start.
    pub fn changed(&self, now: &Config) -> Vec<String> {
        let now = Self::from(now);
        let parts = [
            ("log", self.log != now.log),
            ("[api]", self.api != now.api),
            ("[metrics]", self.metrics != now.metrics),
            ("[usage]", self.usage != now.usage),
            ("events", self.events != now.events),
            ("[radius]", self.radius != now.radius),
            ("[pair]", self.pair != now.pair),
        ];
        let changed = parts.into_iter().filter(|(_, differs)| *differs);
        changed.map(|(name, _)| name.to_owned()).collect()
    }
}
