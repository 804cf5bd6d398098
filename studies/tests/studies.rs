//! The studies' figures are what they are committed as. One pass over the captures serves all.

use std::io::Write;
use std::sync::OnceLock;

use tidegate_studies::accuracy::Accuracy;
use tidegate_studies::agreement::Agreement;
use tidegate_studies::lab::{self, Analysed};
use tidegate_studies::table3::Table3;
use tidegate_studies::verdict::captures::Found;

/// The analysed captures; `None`, and a line on standard error, where they are not there.
fn lab(test: &str) -> Option<&'static [Analysed]> {
    static LAB: OnceLock<Option<Vec<Analysed>>> = OnceLock::new();
    let all = LAB.get_or_init(|| {
        let folder = lab::folder(None)?;
        Some(lab::analyse(&folder).unwrap_or_else(|error| panic!("{error:#}")))
    });
    if all.is_none() {
        // Not eprintln!, whose output the test harness keeps to itself.
        let line = format!(
            "skipped {test}: {} is not set, no shared captures\n",
            lab::TRACES
        );
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    all.as_deref()
}

#[track_caller]
fn assert_expected(found: &str, expected: &str, study: &str) {
    assert!(
        found == expected,
        "{study} gives other figures than studies/{study}/expected.txt; if they are better, \
         write them there by the command in its README.md and say why\n--- found\n{found}"
    );
}

#[test]
fn pd_agrees_with_its_authors_code() {
    let Some(all) = lab("pd_agrees_with_its_authors_code") else {
        return;
    };
    let agreement = Agreement::of(all, false);
    assert!(agreement.holds(), "{agreement}");
    let expected = include_str!("../flach16-agreement/expected.txt");
    assert_expected(&agreement.to_string(), expected, "flach16-agreement");
    let joined = Agreement::of(all, true);
    assert!(joined.holds(), "{joined}");
}

#[test]
fn table_3_is_as_committed() {
    let Some(all) = lab("table_3_is_as_committed") else {
        return;
    };
    let expected = include_str!("../flach16-table3/expected.txt");
    assert_expected(&Table3::of(all).to_string(), expected, "flach16-table3");
}

#[test]
fn annotator_is_as_accurate_as_committed() {
    let Some(all) = lab("annotator_is_as_accurate_as_committed") else {
        return;
    };
    let expected = include_str!("../annotator-accuracy/expected.txt");
    assert_expected(
        &Accuracy::of(all).to_string(),
        expected,
        "annotator-accuracy",
    );
}

#[test]
fn verdicts_on_the_captures_are_as_committed() {
    if lab("verdicts_on_the_captures_are_as_committed").is_none() {
        return;
    }
    let folder = lab::folder(None).expect("the captures are there");
    let found = Found::of(&folder).unwrap_or_else(|error| panic!("{error:#}"));
    let expected = include_str!("../verdict/expected.txt");
    assert_expected(&found.to_string(), expected, "verdict");
}
