//! Panels over one time axis: a picture of what happened to many packets at once. Panels below them may have
//! another axis.
//!
//! Marks that could not be seen are left out when a series is added. So the size of the picture and the
//! memory that it takes do not grow with the number of points.

mod marks;

use std::fmt::Write as _;

use crate::{number, round_step};
use marks::{Dots, Thinned};

#[cfg(test)]
mod tests;

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 76.0;
/// Room for the legends, at the right.
const LEGEND: f64 = 176.0;
const RIGHT: f64 = WIDTH - LEGEND;
/// The height of a line of text, …
const LINE: f64 = 18.0;
/// … and the characters that fit into the picture's width, and into the legend's.
const WIDE: usize = 126;
const NARROW: usize = 25;
/// The space above each panel, for its title.
const HEAD: f64 = 30.0;
/// The space below the last panel, for the labels and the title of the horizontal axis.
const LABELS: f64 = 42.0;

const STYLE: &str = "
  text { font: 13px system-ui, 'Helvetica Neue', Arial, sans-serif; fill: #222 }
  .title { font-size: 16px; font-weight: 600 } .name { font-weight: 600 } .small { font-size: 12px; fill: #444 }
  .grid { stroke: #e4e4e4 } .axis { stroke: #888; fill: none } .shade { fill: #f3efdf }
  path.dots { stroke-width: 2.4; stroke-linecap: round; fill: none } path.crosses { stroke-width: 1.3; fill: none }
  path.key.dots { stroke-width: 6 }
  path.bars { stroke-width: 1; fill: #999; fill-opacity: .3 }
  path.line { stroke-width: 1.4; fill: none; stroke-linejoin: round } path.dashed { stroke-width: 1.5; stroke-dasharray: 7 4; fill: none }
  .blue { stroke: #0072b2 } .orange { stroke: #e69f00 } .red { stroke: #c4161c } .green { stroke: #009e73 }
  .purple { stroke: #a6588a } .sky { stroke: #56b4e9 } .grey { stroke: #777 } .black { stroke: #222 }
";

/// The colour of a series. All but red are those of Okabe and Ito, or near.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// For measured values.
    Blue,
    /// For repeated packets.
    Orange,
    /// For lost packets.
    Red,
    /// For acknowledged packets.
    Green,
    /// For the values of a model.
    Purple,
    /// For dense clouds.
    Sky,
    /// For values to compare others with.
    Grey,
    /// For a limit.
    Black,
}

impl Ink {
    fn class(self) -> &'static str {
        match self {
            Self::Blue => "blue",
            Self::Orange => "orange",
            Self::Red => "red",
            Self::Green => "green",
            Self::Purple => "purple",
            Self::Sky => "sky",
            Self::Grey => "grey",
            Self::Black => "black",
        }
    }
}

/// Values, and the places in the picture where they are drawn.
#[derive(Debug, Clone, Copy)]
struct Span {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Span {
    fn new((low, high): (f64, f64), from: f64, to: f64) -> Self {
        let low = if low.is_finite() { low } else { 0.0 };
        // A single value still needs room around it.
        let high = if high.is_finite() && high > low {
            high
        } else {
            low + 1.0
        };
        Self {
            low,
            high,
            from,
            to,
        }
    }

    /// Where a value is drawn; at the edge if it is beyond it.
    fn at(&self, value: f64) -> f64 {
        let share = (value - self.low) / (self.high - self.low);
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Round values, `most` at most.
    fn ticks(&self, most: usize) -> Vec<f64> {
        let step = round_step((self.high - self.low) / most.max(1) as f64);
        let first = (self.low / step - 1e-9).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).map(|i| i as f64 * step).collect()
    }
}

/// A picture of panels above each other that share their horizontal axis.
#[derive(Debug)]
pub struct Panels {
    title: String,
    text: Vec<String>,
    about: String,
    x_title: String,
    x: Span,
    shade: Option<(f64, f64)>,
    panels: Vec<Panel>,
}

impl Panels {
    /// A picture without panels yet, from one value of the horizontal axis to another. The title of the axis
    /// includes its unit.
    pub fn new(title: &str, x_title: &str, from: f64, to: f64) -> Self {
        Self {
            title: title.to_owned(),
            text: Vec::new(),
            about: String::new(),
            x_title: x_title.to_owned(),
            x: Span::new((from, to), LEFT, RIGHT),
            shade: None,
            panels: Vec::new(),
        }
    }

    /// Adds a paragraph below the title.
    pub fn text(&mut self, paragraph: &str) {
        self.text.extend(wrap(paragraph, WIDE));
    }

    /// Describes the picture, for people who cannot see it.
    pub fn describe(&mut self, about: &str) {
        about.clone_into(&mut self.about);
    }

    /// Shades a part of the horizontal axis in all panels.
    pub fn shade(&mut self, from: f64, to: f64) {
        self.shade = Some((from, to));
    }

    /// Adds a panel of a height in pixels, whose vertical axis goes from one value to another. Its title
    /// includes the unit.
    pub fn panel(&mut self, title: &str, height: f64, from: f64, to: f64) -> &mut Panel {
        self.panels.push(Panel {
            title: title.to_owned(),
            height,
            x: self.x,
            x_title: None,
            // The panel's own height; it is moved to its place when the picture is written.
            y: Span::new((from, to), height, 0.0),
            paths: Vec::new(),
            legend: Vec::new(),
            notes: Vec::new(),
        });
        // The panel was added in the line before.
        let last = self.panels.len() - 1;
        &mut self.panels[last]
    }

    /// The title of the horizontal axis, for panels that it is written below: those with another axis than
    /// the others, and of the others the last one that shows anything.
    fn x_titles(&self) -> Vec<Option<&str>> {
        let shares = |panel: &Panel| !panel.is_empty() && panel.x_title.is_none();
        let last = self.panels.iter().rposition(shares);
        let panels = self.panels.iter().enumerate();
        panels
            .map(|(i, panel)| match &panel.x_title {
                Some(title) => (!panel.is_empty()).then_some(title.as_str()),
                None => (last == Some(i)).then_some(self.x_title.as_str()),
            })
            .collect()
    }

    /// The picture as SVG.
    pub fn svg(&self) -> String {
        let mut out = String::new();
        let mut top = 32.0 + LINE * self.text.len() as f64;
        let x_titles = self.x_titles();
        let mut tops = Vec::new();
        for (panel, x_title) in self.panels.iter().zip(&x_titles) {
            tops.push(top + HEAD);
            let labels = if x_title.is_some() { LABELS } else { 0.0 };
            top += HEAD + panel.room() + labels;
        }
        let height = top + 12.0;
        let _ = write!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" \
             width=\"{WIDTH}\" height=\"{height:.0}\" role=\"img\">\n<title>{}</title>\n<desc>{}</desc>\n\
             <style>{STYLE}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
             <text class=\"title\" x=\"12\" y=\"24\">{}</text>\n",
            escape(&self.title),
            escape(&self.about),
            escape(&self.title),
        );
        for (i, line) in self.text.iter().enumerate() {
            let y = 24.0 + LINE * (i + 1) as f64;
            let _ = writeln!(out, "<text x=\"12\" y=\"{y:.1}\">{}</text>", escape(line));
        }
        for ((panel, top), x_title) in self.panels.iter().zip(tops).zip(x_titles) {
            let shade = self.shade.filter(|_| panel.x_title.is_none());
            panel.write(&mut out, top, shade, x_title.is_some());
            if let Some(x_title) = x_title {
                let _ = writeln!(
                    out,
                    "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                    f64::midpoint(LEFT, RIGHT),
                    top + panel.room() + LABELS - 4.0,
                    escape(x_title),
                );
            }
        }
        out.push_str("</svg>\n");
        out
    }
}

/// One panel.
#[derive(Debug)]
pub struct Panel {
    title: String,
    height: f64,
    x: Span,
    /// The title of its horizontal axis, if that is another than the other panels'.
    x_title: Option<String>,
    y: Span,
    /// Classes and places.
    paths: Vec<(String, String)>,
    /// Classes, the mark, and the lines of the name.
    legend: Vec<(String, &'static str, Vec<String>)>,
    notes: Vec<String>,
}

impl Panel {
    /// Gives it another horizontal axis than the other panels', from one value to another. Call it before
    /// anything is added. The title includes the unit.
    pub fn over(&mut self, x_title: &str, from: f64, to: f64) -> &mut Self {
        self.x = Span::new((from, to), LEFT, RIGHT);
        self.x_title = Some(x_title.to_owned());
        self
    }

    /// Adds a bar for each (from, to, value), from the panel's bottom up to the value.
    pub fn bars(&mut self, ink: Ink, name: &str, bars: impl IntoIterator<Item = (f64, f64, f64)>) {
        let mut path = String::new();
        let bottom = self.height;
        for (from, to, value) in bars {
            if value.is_finite() && from < to && self.x.holds(from) {
                let (from, to, top) = (self.x.at(from), self.x.at(to), self.y.at(value));
                let _ = write!(path, "M{from:.1} {bottom:.1}V{top:.1}H{to:.1}V{bottom:.1}");
            }
        }
        self.add("bars", ink, name, "h18", path);
    }

    /// Adds a dot for each point; points at the same place are one dot.
    pub fn dots(&mut self, ink: Ink, name: &str, points: impl IntoIterator<Item = (f64, f64)>) {
        let mut dots = Dots::default();
        for place in self.places(points) {
            dots.dot(place);
        }
        self.add("dots", ink, name, "m9 0h0", dots.path);
    }

    /// Adds a cross for each point; points at the same place are one cross.
    pub fn crosses(&mut self, ink: Ink, name: &str, points: impl IntoIterator<Item = (f64, f64)>) {
        let mut crosses = Dots::default();
        for place in self.places(points) {
            crosses.cross(place);
        }
        self.add("crosses", ink, name, "m6.5-2.5l5 5m0-5l-5 5", crosses.path);
    }

    /// Adds a line from point to point, in the order of the horizontal axis. A value that is not a number
    /// interrupts it.
    pub fn line(&mut self, ink: Ink, name: &str, points: impl IntoIterator<Item = (f64, f64)>) {
        let path = self.thinned(points, false);
        self.add("line", ink, name, "h18", path);
    }

    /// Adds a line that keeps each value until the next point.
    pub fn steps(&mut self, ink: Ink, name: &str, points: impl IntoIterator<Item = (f64, f64)>) {
        let path = self.thinned(points, true);
        self.add("line", ink, name, "h18", path);
    }

    /// Adds a dashed line, for values to compare others with.
    pub fn dashed(&mut self, ink: Ink, name: &str, points: impl IntoIterator<Item = (f64, f64)>) {
        let path = self.thinned(points, false);
        self.add("dashed", ink, name, "h18", path);
    }

    /// Adds a dashed line across the panel.
    pub fn across(&mut self, ink: Ink, name: &str, value: f64) {
        let ends = [(self.x.low, value), (self.x.high, value)];
        self.dashed(ink, name, ends);
    }

    /// Adds a sentence below the panel's title, such as why a series is missing.
    pub fn note(&mut self, text: &str) {
        self.notes.extend(wrap(text, WIDE - 20));
    }

    fn thinned(&self, points: impl IntoIterator<Item = (f64, f64)>, steps: bool) -> String {
        let mut thinned = Thinned::new(steps);
        for (x, y) in points {
            if y.is_finite() {
                if self.x.holds(x) {
                    thinned.point((self.x.at(x), self.y.at(y)));
                }
            } else {
                thinned.interrupt();
            }
        }
        thinned.finish()
    }

    fn places<'a>(
        &self,
        points: impl IntoIterator<Item = (f64, f64)> + 'a,
    ) -> impl Iterator<Item = (f64, f64)> + 'a {
        let (across, up) = (self.x, self.y);
        points
            .into_iter()
            .filter(move |(x, y)| across.holds(*x) && y.is_finite())
            .map(move |(x, y)| (across.at(x), up.at(y)))
    }

    /// A series without points is not in the legend either.
    fn add(&mut self, kind: &str, ink: Ink, name: &str, mark: &'static str, path: String) {
        if path.is_empty() {
            return;
        }
        let class = format!("{kind} {}", ink.class());
        self.legend.push((class.clone(), mark, wrap(name, NARROW)));
        self.paths.push((class, path));
    }

    /// Whether the panel has only notes.
    fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// The height that the panel takes with its legend and notes.
    fn room(&self) -> f64 {
        if self.is_empty() {
            return LINE * self.notes.len() as f64;
        }
        let names: usize = self.legend.iter().map(|(_, _, lines)| lines.len()).sum();
        let notes = LINE * self.notes.len() as f64;
        notes + self.height.max(LINE * names as f64)
    }

    fn write(&self, out: &mut String, top: f64, shade: Option<(f64, f64)>, labelled: bool) {
        let _ = writeln!(
            out,
            "<text class=\"name\" x=\"12\" y=\"{:.1}\">{}</text>",
            top - 9.0,
            escape(&self.title)
        );
        let mut y = top;
        for note in &self.notes {
            y += LINE;
            let _ = writeln!(
                out,
                "<text class=\"small\" x=\"{LEFT}\" y=\"{:.1}\">{}</text>",
                y - 5.0,
                escape(note)
            );
        }
        if self.is_empty() {
            return;
        }
        let _ = writeln!(out, "<g transform=\"translate(0 {y:.1})\">");
        self.axes(out, shade, labelled);
        for (class, path) in &self.paths {
            let _ = writeln!(out, "<path class=\"{class}\" d=\"{path}\"/>");
        }
        let mut line = 0.0;
        for (class, mark, name) in &self.legend {
            let y = 10.0 + line * LINE;
            let x = RIGHT + 8.0;
            let _ = writeln!(
                out,
                "<path class=\"key {class}\" d=\"M{x} {:.1}{mark}\"/>",
                y - 4.0
            );
            for text in name {
                let y = 10.0 + line * LINE;
                let _ = writeln!(
                    out,
                    "<text class=\"small\" x=\"{:.0}\" y=\"{y:.1}\">{}</text>",
                    x + 24.0,
                    escape(text)
                );
                line += 1.0;
            }
        }
        out.push_str("</g>\n");
    }

    fn axes(&self, out: &mut String, shade: Option<(f64, f64)>, labelled: bool) {
        let bottom = self.height;
        if let Some((from, to)) = shade {
            let (from, to) = (self.x.at(from), self.x.at(to));
            let _ = writeln!(
                out,
                "<rect class=\"shade\" x=\"{from:.1}\" y=\"0\" width=\"{:.1}\" height=\"{bottom}\"/>",
                (to - from).max(0.0)
            );
        }
        for tick in self.x.ticks(9) {
            let x = self.x.at(tick);
            let _ = write!(out, "<path class=\"grid\" d=\"M{x:.1} 0V{bottom}\"/>");
            if labelled {
                let _ = write!(
                    out,
                    "<text class=\"small\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                    bottom + 17.0,
                    number(tick)
                );
            }
            out.push('\n');
        }
        let most = (self.height / 32.0) as usize;
        for tick in self.y.ticks(most) {
            let y = self.y.at(tick);
            let _ = writeln!(
                out,
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/><text class=\"small\" x=\"{:.1}\" \
                 y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                y + 4.0,
                number(tick)
            );
        }
        let _ = writeln!(
            out,
            "<path class=\"axis\" d=\"M{LEFT} 0V{bottom}H{RIGHT}\"/>"
        );
    }
}

/// Text in lines of up to `most` characters, broken between words.
fn wrap(text: &str, most: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut current = String::new();
    for word in text.split_whitespace() {
        let is_full = current.chars().count() + 1 + word.chars().count() > most;
        // A percent sign stays with its number.
        if is_full && !current.is_empty() && !word.starts_with('%') {
            lines.push(std::mem::take(&mut current));
        }
        if !current.is_empty() {
            current.push(' ');
        }
        // A word that is longer than a line, such as a file's name, is cut.
        current.extend(word.chars().take(most));
    }
    if !current.is_empty() {
        lines.push(current);
    }
    lines
}

/// Text as it is written in XML; control characters are left out.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars().filter(|c| !c.is_control()) {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}
