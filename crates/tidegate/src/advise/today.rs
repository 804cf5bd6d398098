//! Today's limit: from options, from a router's configuration, or from a capture.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};
use tidegate_advise::router::{self, LONGEST, Limit, Reading};
use tidegate_advise::setting::{ETHERNET, FULL, Kind, Setting};
use tidegate_advise::text::Origin;
use tidegate_limiter::{Bytes, Nanos};

use crate::cli::UsageError;
use crate::cli::advise::Advise;
use crate::input;

/// Today's limit, and where it was found.
pub struct Today {
    pub setting: Setting,
    pub origin: Origin,
    /// The shortest and the longest round trip, if that shows them.
    pub rtt: Option<(Nanos, Nanos)>,
}

/// The capture that is named in place of a router's line.
pub fn capture(options: &Advise) -> Option<&Path> {
    let [only] = options.line.as_slice() else {
        return None;
    };
    let path = Path::new(only);
    path.is_file().then_some(path)
}

/// Whether a word that is no router's line is the name of a file that is not there.
fn looks_like_a_file(word: &str) -> bool {
    let path = Path::new(word);
    !word.contains(char::is_whitespace) && (path.extension().is_some() || word.contains('/'))
}

/// The limit of options or a router's configuration.
pub fn read(options: &Advise) -> anyhow::Result<Today> {
    let (setting, origin) = written(options)?;
    Ok(Today {
        setting,
        origin,
        rtt: None,
    })
}

fn written(options: &Advise) -> anyhow::Result<(Setting, Origin)> {
    if !options.line.is_empty() {
        let text = options.line.join(" ");
        let reading = router::read(&text).map_err(|error| match options.line.as_slice() {
            [name] if Path::new(name).is_dir() => {
                UsageError(format!("{name}: this is a folder: name a capture in it"))
            }
            [name] if looks_like_a_file(name) => {
                UsageError(format!("{name}: there is no such capture"))
            }
            _ => UsageError(format!("router line:{error}")),
        })?;
        return of_router(options, &reading, None);
    }
    if let Some(path) = &options.config {
        let name = input::display(path);
        let text = configuration(path).with_context(|| format!("cannot read {name}"))?;
        if text.trim().is_empty() {
            bail!("{name}: this configuration is empty");
        }
        let reading = router::read(&text).map_err(|error| anyhow::anyhow!("{name}:{error}"))?;
        let place = format!("line {} of {name}", reading.line);
        return of_router(options, &reading, Some(place));
    }
    let Some(rate) = options.rate else {
        let text = "there is no limit to advise on: give --rate and --burst (a policer) or --queue (a shaper), a line of \
                    a router's configuration, --config FILE, or a capture";
        return Err(UsageError(text.to_owned()).into());
    };
    let kind = match (options.burst, options.queue) {
        (None, None) => {
            let text = "--rate alone is not a limit: give --burst, the depth of a policer's bucket, or --queue, the size of \
                        a shaper's queue";
            return Err(UsageError(text.to_owned()).into());
        }
        (Some(burst), None) => Kind::Policer { burst: burst.get() },
        (burst, Some(queue)) => shaper(queue, burst),
    };
    let overhead = overhead(options).unwrap_or(ETHERNET);
    let setting = Setting {
        rate,
        kind,
        overhead,
    };
    Ok((setting, Origin::default()))
}

fn shaper(queue: Bytes, burst: Option<Bytes>) -> Kind {
    Kind::Shaper {
        queue: queue.get(),
        burst: burst.map_or(FULL, Bytes::get),
    }
}

/// What each packet counts beyond its IP packet, if the layer is given.
pub fn overhead(options: &Advise) -> Option<u32> {
    options
        .layer
        .map(|layer| if layer == 2 { ETHERNET } else { 0 })
}

/// A policer has no queue that could be given.
pub fn without_queue(options: &Advise, found: &str) -> Result<(), UsageError> {
    match options.queue {
        None => Ok(()),
        Some(_) => Err(UsageError(format!(
            "--queue is for a shaper, and {found}: leave it out"
        ))),
    }
}

fn of_router(
    options: &Advise,
    reading: &Reading,
    place: Option<String>,
) -> anyhow::Result<(Setting, Origin)> {
    let missing = |option: &str, what: &str| {
        UsageError(format!(
            "this line of {} leaves the {what} to the device: give it with {option}",
            reading.vendor.name()
        ))
    };
    let kind = match reading.limit {
        Limit::Policer { burst } => {
            without_queue(options, "this line is a policer")?;
            let burst = options.burst.map(Bytes::get).or(burst);
            let burst = burst.ok_or_else(|| missing("--burst", "bucket"))?;
            Kind::Policer { burst }
        }
        Limit::Shaper { queue, burst } => {
            let queue = options.queue.map(Bytes::get).or(queue);
            let queue = queue.ok_or_else(|| missing("--queue", "queue"))?;
            let burst = options.burst.map_or(burst, Bytes::get);
            Kind::Shaper { queue, burst }
        }
    };
    let setting = Setting {
        rate: reading.rate,
        kind,
        overhead: overhead(options).unwrap_or(reading.overhead),
    };
    let origin = Origin {
        vendor: Some(reading.vendor),
        place,
        assumed: reading.assumed.clone(),
    };
    Ok((setting, origin))
}

/// The text of a configuration, or a little more than is read of it.
fn configuration(path: &Path) -> anyhow::Result<String> {
    let most = LONGEST as u64 + 1;
    let mut bytes = Vec::new();
    if path.as_os_str() == "-" {
        std::io::stdin().lock().take(most).read_to_end(&mut bytes)?;
    } else {
        std::fs::File::open(path)?
            .take(most)
            .read_to_end(&mut bytes)?;
    }
    // Comments may be in any encoding.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
