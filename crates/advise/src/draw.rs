//! Random draws that cover a range evenly: Latin hypercube sampling (McKay, Beckman and Conover 1979).
//!
//! Round trips decide most of what a limit does to a flow. With `count` simulations, each `count`th of a range is drawn from
//! once, so that few simulations say what many would.

/// The draw of one of `count` simulations in a dimension, from 0 to 1. The same arguments give the same draw.
pub fn stratified(seed: u64, dimension: u64, number: u64, count: u64) -> f64 {
    let count = count.max(1);
    let mut state = mix(seed ^ mix(dimension.wrapping_add(1)));
    let mut order: Vec<u64> = (0..count).collect();
    for last in (1..order.len()).rev() {
        state = mix(state);
        order.swap(last, (state % (last as u64 + 1)) as usize);
    }
    let stratum = order[(number % count) as usize];
    let within = mix(state ^ mix(number)) >> 11;
    let within = within as f64 / (1u64 << 53) as f64;
    (stratum as f64 + within) / count as f64
}

/// SplitMix64 (Steele, Lea and Flood 2014): a step, and its output.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_range_is_drawn_from_once() {
        for count in [1, 2, 8, 33] {
            for dimension in 0..5 {
                let draws = (0..count).map(|number| stratified(7, dimension, number, count));
                let mut parts: Vec<u64> = draws.map(|draw| (draw * count as f64) as u64).collect();
                parts.sort_unstable();
                assert_eq!(parts, (0..count).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn seeds_and_dimensions_differ() {
        let draws = |seed, dimension| -> Vec<f64> {
            (0..8)
                .map(|number| stratified(seed, dimension, number, 8))
                .collect()
        };
        assert_eq!(draws(1, 0), draws(1, 0));
        assert_ne!(draws(1, 0), draws(2, 0));
        assert_ne!(draws(1, 0), draws(1, 1));
    }
}
