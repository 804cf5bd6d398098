//! Sets of code points.

use std::str::FromStr;

/// A set of differentiated services code points, RFC 2474.
///
/// Parsed from names and numbers with commas between: `ef,af41,cs5`, `46`, `0`. Names are those
/// of RFC 2474 (`cs0` to `cs7`, `default`), RFC 2597 (`af11` to `af43`), RFC 3246 (`ef`), RFC 5865
/// (`va`) and RFC 8622 (`le`), upper or lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DscpSet(u64);

/// Not a code point.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a code point: use a number from 0 to 63, or a name such as ef, af41, cs5 or le"
)]
pub struct DscpError(String);

impl DscpSet {
    /// All 64 code points.
    pub const ALL: Self = Self(u64::MAX);

    /// A bit for each code point, 0 the lowest.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether it has this one; nothing above 63 is in any set.
    #[inline]
    pub fn contains(self, dscp: u8) -> bool {
        dscp < 64 && self.0 >> dscp & 1 == 1
    }
}

impl FromIterator<u8> for DscpSet {
    /// Anything above 63 is left out.
    fn from_iter<T: IntoIterator<Item = u8>>(dscps: T) -> Self {
        let valid = dscps.into_iter().filter(|&dscp| dscp < 64);
        Self(valid.fold(0, |set, dscp| set | 1 << dscp))
    }
}

impl FromStr for DscpSet {
    type Err = DscpError;

    fn from_str(text: &str) -> Result<Self, DscpError> {
        let one = |item: &str| code_point(item.trim()).ok_or_else(|| DscpError(item.into()));
        text.split(',').map(one).collect()
    }
}

fn code_point(text: &str) -> Option<u8> {
    if let Ok(number) = text.parse::<u8>() {
        return (number < 64).then_some(number);
    }
    match text.to_ascii_lowercase().as_bytes() {
        b"default" => Some(0),
        b"le" => Some(1),
        b"va" => Some(44),
        b"ef" => Some(46),
        [b'c', b's', class @ b'0'..=b'7'] => Some((class - b'0') * 8),
        [b'a', b'f', class @ b'1'..=b'4', drop @ b'1'..=b'3'] => {
            Some((class - b'0') * 8 + (drop - b'0') * 2)
        }
        _ => None,
    }
}
