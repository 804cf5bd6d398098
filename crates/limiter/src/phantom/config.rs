//! What phantom queues can be configured to do.

use std::sync::Arc;

use crate::error::{check_rate, check_sizes};
use crate::{ConfigError, Field, Nanos, Program, Rate};

/// What [`PhantomQueues`](crate::PhantomQueues) enforce: PQP, and with burst control BC-PQP.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PhantomQueuesConfig {
    program: Arc<Program>,
    rate: Rate,
    queue: u64,
    control: Option<BurstControl>,
    ecn: bool,
    boost: u64,
}

impl PhantomQueuesConfig {
    /// PQP: the rate, as the policy shares it among queues of `queue` bytes each. The larger the
    /// queues, the closer TCP comes to the rate; [`sizing`](crate::sizing) says what is enough.
    ///
    /// # Errors
    /// If the rate is not one of [`Rate::LIMITABLE`], or a queue has no bytes, or all together more
    /// than 2^60.
    pub fn new(
        program: impl Into<Arc<Program>>,
        rate: Rate,
        queue: u64,
    ) -> Result<Self, ConfigError> {
        let program = program.into();
        check_rate(Field::Rate, rate)?;
        check_sizes(Field::Queue, queue, program.queues())?;
        Ok(Self {
            program,
            rate,
            queue,
            control: None,
            ecn: true,
            boost: 0,
        })
    }

    /// With burst control: BC-PQP.
    #[must_use]
    pub fn with_burst_control(self, control: BurstControl) -> Self {
        let control = Some(control);
        Self { control, ..self }
    }

    /// Whether ECN-capable packets are marked, and so most of their drops avoided: yes, unless this says no.
    /// With burst control as in the paper nothing is marked.
    #[must_use]
    pub fn with_ecn(self, ecn: bool) -> Self {
        Self { ecn, ..self }
    }

    /// The rate that the aggregate leaves unused is saved up to this many bytes, at most 2^60. While bytes are saved they
    /// serve its queues at once, so that everything passes. In any time t at most the rate times t, the queues' sizes and
    /// these bytes pass. All of them are there at the beginning.
    #[must_use]
    pub fn with_boost(self, bytes: u64) -> Self {
        let boost = bytes.min(1 << 60);
        Self { boost, ..self }
    }

    /// The policy.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The rate at which all queues together are drained.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// B, the size of each queue in bytes.
    pub fn queue(&self) -> u64 {
        self.queue
    }

    /// Whether ECN-capable packets are marked, unless burst control is as in the paper.
    pub fn ecn(&self) -> bool {
        self.ecn
    }

    /// What the aggregate can save at most, in bytes; 0 if it saves nothing.
    pub fn boost(&self) -> u64 {
        self.boost
    }

    /// A queue that is alone and has room for fewer bytes than this marks packets of
    /// [`Ecn::Ect0`](crate::Ecn::Ect0); 0 if nothing is marked.
    pub fn mark_bytes(&self) -> u32 {
        match self.control {
            Some(BurstControl::Paper(_)) => 0,
            _ if !self.ecn => 0,
            _ => mark_bytes(self.rate),
        }
    }

    /// Burst control; without it this is PQP.
    pub fn burst_control(&self) -> Option<BurstControl> {
        self.control
    }
}

/// What the burst bucket of a filled queue holds: its rate in this time. Since three quarters of a
/// packet count, bursts are of 0.267 s at most. A sender that waits for a timeout of 200 ms misses 0.2 s
/// and a round trip.
///
/// All that passes above the aggregate's rate is its surplus. Before a queue is filled, its bucket
/// holds twice what the surplus leaves of this time: 0.133 s for a queue that is alone, whose bucket is
/// the surplus. So flows that begin together burst about 0.2 s in total.
const BUCKET: Nanos = 200_000_000;
/// The part of a filled queue's bucket that a queue has in any case, whatever the surplus.
pub(super) const LEAST: u64 = 8;
/// A queue marks packets while it has room for less than its rate in this time, or twice that of ECT(1). A sender
/// learns of a mark after a round trip, and exceeds its rate by a third until then. But a quarter of its size is
/// enough, see [`mark_level`](super::marks::mark_level).
const MARK: Nanos = 50_000_000;
/// The part of a filled queue's bucket that shows that a sender exceeds the rate, once a queue was served as much
/// without a pause.
pub(super) const LASTS: u64 = 4;
/// After which time queues are looked at.
const LOOK: Nanos = 100_000_000;
/// A queue keeps its magic bytes while its flow sends more than this many thousandths of its rate.
const KEEP: u32 = 300;

/// Burst control: what bounds the bursts of a flow that has a phantom queue as large as TCP needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BurstControl {
    /// Each queue has a burst bucket beside it, which allows 4/3 of the queue's rate. A packet that
    /// finds it too full is dropped, and the first one fills the queue with magic bytes: from then
    /// on the flow has the room that it leaves unused, which is what its congestion control needs.
    /// They are taken out when the flow slows down or ends.
    #[default]
    Bucket,
    /// As in the paper [BCPQP §4].
    Paper(PaperControl),
}

impl BurstControl {
    /// The first form.
    pub const DEFAULT: Self = Self::Bucket;

    /// After this time burst control looks again at queues whose flows may have ended.
    pub fn period(&self) -> Nanos {
        match self {
            Self::Bucket => LOOK,
            Self::Paper(control) => control.period,
        }
    }

    /// What the burst bucket of a queue that is alone may hold in bytes, or θ+ rT in the paper's form.
    pub fn upper_bytes(&self, rate: Rate) -> u64 {
        match self {
            Self::Bucket => bytes(rate, BUCKET, 1000),
            Self::Paper(control) => bytes(rate, control.period, control.upper),
        }
    }

    /// What a queue that is alone must accept to keep its magic bytes, in bytes: lately, see
    /// [`period`](Self::period), or in a period of the paper's form, θ− rT.
    pub fn lower_bytes(&self, rate: Rate) -> u64 {
        match self {
            Self::Bucket => bytes(rate, 2 * LOOK, KEEP),
            Self::Paper(control) => bytes(rate, control.period, control.lower),
        }
    }
}

/// See [`PhantomQueuesConfig::mark_bytes`].
pub(super) fn mark_bytes(rate: Rate) -> u32 {
    u32::try_from(bytes(rate, MARK, 1000)).unwrap_or(u32::MAX)
}

/// rate × time × thousandths: for rates that limiters enforce, below 2^64 after the division.
fn bytes(rate: Rate, time: Nanos, thousandths: u32) -> u64 {
    let product = u128::from(rate.bits_per_second()) * u128::from(time) * u128::from(thousandths);
    u64::try_from(product / 8_000_000_000_000).unwrap_or(u64::MAX)
}

/// Settings of burst control as in the paper, [BCPQP §4]: a queue that accepts too much in a period is
/// filled before its flow has done so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Unchecked"))]
pub struct PaperControl {
    pub(crate) period: Nanos,
    pub(crate) upper: u32,
    pub(crate) lower: u32,
}

/// The thresholds of burst control, in thousandths of what a queue is served in a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// θ+: a queue that accepts more than this in a period is filled with magic bytes.
    pub upper: u32,
    /// θ−: from a queue that accepts less than this, they are taken out again.
    pub lower: u32,
}

impl PaperControl {
    /// What the paper recommends [BCPQP §4]: a period T of 100 ms, in place of the 99th percentile of
    /// round-trip times where that is not known; θ+ of 1.5 and θ− of 0.5.
    pub const DEFAULT: Self = Self {
        period: 100_000_000,
        upper: 1500,
        lower: 500,
    };
    /// T, θ+ and θ− of [`DEFAULT`](Self::DEFAULT) as people write them.
    pub const DEFAULT_TEXTS: [&'static str; 3] = ["100ms", "1.5", "0.5"];

    /// With another period.
    ///
    /// # Errors
    /// If it is 0 or longer than a minute.
    pub fn with_period(self, period: Nanos) -> Result<Self, ConfigError> {
        match (1..=60_000_000_000).contains(&period) {
            true => Ok(Self { period, ..self }),
            false => Err(ConfigError::Period(period)),
        }
    }

    /// With other thresholds.
    ///
    /// # Errors
    /// If the upper one is above 1,000,000 (thousandths), or the lower one not below the upper one.
    pub fn with_thresholds(self, thresholds: Thresholds) -> Result<Self, ConfigError> {
        let Thresholds { upper, lower } = thresholds;
        if upper > 1_000_000 {
            return Err(ConfigError::Upper);
        }
        if lower >= upper {
            return Err(ConfigError::Lower);
        }
        Ok(Self {
            upper,
            lower,
            ..self
        })
    }

    /// T: the time over which accepted bytes are counted.
    pub fn period(&self) -> Nanos {
        self.period
    }

    /// θ+ and θ−.
    pub fn thresholds(&self) -> Thresholds {
        Thresholds {
            upper: self.upper,
            lower: self.lower,
        }
    }
}

impl Default for PaperControl {
    /// [`DEFAULT`](Self::DEFAULT).
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The settings as they were written down.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Unchecked {
    period: Nanos,
    upper: u32,
    lower: u32,
}

#[cfg(feature = "serde")]
impl TryFrom<Unchecked> for PaperControl {
    type Error = ConfigError;

    fn try_from(read: Unchecked) -> Result<Self, ConfigError> {
        let Unchecked {
            period,
            upper,
            lower,
        } = read;
        Self::DEFAULT
            .with_period(period)?
            .with_thresholds(Thresholds { upper, lower })
    }
}
