//! `tidegate play`: many viewers at once, and a report of their playback.

mod report;

use std::cell::Cell;

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tidegate_serve::player::{
    Audience, HttpVersion, Patience, Player, Transport, Trust, Viewed, video_url,
};
use tokio::sync::watch;

use crate::cli::serve::{Http, Play};
use crate::cli::{Common, UsageError};
use crate::exit::Exit;
use crate::output::Output;
use crate::signals;

pub fn run(options: &Play, common: &Common) -> anyhow::Result<Exit> {
    let audience = audience(options)?;
    // Before anything is fetched, which may take hours.
    let out = Output::to(options.output.as_deref())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let interrupted = Cell::new(false);
    let (stop, mut stopped) = watch::channel(());
    let caught = signals::caught(&[SIGINT, SIGTERM, SIGHUP]);
    signals::on(&caught, move |_| {
        // It fails if nobody watches any more.
        let _ = stop.send(());
    })?;
    let viewed = runtime.block_on(audience.watch(async {
        if stopped.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        interrupted.set(true);
    }));
    // A name that is still being looked up would be waited for.
    runtime.shutdown_background();
    report::write(options, common, &viewed, out)?;
    Ok(if interrupted.get() {
        Exit::Interrupted
    } else if viewed.iter().any(Viewed::failed) {
        Exit::Failed
    } else {
        Exit::Done
    })
}

/// The viewers that the options describe.
fn audience(options: &Play) -> anyhow::Result<Audience> {
    let urls = options
        .urls
        .iter()
        .map(|url| video_url(url))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| UsageError(error.to_string()))?;
    if options.range.is_some_and(|range| range.get() == 0) {
        return Err(UsageError("--range must be 1 byte or more".into()).into());
    }
    if options.rate.is_some_and(|rate| rate.bits_per_second() == 0) {
        return Err(UsageError("--rate must be 1 bit/s or more".into()).into());
    }
    let http = options.http.map(|http| match http {
        Http::One => HttpVersion::Http1,
        Http::Two => HttpVersion::Http2,
        Http::Three => HttpVersion::Http3,
    });
    let plain = urls.iter().find(|url| url.scheme_str() == Some("http"));
    if http == Some(HttpVersion::Http3)
        && let Some(url) = plain
    {
        return Err(UsageError(format!("{url}: HTTP/3 needs a URL of https")).into());
    }
    let trust = match &options.ca {
        _ if options.insecure => Trust::Anybody,
        Some(path) => Trust::File(path.clone()),
        None => Trust::System,
    };
    // A system without certificates can still play over plain HTTP.
    let needs_tls = urls.iter().any(|url| url.scheme_str() == Some("https"));
    let transport = Transport::new(options.timeout, http, needs_tls.then_some(&trust));
    let transport = transport.map_err(|error| anyhow::Error::msg(report::with_remedy(&error)))?;
    Ok(Audience {
        urls,
        from: options.from.clone(),
        viewers: options.viewers,
        arrivals: options.arrivals,
        seed: options.seed,
        player: Player {
            transport,
            watch: options.watch,
            buffer: options.buffer,
            range: options.range.map(|range| range.get()),
            patience: Patience {
                start: options.start,
                restart: options.restart.unwrap_or(options.start),
            },
            start_up: options.start_up,
            rate: options.rate,
        },
    })
}
