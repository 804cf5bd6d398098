//! What a data path must be able to do with its maps.

/// Why maps do not hold what they were given.
#[derive(Debug, thiserror::Error)]
pub enum MapsError {
    /// A map cannot be read or written.
    #[error("the gate's map `{map}` cannot be read or written: {source}")]
    Map {
        /// The name of the map.
        map: &'static str,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// More of something than there is room for.
    #[error("{found} {what} are needed, but the gate's maps have room for {room}")]
    Room {
        /// Things of this kind.
        what: &'static str,
        /// The number that is needed.
        found: usize,
        /// The number that there is room for.
        room: usize,
    },
    /// More different policies or sets of rules than there is room for.
    #[error(
        "there is room for {room} {what} at the same time, before and after a change together: let more plans share them"
    )]
    TooManyDifferent {
        /// Things of this kind.
        what: &'static str,
        /// The number that there is room for.
        room: usize,
    },
}

impl MapsError {
    pub(crate) fn room(what: &'static str, found: usize, room: usize) -> Self {
        Self::Room { what, found, room }
    }

    pub(crate) fn map(
        map: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        let source = source.into();
        Self::Map { map, source }
    }
}

/// The maps of a data path, by the names that they have in `bpf/gate.h`. Keys and values are the bytes of the
/// structures in `bpf/types.h`.
pub(crate) trait Maps {
    /// The value of a key, if the map has it.
    fn lookup(&self, map: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>, MapsError>;
    /// Adds or replaces a value.
    fn update(&self, map: &'static str, key: &[u8], value: &[u8]) -> Result<(), MapsError> {
        self.update_all(map, key, value, 1)
    }
    /// The same for `count` keys and values, which follow each other.
    fn update_all(
        &self,
        map: &'static str,
        keys: &[u8],
        values: &[u8],
        count: u32,
    ) -> Result<(), MapsError>;
    /// Removes a value. Returns whether the map had it.
    fn delete(&self, map: &'static str, key: &[u8]) -> Result<bool, MapsError>;
    /// The keys of a map.
    fn keys(&self, map: &'static str) -> Box<dyn Iterator<Item = Vec<u8>> + '_>;
    /// The number of values that a map has room for.
    fn room(&self, map: &'static str) -> usize;
}
