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
