//! How many rates explain what was policed [Flach16 §3.2].

/// Rates within 5 % of a centre.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cluster {
    /// The centre, in bits per second.
    pub centre_bps: f64,
    /// How many rates it covers that no larger cluster does.
    pub rates: usize,
}

/// The share of policing rates that clusters should cover [Flach16 §3.2].
pub const COVERED: f64 = 0.75;

/// A cluster's centre v covers all rates from 0.95 v to 1.05 v.
const SPREAD: f64 = 0.05;

/// The fewest clusters, as far as the greedy algorithm for partial set cover finds them, that
/// cover the share (0 to 1) of the rates: each time, the one that covers most of what is left.
/// Rates that are not finite and positive are left out.
pub fn rate_clusters(rates: &[f64], share: f64) -> Vec<Cluster> {
    let mut left: Vec<f64> = rates
        .iter()
        .copied()
        .filter(|rate| rate.is_finite() && *rate > 0.0)
        .collect();
    left.sort_by(f64::total_cmp);
    let goal = (left.len() as f64 * share).ceil() as usize;
    let mut covered = 0;
    let mut clusters = Vec::new();
    while covered < goal {
        // The best window can be moved up until its lower edge is a rate. Of equals the first.
        let (mut best, mut end) = ((0, 0), 0);
        for start in 0..left.len() {
            let upper = left[start] / (1.0 - SPREAD) * (1.0 + SPREAD);
            while end < left.len() && left[end] <= upper {
                end += 1;
            }
            if end - start > best.1 - best.0 {
                best = (start, end);
            }
        }
        let (start, end) = best;
        // The window may be wider than its rates: the middle of these is the centre, moved no
        // further than keeps both ends within 5 %.
        let (low, high) = (left[start], left[end - 1]);
        let middle = left[start..end].iter().sum::<f64>() / (end - start) as f64;
        clusters.push(Cluster {
            centre_bps: middle.clamp(high / (1.0 + SPREAD), low / (1.0 - SPREAD)),
            rates: end - start,
        });
        covered += end - start;
        left.drain(start..end);
    }
    clusters
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn finds_the_plans_of_an_access_network() {
        let mut rates = vec![0.97e6, 1.0e6, 1.04e6, 1.0e6, 2.0e6, 2.05e6, 9.9e6, 55e6];
        let clusters = rate_clusters(&rates, 0.75);
        assert_eq!(clusters.len(), 2);
        assert_eq!((clusters[0].rates, clusters[1].rates), (4, 2));
        assert!((clusters[0].centre_bps - 1.0025e6).abs() < 1.0);
        // What is no rate counts for nothing.
        rates.extend([f64::NAN, f64::INFINITY, 0.0, -1.0]);
        assert_eq!(rate_clusters(&rates, 0.75), clusters);
        assert!(rate_clusters(&[], 0.75).is_empty());
    }

    proptest! {
        #[test]
        fn covers_the_share(rates in prop::collection::vec(1.0f64..1e9, 0..200), share in 0.0f64..=1.0) {
            let clusters = rate_clusters(&rates, share);
            let covered: usize = clusters.iter().map(|cluster| cluster.rates).sum();
            prop_assert!(covered as f64 >= rates.len() as f64 * share);
            // All covered rates are within 5 % of a centre, so at least as many are.
            let within = rates
                .iter()
                .filter(|&&rate| {
                    clusters.iter().any(|cluster| (rate / cluster.centre_bps - 1.0).abs() <= SPREAD + 1e-9)
                })
                .count();
            prop_assert!(within >= covered);
            prop_assert!(clusters.windows(2).all(|pair| pair[0].rates >= pair[1].rates));
        }
    }
}
