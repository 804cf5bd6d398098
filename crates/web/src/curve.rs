//! Curves with as many points as their pixels can show.

use std::ops::Range;

use crate::peaks::Peaks;
pub use crate::peaks::Point;
use crate::request::View;

/// Most pixels of a picture in one direction, so that a request cannot ask for more memory than a screen is worth.
const MOST_PIXELS: u32 = 16_384;

/// The points of a line, in the order of time, that suffice to draw a part of it: the first, the last, the least and the greatest of
/// each column of pixels, and one point on either side (M4: Jugel et al., VLDB 2014).
pub fn line(points: &[Point], peaks: &Peaks, view: View) -> Vec<Point> {
    let Some(columns) = Columns::of(view) else {
        return Vec::new();
    };
    let (begin, end) = bounds(points, view);
    let (begin, end) = (begin.saturating_sub(1), (end + 1).min(points.len()));
    let mut drawn = Vec::with_capacity((end - begin.min(end)).min(4 * columns.count as usize));
    let mut from = begin;
    while from < end {
        let place = columns.place(points[from].0);
        let inside = &points[from..end];
        let to = from + inside.partition_point(|(at, _)| columns.place(*at) <= place);
        m4(points, peaks, from..to, &mut drawn);
        from = to;
    }
    drawn
}

/// The first, least, greatest and last point of a column, in the order of time, with an interruption if there is one.
fn m4(points: &[Point], peaks: &Peaks, column: Range<usize>, drawn: &mut Vec<Point>) {
    if column.len() <= 4 {
        drawn.extend_from_slice(&points[column]);
        return;
    }
    let (first, last) = (column.start, column.end - 1);
    let (least, most) = peaks
        .ends(points, first, column.end)
        .unwrap_or((first, last));
    let mut chosen = [first, least, most, peaks.gap(column).unwrap_or(first), last];
    chosen.sort_unstable();
    let mut before = None;
    for place in chosen {
        if before.replace(place) != Some(place) {
            drawn.push(points[place]);
        }
    }
}

/// The points of a part, in the order of time, one for each pixel.
pub fn dots(points: &[Point], view: View, (low, high): (f64, f64)) -> Vec<Point> {
    let Some(columns) = Columns::of(view) else {
        return Vec::new();
    };
    let rows = view.rows.clamp(1, MOST_PIXELS);
    let scale = f64::from(rows) / (high - low).max(f64::MIN_POSITIVE);
    // In which column each row was drawn last.
    let mut taken = vec![i64::MIN; rows as usize + 1];
    let mut drawn = Vec::new();
    for &(at, value) in within(points, view) {
        if !(low..=high).contains(&value) {
            continue;
        }
        let column = columns.place(at);
        let row = (((value - low) * scale) as usize).min(rows as usize);
        if taken[row] != column {
            taken[row] = column;
            drawn.push((at, value));
        }
    }
    drawn
}

/// The upright bars of a part, each from one point to the next: in each column of pixels those that touch are one.
pub fn bars(points: &[Point], view: View, (low, high): (f64, f64)) -> Vec<Point> {
    let Some(columns) = Columns::of(view) else {
        return Vec::new();
    };
    let height = (high - low).max(f64::MIN_POSITIVE) / f64::from(view.rows.clamp(1, MOST_PIXELS));
    let mut drawn = Vec::new();
    let inside = within(points, view);
    for column in inside.chunk_by(|one, other| columns.place(one.0) == columns.place(other.0)) {
        let bars = column.chunks_exact(2).filter_map(|bar| {
            let ends = [bar[0].1.min(bar[1].1), bar[0].1.max(bar[1].1)];
            let [lower, upper] = ends.map(|end| ((end.clamp(low, high) - low) / height) as u32);
            (ends[0] <= high && ends[1] >= low).then_some((lower, upper))
        });
        let mut bars: Vec<(u32, u32)> = bars.collect();
        bars.sort_unstable();
        let mut joined: Vec<(u32, u32)> = Vec::new();
        for (lower, upper) in bars {
            match joined.last_mut() {
                Some((_, last)) if lower <= *last + 1 => *last = upper.max(*last),
                _ => joined.push((lower, upper)),
            }
        }
        let at = column[0].0;
        let value = |row: u32| low + f64::from(row) * height;
        let ends = joined.into_iter();
        drawn.extend(ends.flat_map(|(lower, upper)| [(at, value(lower)), (at, value(upper + 1))]));
    }
    drawn
}

/// The points of a part.
fn within(points: &[Point], view: View) -> &[Point] {
    let (begin, end) = bounds(points, view);
    &points[begin..end]
}

/// The place of the first point of a part, and the one behind its last point.
pub fn bounds(points: &[Point], view: View) -> (usize, usize) {
    let begin = points.partition_point(|(at, _)| *at < view.from);
    let end = points.partition_point(|(at, _)| *at <= view.to);
    (begin.min(end), end)
}

/// Columns of pixels over a time.
struct Columns {
    from: f64,
    /// Columns a second.
    scale: f64,
    count: u32,
}

impl Columns {
    fn of(view: View) -> Option<Self> {
        let count = view.columns.clamp(1, MOST_PIXELS);
        let scale = f64::from(count) / (view.to - view.from);
        let is_sound = view.from.is_finite() && scale.is_finite() && scale > 0.0;
        is_sound.then_some(Self {
            from: view.from,
            scale,
            count,
        })
    }

    /// The column of a time, as the page finds it; −1 and the number of columns are what lies outside.
    fn place(&self, at: f64) -> i64 {
        let place = ((at - self.from) * self.scale).floor();
        (place as i64).clamp(-1, i64::from(self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(from: f64, to: f64, columns: u32) -> View {
        View {
            from,
            to,
            columns,
            rows: 100,
        }
    }

    /// The least and the greatest value that a line through the points covers in each column, between points too.
    fn drawn(points: &[Point], view: View) -> Vec<(f64, f64)> {
        let columns = Columns::of(view).expect("a view");
        let mut covered = vec![(f64::INFINITY, f64::NEG_INFINITY); view.columns as usize];
        let mut cover = |at: f64, value: f64| {
            let place = columns.place(at);
            if (0..i64::from(view.columns)).contains(&place) {
                let (least, greatest) = &mut covered[place as usize];
                *least = least.min(value);
                *greatest = greatest.max(value);
            }
        };
        for &(at, value) in points {
            cover(at, value);
        }
        // Where a line crosses from one column to another.
        for pair in points.windows(2) {
            let [(t0, v0), (t1, v1)] = [pair[0], pair[1]];
            for edge in 0..=view.columns {
                let at = view.from + f64::from(edge) / columns.scale;
                if t0 < at && at < t1 {
                    let value = v0 + (v1 - v0) * (at - t0) / (t1 - t0);
                    cover(at - 1e-6 / columns.scale, value);
                    cover(at + 1e-6 / columns.scale, value);
                }
            }
        }
        covered
    }

    #[test]
    fn a_decimated_line_covers_the_same_pixels() {
        let points: Vec<Point> = (0..20_000)
            .map(|i| {
                let at = f64::from(i) * 0.001;
                (at, (at * 37.0).sin() + (at * 1.7).cos() * 0.5)
            })
            .collect();
        for (from, to, columns) in [(0.0, 20.0, 64), (3.21, 3.9, 100), (19.0, 25.0, 31)] {
            let view = view(from, to, columns);
            let few = line(&points, &Peaks::of(&points), view);
            assert!(few.len() <= 4 * columns as usize + 8, "{}", few.len());
            let (few, all) = (drawn(&few, view), drawn(&points, view));
            for (one, other) in few.iter().zip(&all) {
                let same = |a: f64, b: f64| a == b || (a - b).abs() < 1e-9;
                assert!(
                    same(one.0, other.0) && same(one.1, other.1),
                    "{one:?} {other:?}"
                );
            }
        }
    }

    #[test]
    fn a_dot_for_each_pixel() {
        let points: Vec<Point> = (0..1000).map(|i| (f64::from(i) / 1000.0, 0.5)).collect();
        assert_eq!(dots(&points, view(0.0, 1.0, 10), (0.0, 1.0)).len(), 10);
        assert_eq!(
            dots(&points, view(0.0, 1.0, 100_000), (0.0, 1.0)).len(),
            1000
        );
    }

    #[test]
    fn bars_of_a_column_are_joined_where_they_touch() {
        let mut points = Vec::new();
        for (at, from, to) in [(0.01, 10.0, 20.0), (0.02, 19.5, 40.0), (0.03, 60.0, 70.0)] {
            points.extend([(at, from), (at, to)]);
        }
        points.extend([(0.55, 90.0), (0.55, 200.0)]);
        let drawn = bars(&points, view(0.0, 1.0, 10), (0.0, 100.0));
        let wanted = [
            (0.01, 10.0),
            (0.01, 41.0),
            (0.01, 60.0),
            (0.01, 71.0),
            (0.55, 90.0),
            (0.55, 101.0),
        ];
        assert_eq!(drawn, wanted);
        // Those above or below the part are not drawn.
        assert_eq!(bars(&points, view(0.0, 1.0, 10), (300.0, 400.0)), []);
    }

    #[test]
    fn an_interruption_is_kept() {
        let points = [(0.0, 1.0), (0.1, f64::NAN), (0.2, 2.0), (0.3, 1.5)];
        let found = line(&points, &Peaks::of(&points), view(0.0, 1.0, 1));
        assert!(found.iter().any(|(_, value)| value.is_nan()));
    }

    #[test]
    fn views_that_make_no_sense_are_empty() {
        let points = [(0.0, 1.0), (1.0, 1.0)];
        for (from, to) in [
            (1.0, 0.0),
            (f64::NAN, 1.0),
            (0.0, f64::INFINITY),
            (0.0, 0.0),
        ] {
            assert!(line(&points, &Peaks::of(&points), view(from, to, 10)).is_empty());
            assert!(dots(&points, view(from, to, 10), (0.0, 1.0)).is_empty());
            assert!(bars(&points, view(from, to, 10), (0.0, 1.0)).is_empty());
        }
    }
}
