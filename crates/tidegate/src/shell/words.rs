//! From the words of the command line to a path.

use tidegate_lab::plan::ElementKind;
use tidegate_lab::scenario::{Direction, Written, elements};
use tidegate_lab::{MILLISECOND, Nanos};
use tidegate_testbed::link::LinkPlan;

use super::path::Path;
use crate::cli::UsageError;
use crate::cli::shell::Shell as Options;

/// The round trip for which sizes are chosen, at least: one across a continent.
const USUAL_RTT: Nanos = 100 * MILLISECOND;

/// Reads the words.
pub fn path(options: &Options) -> anyhow::Result<Path> {
    let wrong = |message: String| UsageError(message);
    let read = |rtt| {
        elements(&options.elements, rtt, &|file| {
            crate::lab::read_trace(std::path::Path::new(file))
        })
    };
    let mut written = read(USUAL_RTT).map_err(wrong)?;
    let rtt = match &options.rtt {
        Some(text) => tidegate_limiter::parse_time(text)
            .map_err(|error| UsageError(format!("--rtt {text}: {error}")))?,
        None => {
            let delays = written.iter().map(|element| match element.kind {
                ElementKind::Delay { delay, .. } if element.direction == Direction::Both => {
                    2 * delay
                }
                ElementKind::Delay { delay, .. } => delay,
                _ => 0,
            });
            delays.sum::<Nanos>().max(USUAL_RTT)
        }
    };
    if rtt != USUAL_RTT {
        written = read(rtt).map_err(wrong)?;
    }
    if let Some(tap) = written.iter().find(|element| element.kind.is_tap()) {
        let text = &tap.text;
        return Err(UsageError(format!("{text}: a shell has no taps: leave it out")).into());
    }
    let passes =
        |element: &&Written, way| element.direction == way || element.direction == Direction::Both;
    let down: Vec<&Written> = written
        .iter()
        .filter(|one| passes(one, Direction::Down))
        .collect();
    // The way back passes the last element first.
    let up = written
        .iter()
        .rev()
        .filter(|one| passes(one, Direction::Up));
    let ways = [down, up.collect()];
    let [forward, back] = ways.each_ref().map(|way| {
        let kinds = way.iter().map(|element| element.kind.clone());
        kinds.collect()
    });
    let texts: Vec<&str> = options.elements.iter().map(String::as_str).collect();
    Ok(Path {
        text: tidegate_notation::clean(&texts.join(" ")),
        texts: ways.map(|way| {
            way.iter()
                .map(|element| Some(element.text.clone()))
                .collect()
        }),
        plan: LinkPlan {
            forward,
            back,
            seed: options.seed.unwrap_or(super::SEED),
            ..LinkPlan::default()
        },
    })
}
