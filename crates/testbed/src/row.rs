//! Rows of comparisons of the lab with the kernel's TCP.

use tidegate_lab::rows::label;
use tidegate_lab::scenario::Parameter;
use tidegate_table::convert::{millis, rounded};
use tidegate_table::{Column, Row, columns};

use crate::compare::{Compared, ComparedFlow, Comparison, Measure, Verdict};

/// A measure of a point of a sweep, by the kernel's TCP and by the lab's.
#[derive(Debug, Clone)]
pub struct LabKernelRow {
    point: u64,
    parameters: String,
    flow: Option<String>,
    compared: Compared,
    comparison: Comparison,
}

impl LabKernelRow {
    /// The measures of all flows of a point together.
    pub fn of(point: usize, parameters: &[Parameter], compared: &Compared) -> Vec<Self> {
        rows(point, parameters, compared, None, &compared.comparisons).collect()
    }

    /// The measures of each flow of a point.
    pub fn by_flow(point: usize, parameters: &[Parameter], compared: &Compared) -> Vec<Self> {
        let flows = compared.flows.iter();
        let of = |flow: &'_ ComparedFlow| -> Vec<Self> {
            rows(
                point,
                parameters,
                compared,
                Some(&flow.name),
                &flow.comparisons,
            )
            .collect()
        };
        flows.flat_map(of).collect()
    }

    /// A value in the measure's unit.
    fn value(&self, value: f64) -> f64 {
        match self.comparison.measure {
            Measure::Goodput => value.round(),
            Measure::Loss => rounded(value, 6),
            Measure::RttMedian | Measure::RttTail => millis(value as u64),
            Measure::Timeouts => value,
        }
    }
}

/// A row for each comparison.
fn rows(
    point: usize,
    parameters: &[Parameter],
    compared: &Compared,
    flow: Option<&str>,
    comparisons: &[Comparison],
) -> impl Iterator<Item = LabKernelRow> {
    comparisons.iter().map(move |&comparison| LabKernelRow {
        point: point as u64,
        parameters: label(parameters).to_string(),
        flow: flow.map(str::to_owned),
        compared: Compared {
            // Each comparison has a separate row.
            comparisons: Vec::new(),
            flows: Vec::new(),
            ..compared.clone()
        },
        comparison,
    })
}

impl Row for LabKernelRow {
    const TITLE: &'static str = "a measure of a point, by the kernel's TCP and by the lab's";

    fn columns() -> &'static [Column<Self>] {
        KERNEL
    }
}

const KERNEL: &[Column<LabKernelRow>] = columns! { LabKernelRow;
    point: Integer [""] "The point of the sweep." = |r| r.point;
    parameters: Text [""] "What is varied, and its values at the point." = |r| r.parameters.clone();
    measure: Text [""] "What is compared, with its unit: goodput_bps, loss_rate, rtt_p50_ms, rtt_p95_ms or timeouts." = |r| match r.comparison.measure {
        Measure::Goodput => "goodput_bps",
        Measure::Loss => "loss_rate",
        Measure::RttMedian => "rtt_p50_ms",
        Measure::RttTail => "rtt_p95_ms",
        Measure::Timeouts => "timeouts",
    };
    kernel: Real [""] "Median over the kernel's runs." = |r| r.value(r.comparison.kernel.median);
    kernel_min: Real [""] "Smallest of them." = |r| r.value(r.comparison.kernel.min);
    kernel_max: Real [""] "Largest of them." = |r| r.value(r.comparison.kernel.max);
    lab: Real [""] "Median over the lab's runs." = |r| r.value(r.comparison.lab.median);
    lab_min: Real [""] "Smallest of them." = |r| r.value(r.comparison.lab.min);
    lab_max: Real [""] "Largest of them." = |r| r.value(r.comparison.lab.max);
    difference: Real [""] "The lab's median less the kernel's, over the kernel's; missing if the kernel's alone is 0." = |r| r.comparison.difference().map(|difference| rounded(difference, 4));
    verdict: Text [""] "agree: within 10 %; scatter: more than 10 %, but the runs of both sides overlap; differ: more, without overlap." = |r| match r.comparison.verdict() {
        Verdict::Agree => "agree",
        Verdict::Scatter => "scatter",
        Verdict::Differ => "differ",
    };
    runs: Integer [""] "Runs of each side." = |r| r.compared.runs;
    lateness_p99_ms: Real ["ms"] "How late packets left in real time, 99th percentile of the worst run." = |r| millis(r.compared.lateness);
    repeated: Integer [""] "Runs in real time that were repeated because packets left too late." = |r| r.compared.repeated;
    bad: Integer [""] "Runs that were still too late, or lost packets beside the elements: if there are any, the point says little." = |r| r.compared.bad;
    flow: Text [""] "Name and number of the flow, after its aggregate if there are several; missing if the row is about all flows together." = |r| r.flow.clone();
};
