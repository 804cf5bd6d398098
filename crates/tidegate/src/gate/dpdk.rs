//! `tidegate gate run --dpdk`: the same daemon over the data path on DPDK.

use crate::cli::UsageError;
use crate::cli::gate::Run;
use crate::exit::Exit;

/// The devices of the command line.
#[cfg(feature = "dpdk")]
pub fn devices(options: &crate::cli::gate::OnDpdk) -> Result<tidegate_gate::Devices, UsageError> {
    use tidegate_gate::{Device, Devices};

    let wrong = |error: tidegate_gate::DpdkError| UsageError(error.to_string());
    let devices: Result<Vec<Device>, _> = options.dpdk.iter().map(|text| text.parse()).collect();
    Devices::new(&devices.map_err(wrong)?, &options.eal).map_err(wrong)
}

/// What keeps a gate with this file from running between these devices.
///
/// # Errors
/// If the devices are not written well, or this program has no DPDK.
#[cfg(feature = "dpdk")]
pub fn mistakes(
    config: &tidegate_gate::config::Config,
    options: &crate::cli::gate::OnDpdk,
) -> Result<Vec<String>, UsageError> {
    use tidegate_gate::{DataPath, Dpdk};

    devices(options)?.choose();
    let all = config.attachments.iter();
    let mut wrong: Vec<String> = all
        .filter_map(|attachment| Some(Dpdk::check(attachment).err()?.to_string()))
        .collect();
    wrong.dedup();
    Ok(wrong)
}

#[cfg(not(feature = "dpdk"))]
pub fn mistakes(
    _: &tidegate_gate::config::Config,
    _: &crate::cli::gate::OnDpdk,
) -> Result<Vec<String>, UsageError> {
    Err(absent())
}

#[cfg(feature = "dpdk")]
pub fn run(options: &Run) -> anyhow::Result<Exit> {
    use anyhow::bail;
    use tidegate_gate::config::Config;
    use tidegate_gate::{DataPath, Dpdk, Kernel};

    let devices = devices(&options.devices)?;
    // Both would use the same state.
    if let Ok(config) = Config::read_as(&options.file, options.imports.lenient) {
        let known = tidegate_gate::control::pins(&config.state).ok();
        for pins in [Some(config.pins), known].into_iter().flatten() {
            if <Kernel as DataPath>::exists(&pins) {
                bail!(
                    "a gate is up in the kernel, at {}: remove it with `tidegate gate down`, or give this one another \
                     `state` and `pins` in its file",
                    pins.display()
                );
            }
        }
    }
    devices.choose();
    super::commands::run::<Dpdk>(options)
}

/// What this program says about DPDK if it was built without.
#[cfg(not(feature = "dpdk"))]
pub fn absent() -> UsageError {
    let text = "this program was built without DPDK. `cargo install --locked --path crates/tidegate --features dpdk` builds it; \
                it needs DPDK 22.11 or later (Debian and Ubuntu: apt-get install libdpdk-dev clang binutils pkg-config)";
    UsageError(text.to_owned())
}

#[cfg(not(feature = "dpdk"))]
pub fn run(_: &Run) -> anyhow::Result<Exit> {
    Err(absent().into())
}
