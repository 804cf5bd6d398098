//! What the library and the kernel's side say to each other: `bpf/pace.h`, byte for byte.

/// The level of our socket options.
pub(crate) const LEVEL: i32 = 0x7467;
/// Begin a throttling phase.
pub(crate) const SET: i32 = 1;
/// Other numbers in the same phase.
pub(crate) const CHANGE: i32 = 2;
/// No more pacing: the clamp goes, in as many round trips as it takes.
pub(crate) const REMOVE: i32 = 3;
/// No more pacing, and the clamp goes at once.
pub(crate) const FREE: i32 = 4;
/// The state of a socket that is not paced, and whose clamp goes before the window.
pub(crate) const REMOVED: u32 = 4;
/// The highest rate, bytes per second.
pub(crate) const RATE_MOST: u64 = 12_500_000_000;
/// Once ahead of the rate, leave the headroom away.
pub(crate) const HOLD_AVERAGE: u32 = 1;
/// Never pace, also where the clamp does not hold the window.
pub(crate) const CLAMP_ONLY: u32 = 2;

/// `struct pace_request`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    /// Whose programs are asked.
    pub(crate) owner: u64,
    pub(crate) rate: u64,
    pub(crate) credit: u64,
    pub(crate) headroom: u32,
    pub(crate) floor: u32,
    pub(crate) flags: u32,
    pub(crate) queued: u32,
}

impl Request {
    pub(crate) fn bytes(&self) -> [u8; 40] {
        let mut bytes = [0; 40];
        bytes[0..8].copy_from_slice(&self.owner.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.rate.to_ne_bytes());
        bytes[16..24].copy_from_slice(&self.credit.to_ne_bytes());
        bytes[24..28].copy_from_slice(&self.headroom.to_ne_bytes());
        bytes[28..32].copy_from_slice(&self.floor.to_ne_bytes());
        bytes[32..36].copy_from_slice(&self.flags.to_ne_bytes());
        bytes[36..40].copy_from_slice(&self.queued.to_ne_bytes());
        bytes
    }
}

/// `struct pace`, as far as the library reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) rate: u64,
    pub(crate) due: u64,
    pub(crate) delivered: u64,
    pub(crate) state: u32,
    pub(crate) clamp: u32,
    pub(crate) calls: u32,
    pub(crate) sets: u32,
    pub(crate) lifts: u32,
    pub(crate) target: u32,
    pub(crate) pacing: u32,
}

impl Record {
    /// Bytes of `struct pace`.
    pub(crate) const SIZE: usize = 112;

    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::SIZE] = bytes.first_chunk()?;
        let long = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_ne_bytes(word)
        };
        let word = |at: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&bytes[at..at + 4]);
            u32::from_ne_bytes(word)
        };
        Some(Self {
            rate: long(8),
            due: long(56),
            delivered: long(72),
            state: word(80),
            clamp: word(84),
            calls: word(88),
            sets: word(92),
            lifts: word(96),
            target: word(100),
            pacing: word(104),
        })
    }
}
