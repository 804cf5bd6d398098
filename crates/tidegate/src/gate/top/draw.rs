//! Draws the screen of `top`.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout};
use ratatui::style::{Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use tidegate_gate::reading::{Reading, Subscriber};
use tidegate_gate::table::Direction;

use super::model::{Load, Model, Rates, plain};
use super::nodes;
use crate::cli::gate::SortTop;
use crate::units::{bytes, count, percent, rate, time};

/// The lines above the list, without those of a pair.
const HEAD: u16 = 4;

pub fn draw(frame: &mut Frame<'_>, model: &mut Model) {
    let pair = pair(model);
    let [head, list, foot] = Layout::vertical([
        Constraint::Length(HEAD + pair.len() as u16),
        Constraint::Min(2),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    // One line is the columns' names.
    model.resize(usize::from(list.height.saturating_sub(1)));
    let mut lines = whole(model);
    lines.extend(pair);
    frame.render_widget(Paragraph::new(lines), head);
    let list_of = match model.nodes {
        true => nodes::table(model),
        false => table(model, list.width),
    };
    frame.render_widget(list_of, list);
    frame.render_widget(Paragraph::new(keys(model)), foot);
}

/// The gate as a whole.
fn whole(model: &Model) -> Vec<Line<'static>> {
    let mut title = vec!["tidegate gate".bold(), "  ".into()];
    if let Some(overview) = &model.overview {
        title.push(overview.file.clone().into());
        if overview.shadow {
            title.push("  SHADOW: nothing is dropped".red());
        }
        for one in &overview.attachments {
            let way = one.attachment.direction.name();
            let hook = one.attachment.hook.name();
            let name = &one.attachment.interface;
            let name = match &one.renamed {
                Some(now) => format!("{name} (now {now})"),
                None => name.clone(),
            };
            let text = format!("  {name} {hook} {way}");
            title.push(if one.attached {
                text.dim()
            } else {
                text.red().crossed_out()
            });
        }
    }
    let total = &model.total;
    let subscribers = model
        .reading()
        .map_or(0, |reading| reading.roster.subscribers.len());
    let took = model
        .reading()
        .map_or(0.0, |reading| reading.took.as_secs_f64() * 1000.0);
    vec![
        Line::from(title),
        Line::from(format!(
            "down {}  up {}  beyond limits {} ({}), marked {}",
            rate(total.down),
            rate(total.up),
            rate(total.excess),
            percent(total.drop_share()),
            percent(total.mark_share()),
        )),
        Line::from(format!(
            "{} subscribers, {} shown   {} packets/s   {} unmatched/s   read in {took:.0}ms",
            count(subscribers as u64),
            count(model.matched() as u64),
            count(total.packets as u64),
            count(model.unlimited as u64),
        )),
        nodes::line(model),
    ]
}

/// The other gate of a pair.
fn pair(model: &Model) -> Vec<Line<'static>> {
    let lines = model.pair.iter().flat_map(|pair| pair.lines());
    lines
        .map(|(line, is_wrong)| match is_wrong {
            true => Line::from(plain(&line)).red(),
            false => Line::from(plain(&line)),
        })
        .collect()
}

/// The list.
fn table(model: &Model, width: u16) -> Table<'static> {
    let mark = |key: SortTop, name: &str| {
        let arrow = if model.reversed { '^' } else { 'v' };
        if model.sort == key {
            format!("{name}{arrow}")
        } else {
            name.to_owned()
        }
    };
    let right = |text: String| Cell::from(Line::from(text).alignment(Alignment::Right));
    let shown = Shown::choose(model, width);
    let mut header = vec![Cell::from(mark(SortTop::Name, "SUBSCRIBER"))];
    header.extend(shown.cells(
        Cell::from("PLAN"),
        right("RTT".into()),
        right("SCORE".into()),
        right("BOOST".into()),
    ));
    header.extend([
        right(mark(SortTop::Down, "DOWN")),
        right("OF".into()),
        right(mark(SortTop::Up, "UP")),
        right("OF".into()),
        right(mark(SortTop::Drops, "DROPS")),
        right("MARKS".into()),
        right(mark(SortTop::Active, "FLOWS")),
        right(mark(SortTop::Magic, "MAGIC")),
    ]);
    let header = Row::new(header).style(Style::new().reversed());
    let rows: Vec<_> = match model.reading() {
        None => Vec::new(),
        Some(reading) => model
            .rows()
            .map(|(place, rates, load)| row(reading, place, rates, load, shown))
            .collect(),
    };
    // Two columns of names share the remaining width.
    let mut widths = vec![Constraint::Min(10)];
    let length = Constraint::Length;
    widths.extend(shown.cells(
        length(shown.plan_width),
        length(TRIP),
        length(SCORE),
        length(BOOST),
    ));
    widths.extend([
        Constraint::Length(11),
        Constraint::Length(4),
        Constraint::Length(11),
        Constraint::Length(4),
        Constraint::Length(6),
        Constraint::Length(5),
        Constraint::Length(6),
        Constraint::Length(6),
    ]);
    Table::new(rows, widths).header(header)
}

/// The columns behind the name, those for which there is room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shown {
    plan: bool,
    trip: bool,
    score: bool,
    boost: bool,
    /// Of the column of plans.
    plan_width: u16,
}

impl Shown {
    /// The columns that a list of this width has room for beside the others, which take 70 with ten for the name: what some
    /// subscriber has, and what changes most first.
    fn choose(model: &Model, width: u16) -> Self {
        let felt = model.watches;
        let boost = model.reading().is_some_and(|reading| {
            let mut all = reading.roster.subscribers.iter();
            all.any(|one| one.limits.down.boost > 0)
        });
        let plan_width = if width >= 100 { 14 } else { 8 };
        let mut room = width.saturating_sub(71);
        let mut fits = |wanted: bool, width: u16| {
            let fits = wanted && room > width;
            room -= if fits { width + 1 } else { 0 };
            fits
        };
        Self {
            boost: fits(boost, BOOST),
            trip: fits(felt, TRIP),
            plan: fits(true, plan_width),
            score: fits(felt, SCORE),
            plan_width,
        }
    }

    fn cells<T>(self, plan: T, trip: T, score: T, boost: T) -> Vec<T> {
        let all = [
            (self.plan, plan),
            (self.trip, trip),
            (self.score, score),
            (self.boost, boost),
        ];
        all.into_iter()
            .filter_map(|(is_shown, cell)| is_shown.then_some(cell))
            .collect()
    }
}

/// Widths of columns.
const TRIP: u16 = 7;
const SCORE: u16 = 5;
const BOOST: u16 = 7;

fn row(
    reading: &Reading,
    place: usize,
    rates: &Rates,
    load: Option<&Load>,
    shown: Shown,
) -> Row<'static> {
    let subscriber: &Subscriber = &reading.roster.subscribers[place];
    let right = |text: String| Cell::from(Line::from(text).alignment(Alignment::Right));
    // The share of the limit. Subscribers without a limit have none.
    let share = |direction, bits: f64| match subscriber.limits[direction].rate {
        _ if subscriber.suspended => "off".into(),
        Some(limit) if limit > 0 => format!("{:.0}%", 100.0 * bits / limit as f64),
        _ => "-".into(),
    };
    let name = if subscriber.set {
        format!("{}*", subscriber.name)
    } else {
        subscriber.name.to_string()
    };
    let some = |share: f64| match share {
        0.0 => "-".into(),
        share => percent(share),
    };
    let or_none = |text: Option<String>| right(text.unwrap_or("-".into()));
    let of_load = |of: &dyn Fn(&Load) -> Option<String>| match load {
        None => right("…".into()),
        Some(load) => or_none(of(load)),
    };
    let mut cells = vec![Cell::from(plain(&name))];
    cells.extend(shown.cells(
        Cell::from(plain(subscriber.plan_name())),
        of_load(&|load| Some(time(load.feels?.trip_ns?))),
        of_load(&|load| Some(format!("{:.0}", load.feels?.score?))),
        of_load(&|load| Some(bytes(load.saved?).replace(' ', ""))),
    ));
    cells.extend([
        right(rate(rates.down)),
        right(share(Direction::Down, rates.down)),
        right(rate(rates.up)),
        right(share(Direction::Up, rates.up)),
        right(some(rates.drop_share())),
        right(some(rates.mark_share())),
        right(load.map_or("…".into(), |load| match load.active {
            0 => "-".into(),
            active => active.to_string(),
        })),
        right(load.map_or("…".into(), magic)),
    ]);
    let style = if subscriber.suspended {
        Style::new().red()
    } else if rates.down + rates.up + rates.excess > 0.0 {
        Style::new()
    } else {
        Style::new().dim()
    };
    Row::new(cells).style(style)
}

/// Magic bytes, which fill a queue so that its flow cannot burst.
fn magic(load: &Load) -> String {
    match load.magic {
        0 => "-".into(),
        magic => bytes(magic).replace(' ', ""),
    }
}

fn keys(model: &Model) -> Line<'static> {
    if model.typing {
        return Line::from(vec![
            "filter: ".bold(),
            Span::raw(plain(&model.filter)),
            "_".into(),
            "   Enter keeps the filter, Esc clears it".dim(),
        ]);
    }
    if let Some(message) = &model.message {
        return Line::from(plain(message)).red();
    }
    let mut keys = vec![];
    if model.paused {
        keys.push("PAUSED  ".bold());
    }
    if !model.filter.is_empty() {
        keys.push(format!("/{}  ", plain(&model.filter)).bold());
    }
    let every = format!("every {:?}", model.interval);
    keys.push(
        format!("q quit  p pause  / filter  d u x a m n sort  o nodes  + - {every}  * set live")
            .dim(),
    );
    Line::from(keys)
}
