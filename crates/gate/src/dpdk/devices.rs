//! The two devices that a gate on DPDK is between.

use std::sync::Mutex;

use super::error::DpdkError;

/// An interface of the gate's file, and the device of DPDK that it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// The interface's name in the file.
    pub interface: String,
    /// The address of a PCI device, or the name of a virtual one with its arguments.
    pub device: String,
}

impl std::str::FromStr for Device {
    type Err = DpdkError;

    fn from_str(text: &str) -> Result<Self, DpdkError> {
        let wrong = |why| DpdkError::Written {
            text: text.to_owned(),
            why,
        };
        let (interface, device) = text.split_once('=').ok_or_else(|| wrong("there is no ="))?;
        if interface.is_empty() || device.is_empty() {
            return Err(wrong("a name is missing"));
        }
        let (interface, device) = (interface.to_owned(), device.to_owned());
        Ok(Self { interface, device })
    }
}

impl Device {
    /// The name of the port, without arguments.
    pub(super) fn port(&self) -> &str {
        self.device.split(',').next().unwrap_or_default()
    }

    /// Whether it is software.
    fn is_virtual(&self) -> bool {
        self.device.starts_with("net_") || self.device.starts_with("eth_")
    }
}

/// How DPDK is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Devices {
    pair: [Device; 2],
    /// Arguments of DPDK's environment abstraction layer.
    eal: Vec<String>,
}

static CHOSEN: Mutex<Option<Devices>> = Mutex::new(None);

impl Devices {
    /// The devices, and further arguments for DPDK, separated by spaces.
    ///
    /// # Errors
    /// If they are not two, or one is named twice.
    pub fn new(devices: &[Device], eal: &str) -> Result<Self, DpdkError> {
        let wrong = |why| DpdkError::Written {
            text: devices
                .last()
                .map_or_else(String::new, |last| last.interface.clone()),
            why,
        };
        let [one, other] = devices else {
            return Err(wrong("give --dpdk twice: the gate is between two devices"));
        };
        if one.interface == other.interface || one.port() == other.port() {
            return Err(wrong("both are the same"));
        }
        Ok(Self {
            pair: [one.clone(), other.clone()],
            eal: eal.split_whitespace().map(str::to_owned).collect(),
        })
    }

    /// The data path of this process is made with these devices.
    pub fn choose(self) {
        *CHOSEN
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = Some(self);
    }

    /// The devices that were chosen.
    pub(super) fn chosen() -> Result<Self, DpdkError> {
        let chosen = CHOSEN
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        chosen.clone().ok_or(DpdkError::NoDevices)
    }

    /// Whether all of them are software. Their cores then sleep when nothing comes.
    pub(super) fn are_virtual(&self) -> bool {
        self.pair.iter().all(Device::is_virtual)
    }

    /// The names of the ports.
    pub(super) fn ports(&self) -> [&str; 2] {
        self.pair.each_ref().map(Device::port)
    }

    /// The index of the port that is this interface of the file.
    pub(super) fn index(&self, interface: &str) -> Result<usize, DpdkError> {
        let mut all = self.pair.iter();
        all.position(|device| device.interface == interface)
            .ok_or_else(|| DpdkError::Interface(interface.to_owned()))
    }

    /// What DPDK is started with. It leaves no files behind, since no other process shares its memory.
    pub(super) fn arguments(&self) -> Vec<String> {
        let ordinary = self.eal.iter().any(|word| word == "--no-huge");
        let apart = if ordinary {
            "--no-shconf"
        } else {
            "--in-memory"
        };
        let mut words = vec!["tidegate".to_owned(), apart.into(), "--no-telemetry".into()];
        if self.are_virtual() {
            words.push("--no-pci".into());
        }
        for device in &self.pair {
            match device.is_virtual() {
                true => words.push(format!("--vdev={}", device.device)),
                false => words.push(format!("--allow={}", device.device)),
            }
        }
        words.extend(self.eal.iter().cloned());
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_become_arguments_of_dpdk() {
        let device = |text: &str| text.parse::<Device>().unwrap();
        let pair = [
            device("wan=net_af_packet0,iface=wan"),
            device("lan=0000:03:00.1"),
        ];
        let devices = Devices::new(&pair, " -l 0,1  --no-huge").unwrap();
        assert_eq!(
            devices.arguments()[1..],
            [
                "--no-shconf",
                "--no-telemetry",
                "--vdev=net_af_packet0,iface=wan",
                "--allow=0000:03:00.1",
                "-l",
                "0,1",
                "--no-huge"
            ]
        );
        assert_eq!(devices.ports(), ["net_af_packet0", "0000:03:00.1"]);
        assert_eq!(devices.index("lan").unwrap(), 1);
        assert!(!devices.are_virtual());
        let error = devices.index("dmz").unwrap_err().to_string();
        assert_eq!(
            error,
            "no device is named for the interface dmz: give one with --dpdk dmz=DEVICE"
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (text, why) in [
            ("wan", "there is no ="),
            ("=x", "a name is missing"),
            ("x=", "a name is missing"),
        ] {
            let error = text.parse::<Device>().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("--dpdk {text}: {why}.")),
                "{error}"
            );
        }
        let one: Device = "wan=net_null0".parse().unwrap();
        let error = Devices::new(std::slice::from_ref(&one), "")
            .unwrap_err()
            .to_string();
        assert!(error.contains("give --dpdk twice"), "{error}");
        let error = Devices::new(&[one.clone(), one], "")
            .unwrap_err()
            .to_string();
        assert!(error.contains("both are the same"), "{error}");
    }
}
