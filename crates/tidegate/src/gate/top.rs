//! `tidegate gate top`: a live view in the terminal.

mod draw;
mod model;
mod nodes;
mod source;

use std::collections::HashMap;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tidegate_gate::control::ControlError;

use super::remote::Remote;
use crate::cli::UsageError;
use crate::cli::gate::{SortTop, Top};
use crate::exit::Exit;
use model::{Load, Model};
pub use source::{Asked, Source};

/// The time between two readings is at least this many times the time that a reading takes.
const READING_SHARE: u32 = 4;
/// Time between two checks for signals and keys.
const TICK: Duration = Duration::from_millis(100);

pub fn run(options: &Top, gate: &mut dyn Source, state: &Path) -> anyhow::Result<Exit> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let text = "`tidegate gate top` needs a terminal: use `tidegate gate status` without one";
        return Err(UsageError(text.into()).into());
    }
    let mut model = Model::new(options.sort, options.filter.clone().unwrap_or_default());
    // Errors are reported before the terminal changes its mode.
    model.overview = Some(gate.whole()?);
    take(&mut model, gate)?;
    model.pair = Remote::pair(state);
    let end = Arc::new(AtomicBool::new(false));
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&end))?;
    }
    // ratatui restores the terminal on a panic as well.
    let mut terminal =
        ratatui::try_init().context("cannot switch the terminal to a full screen")?;
    let result = watch(
        &mut terminal,
        &mut model,
        options.interval,
        (gate, state),
        &end,
    );
    ratatui::try_restore().context("cannot restore the terminal")?;
    result?;
    Ok(Exit::Done)
}

fn watch(
    terminal: &mut DefaultTerminal,
    model: &mut Model,
    mut interval: Duration,
    (gate, state): (&mut dyn Source, &Path),
    end: &AtomicBool,
) -> anyhow::Result<()> {
    let mut due = Instant::now() + Duration::from_millis(500).min(interval);
    let mut dirty = true;
    while !end.load(Ordering::Relaxed) {
        if Instant::now() >= due {
            let took = match refresh(model, gate) {
                Ok(took) => took,
                // A gate that was removed may come back.
                Err(ControlError::Down(reason)) => {
                    model.message = Some(reason);
                    Duration::ZERO
                }
                Err(error) => return Err(error.into()),
            };
            if !model.paused {
                model.pair = Remote::pair(state);
            }
            due = Instant::now() + interval.max(took * READING_SHARE);
            dirty = true;
        }
        if dirty {
            model.interval = interval;
            terminal.draw(|frame| draw::draw(frame, model))?;
            // The subscribers in view are known only after drawing.
            if read_queues(model, gate) {
                terminal.draw(|frame| draw::draw(frame, model))?;
            }
            dirty = false;
        }
        let wait = due.saturating_duration_since(Instant::now()).min(TICK);
        if event::poll(wait)? {
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    match press(model, key) {
                        Pressed::Quit => return Ok(()),
                        Pressed::Interval(change) => {
                            let asked = interval.mul_f64(change);
                            let bounds = (Duration::from_millis(100), Duration::from_secs(60));
                            interval = asked.clamp(bounds.0, bounds.1);
                        }
                        Pressed::Other => {}
                    }
                    dirty = true;
                }
                Event::Resize(..) => dirty = true,
                _ => {}
            }
        }
    }
    Ok(())
}

fn refresh(model: &mut Model, gate: &mut dyn Source) -> Result<Duration, ControlError> {
    if model.paused {
        return Ok(Duration::ZERO);
    }
    model.overview = Some(gate.whole()?);
    let took = take(model, gate)?;
    model.message = None;
    read_queues(model, gate);
    Ok(took)
}

/// Reads the counters. Returns how long that took.
fn take(model: &mut Model, gate: &mut dyn Source) -> Result<Duration, ControlError> {
    let (reading, watches) = gate.counters()?;
    let took = reading.took;
    model.watches = watches;
    model.update(Arc::new(reading));
    Ok(took)
}

/// Reads the queues of subscribers that are in view, or that are sorted by their queues. Returns
/// whether there were any.
fn read_queues(model: &mut Model, gate: &mut dyn Source) -> bool {
    let Some(reading) = model.reading().cloned() else {
        return false;
    };
    let wanted = model.wanted();
    if wanted.is_empty() {
        return false;
    }
    let mut loads = HashMap::new();
    for place in wanted {
        let mut load = gate.load(&reading, place);
        if model.is_idle(place) {
            // Queues are drained when packets come, so the queues of idle subscribers are out of date. The rest is not.
            load = Load {
                saved: load.saved,
                feels: load.feels,
                ..Load::default()
            };
        }
        loads.insert(place, load);
    }
    model.loaded(loads);
    true
}

/// The effect of a key.
#[derive(Debug, PartialEq)]
enum Pressed {
    Quit,
    /// The interval changes by this factor.
    Interval(f64),
    Other,
}

fn press(model: &mut Model, key: KeyEvent) -> Pressed {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    if control && matches!(key.code, KeyCode::Char('c' | 'd')) {
        return Pressed::Quit;
    }
    if model.typing {
        match key.code {
            KeyCode::Esc => model.stop_typing(false),
            KeyCode::Enter => model.stop_typing(true),
            KeyCode::Backspace => model.erase(),
            KeyCode::Char(letter) if !control => model.type_in(letter),
            _ => {}
        }
        return Pressed::Other;
    }
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return Pressed::Quit,
        KeyCode::Char('p' | ' ') => model.paused = !model.paused,
        KeyCode::Char('d') => model.sort_by(SortTop::Down),
        KeyCode::Char('u') => model.sort_by(SortTop::Up),
        KeyCode::Char('x') => model.sort_by(SortTop::Drops),
        KeyCode::Char('a') => model.sort_by(SortTop::Active),
        KeyCode::Char('m') => model.sort_by(SortTop::Magic),
        KeyCode::Char('n') => model.sort_by(SortTop::Name),
        KeyCode::Char('o') => model.turn(),
        KeyCode::Char('/') => model.typing = true,
        KeyCode::Char('+') => return Pressed::Interval(2.0),
        KeyCode::Char('-') => return Pressed::Interval(0.5),
        KeyCode::Down => model.move_by(1),
        KeyCode::Up => model.move_by(-1),
        KeyCode::PageDown => model.move_by(model.height as isize),
        KeyCode::PageUp => model.move_by(-(model.height as isize)),
        KeyCode::Home => model.move_by(isize::MIN),
        KeyCode::End => model.move_by(isize::MAX),
        _ => {}
    }
    Pressed::Other
}

#[cfg(test)]
mod tests;
