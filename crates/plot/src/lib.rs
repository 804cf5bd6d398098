#![doc = include_str!("../README.md")]

use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

mod panels;

pub use panels::{Ink, Panel, Panels};

#[cfg(test)]
mod tests;

/// Colours that colour-blind people can distinguish, too: those of Okabe and Ito, black last.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(120, 120, 120),
    RGBColor(0, 0, 0),
];

/// With more lines there is no legend, because a reader could not distinguish them.
const MOST_IN_LEGEND: usize = 16;
const SIZE: (u32, u32) = (760, 420);
/// Room for the legend, at the right.
const LEGEND: u32 = 190;
const FONT: &str = "sans-serif";

/// How an axis counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scale {
    /// Evenly.
    #[default]
    Linear,
    /// By powers of ten; values that are not positive are left out.
    Log,
}

/// An axis.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Axis {
    title: String,
    scale: Scale,
    range: (Option<f64>, Option<f64>),
}

impl Axis {
    /// An axis with this title, its unit included, that holds all values.
    pub fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            ..Self::default()
        }
    }

    /// Counts by powers of ten.
    #[must_use]
    pub fn log(self) -> Self {
        Self {
            scale: Scale::Log,
            ..self
        }
    }

    /// Begins here.
    #[must_use]
    pub fn from(mut self, least: f64) -> Self {
        self.range.0 = Some(least);
        self
    }

    /// Ends here.
    #[must_use]
    pub fn to(mut self, most: f64) -> Self {
        self.range.1 = Some(most);
        self
    }

    /// The position of a value on it: the value, or its logarithm.
    fn position(&self, value: f64) -> Option<f64> {
        match self.scale {
            Scale::Linear => value.is_finite().then_some(value),
            Scale::Log => (value.is_finite() && value > 0.0).then(|| value.log10()),
        }
    }

    /// The range that it covers, as positions.
    fn span(&self, values: impl Iterator<Item = f64>) -> (f64, f64) {
        let (low, high) = values
            .filter_map(|value| self.position(value))
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), at| {
                (low.min(at), high.max(at))
            });
        let (low, high) = if low > high { (0.0, 1.0) } else { (low, high) };
        let margin = match self.scale {
            Scale::Linear => (high - low) * 0.04,
            Scale::Log => 0.05,
        };
        let fixed = |end: Option<f64>| end.and_then(|value| self.position(value));
        let low = fixed(self.range.0).unwrap_or(low - margin);
        let high = fixed(self.range.1).unwrap_or(high + margin);
        if high > low {
            (low, high)
        } else {
            (low - 0.5, low + 0.5)
        }
    }
}

/// An axis as plotters draws it: positions, labelled with their values.
struct Ticks {
    span: (f64, f64),
    scale: Scale,
}

impl Ranged for Ticks {
    type FormatOption = plotters::coord::ranged1d::NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = (value - self.span.0) / (self.span.1 - self.span.0);
        limit.0 + (f64::from(limit.1 - limit.0) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        let (low, high) = self.span;
        let most = hint.max_num_points().clamp(2, 10) as f64;
        let step = match self.scale {
            Scale::Linear => round_step((high - low) / most),
            Scale::Log if high - low < 1.5 => {
                // Less than two powers: 1, 2 and 5 of each.
                let powers = low.floor() as i32..=high.floor() as i32;
                let marks = powers.flat_map(|power| {
                    [1.0f64, 2.0, 5.0].map(|mark| mark.log10() + f64::from(power))
                });
                return marks.filter(|at| (low..=high).contains(at)).collect();
            }
            Scale::Log => ((high - low) / most).ceil().max(1.0),
        };
        let first = (low / step - 1e-9).ceil() as i64;
        let last = (high / step + 1e-9).floor() as i64;
        (first..=last).map(|i| i as f64 * step).collect()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.span.0..self.span.1
    }
}

impl ValueFormatter<f64> for Ticks {
    fn format_ext(&self, at: &f64) -> String {
        match self.scale {
            Scale::Linear => number(*at),
            Scale::Log => number(10f64.powf(*at)),
        }
    }
}

/// The next larger of 1, 2 and 5 times a power of ten.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let mark = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|mark| mark * power >= step * 0.999);
    mark.unwrap_or(10.0) * power
}

/// A number in as few digits as it needs.
fn number(value: f64) -> String {
    let rounded = format!("{value:.6}");
    let short = rounded.trim_end_matches('0').trim_end_matches('.');
    match short {
        "" | "-0" => "0".to_owned(),
        short => short.to_owned(),
    }
}

/// A picture of lines.
#[derive(Debug, Clone)]
pub struct Plot {
    title: String,
    x: Axis,
    y: Axis,
    lines: Vec<Line>,
}

#[derive(Debug, Clone)]
struct Line {
    name: String,
    points: Vec<(f64, f64)>,
    colour: usize,
    dashed: bool,
}

impl Plot {
    /// A picture without lines yet.
    pub fn new(title: &str, x: Axis, y: Axis) -> Self {
        Self {
            title: title.to_owned(),
            x,
            y,
            lines: Vec::new(),
        }
    }

    /// The picture of distributions: which share of the values is up to x.
    pub fn of_distributions(title: &str, x: Axis) -> Self {
        Self::new(title, x, Axis::new("share of values").from(0.0).to(1.0))
    }

    /// Adds a line from point to point.
    pub fn line(&mut self, name: &str, points: impl IntoIterator<Item = (f64, f64)>) {
        self.add(name, points.into_iter().collect(), false);
    }

    /// Adds a dashed line, for a value to compare others with.
    pub fn dashed(&mut self, name: &str, points: impl IntoIterator<Item = (f64, f64)>) {
        self.add(name, points.into_iter().collect(), true);
    }

    /// Adds a dashed line in the colour of the line before it, because both belong together.
    pub fn beside(&mut self, name: &str, points: impl IntoIterator<Item = (f64, f64)>) {
        let colour = self.lines.last().map(|line| line.colour);
        self.dashed(name, points);
        if let (Some(line), Some(colour)) = (self.lines.last_mut(), colour) {
            line.colour = colour;
        }
    }

    /// Adds a line that keeps each value until the next point.
    pub fn steps(&mut self, name: &str, points: impl IntoIterator<Item = (f64, f64)>) {
        let mut steps: Vec<(f64, f64)> = Vec::new();
        for (x, y) in points {
            if let Some(&(_, before)) = steps.last() {
                steps.push((x, before));
            }
            steps.push((x, y));
        }
        self.add(name, steps, false);
    }

    /// Adds the cumulative distribution of values.
    pub fn distribution(&mut self, name: &str, values: impl IntoIterator<Item = f64>) {
        self.counts(name, values.into_iter().map(|value| (value, 1)));
    }

    /// Adds the cumulative distribution of values of which each is there this many times.
    pub fn counts(&mut self, name: &str, values: impl IntoIterator<Item = (f64, u64)>) {
        let mut values: Vec<(f64, u64)> = values.into_iter().collect();
        values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let count: u64 = values.iter().map(|value| value.1).sum();
        // A reader could not see more steps.
        let stride = count.div_ceil(2000).max(1);
        let mut points: Vec<(f64, f64)> =
            values.first().map(|one| (one.0, 0.0)).into_iter().collect();
        let (mut seen, mut next) = (0, stride);
        for &(value, many) in &values {
            seen += many;
            if seen >= next {
                let before = points.last().map_or(0.0, |point| point.1);
                points.push((value, before));
                points.push((value, seen as f64 / count as f64));
                next = seen + stride;
            }
        }
        if let Some(&(last, _)) = values.last() {
            points.push((last, 1.0));
        }
        self.add(name, points, false);
    }

    fn add(&mut self, name: &str, points: Vec<(f64, f64)>, dashed: bool) {
        let colour = self.lines.iter().map(|line| line.colour + 1).max();
        let colour = colour.unwrap_or(0);
        self.lines.push(Line {
            name: name.to_owned(),
            points,
            colour,
            // Once the colours are used up, dashes distinguish lines.
            dashed: dashed || colour >= COLOURS.len(),
        });
    }

    /// Whether the picture has no lines.
    pub fn is_empty(&self) -> bool {
        self.lines.iter().all(|line| line.points.is_empty())
    }

    /// The picture as SVG.
    ///
    /// # Errors
    /// It cannot be drawn, for example because of its size.
    pub fn svg(&self) -> Result<String, PlotError> {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let axis = |axis: &Axis, values: Vec<f64>| Ticks {
            span: axis.span(values.into_iter()),
            scale: axis.scale,
        };
        let x = axis(&self.x, points().map(|point| point.0).collect());
        let y = axis(&self.y, points().map(|point| point.1).collect());
        let legend: Vec<(String, RGBColor, bool)> = self
            .lines
            .iter()
            .map(|line| {
                (
                    line.name.clone(),
                    COLOURS[line.colour % COLOURS.len()],
                    line.dashed,
                )
            })
            .collect();
        picture(&self.title, &legend, |area| {
            let mut chart = ChartBuilder::on(area)
                .margin(8)
                .x_label_area_size(44)
                .y_label_area_size(64)
                .build_cartesian_2d(x, y)
                .map_err(PlotError::new)?;
            chart
                .configure_mesh()
                .light_line_style(TRANSPARENT)
                .bold_line_style(RGBColor(225, 225, 225))
                .axis_style(RGBColor(90, 90, 90))
                .label_style((FONT, 13))
                .axis_desc_style((FONT, 14))
                .x_desc(&self.x.title)
                .y_desc(&self.y.title)
                .draw()
                .map_err(PlotError::new)?;
            for (line, (_, colour, _)) in self.lines.iter().zip(&legend) {
                let at = |&(x, y): &(f64, f64)| Some((self.x.position(x)?, self.y.position(y)?));
                let points = line.points.iter().filter_map(at);
                let style = colour.stroke_width(2);
                if line.dashed {
                    let series = DashedLineSeries::new(points, 6, 4, style);
                    chart.draw_series(series).map_err(PlotError::new)?;
                } else {
                    let series = LineSeries::new(points, style);
                    chart.draw_series(series).map_err(PlotError::new)?;
                }
            }
            Ok(())
        })
    }
}

/// A picture of bars in groups: for each category one bar of each series.
#[derive(Debug, Clone)]
pub struct Bars {
    title: String,
    y: Axis,
    categories: Vec<String>,
    series: Vec<(String, Vec<Option<f64>>)>,
}

impl Bars {
    /// A picture without bars yet.
    pub fn new(title: &str, y: Axis, categories: impl IntoIterator<Item = String>) -> Self {
        Self {
            title: title.to_owned(),
            y,
            categories: categories.into_iter().collect(),
            series: Vec::new(),
        }
    }

    /// Adds a series: a value for each category, or none.
    pub fn series(&mut self, name: &str, values: impl IntoIterator<Item = Option<f64>>) {
        self.series
            .push((name.to_owned(), values.into_iter().collect()));
    }

    /// The picture as SVG.
    ///
    /// # Errors
    /// It cannot be drawn.
    pub fn svg(&self) -> Result<String, PlotError> {
        let values = self
            .series
            .iter()
            .flat_map(|(_, values)| values.iter().flatten().copied());
        // Bars begin at 0 if the axis has a 0.
        let mut axis = self.y.clone();
        if axis.scale == Scale::Linear && axis.range.0.is_none() {
            axis.range.0 = Some(0.0);
        }
        let y = Ticks {
            span: axis.span(values),
            scale: axis.scale,
        };
        let ground = y.span.0;
        let x = Ticks {
            span: (-0.5, self.categories.len().max(1) as f64 - 0.5),
            scale: Scale::Linear,
        };
        let legend: Vec<(String, RGBColor, bool)> = self
            .series
            .iter()
            .enumerate()
            .map(|(i, (name, _))| (name.clone(), COLOURS[i % COLOURS.len()], false))
            .collect();
        let width = 0.8 / self.series.len().max(1) as f64;
        picture(&self.title, &legend, |area| {
            let mut chart = ChartBuilder::on(area)
                .margin(8)
                .x_label_area_size(30)
                .y_label_area_size(64)
                .build_cartesian_2d(x, y)
                .map_err(PlotError::new)?;
            let label = |at: &f64| -> String {
                let whole = at.round();
                let named = (at - whole).abs() < 1e-6 && whole >= 0.0;
                let name = named.then(|| self.categories.get(whole as usize)).flatten();
                name.cloned().unwrap_or_default()
            };
            chart
                .configure_mesh()
                .disable_x_mesh()
                .light_line_style(TRANSPARENT)
                .bold_line_style(RGBColor(225, 225, 225))
                .axis_style(RGBColor(90, 90, 90))
                .label_style((FONT, 13))
                .axis_desc_style((FONT, 14))
                .x_labels(self.categories.len().clamp(2, 10))
                .x_label_formatter(&label)
                .y_desc(&self.y.title)
                .draw()
                .map_err(PlotError::new)?;
            for (i, ((_, values), (_, colour, _))) in self.series.iter().zip(&legend).enumerate() {
                let bars = values.iter().enumerate().filter_map(|(category, value)| {
                    let top = self.y.position((*value)?)?;
                    let left = category as f64 - 0.4 + i as f64 * width;
                    let corners = [(left, ground), (left + width * 0.92, top)];
                    Some(Rectangle::new(corners, colour.filled()))
                });
                chart.draw_series(bars).map_err(PlotError::new)?;
            }
            Ok(())
        })
    }
}

/// Why a picture cannot be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw: {0}")]
pub struct PlotError(String);

impl PlotError {
    fn new(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A title, a chart and, with more than one name, a legend beside it.
fn picture(
    title: &str,
    legend: &[(String, RGBColor, bool)],
    chart: impl FnOnce(&Area<'_>) -> Result<(), PlotError>,
) -> Result<String, PlotError> {
    let shown = (2..=MOST_IN_LEGEND).contains(&legend.len());
    let mut svg = String::new();
    {
        let width = SIZE.0 + if shown { LEGEND } else { 0 };
        let root = SVGBackend::with_string(&mut svg, (width, SIZE.1)).into_drawing_area();
        root.fill(&WHITE).map_err(PlotError::new)?;
        let (top, below) = root.split_vertically(36);
        let left = Pos::new(HPos::Left, VPos::Center);
        let style = (FONT, 17).into_font().color(&BLACK).pos(left);
        top.draw(&Text::new(title.to_owned(), (16, 20), style))
            .map_err(PlotError::new)?;
        let (area, beside) = below.split_horizontally(SIZE.0);
        chart(&area)?;
        if shown {
            for (i, (name, colour, dashed)) in legend.iter().enumerate() {
                let y = 20 + 21 * i as i32;
                // Two dashes, or a line.
                let marks: &[(i32, i32)] = if *dashed {
                    &[(4, 11), (15, 22)]
                } else {
                    &[(4, 22)]
                };
                for &(from, to) in marks {
                    let line = PathElement::new([(from, y), (to, y)], colour.stroke_width(3));
                    beside.draw(&line).map_err(PlotError::new)?;
                }
                let style = (FONT, 13).into_font().color(&BLACK).pos(left);
                beside
                    .draw(&Text::new(short(name, 24), (28, y), style))
                    .map_err(PlotError::new)?;
            }
        }
        root.present().map_err(PlotError::new)?;
    }
    Ok(svg)
}

/// A name that fits.
fn short(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    let kept: String = name.chars().take(most - 1).collect();
    format!("{kept}…")
}
