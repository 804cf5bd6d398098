//! How likely the losses are without any bucket: by chance alone, or in bursts as on a radio link.

use std::sync::LazyLock;

use super::arrival::Arrival;

/// Gaps in seconds at which the classes of a packet's distance from the one before end.
const GAPS: [f64; 4] = [0.000_5, 0.005, 0.03, 0.2];

/// What a channel with memory knows of a packet before its fate: how long after the packet before it
/// came, and whether the two packets before it were lost.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context {
    /// Seconds since the packet before.
    pub gap: f64,
    /// From 0 (right behind the packet before) to 4.
    pub gap_class: usize,
    /// Whether the packet before was lost.
    pub one_lost: bool,
    /// Whether the packet before that was lost.
    pub two_lost: bool,
}

/// The packets with what came before each.
pub(super) fn contexts<'a>(
    arrivals: impl Iterator<Item = &'a Arrival>,
) -> impl Iterator<Item = (Context, &'a Arrival)> {
    let mut before: Option<(u64, bool)> = None;
    let mut two_lost = false;
    arrivals.map(move |arrival| {
        let gap = before.map_or(f64::INFINITY, |(at, _)| {
            arrival.at.saturating_sub(at) as f64 / 1e9
        });
        let one_lost = before.is_some_and(|(_, lost)| lost);
        let context = Context {
            gap,
            gap_class: GAPS.iter().filter(|&&limit| gap >= limit).count(),
            one_lost,
            two_lost,
        };
        two_lost = one_lost;
        before = Some((arrival.at, arrival.lost));
        (context, arrival)
    })
}

/// The logarithm of the likelihood of `lost` of `all` packets being lost, each with the share that was.
pub fn uniform(lost: usize, all: usize) -> f64 {
    let passed = all - lost;
    if lost == 0 || passed == 0 {
        return 0.0;
    }
    let share = lost as f64 / all as f64;
    lost as f64 * share.ln() + passed as f64 * (1.0 - share).ln()
}

/// The logarithm of the likelihood of the fates in a channel whose losses depend on the fate of
/// the packet before and the time since.
pub fn bursty<'a>(arrivals: impl Iterator<Item = &'a Arrival>) -> f64 {
    let mut counts = [Count::default(); 2 * (GAPS.len() + 1)];
    for (context, arrival) in contexts(arrivals) {
        counts[context.gap_class * 2 + usize::from(context.one_lost)].add(arrival.lost);
    }
    counts.iter().map(Count::likelihood).sum()
}

/// Packets in the same context.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Count {
    pub passed: u32,
    pub lost: u32,
}

impl Count {
    pub fn add(&mut self, lost: bool) {
        if lost {
            self.lost += 1;
        } else {
            self.passed += 1;
        }
    }

    pub fn all(&self) -> u32 {
        self.passed + self.lost
    }

    /// At the share that was lost, with half a packet added to either side.
    fn likelihood(&self) -> f64 {
        let share = (f64::from(self.lost) + 0.5) / (f64::from(self.all()) + 1.0);
        f64::from(self.lost) * share.ln() + f64::from(self.passed) * (1.0 - share).ln()
    }

    /// The logarithm of the probability of these fates, in their order, when nothing is known of
    /// the share beforehand: the estimator of Krichevsky and Trofimov (1981).
    pub fn evidence(&self) -> f64 {
        if self.all() == 0 {
            return 0.0;
        }
        let [halves, wholes] = &*LN_GAMMA;
        let at_half = |n: u32| {
            let known = halves.get(n as usize).copied();
            known.unwrap_or_else(|| ln_gamma(f64::from(n) + 0.5))
        };
        let known = wholes.get(self.all() as usize).copied();
        let all = known.unwrap_or_else(|| ln_gamma(f64::from(self.all()) + 1.0));
        at_half(self.passed) + at_half(self.lost) - all - std::f64::consts::PI.ln()
    }
}

/// For the first whole numbers n the logarithms of Γ(n + 1/2) and Γ(n + 1): most counts are small.
static LN_GAMMA: LazyLock<[[f64; 4096]; 2]> =
    LazyLock::new(|| [0.5, 1.0].map(|more| std::array::from_fn(|n| ln_gamma(n as f64 + more))));

/// The logarithm of the gamma function by Stirling's series, for arguments from 0.5 on.
fn ln_gamma(x: f64) -> f64 {
    // The series is exact to 1e-10 from 8 on; below, Γ(x) = Γ(x + 1) / x leads there.
    let (mut x, mut product) = (x, 1.0);
    while x < 8.0 {
        product *= x;
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    let series = (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y / 1680.0))) / x;
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - f64::ln(product)
}
