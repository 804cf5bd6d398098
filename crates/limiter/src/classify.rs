//! From a packet's headers to its queue.

use std::ops::RangeInclusive;

use crate::{Class, Ecn, PacketMeta, Program};

mod dscp;
mod flow_key;
mod prefix;
#[cfg(test)]
mod tests;

pub use dscp::{DscpError, DscpSet};
pub use flow_key::{FlowKey, HashKey, Headers, Ports};
pub use prefix::{Prefix, PrefixError};

use flow_key::mapped;

/// A match rule: a packet has to fit all parts of it. The default fits every packet, for class 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Source addresses.
    pub source: Prefix,
    /// Destination addresses.
    pub destination: Prefix,
    /// Source ports. A packet without ports fits only the range of all of them.
    pub source_ports: RangeInclusive<u16>,
    /// Destination ports, likewise.
    pub destination_ports: RangeInclusive<u16>,
    /// Transport protocol, by its IANA number; any, if none is given.
    pub protocol: Option<u8>,
    /// Code points.
    pub dscp: DscpSet,
    /// The class of packets that fit, by its number in [`Program::classes`].
    pub class: u16,
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            source: Prefix::ALL,
            destination: Prefix::ALL,
            source_ports: 0..=u16::MAX,
            destination_ports: 0..=u16::MAX,
            protocol: None,
            dscp: DscpSet::ALL,
            class: 0,
        }
    }
}

impl Rule {
    #[inline]
    fn fits(&self, key: &FlowKey) -> bool {
        let port = |ports: &RangeInclusive<u16>, port: Option<u16>| match port {
            Some(port) => ports.contains(&port),
            None => *ports == (0..=u16::MAX),
        };
        self.protocol
            .is_none_or(|protocol| protocol == key.protocol)
            && self.dscp.contains(key.dscp)
            && port(&self.source_ports, key.ports.map(|ports| ports.source))
            && port(
                &self.destination_ports,
                key.ports.map(|ports| ports.destination),
            )
            && self.source.contains(key.source)
            && self.destination.contains(key.destination)
    }
}

/// Why there is no such classifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClassifyError {
    /// A rule or the default names a class that the policy does not have.
    #[error("there is no class {class}: the policy has {classes}, from 0 on")]
    Class {
        /// The class that was named.
        class: u16,
        /// Number of classes of the policy.
        classes: usize,
    },
    /// More rules than [`Classifier::MAX_RULES`]: each packet may have to try all of them.
    #[error("at most {max} rules can be given, these are {0}", max = Classifier::MAX_RULES)]
    Rules(usize),
}

/// Finds the queue of packets. Rules are tried in their order, and the first that fits gives the
/// class; packets that fit none belong to the default class. Within its class, a packet's queue
/// follows from the hash of its flow.
///
/// Without rules flows are spread by their hash alone; with rules that name only code points,
/// packets are classified by these.
///
/// ```
/// use tidegate_limiter::{Classifier, Headers, HashKey, PolicyTree, Ports, Program, Rule};
/// let web = PolicyTree::fair(8)?;
/// let program = Program::new(&PolicyTree::priority(vec![PolicyTree::queue(), web])?);
/// let voice = Rule { dscp: "ef".parse()?, class: 0, ..Rule::default() };
/// let classifier = Classifier::new(&program, vec![voice], None, HashKey::from_bytes(*b"a 16 byte secret"))?;
/// let headers = Headers {
///     source: "198.51.100.7".parse()?,
///     destination: "192.0.2.1".parse()?,
///     protocol: 6,
///     ports: Some(Ports { source: 443, destination: 50_000 }),
///     dscp: 46,
/// };
/// assert_eq!(classifier.classify(&headers.into(), 1500).queue, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Classifier {
    rules: Box<[Rule]>,
    classes: Box<[Class]>,
    default: u16,
    hash: HashKey,
    /// The hosts of the aggregate are the sources.
    upstream: bool,
}

impl Classifier {
    /// Most rules of a classifier.
    pub const MAX_RULES: usize = 256;

    /// A classifier to the classes of a policy. Packets that fit no rule go to the default class,
    /// the policy's last if none is given.
    ///
    /// # Errors
    /// If there are too many rules, or one names a class that the policy does not have.
    pub fn new(
        program: &Program,
        rules: Vec<Rule>,
        default: Option<u16>,
        hash: HashKey,
    ) -> Result<Self, ClassifyError> {
        if rules.len() > Self::MAX_RULES {
            return Err(ClassifyError::Rules(rules.len()));
        }
        let classes = program.classes().len();
        let default = default.unwrap_or(classes as u16 - 1);
        let named = rules.iter().map(|rule| rule.class).chain([default]);
        if let Some(class) = named
            .into_iter()
            .find(|&class| usize::from(class) >= classes)
        {
            return Err(ClassifyError::Class { class, classes });
        }
        Ok(Self {
            rules: rules.into(),
            classes: program.classes().into(),
            default,
            hash,
            upstream: false,
        })
    }

    /// For packets that hosts of the aggregate send. Otherwise these are the packets' destinations.
    #[must_use]
    pub fn upstream(self) -> Self {
        let upstream = true;
        Self { upstream, ..self }
    }

    /// What limiters need to know of a packet, with the bytes it is to be charged.
    #[inline]
    pub fn classify(&self, key: &FlowKey, bytes: u32) -> PacketMeta {
        let rule = self.rules.iter().find(|rule| rule.fits(key));
        let class = self.classes[usize::from(rule.map_or(self.default, |rule| rule.class))];
        let flow = key.hash(self.hash);
        // The hash as a fraction of the queues. Of 2^32 hashes each queue gets the same number, or one more.
        // That is fair to a millionth, and needs no division.
        let share = (u64::from(flow) * u64::from(class.queues)) >> 32;
        PacketMeta {
            bytes,
            queue: class.first + share as u16,
            class,
            dscp: key.dscp,
            ecn: Ecn::default(),
            flow,
            host: match class.hosts {
                0 => 0,
                _ => key.host_hash(self.hash, self.upstream),
            },
        }
    }
}
