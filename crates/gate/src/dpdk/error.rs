//! Errors of the data path on DPDK.

use std::path::PathBuf;

use crate::maps::MapsError;

/// Why the data path on DPDK did not do something.
#[derive(Debug, thiserror::Error)]
pub enum DpdkError {
    /// An interface of the command line is not well written.
    #[error(
        "--dpdk {text}: {why}. Write INTERFACE=DEVICE, such as wan=0000:03:00.0 or wan=net_af_packet0,iface=wan"
    )]
    Written {
        /// The text.
        text: String,
        /// What is wrong.
        why: &'static str,
    },
    /// The arguments ask for help.
    #[error(
        "--eal holds arguments of DPDK, and not --help: its documentation lists them under `EAL parameters`"
    )]
    Help,
    /// The devices were not named before the data path was made.
    #[error("no devices are named for DPDK")]
    NoDevices,
    /// DPDK runs in this process already.
    #[error("this process has a gate on DPDK already, and a process can have one only")]
    Taken,
    /// An interface of the file is outside of address translation.
    #[error(
        "DPDK cannot ask the kernel which subscriber has a translated address: remove `nat` from the interface {0}, or limit in the kernel"
    )]
    Nat(String),
    /// There is no data path.
    #[error("no gate on DPDK is up in this process: {0}")]
    Missing(PathBuf),
    /// An interface of the file has no device.
    #[error("no device is named for the interface {0}: give one with --dpdk {0}=DEVICE")]
    Interface(String),
    /// DPDK does not know a device.
    #[error(
        "DPDK has no port {device}: bind the device to a driver of DPDK (dpdk-devbind.py), or correct --dpdk"
    )]
    Port {
        /// The device.
        device: String,
    },
    /// DPDK could not make a virtual device.
    #[error(
        "DPDK cannot make the device {device}: its own lines above (EAL: …) may say why, such as an argument of it that is wrong"
    )]
    Virtual {
        /// The device.
        device: String,
    },
    /// DPDK does not start with the arguments.
    #[error(
        "DPDK does not start: {why}. Its own lines above (EAL: …) say which argument of --dpdk or --eal is wrong"
    )]
    Arguments {
        /// Why.
        why: String,
    },
    /// DPDK has no driver for a device.
    #[error(
        "DPDK does not start: it has no driver of one of the names {0}. Virtual devices are named by their driver and a number, such as net_af_packet0"
    )]
    Driver(String),
    /// The kernel does not have an interface of a virtual device.
    #[error(
        "there is no interface {interface} in this network namespace, which --dpdk names in {device}"
    )]
    NoInterface {
        /// The interface.
        interface: String,
        /// The device.
        device: String,
    },
    /// Another process has an interface.
    #[error(
        "{} passes the packets of {interface} on already, by DPDK: stop that gate or wire first (`tidegate gate down`, with the \
         --state of that one), or both would pass each packet",
        process.map_or_else(|| "a process".to_owned(), |number| format!("process {number}"))
    )]
    InUse {
        /// The interface.
        interface: String,
        /// The number of the process, if it is known.
        process: Option<u32>,
    },
    /// An interface was deleted.
    #[error(
        "the interface {0} was deleted since the daemon began, and no packet passes there: restart the daemon"
    )]
    Deleted(String),
    /// It cannot be told whether another process has an interface.
    #[error("cannot claim the interface {interface} for this process: {source}")]
    Claim {
        /// The interface.
        interface: String,
        /// Why.
        source: std::io::Error,
    },
    /// There is no core for packets.
    #[error("DPDK has one core, which is for control: give at least two, as in --eal '-l 0,1'")]
    Cores,
    /// A device has fewer pairs of queues than there are cores for packets.
    #[error(
        "the device {device} has {queues} pairs of queues, and each of the {cores} cores for packets needs one: name fewer cores with --eal, or \
         give a device by packet sockets as many with qpairs={cores}, as in wan=net_af_packet0,iface=wan,qpairs={cores}"
    )]
    Queues {
        /// The device.
        device: String,
        /// What it has.
        queues: u32,
        /// Cores for packets.
        cores: u32,
    },
    /// There is no memory for something.
    #[error(
        "DPDK: {what}: there is no memory left: reserve more hugepages (vm.nr_hugepages), or with --no-huge give more by --eal '-m MB': \
         512 MB do without shapers and 1000 with them, for frames of up to 2,000 bytes"
    )]
    Memory {
        /// The step.
        what: &'static str,
    },
    /// DPDK may not start, or found no hugepages.
    #[error(
        "DPDK has no right to start, or finds no hugepages: be root, and reserve some (sysctl vm.nr_hugepages=400), or do without by --eal '--no-huge -m 512'"
    )]
    Denied,
    /// DPDK refused.
    #[error("DPDK: {what}: {why}")]
    Refused {
        /// The step.
        what: &'static str,
        /// Why.
        why: String,
    },
    /// A core is stuck, or other work keeps it from running.
    #[error(
        "packet core {worker} of DPDK has not answered for a second: it is stuck, or another process has its core"
    )]
    Silent {
        /// The number of the core, counted from 0.
        worker: u32,
    },
    /// A core does not end.
    #[error(
        "the devices stay open until this process ends, since packet core {worker} of DPDK does not end: it is stuck, or another process has its core"
    )]
    Endless {
        /// The number of the core, counted from 0.
        worker: u32,
    },
    /// The maps do not hold what they were given.
    #[error(transparent)]
    Maps(#[from] MapsError),
}
