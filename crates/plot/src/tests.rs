use super::*;

fn ticks(axis: &Axis, values: &[f64]) -> Vec<String> {
    let ticks = Ticks {
        span: axis.span(values.iter().copied()),
        scale: axis.scale,
    };
    let points = ticks.key_points(plotters::coord::ranged1d::BoldPoints(8));
    points.iter().map(|at| ticks.format_ext(at)).collect()
}

#[test]
fn ticks_are_round_numbers() {
    assert_eq!(
        ticks(&Axis::new("").from(0.0), &[0.0, 1.0]),
        ["0", "0.2", "0.4", "0.6", "0.8", "1"]
    );
    assert_eq!(
        ticks(&Axis::new(""), &[100.0, 3100.0]),
        ["0", "500", "1000", "1500", "2000", "2500", "3000"]
    );
    assert_eq!(
        ticks(&Axis::new("").log(), &[0.1, 1000.0]),
        ["0.1", "1", "10", "100", "1000"]
    );
    assert_eq!(ticks(&Axis::new("").log(), &[1.5, 12.0]), ["2", "5", "10"]);
    assert!(!ticks(&Axis::new(""), &[]).is_empty());
    assert!(!ticks(&Axis::new(""), &[5.0]).is_empty());
}

#[test]
fn a_distribution_rises_from_0_to_1() {
    let mut plot = Plot::of_distributions("title", Axis::new("ms"));
    plot.distribution("few", [3.0, 1.0, 2.0, 2.0]);
    let points = &plot.lines[0].points;
    assert_eq!(points.first(), Some(&(1.0, 0.0)));
    assert!(points.contains(&(2.0, 0.75)));
    assert_eq!(points.last(), Some(&(3.0, 1.0)));
    plot.distribution("many", (0..100_000).map(f64::from));
    assert!(plot.lines[1].points.len() < 5000);
    assert_eq!(plot.lines[1].points.last(), Some(&(99_999.0, 1.0)));
    plot.counts("counted", [(3.0, 1), (1.0, 1), (2.0, 2)]);
    assert!(plot.lines[2].points.contains(&(2.0, 0.75)));
    assert_eq!(plot.lines[2].points.last(), Some(&(3.0, 1.0)));
}

#[test]
fn pictures_hold_what_was_put_in() {
    let mut plot = Plot::new(
        "Title & more",
        Axis::new("time [s]"),
        Axis::new("rate").log(),
    );
    plot.line(
        "first",
        [(0.0, 1.0), (1.0, 10.0), (2.0, 0.0), (3.0, f64::NAN)],
    );
    plot.steps("second", [(0.0, 1.0), (2.0, 3.0)]);
    plot.beside("of the second", [(0.0, 2.0), (2.0, 2.0)]);
    assert_eq!(plot.lines[2].colour, plot.lines[1].colour);
    plot.dashed("limit", [(0.0, 5.0), (3.0, 5.0)]);
    let svg = plot.svg().expect("drawn");
    for text in [
        "Title &amp; more",
        "time [s]",
        "first",
        "second",
        "of the second",
        "limit",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    assert!(!svg.contains("NaN"));
    assert_eq!(svg, plot.svg().expect("drawn"));

    let mut bars = Bars::new("Bars", Axis::new("share"), ["a".to_owned(), "b".to_owned()]);
    bars.series("x", [Some(1.0), None]);
    bars.series("y", [Some(0.5), Some(2.0)]);
    let svg = bars.svg().expect("drawn");
    let rectangles = |colour: &str| svg.matches(&format!("fill=\"{colour}\"")).count();
    assert_eq!((rectangles("#0072B2"), rectangles("#D55E00")), (1, 2));
}

#[test]
fn nothing_can_be_drawn_too() {
    let plot = Plot::new("", Axis::new(""), Axis::new("").log());
    assert!(plot.is_empty());
    plot.svg().expect("drawn");
    Bars::new("", Axis::new(""), []).svg().expect("drawn");
}
