//! Packets to somebody who takes them at once, instead of to files.

use std::sync::Arc;

use tidegate_trace::read::{Frame, LinkType, Nanos};

use crate::choice::Choice;
use crate::choices::Choices;
use crate::counters::Counters;
use crate::error::{Refused, SampleError};
use crate::files;
use crate::fraction::Fraction;
use crate::options::Options;
use crate::packet::Packet;
use crate::source::Source;

/// Takes sampled frames at once. If a call takes long, packets wait in the ring. If that fills, the share is lowered.
pub trait Consumer: Send {
    /// Takes a frame, with its addresses in their form.
    ///
    /// # Errors
    /// Nothing more can be taken: the sampler ends.
    fn frame(&mut self, frame: &Frame<'_>) -> Result<(), Refused>;

    /// Frames from this time on are of this share. It comes before the first frame, and at each change.
    ///
    /// # Errors
    /// As of [`frame`](Self::frame).
    fn share(&mut self, from: Nanos, share: Fraction) -> Result<(), Refused>;

    /// Counts packets that the kernel dropped since the last call.
    ///
    /// # Errors
    /// As of [`frame`](Self::frame).
    fn dropped(&mut self, packets: u64) -> Result<(), Refused>;

    /// This is the present time: called several times a second, also while there are no packets.
    ///
    /// # Errors
    /// As of [`frame`](Self::frame).
    fn rest(&mut self, now: Nanos) -> Result<(), Refused>;
}

/// The part of a sampler that hands on.
pub(crate) struct Feed {
    consumer: Box<dyn Consumer>,
    choices: Choices,
    link: LinkType,
    frame: Vec<u8>,
    /// The share that the consumer knows.
    share: Option<Fraction>,
    dropped: u64,
    counters: Arc<Counters>,
}

impl Feed {
    pub fn new(
        source: &Source,
        options: &Options,
        consumer: Box<dyn Consumer>,
        counters: Arc<Counters>,
    ) -> Self {
        counters.set_fraction(options.choice.fraction.get());
        Self {
            consumer,
            choices: Choices::new(options.choice.clone(), options.addresses),
            link: source.link,
            frame: Vec::new(),
            share: None,
            dropped: 0,
            counters,
        }
    }

    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Counts what the kernel says of packets.
    pub fn count(&mut self, dropped: u32) {
        self.dropped += u64::from(dropped);
        Counters::add(&self.counters.dropped, dropped.into());
    }

    /// Another choice is in force, for packets from now on.
    pub fn choose(&mut self, choice: Choice) {
        self.counters.set_fraction(choice.fraction.get());
        self.choices.push(files::now(), choice);
    }

    pub fn write(&mut self, packet: &Packet<'_>) -> Result<(), SampleError> {
        let (from, choice) = self.choices.at(packet.at);
        if self.share != Some(choice.fraction) {
            self.share = Some(choice.fraction);
            self.consumer.share(*from, choice.fraction)?;
        }
        let wire_len = packet.frame(&mut self.frame);
        if !self.choices.hide(self.link, &mut self.frame) {
            // The filter accepts no such packet. If it did, its addresses must not be handed on.
            Counters::add(&self.counters.discarded, 1);
            return Ok(());
        }
        self.consumer.frame(&Frame {
            outbound: packet.marks.outbound,
            at: packet.at,
            link: self.link,
            data: &self.frame,
            wire_len,
        })?;
        Counters::add(&self.counters.packets, 1);
        Ok(())
    }

    /// Tells the consumer the time, and what the kernel dropped.
    pub fn rest(&mut self) -> Result<(), SampleError> {
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            self.consumer.dropped(dropped)?;
        }
        let now = files::now();
        self.choices.time(now);
        Ok(self.consumer.rest(now)?)
    }
}
