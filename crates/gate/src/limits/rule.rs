//! Which packets belong to which class.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use tidegate_limiter::{DscpError, Prefix, Rule};

use crate::table::Direction;

/// Which packets belong to a class: a packet must match every value that is given. `remote` is the
/// side that is not the subscriber's: the source of packets down, the destination of packets up.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct FlowRule {
    /// The class, by its number in the order of the policy, from 0.
    pub class: u16,
    /// Addresses of the other side, a prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
    /// Addresses of the subscriber's side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<String>,
    /// Ports of the other side.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "first_and_last"
    )]
    pub remote_ports: Option<RangeInclusive<u16>>,
    /// Ports of the subscriber's side.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "first_and_last"
    )]
    pub local_ports: Option<RangeInclusive<u16>>,
    /// The transport protocol's number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u8>,
    /// Code points, by names or numbers with commas between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<String>,
}

impl FlowRule {
    /// The rule in one direction.
    ///
    /// # Errors
    /// If one of its texts cannot be read, such as a prefix with too many bits.
    pub fn rule(&self, direction: Direction) -> Result<Rule, String> {
        let prefix = |text: &Option<String>| match text {
            None => Ok(Prefix::ALL),
            Some(text) => text.parse::<Prefix>().map_err(|error| error.to_string()),
        };
        let ports = |ports: &Option<RangeInclusive<u16>>| ports.clone().unwrap_or(0..=u16::MAX);
        let (remote, local) = (prefix(&self.remote)?, prefix(&self.local)?);
        let (remote_ports, local_ports) = (ports(&self.remote_ports), ports(&self.local_ports));
        let mut rule = Rule {
            protocol: self.protocol,
            class: self.class,
            ..Rule::default()
        };
        if let Some(dscp) = &self.dscp {
            rule.dscp = dscp.parse().map_err(|error: DscpError| error.to_string())?;
        }
        (rule.source, rule.destination) = (remote, local);
        (rule.source_ports, rule.destination_ports) = (remote_ports, local_ports);
        if direction == Direction::Up {
            std::mem::swap(&mut rule.source, &mut rule.destination);
            std::mem::swap(&mut rule.source_ports, &mut rule.destination_ports);
        }
        Ok(rule)
    }
}

/// Ports are stored as a list of the first and the last.
mod first_and_last {
    use std::ops::RangeInclusive;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    type Ports = Option<RangeInclusive<u16>>;

    pub fn serialize<S: Serializer>(ports: &Ports, serializer: S) -> Result<S::Ok, S::Error> {
        let ends = ports.as_ref().map(|ports| [*ports.start(), *ports.end()]);
        ends.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Ports, D::Error> {
        let ends = Option::<[u16; 2]>::deserialize(deserializer)?;
        Ok(ends.map(|[first, last]| first..=last))
    }
}
