//! Limits in the words of a vendor: what an operator types to set them.

use crate::setting::{FULL, Kind, Setting};

use super::Vendor;
use super::ios::RATES;

/// The line that sets a limit; `None` if the vendor cannot, or not in a line.
///
/// ```
/// use tidegate_advise::{router::{self, Vendor}, setting::{Kind, Setting}};
/// let rate = "10mbit".parse()?;
/// let setting = Setting { rate, kind: Kind::Policer { burst: 125_000 }, overhead: 14 };
/// let line = router::write(Vendor::Ios, &setting).unwrap();
/// assert_eq!(line, "police cir 10000000 bc 125000 conform-action transmit exceed-action drop");
/// assert_eq!(router::read(&line).unwrap().rate, rate);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write(vendor: Vendor, setting: &Setting) -> Option<String> {
    let rate = setting.rate.bits_per_second();
    Some(match (vendor, setting.kind) {
        (_, Kind::BcPqp { .. }) => return None,
        (Vendor::Ios, Kind::Policer { burst }) => {
            format!("police cir {rate} bc {burst} conform-action transmit exceed-action drop")
        }
        (Vendor::Ios, Kind::Shaper { queue, .. }) => {
            format!(
                "! in a policy for output, in a class without police\nshape average {rate}\nqueue-limit {} packets",
                queue.div_ceil(FULL)
            )
        }
        (Vendor::IosXr, Kind::Policer { burst }) => {
            format!("police rate {} burst {burst} bytes", spelled(rate))
        }
        (Vendor::IosXr, Kind::Shaper { queue, .. }) => {
            format!("shape average {}\nqueue-limit {queue} bytes", spelled(rate))
        }
        (Vendor::Junos, Kind::Policer { burst }) => format!(
            "# LIMIT: the name of the policer\n\
             set firewall policer LIMIT if-exceeding bandwidth-limit {rate} burst-size-limit {burst}\n\
             set firewall policer LIMIT then discard"
        ),
        (Vendor::Junos, Kind::Shaper { .. }) => return None,
        (Vendor::Tc, Kind::Policer { burst }) => {
            format!("police rate {rate}bit burst {burst} conform-exceed drop")
        }
        (Vendor::Tc, Kind::Shaper { queue, burst }) => {
            // Room for a full packet with its headers, and for what is sent between two ticks of a slow clock (250 Hz): with less,
            // tbf does not reach its rate (tc-tbf(8), `burst`).
            let burst = burst.max(1600).max(rate / 8 / 250);
            format!("tbf rate {rate}bit burst {burst} limit {queue}")
        }
        // Its bucket has room for a second of the rate in any case.
        (Vendor::Nft, Kind::Policer { burst }) => {
            let burst = burst.checked_sub(rate / 8)?;
            format!(
                "limit rate over {} bytes/second burst {burst} bytes drop",
                rate / 8
            )
        }
        (Vendor::Nft, Kind::Shaper { .. }) => return None,
    })
}

/// A rate in the largest unit of IOS XR in which it is a whole number: numbers of more than 32 bits are refused.
fn spelled(rate: u64) -> String {
    let units = RATES.iter().rev().map(|&(name, bits)| (name, bits as u64));
    let whole = units
        .into_iter()
        .find(|(_, bits)| rate.is_multiple_of(*bits));
    let (name, bits) = whole.unwrap_or(("bps", 1));
    format!("{} {name}", rate / bits)
}
