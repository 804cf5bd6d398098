//! The segments that a manifest names one by one, in little memory: a long film in six renditions has ten thousand of them.

use std::cmp::Ordering;

use super::{Listed, Place, Size};

/// How many of the last kinds are compared with the next one: segments of sound have two or three durations in turn.
const ALIKE: usize = 8;

/// Names of segments, and what is known of them.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Listing {
    /// All names, one behind the other.
    names: String,
    entries: Vec<Entry>,
    /// What segments have in common: the track and the size.
    kinds: Vec<(u32, Size)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Entry {
    /// Where the name begins. It ends where the next one begins.
    name: u32,
    kind: u32,
    place: Option<Place>,
}

impl Listing {
    /// Adds a segment. It cannot be found before [`Listing::sort`].
    pub fn add(&mut self, name: &str, Listed { track, size, place }: Listed) {
        let Ok(begins) = u32::try_from(self.names.len()) else {
            return;
        };
        let kind = (track as u32, size);
        let last = self.kinds.iter().rev().take(ALIKE);
        let kind = match last.clone().position(|known| *known == kind) {
            Some(back) => self.kinds.len() - 1 - back,
            None => {
                self.kinds.push(kind);
                self.kinds.len() - 1
            }
        };
        self.names.push_str(name);
        self.entries.push(Entry {
            name: begins,
            kind: kind as u32,
            place,
        });
    }

    /// Brings the names into order. Of several segments with one name the first one that was added stays.
    pub fn sort(&mut self) {
        let mut order: Vec<usize> = (0..self.entries.len()).collect();
        order.sort_by_key(|&number| self.name(number));
        order.dedup_by_key(|number| self.name(*number));
        let length = order.iter().map(|&number| self.name(number).len()).sum();
        let mut names = String::with_capacity(length);
        let mut entries = Vec::with_capacity(order.len());
        for number in order {
            entries.push(Entry {
                // Not longer than before.
                name: names.len() as u32,
                ..self.entries[number]
            });
            names.push_str(self.name(number));
        }
        (self.names, self.entries) = (names, entries);
        self.kinds.shrink_to_fit();
    }

    /// What is known of the segment with this name.
    pub fn find(&self, name: &str) -> Option<Listed> {
        let (mut low, mut high) = (0, self.entries.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.name(middle).cmp(name) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => {
                    let entry = self.entries[middle];
                    let (track, size) = self.kinds[entry.kind as usize];
                    return Some(Listed {
                        track: track as usize,
                        size,
                        place: entry.place,
                    });
                }
            }
        }
        None
    }

    /// Bytes of memory beside those of the names.
    pub fn weight(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
            + self.kinds.capacity() * size_of::<(u32, Size)>()
    }

    fn name(&self, number: usize) -> &str {
        let begins = self.entries[number].name as usize;
        let next = self.entries.get(number + 1);
        let ends = next.map_or(self.names.len(), |next| next.name as usize);
        &self.names[begins..ends]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_segment_of_a_name_is_found() {
        let mut listing = Listing::default();
        let listed = |track| Listed {
            track,
            size: Size::Rate(1_000_000),
            place: None,
        };
        for (track, name) in ["b", "a", "ab", "b", "", "abc"].into_iter().enumerate() {
            listing.add(name, listed(track));
        }
        listing.sort();
        for (name, track) in [("", 4), ("a", 1), ("ab", 2), ("abc", 5), ("b", 0)] {
            assert_eq!(listing.find(name), Some(listed(track)), "{name}");
        }
        for name in ["aa", "abcd", "c", "B"] {
            assert_eq!(listing.find(name), None, "{name}");
        }
    }

    #[test]
    fn a_segment_takes_little_memory() {
        let mut listing = Listing::default();
        for number in 0..10_000 {
            let size = Size::Plays(std::time::Duration::from_millis(1_984 + number % 2 * 21));
            let place = Some(Place::At(std::time::Duration::from_secs(number)));
            let listed = Listed {
                track: 0,
                size,
                place,
            };
            listing.add(&number.to_string(), listed);
        }
        listing.sort();
        assert!(listing.weight() < 10_000 * 26, "{}", listing.weight());
    }
}
