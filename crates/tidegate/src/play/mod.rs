//! `tidegate play`: many viewers at once, and what they saw.

mod report;
mod transport;
mod viewer;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use hyper::Uri;
use rand::RngCore;
use rand_pcg::Pcg64;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::Exit;
use crate::cli::serve::{Arrivals, Play};
use crate::cli::{Common, UsageError};
use transport::Transport;
use viewer::{Viewed, Wishes};

pub fn run(options: &Play, common: &Common) -> anyhow::Result<Exit> {
    let urls = options
        .urls
        .iter()
        .map(|url| target(url))
        .collect::<Result<Vec<_>, _>>()?;
    if options.range.is_some_and(|range| range.get() == 0) {
        return Err(UsageError("--range is of one byte at least".into()).into());
    }
    if options.rate.is_some_and(|rate| rate.bits_per_second() == 0) {
        return Err(UsageError("--rate is of one bit per second at least".into()).into());
    }
    let wishes = Arc::new(Wishes {
        transport: Transport::new(options, &urls)?,
        watch: options.watch,
        range: options.range.map(|range| range.get()),
        start: options.start,
        restart: options.restart.unwrap_or(options.start),
        start_up: options.start_up,
        rate: options.rate,
        timeout: options.timeout,
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let (viewed, interrupted) = runtime.block_on(all(options, &urls, &wishes))?;
    report::write(options, common, &viewed)?;
    Ok(if interrupted {
        Exit::Interrupted
    } else if viewed.iter().any(Viewed::failed) {
        Exit::Failed
    } else {
        Exit::Done
    })
}

/// Lets all viewers watch; also says whether Ctrl-C ended it.
async fn all(
    options: &Play,
    urls: &[Uri],
    wishes: &Arc<Wishes>,
) -> anyhow::Result<(Vec<Viewed>, bool)> {
    let began = Instant::now();
    let (leave, leaving) = watch::channel(false);
    let mut viewers = JoinSet::new();
    for (number, at) in arrivals(options).into_iter().enumerate() {
        let url = urls[number % urls.len()].clone();
        let from = options
            .from
            .get(number % options.from.len().max(1))
            .copied();
        let (wishes, leaving) = (Arc::clone(wishes), leaving.clone());
        viewers.spawn(async move {
            let mut early = leaving.clone();
            tokio::select! {
                () = tokio::time::sleep_until(began + at) => {}
                _ = early.wait_for(|&leave| leave) => return None,
            }
            Some(viewer::watch(number, (url, from), &wishes, began, leaving).await)
        });
    }
    let mut viewed = Vec::new();
    let mut interrupted = false;
    loop {
        tokio::select! {
            next = viewers.join_next() => match next {
                Some(one) => viewed.extend(one.context("a viewer failed")?),
                None => break,
            },
            signal = tokio::signal::ctrl_c(), if !interrupted => {
                signal.context("cannot wait for Ctrl-C")?;
                interrupted = true;
                // All viewers leave; what they saw is reported.
                let _ = leave.send(true);
            }
        }
    }
    viewed.sort_by_key(|one| one.viewer);
    Ok((viewed, interrupted))
}

/// When each viewer comes.
fn arrivals(options: &Play) -> Vec<Duration> {
    let count = options.viewers;
    let mut random = Pcg64::new(u128::from(options.seed), 0x5851_f42d_4c95_7f2d);
    let mut at = 0.0;
    (0..count)
        .map(|number| match options.arrivals {
            Arrivals::Once => Duration::ZERO,
            Arrivals::Spread(time) => time.mul_f64(f64::from(number) / f64::from(count)),
            Arrivals::Poisson(rate) => {
                // Above 0 and up to 1, so that its logarithm is finite.
                let uniform = ((random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
                at -= uniform.ln() / rate;
                Duration::from_secs_f64(at)
            }
        })
        .collect()
}

fn target(url: &str) -> Result<Uri, UsageError> {
    let wrong = |what: &str| UsageError(format!("'{url}': {what}"));
    let uri: Uri = url
        .parse()
        .map_err(|error| wrong(&format!("no URL: {error}")))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http" | "https"), Some(_)) => Ok(uri),
        _ => Err(wrong("no URL of a video: write http://HOST:PORT/PATH")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn options(arguments: &[&str]) -> Play {
        let fixed = ["tidegate", "play", "http://localhost/v.mp4"];
        let cli = Cli::try_parse_from(fixed.iter().chain(arguments)).unwrap();
        match cli.command {
            Command::Play(options) => options,
            _ => unreachable!(),
        }
    }

    #[test]
    fn viewers_come_as_told() {
        let once = arrivals(&options(&["-n", "3"]));
        assert_eq!(once, [Duration::ZERO; 3]);
        let spread = arrivals(&options(&["-n", "4", "--arrivals", "spread:10s"]));
        assert_eq!(spread, [0, 2500, 5000, 7500].map(Duration::from_millis));
        let poisson = arrivals(&options(&["-n", "4000", "--arrivals", "poisson:20/s"]));
        assert!(poisson.is_sorted());
        // 200 s in the mean, with a standard deviation of 3.2 s.
        let last = poisson.last().unwrap().as_secs_f64();
        assert!((185.0..215.0).contains(&last), "{last}");
        assert_eq!(
            poisson,
            arrivals(&options(&["-n", "4000", "--arrivals", "poisson:20/s"]))
        );
    }

    #[test]
    fn only_what_can_be_fetched() {
        for right in ["http://[::1]:8080/v.mp4", "https://h/v.mp4"] {
            assert!(target(right).is_ok(), "{right}");
        }
        for wrong in ["", "v.mp4", "/v.mp4", "ftp://h/v", "http://"] {
            assert!(target(wrong).is_err(), "{wrong}");
        }
    }
}
