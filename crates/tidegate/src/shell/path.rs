//! The way of a shell's packets.

use tidegate_testbed::link::{LinkPlan, LinkReport};
use tidegate_testbed::shell::ShellElementRow;

/// The elements of a shell.
pub struct Path {
    /// What they are, in words.
    pub text: String,
    /// What each is, forward and back, in the order of the plan. `None` for those that only capture.
    pub texts: [Vec<Option<String>>; 2],
    /// Forward is the way to the shell.
    pub plan: LinkPlan,
}

impl Path {
    /// What each element did.
    pub fn elements(&self, report: &LinkReport) -> Vec<ShellElementRow> {
        let texts = |way: usize| self.texts[way].iter().map(move |text| (text, way == 0));
        let rows = texts(0).chain(texts(1)).zip(&report.elements);
        let rows = rows.filter_map(|((text, down), outcome)| {
            Some(ShellElementRow {
                element: text.clone()?,
                down,
                outcome: outcome.clone(),
            })
        });
        rows.collect()
    }
}
