//! `tidegate sample`: a share of flows, from an interface to files.

mod metrics;
mod rows;
mod ship;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::Context;
use rustix::fs::Mode;
use rustix::process::umask;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tidegate_limiter::Bytes;
use tidegate_sample::{
    Addresses, By, Choice, Counters, Event, Key, Options, Requests, Rotation, SampleError, Sampler,
    Source, drop_privileges,
};

use crate::cli::sample::{Sample, SampleBy};
use crate::cli::{Common, RightsError, UsageError};
use crate::exit::Exit;
use crate::signals;
use crate::units::plural;
use ship::Ship;

/// The headers of a file of the sampler, compressed, have a few hundred bytes.
const LEAST_FILE: u64 = 1000;
/// Less does not bridge the time that a disk takes.
const LEAST_RING: u64 = 1 << 20;

pub fn run(options: &Sample, common: &Common) -> anyhow::Result<Exit> {
    let requests = Requests::default();
    // From the beginning: a service that is reloaded just after its start must not end.
    signal_hook::flag::register(SIGHUP, Arc::clone(&requests.reload))?;
    // Files and rows tell who spoke with whom.
    umask(umask(Mode::RWXU) | Mode::WGRP | Mode::RWXO);
    let sampler = sampler(options)?;
    if let Some(to) = &options.to {
        ship::check(to, folder(options))?;
    }
    let fraction = sampler.choice.fraction.get() * 100.0;
    let source = Source::open(&sampler).map_err(wrong)?;
    drop_privileges().context("cannot give up privileges")?;
    // Threads that begin now have no rights. A signal to stop before this ends the process: nothing is written yet.
    stops(&requests)?;
    let quiet = common.quiet;
    let (mut running, writer) = match options.rows.as_deref() {
        None => (Sampler::new(source, sampler).map_err(wrong)?, None),
        Some(root) => {
            let counters = Arc::new(Counters::default());
            let (rows, writer) = rows::start(options, root, &sampler, quiet, &counters)?;
            let running = Sampler::feeding(source, sampler, Box::new(rows), counters);
            (running, Some(writer))
        }
    };
    if let Some(address) = options.metrics {
        let address = metrics::serve(address, running.counters())?;
        eprintln!("tidegate: metrics at http://{address}/metrics");
    }
    let ship = match &options.to {
        Some(to) => Some(Ship::start(
            to,
            running.files().map_err(wrong)?,
            running.counters(),
        )?),
        None => None,
    };
    if !quiet {
        let what = match options.by {
            SampleBy::Flow => "flows",
            SampleBy::Client => "clients",
        };
        eprintln!(
            "tidegate: sampling {fraction} % of the {what} on {} into {}",
            options.interface,
            folder(options).display()
        );
    }
    let counters = running.counters();
    let ended = running.run(&requests, &mut |event| {
        tell(&event, quiet);
        if let (Some(ship), Event::Closed(closed)) = (&ship, event) {
            ship.send(closed.path);
        }
    });
    let unmoved = ship.map_or(0, Ship::end);
    if let (Some(to), 1..) = (&options.to, unmoved) {
        eprintln!(
            "tidegate: {} could not be moved to {to}. The next sampler with the same --out and --to tries again",
            plural(unmoved, "file", "files")
        );
    }
    let mut periods = 0;
    if let Some(writer) = writer {
        // The consumer goes with the sampler. Then the writer completes its last rows. If it failed, its reason counts.
        drop(running);
        periods = writer.end()?;
    }
    let lost = counters.discarded.load(Ordering::Relaxed);
    if lost > 0 {
        eprintln!(
            "tidegate: {lost} sampled packets are lost in all, because they could not be written"
        );
    }
    if periods > 0 {
        eprintln!(
            "tidegate: the rows of {} are lost in all, because they could not be written",
            plural(periods, "period", "periods")
        );
    }
    ended.map_err(wrong)?;
    Ok(match lost + periods + unmoved {
        0 => Exit::Done,
        _ => Exit::Failed,
    })
}

/// Where files or rows are written.
fn folder(options: &Sample) -> &Path {
    let folder = options.rows.as_deref().or(options.out.as_deref());
    folder.unwrap_or(Path::new("."))
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
    if options.rotate.get() < LEAST_FILE {
        return usage("--rotate must be at least 1kB: a file would hold headers and no packets");
    }
    if options.ring.get() < LEAST_RING {
        return usage(
            "--ring must be at least 1MiB: it holds what comes while a file is written to the disk",
        );
    }
    if options.ring.get() > Options::MOST_RING {
        return usage("--ring must be at most 1GiB: the kernel takes all of it at once");
    }
    if options.addresses == Addresses::Pseudonym && options.key.is_none() {
        return usage(
            "--addresses pseudonym needs --key: a file with the key. To make one: (umask 077; openssl rand -hex 32 > FILE)",
        );
    }
    if options.addresses == Addresses::Pseudonym && !options.asn.is_empty() {
        return usage(
            "--asn needs addresses: pseudonyms have no networks. Leave out --asn, or take --addresses prefix",
        );
    }
    if options
        .metrics
        .is_some_and(|address| !address.ip().is_loopback())
    {
        return usage("--metrics takes an address of this machine only, such as 127.0.0.1:9105");
    }
    let keep = options.keep.map(Bytes::get);
    let least = options.rotate.get().saturating_mul(2);
    if options.rows.is_none() && keep.is_some_and(|keep| keep < least) {
        return usage(
            "--keep must be at least twice --rotate: one file is written while another one is kept",
        );
    }
    let key = match &options.key {
        Some(path) => Key::read(path),
        None => Key::random(),
    };
    let key = key.map_err(|error| UsageError(error.to_string()))?;
    // What is no key may be anything, and its permissions somebody's intent.
    if let Some(path) = options.key.as_deref().filter(|path| is_open_to_all(path)) {
        eprintln!(
            "tidegate: everybody on this machine can read or change {0}, and whoever has the key can undo pseudonyms: chmod o= {0}",
            path.display()
        );
    }
    let choice = Choice {
        by,
        fraction: options.fraction,
        key,
    };
    Ok(Options {
        clients: options.client_net.clone(),
        rotation: Rotation {
            size: options.rotate.get(),
            every: options.every,
        },
        addresses: options.addresses,
        key_file: options.key.clone(),
        keep,
        ring: options.ring.get(),
        place: options.hook,
        ..Options::new(&options.interface, folder(options), choice)
    })
}

/// Whether this is a file that everybody may read or change. A pipe is gone when it has been read.
fn is_open_to_all(path: &Path) -> bool {
    let open = (Mode::ROTH | Mode::WOTH).bits();
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.mode() & open != 0)
}

/// Ctrl-C and SIGTERM end a sampler properly, and a second one at once.
fn stops(requests: &Requests) -> anyhow::Result<()> {
    let stop = Arc::clone(&requests.stop);
    signals::on(&[SIGINT, SIGTERM], move |_| {
        stop.store(true, Ordering::Relaxed);
    })?;
    Ok(())
}

fn wrong(error: SampleError) -> anyhow::Error {
    let text = error.to_string();
    match error {
        SampleError::Rights(_) | SampleError::Filter(_) | SampleError::OldKernel => {
            RightsError(text).into()
        }
        SampleError::NoInterface(_) | SampleError::LinkLayer(..) => RightsError(text).into(),
        _ => error.into(),
    }
}

/// Reports what happened: everything that changes the sample, and other things unless they are not wanted.
fn tell(event: &Event, quiet: bool) {
    match event {
        Event::Closed(closed) if !quiet => eprintln!(
            "tidegate: {}: {} packets, {} dropped by the kernel, {}",
            closed.path.display(),
            closed.packets,
            closed.dropped,
            Bytes::new(closed.bytes),
        ),
        Event::Recovered { path, packets } if !quiet => eprintln!(
            "tidegate: {}: {packets} packets, recovered from a sampler that was killed",
            path.display()
        ),
        Event::NotRecovered { path, reason } => eprintln!(
            "tidegate: {}: left by a sampler that was killed, and not recovered: {reason}. The next start tries again",
            path.display()
        ),
        Event::Removed(files) if !quiet => {
            for file in files {
                eprintln!("tidegate: removed {} to make room", file.display());
            }
        }
        Event::Key(name) if !quiet => eprintln!("tidegate: read the key {name}"),
        Event::Share { before, now } if now < before => eprintln!(
            "tidegate: packets come faster than they are written: the sampled share is now {now}, instead of {before}"
        ),
        Event::Share { before, now } => {
            eprintln!("tidegate: the sampled share is {now} again, instead of {before}");
        }
        Event::Discarded { packets, reason } => {
            eprintln!(
                "tidegate: {packets} packets are lost: {reason}, and removing older files did not help"
            );
        }
        Event::KeyKept(error) => eprintln!("tidegate: the key before is kept: {error}"),
        _ => {}
    }
}
