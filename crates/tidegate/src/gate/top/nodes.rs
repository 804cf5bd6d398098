//! The nodes of the network on the screen of `top`.

use ratatui::layout::{Alignment, Constraint};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table};
use tidegate_gate::reading::NodeStatus;
use tidegate_gate::table::Direction;
use tidegate_limiter::Share;

use super::model::{Model, plain, used};
use crate::units::rate;

/// Which nodes are full.
pub fn line(model: &Model) -> Line<'static> {
    let Some(overview) = model.overview.as_ref().filter(|one| !one.nodes.is_empty()) else {
        return Line::default();
    };
    let full = overview.nodes.iter().filter(|node| is_full(node));
    let names: Vec<String> = full.map(|node| plain(&node.name)).collect();
    let all = overview.nodes.len();
    match names.len() {
        0 => Line::from(format!("{all} nodes, none is full")),
        count => Line::from(format!("{all} nodes, {count} full: {}", names.join(", "))).red(),
    }
}

fn is_full(node: &NodeStatus) -> bool {
    Direction::BOTH.iter().any(|&way| node.state[way].is_full())
}

/// The list of nodes.
pub fn table(model: &Model) -> Table<'static> {
    let right = |text: String| Cell::from(Line::from(text).alignment(Alignment::Right));
    let mut header = vec![Cell::from("NODE"), Cell::from("BELOW")];
    for way in ["DOWN", "UP"] {
        header.extend([way, "OF", "SHARE"].map(|name| right(name.into())));
    }
    let row = |node: &NodeStatus| {
        let below = node.parent.as_deref().unwrap_or("-");
        let mut cells = vec![Cell::from(plain(&node.name)), Cell::from(plain(below))];
        for way in Direction::BOTH {
            let state = node.state[way];
            cells.extend([
                right(rate(state.rate as f64)),
                right(format!("{:.0}%", 100.0 * used(node, way))),
                // What is left to each subscriber of its rate.
                right(match state.share {
                    Share::WHOLE => "-".into(),
                    share => format!("{:.0}%", 100.0 * share.ratio()),
                }),
            ]);
        }
        let row = Row::new(cells);
        match is_full(node) {
            true => row.bold(),
            false => row,
        }
    };
    let nodes = model.nodes();
    let rows = nodes.into_iter().skip(model.first).take(model.height);
    let rows: Vec<_> = rows.map(row).collect();
    let length = Constraint::Length;
    let mut widths = vec![Constraint::Min(10), Constraint::Min(8)];
    for _ in Direction::BOTH {
        widths.extend([length(11), length(5), length(5)]);
    }
    Table::new(rows, widths).header(Row::new(header).style(Style::new().reversed()))
}
