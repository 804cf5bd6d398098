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

/// The lines above the list.
const HEAD: u16 = 4;

pub fn draw(frame: &mut Frame<'_>, model: &mut Model) {
    let [head, list, foot] = Layout::vertical([
        Constraint::Length(HEAD),
        Constraint::Min(2),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    // One line is the columns' names.
    model.resize(usize::from(list.height.saturating_sub(1)));
    frame.render_widget(Paragraph::new(whole(model)), head);
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
    // Round trips take the place of the plan on narrow terminals.
    let felt = model.reading().and_then(|reading| reading.felt.as_ref());
    let shown = match felt {
        None => Shown::Plan,
        Some(_) if width >= WIDE => Shown::Both,
        Some(_) => Shown::Trips,
    };
    let mut header = vec![Cell::from(mark(SortTop::Name, "SUBSCRIBER"))];
    header.extend(shown.cells(
        Cell::from("PLAN"),
        right("RTT".into()),
        right("SCORE".into()),
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
    let plan = if width >= 100 { 14 } else { 8 };
    let mut widths = vec![Constraint::Min(10)];
    let length = Constraint::Length;
    widths.extend(shown.cells(length(plan), length(7), length(5)));
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

/// Terminals from this width on have room for all columns.
const WIDE: u16 = 94;

/// The columns behind the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Plan,
    Trips,
    Both,
}

impl Shown {
    fn cells<T>(self, plan: T, trip: T, score: T) -> Vec<T> {
        match self {
            Self::Plan => vec![plan],
            Self::Trips => vec![trip],
            Self::Both => vec![plan, trip, score],
        }
    }
}

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
    // What 95 % of the round trips to the subscriber are not longer than, and the score.
    let (mut trip, mut score) = (None, None);
    if let Some(felt) = &reading.felt
        && let Some(line) = &felt.lines[place]
    {
        trip = (line.access.lately > 0).then(|| time(line.access.p95));
        score = felt
            .requirement
            .score(line)
            .map(|score| format!("{score:.0}"));
    }
    let or_none = |text: Option<String>| right(text.unwrap_or("-".into()));
    let mut cells = vec![Cell::from(plain(&name))];
    cells.extend(shown.cells(
        Cell::from(plain(subscriber.plan_name())),
        or_none(trip),
        or_none(score),
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
    let style = if rates.down + rates.up + rates.excess > 0.0 {
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
