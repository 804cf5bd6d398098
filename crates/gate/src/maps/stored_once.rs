//! Policies and sets of rules in the kernel, each stored once under a number. Those that no plan needs stay
//! until others need their room.

use std::collections::{HashMap, HashSet, VecDeque};

use super::access::{Maps, MapsError};
use super::layout::{Field, PLACES, Record};

/// Policies are numbered below this: plans without queues have numbers from here on in place of one.
pub(crate) const FIRST_RESERVED: u32 = u32::MAX - 2;

/// Values of a map, each stored once. Numbers start at 1. `place_of` in bpf/types.h gives the index of a
/// number.
#[derive(Debug)]
pub(crate) struct StoredOnce {
    map: &'static str,
    /// The field with the number. It is 0 in what is compared.
    number: fn() -> Field<u32>,
    what: &'static str,
    numbers: HashMap<Vec<u8>, u32>,
    /// Values that no plan needs, the oldest first. They can be used again until others replace them.
    spare: VecDeque<Vec<u8>>,
}

impl StoredOnce {
    pub(crate) fn read(
        map: &'static str,
        number: fn() -> Field<u32>,
        what: &'static str,
        maps: &dyn Maps,
    ) -> Result<Self, MapsError> {
        let mut numbers = HashMap::new();
        for place in 0..PLACES as u32 {
            let value = maps.lookup(map, &place.to_ne_bytes())?.unwrap_or_default();
            let found = number().of(&value);
            // Indices are used in order.
            if found == 0 {
                break;
            }
            numbers.insert(Record::from(value).with(number(), 0).into_bytes(), found);
        }
        Ok(Self {
            map,
            number,
            what,
            numbers,
            spare: VecDeque::new(),
        })
    }

    pub(crate) fn room(&self) -> usize {
        PLACES - self.numbers.len() + self.spare.len()
    }

    pub(crate) fn give_up(&mut self, needed: &HashSet<u32>) {
        let all = self.numbers.iter();
        let mut spare: Vec<_> = all.filter(|(_, number)| !needed.contains(number)).collect();
        spare.sort_unstable_by_key(|(_, number)| **number);
        self.spare = spare.into_iter().map(|(value, _)| value.clone()).collect();
    }

    /// The number of this value, which is stored if it is new.
    pub(crate) fn put(&mut self, value: Vec<u8>, maps: &dyn Maps) -> Result<u32, MapsError> {
        if let Some(&number) = self.numbers.get(&value) {
            self.spare.retain(|spare| *spare != value);
            return Ok(number);
        }
        let number = if self.numbers.len() < PLACES {
            self.numbers.len() as u32 + 1
        } else {
            let old = self.spare.front().ok_or(MapsError::TooManyDifferent {
                what: self.what,
                room: PLACES,
            })?;
            after(self.numbers[old])
        };
        let entry = Record::from(value.clone()).with((self.number)(), number);
        maps.update(
            self.map,
            &place_of(number).to_ne_bytes(),
            &entry.into_bytes(),
        )?;
        if self.numbers.len() == PLACES
            && let Some(old) = self.spare.pop_front()
        {
            self.numbers.remove(&old);
        }
        self.numbers.insert(value, number);
        Ok(number)
    }
}

fn place_of(number: u32) -> u32 {
    (number - 1) % PLACES as u32
}

/// The next number with the same index. A limiter without packets could mistake one policy for another only
/// after four million of them.
pub(crate) fn after(number: u32) -> u32 {
    let next = number
        .checked_add(PLACES as u32)
        .filter(|next| *next < FIRST_RESERVED);
    next.unwrap_or(place_of(number) + 1)
}
