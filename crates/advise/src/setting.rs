//! A limit as an operator has it, or may set it.

use tidegate_limiter::{Bytes, Nanos, Rate};

/// Bytes of a full Ethernet frame without its check sequence: the packet that all sizes must have room for.
pub const FULL: u64 = 1514;

/// A limit on the traffic of one subscriber, or of several who share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// The rate.
    pub rate: Rate,
    /// What enforces it.
    pub kind: Kind,
    /// Bytes that are charged for each packet beyond its IP packet: 14 counts Ethernet headers, 0 is layer 3.
    pub overhead: u32,
}

/// What enforces a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A token bucket that drops.
    Policer {
        /// Depth of the bucket in bytes.
        burst: u64,
    },
    /// A queue that is emptied at the rate.
    Shaper {
        /// Most bytes that wait.
        queue: u64,
        /// Bytes that may leave at once after silence.
        burst: u64,
    },
    /// Phantom queues with burst control, as Tidegate's gate enforces them.
    BcPqp {
        /// Size of each phantom queue in bytes.
        queue: u64,
        /// The longest round trip that the size follows from.
        rtt: Nanos,
        /// Hosts that share the rate evenly; 1 shares it among flows alone.
        hosts: u16,
    },
}

/// Ethernet headers, without the check sequence.
pub const ETHERNET: u32 = 14;

/// Phantom queues of the gate's default policy, `{ fair = 16 }`.
const FLOWS: u16 = 16;
/// The kernel's gate has at most this many queues in a policy (`docs/reference/gate-configuration.md`).
const GATE_QUEUES: u16 = 24;
/// It has at most five nodes that share: one for all, and one for each of so many hosts.
pub const GATE_HOSTS: u16 = 4;

impl Kind {
    /// What it is called in text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Policer { .. } => "policer",
            Self::Shaper { .. } => "shaper",
            Self::BcPqp { .. } => "bc-pqp",
        }
    }

    /// The sharing policy of phantom queues, as scenarios and the gate's file write it.
    pub fn policy(hosts: u16) -> String {
        match hosts {
            0 | 1 => format!("{{ fair = {FLOWS} }}"),
            hosts => {
                let hosts = hosts.min(GATE_HOSTS);
                format!("{{ hosts = [{hosts}, {}] }}", GATE_QUEUES / hosts)
            }
        }
    }
}

impl Setting {
    /// What it is in a few words, such as `policer, bucket 32.0 kB`.
    pub fn words(&self) -> String {
        match self.kind {
            Kind::Policer { burst } => format!("policer, bucket {}", Bytes::new(burst)),
            Kind::Shaper { queue, .. } => format!("shaper, queue {}", Bytes::new(queue)),
            Kind::BcPqp { .. } => "BC-PQP".to_owned(),
        }
    }

    /// The limiter as an element of a scenario, without its name.
    pub fn element(&self) -> String {
        let (rate, overhead) = (self.rate.bits_per_second(), self.overhead);
        let keys = match self.kind {
            Kind::Policer { burst } => format!("kind = \"policer\"\nburst = \"{burst}B\""),
            Kind::Shaper { queue, burst } => format!(
                "kind = \"shaper\"\npolicy = \"queue\"\nqueue = \"{queue}B\"\nburst = \"{burst}B\""
            ),
            Kind::BcPqp { queue, hosts, .. } => format!(
                "kind = \"bc-pqp\"\npolicy = {}\nqueue = \"{queue}B\"",
                Kind::policy(hosts)
            ),
        };
        format!("{keys}\nrate = \"{rate}bit\"\noverhead = \"{overhead}B\"\n")
    }

    /// How long the rate takes to fill what may pass at once after silence: a bucket, or a phantom queue.
    pub fn fills_in(&self) -> Nanos {
        let rate = u128::from(self.rate.bits_per_second().max(1));
        let nanos = u128::from(self.bucket().get()) * 8_000_000_000 / rate;
        Nanos::try_from(nanos).unwrap_or(Nanos::MAX)
    }

    /// What may pass at once after silence.
    pub fn bucket(&self) -> Bytes {
        let (Kind::Policer { burst: bytes }
        | Kind::Shaper { burst: bytes, .. }
        | Kind::BcPqp { queue: bytes, .. }) = self.kind;
        Bytes::new(bytes)
    }

    /// The least room that it has for a packet, in bytes.
    pub fn smallest(&self) -> u64 {
        match self.kind {
            Kind::Policer { burst } => burst,
            Kind::Shaper { queue, burst } => queue.min(burst),
            Kind::BcPqp { queue, .. } => queue,
        }
    }
}
