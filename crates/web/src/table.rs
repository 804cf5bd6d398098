//! The table of transfers: sorted, searched, and read a screen at a time.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidegate_story::brief::LEAST_PACKETS;
use tidegate_trace::annotate::TransferId;

use crate::csv;
use crate::line::{COLUMNS, Key, Line};
use crate::request::{Arrangement, Place};

/// Lines that are handed out at a time, at most.
const MOST_LINES: usize = 1000;

/// Every transfer that was read, and those that are shown, in order.
#[derive(Default)]
pub struct Table {
    lines: Vec<Line>,
    shown: Vec<u32>,
}

impl Table {
    pub fn extend(&mut self, lines: Vec<Line>) {
        self.lines.extend(lines);
    }

    /// Takes out the lines of a capture. None is shown until the next arrangement.
    pub fn forget(&mut self, capture: u32) {
        self.lines.retain(|line| line.capture != capture);
        self.shown.clear();
    }

    /// The line of a transfer.
    pub fn find(&self, place: Place) -> Option<&Line> {
        let id = TransferId {
            flow: place.flow,
            segment: place.segment,
            from_client: place.from_client,
        };
        let mut lines = self.lines.iter();
        lines.find(|line| line.capture == place.capture && line.id == id)
    }

    /// The columns as JSON.
    pub fn columns() -> Value {
        let columns = COLUMNS.iter().map(|column| {
            let is_number = matches!(column.sort, Key::Number(_));
            json!({ "key": column.key, "title": column.title, "doc": column.doc, "number": is_number })
        });
        columns.collect()
    }

    /// Chooses and sorts the lines that are shown.
    pub fn arrange(&mut self, by: &Arrangement) -> Value {
        let find = by.find.to_lowercase();
        let is_shown = |line: &Line| {
            (by.all || line.data_packets >= LEAST_PACKETS)
                && by
                    .cause
                    .as_ref()
                    .is_none_or(|cause| line.cause.name() == cause)
                && (find.is_empty() || contains(line, &find))
        };
        let count = u32::try_from(self.lines.len()).unwrap_or(u32::MAX);
        self.shown = (0..count)
            .filter(|&i| is_shown(&self.lines[i as usize]))
            .collect();
        let column = by.sort.as_ref();
        let column = column.and_then(|key| COLUMNS.iter().find(|column| column.key == key));
        if let Some(column) = column {
            let lines = &self.lines;
            self.shown.sort_by(|&one, &other| {
                let (one, other) = (&lines[one as usize], &lines[other as usize]);
                compare(&column.sort, one, other, by.descending)
            });
        }
        let short = self.lines.iter();
        let short = short
            .filter(|line| line.data_packets < LEAST_PACKETS)
            .count();
        let mut causes: BTreeMap<&str, u64> = BTreeMap::new();
        for line in self
            .lines
            .iter()
            .filter(|line| by.all || line.data_packets >= LEAST_PACKETS)
        {
            *causes.entry(line.cause.name()).or_default() += 1;
        }
        json!({
            "shown": self.shown.len(),
            "all": self.lines.len(),
            "short": short,
            "least_packets": LEAST_PACKETS,
            "causes": causes,
        })
    }

    /// The lines that are shown.
    pub fn shown(&self) -> impl Iterator<Item = &Line> + Clone {
        self.shown.iter().map(|&i| &self.lines[i as usize])
    }

    /// A part of the shown lines, as texts.
    pub fn part(&self, from: usize, count: usize) -> Value {
        let shown = self.shown.iter().skip(from).take(count.min(MOST_LINES));
        let lines = shown.map(|&i| {
            let line = &self.lines[i as usize];
            let cells = COLUMNS.iter().map(|column| (column.text)(line));
            json!({
                "capture": line.capture,
                "flow": line.id.flow,
                "segment": line.id.segment,
                "from_client": line.id.from_client,
                "cause": line.cause.name(),
                "cells": cells.collect::<Vec<_>>(),
            })
        });
        lines.collect()
    }

    /// The shown lines as CSV.
    pub fn csv(&self) -> String {
        let columns = COLUMNS.iter();
        let names = columns.map(|column| column.saved.map_or(column.key, |(name, _)| name));
        let mut text = names.collect::<Vec<_>>().join(",");
        text.push('\n');
        for line in self.shown() {
            let cells = COLUMNS.iter().map(|column| {
                let cell = match column.saved {
                    Some((_, value)) => value(line).to_string(),
                    None => (column.text)(line),
                };
                csv::field(&cell).into_owned()
            });
            text.push_str(&cells.collect::<Vec<_>>().join(","));
            text.push('\n');
        }
        text
    }
}

/// Whether one of a line's texts contains a text, which is in lower case.
fn contains(line: &Line, text: &str) -> bool {
    let mut columns = COLUMNS.iter();
    columns.any(|column| (column.text)(line).to_lowercase().contains(text))
}

/// Lines without a value come last in either order. Equal lines keep their order.
fn compare(key: &Key, one: &Line, other: &Line, descending: bool) -> Ordering {
    let turn = |order: Ordering| if descending { order.reverse() } else { order };
    match key {
        Key::Number(number) => match (number(one), number(other)) {
            (Some(one), Some(other)) => turn(one.total_cmp(&other)),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        },
        Key::Ends => turn((one.sender, one.receiver).cmp(&(other.sender, other.receiver))),
        Key::Text(text) => turn(text(one).cmp(text(other))),
    }
}
