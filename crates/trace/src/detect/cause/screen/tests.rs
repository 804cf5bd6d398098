//! Ends of lines against sums over all losses.

use super::*;

#[test]
fn costs_are_the_sums_over_all_losses() {
    let tried: [f64; DEPTHS] = std::array::from_fn(|i| 2_300.0 * 1.13f64.powi(i as i32));
    let depths = Depths::new(&tried);
    let mut random = 7u64;
    let mut draw = |most: f32| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        most * ((random >> 40) as f32 / 16_777_216.0)
    };
    let losses: Vec<[f32; 3]> = (0..50)
        .map(|i| {
            // Some meet no surplus, and some are beyond all depths.
            let surplus = if i % 5 == 0 { 0.0 } else { draw(60_000.0) };
            [surplus, draw(8e6), draw(3e5)]
        })
        .collect();
    let mut ends = Box::new(Ends::NONE);
    for &[surplus, from, needed] in &losses {
        let loss = Loss {
            surplus: [surplus; LANES],
            from: [from; LANES],
            needed: [needed; LANES],
        };
        ends.add(&loss, &depths);
    }
    let mut costs = Vec::new();
    ends.costs(&[100.0; LANES], &depths, &mut costs);
    assert_eq!(costs.len(), LANES);
    for (row, width) in WIDTHS.into_iter().enumerate() {
        for (j, &depth) in tried.iter().enumerate() {
            let depth = depth as f32;
            let expected: f32 = losses
                .iter()
                .map(|&[surplus, from, needed]| {
                    let over = (depth - from).clamp(0.0, surplus.min(CAP * width));
                    over + (needed - depth).max(0.0)
                })
                .sum();
            let expected = (expected + 100.0) / width;
            for lane in &costs {
                let off = (lane[row][j] - expected).abs();
                assert!(off <= 1e-4 * expected + 0.01, "{} {expected}", lane[row][j]);
            }
        }
    }
}
