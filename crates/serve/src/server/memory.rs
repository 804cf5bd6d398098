//! Memory of connections that are gone, or rest.
#![allow(unsafe_code)]

use std::time::Duration;

use tokio::time::sleep;

/// Fewer connections leave too little behind.
const MANY: usize = 250;

/// Connections that end or rest together do so within this time.
const SOON: Duration = Duration::from_millis(250);

/// Gives memory back to the system when many connections ended. The C library keeps it otherwise, in pieces between others.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Most connections at a time since it was last given back.
    most: usize,
}

impl Memory {
    /// Notes how many connections are open now. Returns whether memory should be given back.
    pub fn is_left(&mut self, open: usize) -> bool {
        self.most = self.most.max(open);
        let left = self.most >= MANY && open <= self.most / 2;
        if left {
            self.most = open;
        }
        left
    }
}

/// Whether memory should be given back after this many connections gave up their buffers.
pub(super) fn is_left_by(rested: u64) -> bool {
    rested.is_multiple_of(MANY as u64)
}

/// Gives it back, when others that end or rest now have done so too. This takes a thread milliseconds.
pub(super) fn give_back_soon() {
    tokio::spawn(async {
        sleep(SOON).await;
        tokio::task::spawn_blocking(give_back);
    });
}

fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number, and may be called at any time from any thread (malloc_trim(3)).
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::Memory;

    #[test]
    fn memory_is_given_back_once_after_many() {
        let mut memory = Memory::default();
        let up: Vec<bool> = (0..=1000).map(|open| memory.is_left(open)).collect();
        assert!(!up.contains(&true));
        let down = (0..1000).rev().filter(|open| memory.is_left(*open));
        assert_eq!(down.collect::<Vec<_>>(), [500, 250, 125]);
        let few = (0..200)
            .chain((0..200).rev())
            .any(|open| memory.is_left(open));
        assert!(!few);
    }
}
