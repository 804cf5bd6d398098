//! The two devices that a gate on DPDK is between.

use std::sync::Mutex;

use super::error::DpdkError;

/// The largest packet buffer, in bytes: more than a jumbo frame of any device.
const MOST_FRAME: u32 = 1 << 14;

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

    /// Whether DPDK makes it.
    fn is_virtual(&self) -> bool {
        self.device.starts_with("net_") || self.device.starts_with("eth_")
    }

    /// The PCI devices that it names: itself, or those that a virtual device is over, such as a bond.
    fn hardware(&self) -> impl Iterator<Item = &str> {
        let words = self.device.split([',', '=', '(', ')']);
        words.filter(|word| is_pci(word))
    }

    /// The value of one of its arguments.
    fn argument(&self, name: &str) -> Option<&str> {
        let mut arguments = self.device.split(',').skip(1);
        arguments.find_map(|one| one.strip_prefix(name)?.strip_prefix('='))
    }

    /// The interface of the kernel that it takes packets from by packet sockets.
    pub(super) fn over(&self) -> Option<&str> {
        self.device
            .starts_with("net_af_packet")
            .then(|| self.argument("iface"))
            .flatten()
    }
}

/// Whether this is the address of a PCI device: 0000:03:00.1 or 03:00.1.
fn is_pci(word: &str) -> bool {
    let is_hex = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let Some((place, function)) = word.rsplit_once('.') else {
        return false;
    };
    let parts: Vec<&str> = place.split(':').collect();
    (2..=3).contains(&parts.len()) && parts.into_iter().all(is_hex) && is_hex(function)
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
        // DPDK would print its own help, and end the process as if all was well.
        if eal
            .split_whitespace()
            .any(|word| word == "-h" || word == "--help")
        {
            return Err(DpdkError::Help);
        }
        let is_over_one = one.over().is_some() && one.over() == other.over();
        if one.interface == other.interface || one.port() == other.port() || is_over_one {
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

    /// Whether all of them are software, and none is over hardware. Their cores then sleep when nothing comes.
    pub(super) fn are_software(&self) -> bool {
        (self.pair.iter()).all(|device| device.is_virtual() && device.hardware().next().is_none())
    }

    /// What a packet buffer must hold: the longest frame that packet sockets were given room for (`framesz`), and at least
    /// `least` bytes.
    pub(super) fn frame(&self, least: u32) -> u32 {
        let sizes = self
            .pair
            .iter()
            .filter_map(|device| device.argument("framesz")?.parse().ok());
        sizes.fold(least, u32::max).min(MOST_FRAME)
    }

    /// Both devices.
    pub(super) fn pair(&self) -> &[Device; 2] {
        &self.pair
    }

    /// The interface of the kernel that an interface of the file is, if its device takes the packets by packet sockets.
    pub(super) fn over(&self, interface: &str) -> Option<&str> {
        self.pair[self.index(interface).ok()?].over()
    }

    /// The names of the ports.
    pub(super) fn ports(&self) -> [&str; 2] {
        self.pair.each_ref().map(Device::port)
    }

    /// An error about a port, in the words of these devices.
    pub(super) fn named(&self, error: DpdkError) -> DpdkError {
        match error {
            DpdkError::Port { device } => {
                let of_port = |one: &&Device| one.port() == device && one.is_virtual();
                match self.pair.iter().find(of_port) {
                    Some(one) => DpdkError::Virtual {
                        device: one.device.clone(),
                    },
                    None => DpdkError::Port { device },
                }
            }
            other => other,
        }
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
        if self.are_software() {
            words.push("--no-pci".into());
        }
        for device in &self.pair {
            if !device.is_virtual() {
                words.push(format!("--allow={}", device.device));
                continue;
            }
            words.push(format!("--vdev={}", device.device));
            let below = device.hardware();
            words.extend(below.map(|address| format!("--allow={address}")));
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
        assert!(!devices.are_software());
        let error = devices.index("dmz").unwrap_err().to_string();
        assert_eq!(
            error,
            "no device is named for the interface dmz: give one with --dpdk dmz=DEVICE"
        );
    }

    /// The devices below a bond are hardware: DPDK must find them, and their cores do not sleep.
    #[test]
    fn software_over_hardware_is_hardware() {
        let of = |texts: [&str; 2]| {
            let pair = texts.map(|text| text.parse::<Device>().unwrap());
            Devices::new(&pair, "").unwrap()
        };
        let bonds = of([
            "wan=net_bonding0,mode=1,slave=0000:03:00.0,slave=03:00.1",
            "lan=net_failsafe0,mac=02:00:00:00:00:01,dev(0000:04:00.0,queues=2)",
        ]);
        assert!(!bonds.are_software());
        let words = bonds.arguments();
        assert!(!words.iter().any(|word| word == "--no-pci"));
        let allowed: Vec<&str> = words
            .iter()
            .filter_map(|word| word.strip_prefix("--allow="))
            .collect();
        assert_eq!(allowed, ["0000:03:00.0", "03:00.1", "0000:04:00.0"]);
        let sockets = of([
            "wan=net_af_packet0,iface=wan.100,framesz=9216",
            "lan=net_null0",
        ]);
        assert!(sockets.are_software());
        assert!(sockets.arguments().contains(&"--no-pci".to_owned()));
        assert_eq!(
            (sockets.frame(2048), bonds.frame(2048)),
            (9216, 2048),
            "buffers hold what packet sockets were given room for"
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
        let over = |name: &str| format!("{name}=net_af_packet_{name},iface=wan").parse();
        for pair in [
            [one.clone(), one],
            [over("wan").unwrap(), over("lan").unwrap()],
        ] {
            let error = Devices::new(&pair, "").unwrap_err().to_string();
            assert!(error.contains("both are the same"), "{error}");
        }
    }
}
