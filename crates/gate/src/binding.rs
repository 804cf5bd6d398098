//! Where packets from a subscriber come from: an interface, a sender's address, VLAN tags.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::matches;
use crate::table::{Attachment, Direction, Match, Origin};

#[cfg(test)]
mod tests;

/// A MAC address of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Reads an address as `02:00:00:00:00:01`, `02-00-00-00-00-01` or `0200.0000.0001`.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let digits: String = text.chars().filter(|c| !":-.".contains(*c)).collect();
        let byte = |at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..12).step_by(2).map(byte).collect();
        let bytes = bytes.filter(|_| digits.len() == 12 && digits.is_ascii());
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        let bytes: [u8; 6] = bytes.ok_or_else(|| {
            format!("'{text}' is not a MAC address: write six bytes, such as 02:00:00:00:00:01")
        })?;
        match bytes[0] & 1 == 1 || bytes == [0; 6] {
            true => Err(format!("{text} is not the address of one host")),
            false => Ok(Self(bytes)),
        }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Where packets from a subscriber come from. Others with its source addresses are dropped.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Binding {
    /// The interface where they come in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// The sender in their frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<Mac>,
    /// Their VLAN tags: one, or two with an inner one that is not 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<(u16, u16)>,
}

impl Binding {
    /// Whether packets may come from anywhere.
    pub fn is_anywhere(&self) -> bool {
        *self == Self::default()
    }

    /// Reads a tag, or an outer and an inner one with a dot.
    pub(crate) fn read_tags(text: &str) -> Result<(u16, u16), String> {
        let read = match text.contains('.') {
            true => matches::qinq(text)?,
            false => matches::vlan(text)?,
        };
        Ok(match read {
            Match::QinQ { outer, inner } => (outer, inner),
            Match::Vlan(tag) => (tag, 0),
            Match::Prefix(_) | Match::Pppoe(_) => (0, 0),
        })
    }

    /// As a data path holds it.
    pub fn origin(&self) -> Origin {
        Origin {
            port: self.port.as_deref().map_or(0, port_number),
            mac: self.mac.map(|mac| mac.0),
            tags: self.tags.unwrap_or_default(),
        }
    }

    /// The parts as text: `port eth3`, `mac 02:00:00:00:00:01`, `vlan 7`, `qinq 7.8`.
    pub fn texts(&self) -> Vec<String> {
        let port = self.port.as_ref().map(|port| format!("port {port}"));
        let mac = self.mac.map(|mac| format!("mac {mac}"));
        let tags = self.tags.map(|(outer, inner)| match inner {
            0 => Match::Vlan(outer).to_string(),
            inner => Match::QinQ { outer, inner }.to_string(),
        });
        [port, mac, tags].into_iter().flatten().collect()
    }
}

/// A change of a [`Binding`]: parts that are `None` stay, and empty ones may be anything then.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BindingChange {
    /// The interface.
    pub port: Option<String>,
    /// The MAC address.
    pub mac: Option<String>,
    /// The VLAN tag, or the outer and the inner one.
    pub tags: Option<String>,
}

impl BindingChange {
    /// The binding after the change, of a gate that is attached so.
    ///
    /// # Errors
    /// If a text cannot be read, or no packets from subscribers come in at the interface.
    pub(crate) fn apply(
        &self,
        mut from: Binding,
        attachments: &[Attachment],
    ) -> Result<Binding, String> {
        fn part<T>(
            text: &Option<String>,
            key: &str,
            into: &mut Option<T>,
            read: impl FnOnce(&str) -> Result<T, String>,
        ) -> Result<(), String> {
            let wrong = |error| format!("{key}: {error}");
            match text.as_deref().map(str::trim) {
                None => {}
                Some("") => *into = None,
                Some(text) => *into = Some(read(text).map_err(wrong)?),
            }
            Ok(())
        }
        part(
            &self.port,
            "from-port",
            &mut from.port,
            |name| match is_access(attachments, name) {
                true => Ok(name.to_owned()),
                false => Err(no_access(name)),
            },
        )?;
        part(&self.mac, "from-mac", &mut from.mac, Mac::read)?;
        part(&self.tags, "from-vlan", &mut from.tags, Binding::read_tags)?;
        Ok(from)
    }
}

/// Whether packets from subscribers come in there.
pub(crate) fn comes_in(place: &Attachment) -> bool {
    place.direction == Direction::Up && !place.hook.is_egress()
}

/// Whether packets from subscribers come in at an interface.
pub(crate) fn is_access(attachments: &[Attachment], port: &str) -> bool {
    let mut all = attachments.iter();
    all.any(|place| place.interface == port && comes_in(place))
}

/// That they do not.
pub(crate) fn no_access(port: &str) -> String {
    format!(
        "no packets from subscribers come in at {port}: `from-port` names an interface of the file with \
         side = \"access\""
    )
}

/// A number for the name of an interface, never 0: FNV-1a. The interface keeps it when it is made again, which
/// gives it another number in the kernel.
pub fn port_number(name: &str) -> u32 {
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    hash.max(1)
}
