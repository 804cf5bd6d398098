//! What is seen is there, text stays text, and size does not grow with the points.

use super::marks::{Dots, Thinned};
use super::*;

#[test]
fn hostile_names_stay_text() {
    assert_eq!(
        escape("a<b>&\"\u{1b}[31m.pcap"),
        "a&lt;b&gt;&amp;&quot;[31m.pcap"
    );
    let mut picture = Panels::new("</title><script>", "time, s", 0.0, 1.0);
    picture.text("<script>");
    picture.describe("</desc><script>");
    picture
        .panel("<script>", 100.0, 0.0, 1.0)
        .dots(Ink::Blue, "<script>", [(0.5, 0.5)]);
    assert!(!picture.svg().contains("<script>"));
}

#[test]
fn a_place_is_drawn_once() {
    let mut dots = Dots::default();
    dots.dot((10.0, 10.0));
    dots.dot((10.1, 10.1));
    dots.dot((12.0, 10.0));
    assert_eq!(dots.path, "M10.0 10.0h0M12.0 10.0h0");
}

#[test]
fn a_thinned_line_keeps_the_ends_and_the_extremes_of_a_column() {
    let mut line = Thinned::new(false);
    for (i, y) in [5.0, 6.0, 9.0, 1.0, 6.0, 4.0].into_iter().enumerate() {
        line.point((10.0 + i as f64 / 10.0, y));
    }
    line.point((11.0, 3.0));
    line.interrupt();
    line.point((20.0, 3.0));
    assert_eq!(
        line.finish(),
        "M10.0 5.0L10.2 9.0L10.3 1.0L10.5 4.0L11.0 3.0M20.0 3.0"
    );
}

#[test]
fn steps_keep_a_value_until_the_next() {
    let mut line = Thinned::new(true);
    line.point((10.0, 5.0));
    line.point((20.0, 3.0));
    assert_eq!(line.finish(), "M10.0 5.0H20.0V3.0");
}

#[test]
fn size_does_not_grow_with_the_number_of_points() {
    let svg = |points: u64| {
        let mut picture = Panels::new("many", "time, s", 0.0, 1.0);
        let panel = picture.panel("share", 100.0, 0.0, 1.0);
        let at = move |i: u64| {
            let mixed = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            (i as f64 / points as f64, mixed as f64 / f64::from(u32::MAX))
        };
        panel.line(Ink::Blue, "line", (0..points).map(at));
        panel.dots(Ink::Sky, "dots", (0..points).map(at));
        picture.svg().len()
    };
    // Each place of 824 by 100 pixels can be taken once, and each column has four points.
    assert!(svg(1_000_000) < 2_000_000);
    assert!(svg(2_000_000) < svg(1_000_000) * 11 / 10);
}

#[test]
fn values_beyond_the_axes_and_no_numbers_do_no_harm() {
    let mut picture = Panels::new("wild", "time, s", f64::NAN, f64::INFINITY);
    let panel = picture.panel("value", 80.0, 3.0, 3.0);
    let wild = [
        (0.5, f64::NAN),
        (0.6, f64::INFINITY),
        (0.7, 1e300),
        (-5.0, 3.0),
    ];
    panel.line(Ink::Blue, "line", wild);
    panel.crosses(Ink::Red, "crosses", wild);
    panel.across(Ink::Black, "limit", f64::NAN);
    let svg = picture.svg();
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
}

#[test]
fn a_panel_that_cannot_be_drawn_says_why() {
    let mut picture = Panels::new("one", "time, s", 0.0, 1.0);
    let note = "Packets that the capture does not hold take tokens too.";
    picture.panel("tokens, kB", 100.0, 0.0, 1.0).note(note);
    let svg = picture.svg();
    assert!(svg.contains("does not hold") && !svg.contains("class=\"axis\""));

    // The axis is labelled below the panel that is drawn, and no room is left empty.
    let height = |picture: &Panels| -> f64 {
        let svg = picture.svg();
        let (_, height) = svg.split_once("height=\"").expect("a height");
        let (height, _) = height.split_once('"').expect("a number");
        height.parse().expect("a number")
    };
    let mut picture = Panels::new("two", "time, s", 0.0, 1.0);
    let panel = picture.panel("bytes", 100.0, 0.0, 1.0);
    panel.line(Ink::Blue, "line", [(0.0, 0.0), (1.0, 1.0)]);
    let alone = height(&picture);
    picture.panel("tokens, kB", 100.0, 0.0, 1.0).note(note);
    assert!(height(&picture) < alone + 60.0);
    let svg = picture.svg();
    assert!(svg.contains(">0.5</text>") && svg.contains(">time, s</text>"));
    assert!(svg.find(">time, s<") < svg.find(">tokens, kB<"));
}

#[test]
fn long_names_are_wrapped() {
    assert_eq!(
        wrap("a queue of this size", 10),
        ["a queue of", "this size"]
    );
    assert_eq!(wrap("abcdefgh", 3), ["abc"]);
    assert!(wrap("", 3).is_empty());
}

#[test]
fn a_panel_with_another_axis_has_labels_of_its_own() {
    let mut picture = Panels::new("both", "time, s", 0.0, 1.0);
    picture
        .panel("first", 100.0, 0.0, 1.0)
        .dots(Ink::Blue, "dots", [(0.5, 0.5)]);
    let panel = picture.panel("second", 100.0, 0.0, 1.0);
    let bars = [(0.0, 20.0, 0.5), (20.0, 40.0, f64::NAN), (60.0, 50.0, 0.1)];
    panel
        .over("position, kB", 0.0, 40.0)
        .bars(Ink::Red, "bars", bars);
    let svg = picture.svg();
    // Only the first bar has a width and a value: it goes from the left edge to the middle.
    let middle = f64::midpoint(LEFT, RIGHT);
    let bar = format!("d=\"M{LEFT:.1} 100.0V50.0H{middle:.1}V100.0\"");
    assert!(svg.contains(&bar), "{svg}");
    let place = |text: &str| svg.find(text).expect("a title");
    assert!(place("time, s") < place(">second<") && place(">second<") < place("position, kB"));
}
