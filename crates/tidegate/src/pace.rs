//! `tidegate pace`: whether this machine's kernel can pace a server's sockets.

use std::io::Write;

use tidegate_pace::{Mode, Options, Pacer, own_cgroup};

use crate::cli::{Pace, RightsError};
use crate::exit::Exit;
use crate::output::Output;

pub fn run(arguments: &Pace) -> anyhow::Result<Exit> {
    let cgroup = match &arguments.cgroup {
        Some(cgroup) => Ok(cgroup.clone()),
        None => own_cgroup(),
    };
    // Attached for as long as this lives; it paces nothing.
    let mut options = Options::default();
    options.cgroup.clone_from(&arguments.cgroup);
    let pacer = Pacer::open_with(&options);
    if let Mode::Fallback { why: Some(why) } = pacer.mode() {
        let others = "Without the clamp, servers pace by the application and by SO_MAX_PACING_RATE";
        return Err(RightsError(format!("no clamp here: {why}. {others}")).into());
    }
    let mut output = Output::stdout();
    let place = cgroup.map_or_else(|error| error.to_string(), |path| path.display().to_string());
    writeln!(output, "clamp: yes, for sockets of the cgroup {place}")?;
    output.commit()?;
    Ok(Exit::Done)
}
