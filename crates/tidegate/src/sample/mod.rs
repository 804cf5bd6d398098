//! `tidegate sample`: a share of flows, from an interface to files.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use tidegate_sample::{
    By, Choice, Event, Key, Options, Rotation, SampleError, Sampler, Source, drop_privileges,
};

use crate::cli::sample::{Sample, SampleBy};
use crate::cli::{Common, RightsError, UsageError};
use crate::exit::Exit;

pub fn run(options: &Sample, common: &Common) -> anyhow::Result<Exit> {
    let sampler = sampler(options)?;
    let fraction = sampler.choice.fraction.get() * 100.0;
    // Before packets arrive, so that no signal is missed.
    let stop = stop_flag()?;
    let source = Source::open(&sampler).map_err(wrong)?;
    drop_privileges().context("cannot give up privileges")?;
    let mut running = Sampler::new(source, sampler).map_err(wrong)?;
    let quiet = common.quiet;
    if !quiet {
        let what = match options.by {
            SampleBy::Flow => "flows",
            SampleBy::Client => "clients",
        };
        eprintln!(
            "tidegate: sampling {fraction} % of the {what} on {} into {}",
            options.interface,
            options.out.display()
        );
    }
    running
        .run(&stop, &mut |event| tell(&event, quiet))
        .map_err(wrong)?;
    Ok(Exit::Done)
}

/// What the options ask for.
fn sampler(options: &Sample) -> anyhow::Result<Options> {
    let by = match options.by {
        SampleBy::Flow => By::Flow,
        SampleBy::Client => By::Client(options.client_prefix),
    };
    let usage = |text: &str| Err(UsageError(text.to_owned()).into());
    if options.by == SampleBy::Flow && !options.client_net.is_empty() {
        return usage("--client-net says which side is the client: add --by client");
    }
    if options.every.is_zero() {
        return usage("--every must be more than 0");
    }
    let key = match &options.key {
        Some(path) => Key::read(path),
        None => Key::random(),
    };
    let choice = Choice {
        by,
        fraction: options.fraction,
        key: key.map_err(|error| UsageError(error.to_string()))?,
    };
    Ok(Options {
        clients: options.client_net.clone(),
        rotation: Rotation {
            size: options.rotate.get(),
            every: options.every,
        },
        ring: options.ring.get(),
        ..Options::new(&options.interface, &options.out, choice)
    })
}

/// Set by Ctrl-C and SIGTERM, which end a sampler properly. The second one ends it at once.
fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))?;
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}

fn wrong(error: SampleError) -> anyhow::Error {
    let text = error.to_string();
    match error {
        SampleError::Rights(_) | SampleError::Filter(_) => RightsError(text).into(),
        SampleError::NoInterface(_) | SampleError::LinkLayer(..) => RightsError(text).into(),
        _ => error.into(),
    }
}

fn tell(event: &Event, quiet: bool) {
    match event {
        Event::Closed(closed) if !quiet => {
            eprintln!(
                "tidegate: {}: {} packets, {} dropped by the kernel, {}",
                closed.path.display(),
                closed.packets,
                closed.dropped,
                tidegate_limiter::Bytes::new(closed.bytes),
            );
        }
        _ => {}
    }
}
