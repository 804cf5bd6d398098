//! What a detector says of a transfer, whichever detector it is.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::annotate::{Layer, Tally, TransferSummary};
use crate::read::Nanos;

/// What limited a transfer's rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// A policer: it drops what exceeds a rate, and delays nothing.
    Policer,
    /// A queue that fills up: a shaper, or a bottleneck link.
    Queue,
    /// A queue under active management.
    Aqm,
    /// A shaper that lets a burst pass at a higher rate first.
    ShaperBurst,
    /// Losses that no rate explains.
    RandomLoss,
    /// The receiver's window.
    ReceiveWindow,
    /// The application: it had nothing to send.
    Application,
    /// The sender's TCP: its window, its pacing or its recovery.
    Sender,
    /// The transfer was over within so few round trips that nothing else could limit it.
    RoundTrips,
    /// Several causes, each for a part of the time.
    Mixed,
    /// The hypotheses that are left cannot be distinguished.
    Unclear,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Self; 11] = [
        Self::Policer,
        Self::Queue,
        Self::Aqm,
        Self::ShaperBurst,
        Self::RandomLoss,
        Self::ReceiveWindow,
        Self::Application,
        Self::Sender,
        Self::RoundTrips,
        Self::Mixed,
        Self::Unclear,
    ];

    /// Its name in columns; names are stable.
    pub fn name(self) -> &'static str {
        match self {
            Self::Policer => "policer",
            Self::Queue => "queue",
            Self::Aqm => "aqm",
            Self::ShaperBurst => "shaper-burst",
            Self::RandomLoss => "random-loss",
            Self::ReceiveWindow => "receive-window",
            Self::Application => "application",
            Self::Sender => "sender",
            Self::RoundTrips => "round-trips",
            Self::Mixed => "mixed",
            Self::Unclear => "unclear",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A kind of active queue management that drops can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AqmKind {
    /// CoDel, or FQ-CoDel (RFC 8289, 8290).
    Codel,
    /// PIE (RFC 8033).
    Pie,
    /// RED, random early detection.
    Red,
}

impl AqmKind {
    /// Its name in columns; names are stable.
    pub fn name(self) -> &'static str {
        match self {
            Self::Codel => "codel",
            Self::Pie => "pie",
            Self::Red => "red",
        }
    }
}

/// What a queue did with the packets that exceeded its rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QueueKind {
    /// They waited in it, and it did not overflow.
    Standing,
    /// It dropped those that found it full.
    DropTail,
}

impl QueueKind {
    /// Its name in columns; names are stable.
    pub fn name(self) -> &'static str {
        match self {
            Self::Standing => "standing",
            Self::DropTail => "drop-tail",
        }
    }
}

/// Which packets a judgement rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Basis {
    /// Those of the transfer alone.
    Segment,
    /// Those of all transfers of the connection.
    Connection,
    /// Those of all connections of the client.
    Client,
}

impl Basis {
    /// Its name in columns; names are stable.
    pub fn name(self) -> &'static str {
        match self {
            Self::Segment => "segment",
            Self::Connection => "connection",
            Self::Client => "client",
        }
    }
}

/// What a detector may take together for a judgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// At most these packets.
    pub basis: Basis,
    /// Only what came before the transfer's end, or within a second after it, and more where few packets are new: transfers are judged
    /// while the capture still comes in.
    pub causal: bool,
}

/// An estimate and the interval that the truth should be in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The best estimate.
    pub value: f64,
    /// The interval's lower end.
    pub low: f64,
    /// The interval's upper end.
    pub high: f64,
}

impl Estimate {
    /// An estimate whose interval is not known.
    pub fn exact(value: f64) -> Self {
        Self {
            value,
            low: value,
            high: value,
        }
    }

    /// The interval's ends; `None` where they are not known.
    pub fn interval(self) -> Option<RangeInclusive<f64>> {
        (self.low < self.high).then_some(self.low..=self.high)
    }

    /// The same in another unit.
    #[must_use]
    pub fn map(self, convert: impl Fn(f64) -> f64) -> Self {
        Self {
            value: convert(self.value),
            low: convert(self.low),
            high: convert(self.high),
        }
    }
}

/// What a policer, a queue or a shaper is set to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    /// Its rate in bits per second of the [`layer`](Self::layer).
    pub rate_bps: Estimate,
    /// Which bytes the rate counts.
    pub layer: Layer,
    /// Bytes that the bucket or the queue holds, counted at the same layer.
    pub depth_bytes: Option<Estimate>,
    /// What a burst-tolerant shaper lets pass before.
    pub burst: Option<Burst>,
}

/// What a burst-tolerant shaper lets pass without delay, counted at the layer of its [`Limit`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    /// The rate in bits per second at which it passed; `None` where too little did.
    pub rate_bps: Option<f64>,
    /// Bytes beyond the shaping rate.
    pub bytes: f64,
    /// Where the burst ended in the transfer; `None` where it had been used up before.
    pub switch: Option<Switch>,
}

/// Where a shaper's allowance for a burst was used up in a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch {
    /// Since the first packet was sent.
    pub after: Nanos,
    /// Bytes of frames that had been sent before.
    pub bytes: u64,
}

impl Limit {
    /// The same limit in bytes of another layer, as a transfer's packets have them.
    #[must_use]
    pub fn at(self, layer: Layer, tally: &Tally) -> Self {
        let convert = |value| tally.convert(value, self.layer, layer);
        Self {
            rate_bps: self.rate_bps.map(convert),
            layer,
            depth_bytes: self.depth_bytes.map(|depth| depth.map(convert)),
            burst: self.burst.map(|burst| Burst {
                rate_bps: burst.rate_bps.map(convert),
                bytes: convert(burst.bytes),
                ..burst
            }),
        }
    }
}

/// What of a transfer a sentence is about: where in a picture of it one can see that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// The transfer as a whole.
    Whole,
    /// Its losses.
    Losses,
    /// The level of a bucket or a queue.
    Level,
    /// How long packets waited beside losses.
    DelayBesideLosses,
    /// Where packets began to wait.
    Switch,
    /// Round-trip times.
    RoundTrips,
    /// The receive window.
    ReceiveWindow,
    /// Bytes in flight.
    InFlight,
    /// Time without anything to send.
    Idle,
    /// Retransmissions.
    Repair,
    /// The growth of the window at the beginning.
    Beginning,
    /// Times between packets.
    Spacing,
    /// What was sent just before losses.
    BeforeLosses,
}

/// A sentence with numbers, and what it is about.
#[derive(Debug, Clone, PartialEq)]
pub struct Clue {
    /// The sentence.
    pub text: Cow<'static, str>,
    /// What it is about.
    pub about: About,
}

impl Clue {
    /// A sentence about something.
    pub fn new(about: About, text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            text: text.into(),
            about,
        }
    }
}

/// A cause that the detector considered and dismissed.
#[derive(Debug, Clone, PartialEq)]
pub struct RuledOut {
    /// The cause.
    pub cause: Cause,
    /// Why it was not that, in a sentence with numbers.
    pub why: Cow<'static, str>,
}

/// For how much of a transfer's time a cause limited it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// The cause.
    pub cause: Cause,
    /// The share of the transfer's duration, 0 to 1.
    pub share: f64,
}

/// What only one detector says, and how it reads. Sentences are made when somebody wants them: few transfers are read about, and many
/// are judged.
pub trait Details: Any + fmt::Debug + Send + Sync {
    /// Why it is the judgement's cause, in sentences with numbers. The transfer is the one that was judged.
    fn evidence(&self, transfer: &TransferSummary, judgement: &Judgement) -> Vec<Clue>;

    /// What else it could have been, and why it was not.
    fn ruled_out(&self, transfer: &TransferSummary, judgement: &Judgement) -> Vec<RuledOut>;
}

/// What a detector says of a transfer.
#[derive(Debug, Clone)]
pub struct Judgement {
    /// What limited the transfer.
    pub cause: Cause,
    /// The verdict in a few words, for a line of a table.
    pub reason: Cow<'static, str>,
    /// How sure the detector is, 0 to 1; `None`: it does not say.
    pub confidence: Option<f64>,
    /// Which packets the judgement rests on.
    pub basis: Basis,
    /// What the limiter is set to, if there is one and its rate is known.
    pub limit: Option<Limit>,
    /// The kind of a managed queue, where its drops show it.
    pub aqm_kind: Option<AqmKind>,
    /// What a queue did, where one limited the transfer.
    pub queue_kind: Option<QueueKind>,
    /// Whether other connections use the limiter too; `None`: the detector cannot tell.
    pub shared: Option<bool>,
    /// The causes that cannot be distinguished, of an unclear verdict; empty where nothing can be said.
    pub left: Vec<Cause>,
    /// How the transfer's time divides between causes; empty where the detector does not say.
    pub shares: Vec<Share>,
    details: Option<Arc<dyn Details>>,
}

impl Judgement {
    /// A judgement on the transfer alone, with nothing but a cause and the reason in a few words.
    pub fn new(cause: Cause, reason: impl Into<Cow<'static, str>>) -> Self {
        Self {
            cause,
            reason: reason.into(),
            confidence: None,
            basis: Basis::Segment,
            limit: None,
            aqm_kind: None,
            queue_kind: None,
            shared: None,
            left: Vec::new(),
            shares: Vec::new(),
            details: None,
        }
    }

    /// Adds what only this detector says; see [`details`](Self::details).
    #[must_use]
    pub fn with_details(mut self, details: impl Details) -> Self {
        self.details = Some(Arc::new(details));
        self
    }

    /// Adds what only the detector says of another transfer.
    pub(super) fn with_details_of(mut self, other: &Arc<dyn Details>) -> Self {
        self.details = Some(Arc::clone(other));
        self
    }

    /// Why it is this cause, in sentences with numbers, of the transfer that was judged.
    pub fn evidence(&self, transfer: &TransferSummary) -> Vec<Clue> {
        let details = self.details.as_deref();
        details.map_or_else(Vec::new, |details| details.evidence(transfer, self))
    }

    /// What else it could have been, and why it was not.
    pub fn ruled_out(&self, transfer: &TransferSummary) -> Vec<RuledOut> {
        let details = self.details.as_deref();
        details.map_or_else(Vec::new, |details| details.ruled_out(transfer, self))
    }

    /// What only the detector says, of any type.
    pub(super) fn any_details(&self) -> Option<&Arc<dyn Details>> {
        self.details.as_ref()
    }

    /// What only one detector says, by its type: [`pd::Answer`](super::pd::Answer) for `pd` and
    /// `pd-paper`. `None` where another detector judged.
    pub fn details<T: 'static>(&self) -> Option<&T> {
        let details: &dyn Any = self.details.as_deref()?;
        details.downcast_ref()
    }

    /// Whether a policer limited the transfer.
    pub fn is_policed(&self) -> bool {
        self.cause == Cause::Policer
    }

    /// The policer's rate in bit/s at a layer, if a policer limited the transfer and its rate is
    /// known. `tally` is the transfer's.
    pub fn policed_rate(&self, tally: &Tally, layer: Layer) -> Option<f64> {
        let limit = self.limit.filter(|_| self.is_policed())?;
        Some(tally.convert(limit.rate_bps.value, limit.layer, layer))
    }
}
