//! From the words of the command line to the elements of a link.

use tidegate_lab::plan::ElementKind;
use tidegate_lab::scenario::{Direction, elements};
use tidegate_lab::{MILLISECOND, Nanos};
use tidegate_testbed::link::LinkPlan;

use crate::cli::UsageError;
use crate::cli::shell::Shell as Options;

/// The round trip for which sizes are chosen, at least: one across a continent.
const USUAL_RTT: Nanos = 100 * MILLISECOND;

/// The elements of a shell.
pub struct Path {
    /// What they are, in words.
    pub text: String,
    /// Forward is the way to the shell.
    pub plan: LinkPlan,
}

impl Path {
    pub fn read(options: &Options) -> anyhow::Result<Self> {
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
        let passes = |element: &tidegate_lab::scenario::Written, way| {
            element.direction == way || element.direction == Direction::Both
        };
        let way = |way| {
            let passed = written.iter().filter(move |element| passes(element, way));
            passed.map(|element| element.kind.clone())
        };
        let texts: Vec<&str> = options.elements.iter().map(String::as_str).collect();
        Ok(Self {
            text: tidegate_notation::clean(&texts.join(" ")),
            plan: LinkPlan {
                forward: way(Direction::Down).collect(),
                // The way back passes the last element first.
                back: way(Direction::Up)
                    .collect::<Vec<_>>()
                    .into_iter()
                    .rev()
                    .collect(),
                seed: options.seed,
                ..LinkPlan::default()
            },
        })
    }
}
