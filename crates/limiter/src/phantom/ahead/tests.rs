use proptest::prelude::*;

use super::{inverse, quotient};
use crate::meter::BYTE;

proptest! {
    #[test]
    fn quotients_are_exact(queues in 1u64..=4096, number in 0u64..=1 << 57, near in 0u64..1 << 24) {
        let unit = queues * BYTE;
        let inverse = inverse(unit);
        // Also just below and at a multiple, where an error shows first.
        let multiple = (number / unit).saturating_sub(near) * unit;
        for number in [number, multiple, multiple.saturating_sub(1), multiple + unit - 1] {
            prop_assert_eq!(quotient(number, inverse), number / unit);
        }
    }
}
