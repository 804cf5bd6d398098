//! `tidegate gate run --dpdk`: the same daemon over the data path on DPDK.

use crate::cli::gate::Run;
use crate::exit::Exit;

#[cfg(feature = "dpdk")]
pub fn run(options: &Run) -> anyhow::Result<Exit> {
    use anyhow::bail;
    use tidegate_gate::config::Config;
    use tidegate_gate::{DataPath, Device, Devices, Dpdk, Kernel};

    use crate::cli::UsageError;

    let wrong = |error: tidegate_gate::DpdkError| UsageError(error.to_string());
    let devices: Result<Vec<Device>, _> = options.dpdk.iter().map(|text| text.parse()).collect();
    let devices = Devices::new(&devices.map_err(wrong)?, &options.eal).map_err(wrong)?;
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

#[cfg(not(feature = "dpdk"))]
pub fn run(_: &Run) -> anyhow::Result<Exit> {
    let text = "this program was built without DPDK. `cargo install --locked --path crates/tidegate --features dpdk` builds it; \
                it needs DPDK 22.11 or later (Debian and Ubuntu: apt-get install libdpdk-dev clang binutils pkg-config)";
    Err(crate::cli::UsageError(text.to_owned()).into())
}
