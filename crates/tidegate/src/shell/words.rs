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

/// The bytes of a full packet, as devices of Ethernet send it.
const FULL_PACKET: u64 = 1500;

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
    check_room(&written)?;
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

/// Whether full packets can pass all elements. Downloads would stop at an element with less room, without a word.
fn check_room(written: &[Written]) -> Result<(), UsageError> {
    let room = |element: &&Written| element.kind.largest_packet() < FULL_PACKET;
    match written.iter().find(room) {
        None => Ok(()),
        Some(element) => Err(UsageError(format!(
            "{}: no packet of {FULL_PACKET} bytes could ever pass, because its bucket or queue has room for packets of {} \
             bytes at most: write a larger size",
            element.text,
            element.kind.largest_packet()
        ))),
    }
}
