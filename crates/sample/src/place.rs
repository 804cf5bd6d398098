//! Where in the kernel packets are looked at.

use std::fmt;
use std::str::FromStr;

/// Where in the kernel packets are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Place {
    /// At a packet socket, as other programs that capture: packets that leave are seen when the device gets them.
    #[default]
    Socket,
    /// At the hooks of traffic control, which costs less: packets that leave are seen before they wait in a queue discipline.
    TrafficControl,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "socket" => Ok(Self::Socket),
            "tc" => Ok(Self::TrafficControl),
            _ => Err(format!(
                "'{text}' is not a place where packets are looked at: write socket or tc"
            )),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Socket => "socket",
            Self::TrafficControl => "tc",
        })
    }
}
