//! Rate clusters, as `tidegate detect --summary` finds them.

use pyo3::prelude::*;
use tidegate_trace::detect;

/// The fewest windows of ±5 % that cover a share of the rates, greedily [Flach16 §3.2]: centre and number of rates of
/// each one, the largest first.
#[pyfunction]
pub fn rate_clusters(py: Python<'_>, rates: Vec<f64>, share: f64) -> Vec<(f64, usize)> {
    let clusters = py.detach(|| detect::rate_clusters(&rates, share));
    let pair = |cluster: detect::Cluster| (cluster.centre_bps, cluster.rates);
    clusters.into_iter().map(pair).collect()
}
