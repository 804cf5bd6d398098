//! Paths of many marks, without those that could not be seen.

use std::collections::HashSet;
use std::fmt::Write as _;

/// Marks closer than this, in either direction, are drawn once.
const GRAIN: f64 = 0.8;

/// A path of many small marks, at most one at each place.
#[derive(Debug, Default)]
pub(super) struct Dots {
    pub path: String,
    taken: HashSet<(i32, i32)>,
}

impl Dots {
    fn is_free(&mut self, (x, y): (f64, f64)) -> bool {
        self.taken.insert(((x / GRAIN) as i32, (y / GRAIN) as i32))
    }

    pub fn dot(&mut self, place: (f64, f64)) {
        if self.is_free(place) {
            let _ = write!(self.path, "M{:.1} {:.1}h0", place.0, place.1);
        }
    }

    pub fn cross(&mut self, place: (f64, f64)) {
        if self.is_free(place) {
            let (x, y) = place;
            let _ = write!(self.path, "M{:.1} {:.1}l5 5m0-5l-5 5", x - 2.5, y - 2.5);
        }
    }
}

/// A line of which each column of pixels keeps the first and the last point, the lowest and the highest:
/// it looks the same as with all points.
#[derive(Debug)]
pub(super) struct Thinned {
    path: String,
    steps: bool,
    /// Whether the next point begins another part of the line.
    begins: bool,
    column: Option<Column>,
}

#[derive(Debug, Clone, Copy)]
struct Column {
    number: i32,
    /// Points are equal only to themselves, so their numbers identify them and give their order.
    first: (usize, f64, f64),
    last: (usize, f64, f64),
    low: (usize, f64, f64),
    high: (usize, f64, f64),
}

impl Thinned {
    pub fn new(steps: bool) -> Self {
        Self {
            path: String::new(),
            steps,
            begins: true,
            column: None,
        }
    }

    pub fn point(&mut self, (x, y): (f64, f64)) {
        let number = x as i32;
        if let Some(column) = self
            .column
            .as_mut()
            .filter(|column| column.number == number)
        {
            let point = (column.last.0 + 1, x, y);
            column.last = point;
            if y < column.low.2 {
                column.low = point;
            }
            if y > column.high.2 {
                column.high = point;
            }
            return;
        }
        self.flush();
        let point = (0, x, y);
        self.column = Some(Column {
            number,
            first: point,
            last: point,
            low: point,
            high: point,
        });
    }

    /// The line ends here, and begins again with the next point.
    pub fn interrupt(&mut self) {
        self.flush();
        self.begins = true;
    }

    pub fn finish(mut self) -> String {
        self.flush();
        self.path
    }

    fn flush(&mut self) {
        let Some(column) = self.column.take() else {
            return;
        };
        let mut kept = [column.first, column.low, column.high, column.last];
        kept.sort_by_key(|point| point.0);
        let mut before = None;
        for (number, x, y) in kept {
            if before == Some(number) {
                continue;
            }
            before = Some(number);
            let _ = match (self.begins, self.steps) {
                (true, _) => write!(self.path, "M{x:.1} {y:.1}"),
                (false, true) => write!(self.path, "H{x:.1}V{y:.1}"),
                (false, false) => write!(self.path, "L{x:.1} {y:.1}"),
            };
            self.begins = false;
        }
    }
}
