//! Panels of a picture, over time or over another measure, and their curves.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::curve::{self, Point};
use crate::peaks::Peaks;
use crate::request::View;

/// How a curve is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Dots,
    Crosses,
    Line,
    /// A value holds until the next one.
    Steps,
    Dashed,
    /// Upright bars, each from one point to the next, which has the same time.
    Bars,
}

impl Mark {
    fn name(self) -> &'static str {
        match self {
            Self::Dots => "dots",
            Self::Crosses => "crosses",
            Self::Line => "line",
            Self::Steps => "steps",
            Self::Dashed => "dashed",
            Self::Bars => "bars",
        }
    }
}

/// A curve: points in the order of time.
pub struct Curve {
    pub key: Cow<'static, str>,
    pub label: String,
    pub mark: Mark,
    /// The name of its colour, of which the page has one for light and one for dark.
    pub ink: &'static str,
    /// Whether it is only shown as far as the panel reaches for the others.
    pub aside: bool,
    pub points: Vec<Point>,
    peaks: Peaks,
}

/// What a panel is drawn over, if that is not time.
#[derive(Debug, Clone, Copy)]
pub struct Axis {
    pub title: &'static str,
    /// `B`, `bit/s`, `s`, `%`, or a plural noun.
    pub unit: &'static str,
    /// Whether places are the logarithms to base 10 of what they stand for.
    pub log: bool,
}

/// A panel: a value over time, from 0, or over another measure.
pub struct Panel {
    pub key: &'static str,
    pub title: &'static str,
    /// `B`, `bit/s`, `s` or `%`.
    pub unit: &'static str,
    pub axis: Option<Axis>,
    /// Why the panel is empty.
    pub note: Option<&'static str>,
    /// Whether its values begin at what is in view, not at 0.
    pub follows: bool,
    pub curves: Vec<Curve>,
}

impl Panel {
    pub fn new(key: &'static str, title: &'static str, unit: &'static str) -> Self {
        Self {
            key,
            title,
            unit,
            axis: None,
            note: None,
            follows: false,
            curves: Vec::new(),
        }
    }

    /// A panel over another measure than time.
    pub fn over(axis: Axis, key: &'static str, title: &'static str, unit: &'static str) -> Self {
        Self {
            axis: Some(axis),
            ..Self::new(key, title, unit)
        }
    }

    /// Adds a curve, unless it has no points.
    pub fn curve(
        &mut self,
        drawn: (impl Into<Cow<'static, str>>, Mark, &'static str),
        label: impl Into<String>,
        points: impl IntoIterator<Item = Point>,
    ) {
        self.add(drawn, label, points, false);
    }

    /// Adds a curve that is only shown as far as the panel reaches for the others.
    pub fn aside(
        &mut self,
        drawn: (impl Into<Cow<'static, str>>, Mark, &'static str),
        label: impl Into<String>,
        points: impl IntoIterator<Item = Point>,
    ) {
        self.add(drawn, label, points, true);
    }

    fn add(
        &mut self,
        (key, mark, ink): (impl Into<Cow<'static, str>>, Mark, &'static str),
        label: impl Into<String>,
        points: impl IntoIterator<Item = Point>,
        aside: bool,
    ) {
        let mut points: Vec<Point> = points.into_iter().collect();
        // Times go backwards in some captures, and acknowledgements of several segments overlap.
        points.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        if !points.is_empty() {
            self.curves.push(Curve {
                key: key.into(),
                label: label.into(),
                mark,
                ink,
                aside,
                peaks: Peaks::of(&points),
                points,
            });
        }
    }

    /// The time of its last point.
    pub fn end(&self) -> f64 {
        let curves = self.curves.iter();
        let lasts = curves.filter_map(|curve| Some(curve.points.last()?.0));
        lasts.fold(0.0, f64::max)
    }

    /// The least and the greatest value in view, and the points that suffice to draw it; see [`Request::Panel`](crate::Request::Panel).
    pub fn draw(&self, view: View) -> Vec<f64> {
        let (low, high) = self.extent(view);
        let mut numbers = vec![low, high];
        for curve in &self.curves {
            let points = match curve.mark {
                Mark::Dots | Mark::Crosses => curve::dots(&curve.points, view, (low, high)),
                Mark::Line | Mark::Steps | Mark::Dashed => {
                    curve::line(&curve.points, &curve.peaks, view)
                }
                Mark::Bars => curve::bars(&curve.points, view, (low, high)),
            };
            numbers.push(points.len() as f64);
            numbers.extend(points.into_iter().flat_map(|(at, value)| [at, value]));
        }
        numbers
    }

    /// The values at the lower and the upper edge.
    fn extent(&self, view: View) -> (f64, f64) {
        let counted = self.curves.iter().filter(|curve| !curve.aside);
        let ends = counted.filter_map(|curve| {
            let points = &curve.points;
            // A level line has points at its ends only.
            let line = curve.mark == Mark::Dashed && !self.follows;
            let (begin, end) = match line {
                true => (0, points.len()),
                false => curve::bounds(points, view),
            };
            let (least, most) = curve.peaks.ends(points, begin, end)?;
            Some((points[least].1, points[most].1))
        });
        let (least, most) = ends.fold((f64::INFINITY, 0.0), |(least, most), ends| {
            (f64::min(least, ends.0), f64::max(most, ends.1))
        });
        let low = if self.follows && least.is_finite() {
            least
        } else {
            0.0
        };
        // A value that never changes is in the middle.
        let room = if most > low {
            (most - low) * 0.05
        } else {
            most * 0.5
        };
        let high = if room > 0.0 { most + room } else { low + 1.0 };
        (
            if low > 0.0 {
                (low - room).max(0.0)
            } else {
                low
            },
            high,
        )
    }

    /// The ends of an axis that is not time. A logarithmic one ends at powers of ten, another one begins at 0.
    fn ends(&self, axis: Axis) -> (f64, f64) {
        let all = self.curves.iter().flat_map(|curve| &curve.points);
        let (least, most) = all.fold(
            (f64::INFINITY, f64::NEG_INFINITY),
            |(least, most), (at, _)| (least.min(*at), most.max(*at)),
        );
        if !least.is_finite() || !most.is_finite() {
            (0.0, 1.0)
        } else if axis.log {
            let (from, to) = (least.floor(), most.ceil());
            (from, to.max(from + 1.0))
        } else {
            let from = least.min(0.0);
            (from, if most > from { most } else { from + 1.0 })
        }
    }

    pub fn to_json(&self) -> Value {
        let curves = self.curves.iter().map(|curve| {
            json!({
                "key": curve.key,
                "label": curve.label,
                "mark": curve.mark.name(),
                "ink": curve.ink,
                "points": curve.points.len(),
            })
        });
        let axis = self.axis.map(|axis| {
            let (from, to) = self.ends(axis);
            json!({
                "title": axis.title,
                "unit": axis.unit,
                "log": axis.log,
                "from": from,
                "to": to,
            })
        });
        json!({
            "key": self.key,
            "title": self.title,
            "unit": self.unit,
            "axis": axis,
            "note": self.note,
            "curves": curves.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_never_changes_is_in_the_middle() {
        let mut panel = Panel::new("back", "Transit time", "s");
        panel.follows = true;
        panel.curve(
            ("measured", Mark::Dots, "blue"),
            "measured",
            [(0.0, 0.01), (1.0, 0.01)],
        );
        let view = View {
            from: 0.0,
            to: 1.0,
            columns: 10,
            rows: 10,
        };
        assert_eq!(panel.draw(view)[..2], [0.005, 0.015]);
    }
}
