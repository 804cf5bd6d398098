//! What was chosen when, and the form of addresses that goes with it.

use tidegate_trace::read::{LinkType, Nanos};

use crate::address::{Addresses, Mapping};
use crate::choice::Choice;
use crate::hide::hide;
use crate::key::Key;

/// Choices with their times: packets of earlier ones may still be in the ring.
pub(crate) struct Choices {
    /// From which time on each is in force. There is always one.
    list: Vec<(Nanos, Choice)>,
    form: Addresses,
    /// The present form of addresses, and the key for it.
    mapping: (Key, Mapping),
}

impl Choices {
    pub fn new(choice: Choice, form: Addresses) -> Self {
        let mapping = (choice.key.clone(), Mapping::new(form, &choice.key));
        Self {
            list: vec![(0, choice)],
            form,
            mapping,
        }
    }

    /// Another choice is in force, for packets from this time on.
    pub fn push(&mut self, from: Nanos, choice: Choice) {
        self.list.push((from, choice));
    }

    /// It is this time. A choice of a later time was made before the clock was set back: it is in force from now on.
    pub fn time(&mut self, now: Nanos) {
        for (from, _) in &mut self.list {
            *from = now.min(*from);
        }
    }

    /// Forgets the choices before the one for packets of this time, which it returns with its beginning.
    pub fn at(&mut self, at: Nanos) -> &(Nanos, Choice) {
        let later = self.list.iter().skip(1);
        let later = later.take_while(|(from, _)| *from <= at).count();
        if later > 0 {
            self.list.drain(..later);
            let key = &self.list[0].1.key;
            if *key != self.mapping.0 {
                self.mapping = (key.clone(), Mapping::new(self.form, key));
            }
        }
        &self.list[0]
    }

    /// When the next choice comes into force, if there is one.
    pub fn next(&self) -> Option<Nanos> {
        self.list.get(1).map(|(from, _)| *from)
    }

    /// Gives the addresses of a frame their form. Returns whether that was possible. If not, the frame must not be written.
    pub fn hide(&mut self, link: LinkType, frame: &mut [u8]) -> bool {
        hide(link, frame, &mut self.mapping.1)
    }
}
