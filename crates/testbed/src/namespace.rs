//! Network namespaces and their connections, for tests and studies that need routers, bridges and
//! this machine's programs.
//!
//! They have no names in the file system. Only file descriptors hold them, so they disappear with
//! the process that made them, even if it is killed. Everything in them disappears too: devices,
//! routes, and attached or pinned eBPF programs. (Each has a separate BPF file system at
//! `/sys/fs/bpf`, and an empty `/run`.)

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use crate::forward::End;
use crate::proc::{read_again, unreadable};
use crate::{TestbedError, join};

#[cfg(test)]
mod tests;

/// A network namespace, with a separate mount namespace.
///
/// ```no_run
/// use std::process::Command;
/// use tidegate_testbed::{TestbedError, namespace::Namespace};
///
/// fn example() -> Result<(), TestbedError> {
///     let (router, host) = (Namespace::new()?, Namespace::new()?);
///     router.veth("lan", &host, "eth0")?;
///     host.ip("address add 192.0.2.2/24 dev eth0")?;
///     router.ip("address add 192.0.2.1/24 dev lan")?;
///     // A server process that is killed when `server` goes.
///     let server = host.start(Command::new("iperf3").arg("-s"))?;
///     // Sockets made by threads that are in it stay in it.
///     let socket = host.enter(|| std::net::UdpSocket::bind("192.0.2.2:0"))?;
///     // And a program to its end.
///     let output = router.output(Command::new("iperf3").args(["-c", "192.0.2.2", "-J"]))?;
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Namespace {
    net: File,
    mounts: File,
    /// Its `/proc/net/dev`: open files stay those of the namespace.
    interfaces: File,
}

impl Namespace {
    /// A new one. It has only the device `lo`, which is up. TCP's buffers do not limit it, addresses
    /// can be used at once, and connections learn nothing from earlier ones.
    ///
    /// # Errors
    /// If rights are missing, or the system refuses anything.
    pub fn new() -> Result<Self, TestbedError> {
        on_a_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)
                .map_err(|error| TestbedError::system("make a network namespace")(error.into()))?;
            let apart = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            let none = None::<&str>;
            mount(none, "/", none, apart, none)
                .and_then(|()| {
                    let flags = MsFlags::empty();
                    mount(Some("bpf"), "/sys/fs/bpf", Some("bpf"), flags, none)?;
                    mount(Some("tmpfs"), "/run", Some("tmpfs"), flags, none)
                })
                .map_err(|error| TestbedError::system("mount file systems")(error.into()))?;
            for (setting, value) in [
                ("ipv4/tcp_no_metrics_save", "1"),
                ("ipv4/tcp_rmem", "4096 131072 67108864"),
                ("ipv4/tcp_wmem", "4096 65536 67108864"),
                ("ipv6/conf/all/accept_dad", "0"),
                ("ipv6/conf/default/accept_dad", "0"),
            ] {
                std::fs::write(format!("/proc/sys/net/{setting}"), value)
                    .map_err(TestbedError::system("tune a network namespace"))?;
            }
            let open = |name| File::open(name).map_err(TestbedError::system("hold a namespace"));
            let this = Self {
                net: open("/proc/thread-self/ns/net")?,
                mounts: open("/proc/thread-self/ns/mnt")?,
                interfaces: open("/proc/thread-self/net/dev")?,
            };
            Ok(this)
        })
        .and_then(|this: Self| this.ip("link set lo up").map(|()| this))
    }

    /// Runs a function in a new thread that is in the namespace. Sockets and programs that it opens
    /// and starts stay in the namespace, even if they are used elsewhere later.
    ///
    /// # Errors
    /// If the namespace cannot be entered.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, TestbedError> {
        on_a_thread(|| {
            // A thread that shares its root with others may not change mounts.
            unshare(CloneFlags::CLONE_FS)
                .and_then(|()| setns(&self.net, CloneFlags::CLONE_NEWNET))
                .and_then(|()| setns(&self.mounts, CloneFlags::CLONE_NEWNS))
                .map_err(|error| TestbedError::system("enter a namespace")(error.into()))?;
            Ok(work())
        })
    }

    /// Another handle of the same namespace.
    ///
    /// # Errors
    /// If there are too many open files.
    pub fn try_clone(&self) -> Result<Self, TestbedError> {
        let clone = |file: &File| {
            let clone = file.try_clone();
            clone.map_err(TestbedError::system("hold a namespace"))
        };
        Ok(Self {
            net: clone(&self.net)?,
            mounts: clone(&self.mounts)?,
            interfaces: clone(&self.interfaces)?,
        })
    }

    /// Starts a program in it.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(&self, command: &mut Command) -> Result<Process, TestbedError> {
        let failed = failed(command);
        let child = self.enter(|| command.stdin(Stdio::null()).spawn())?;
        child.map(Process).map_err(failed)
    }

    /// Runs a program in it to its end, and returns its output.
    ///
    /// # Errors
    /// If it cannot be started. The output has its exit status.
    pub fn output(&self, command: &mut Command) -> Result<Output, TestbedError> {
        let failed = failed(command);
        self.enter(|| command.stdin(Stdio::null()).output())?
            .map_err(failed)
    }

    /// Runs the command `ip` with these words.
    ///
    /// # Errors
    /// The message of `ip`, if it fails.
    pub fn ip(&self, words: &str) -> Result<(), TestbedError> {
        self.run("ip", words).map(drop)
    }

    /// Runs a program with these words, and returns its standard output.
    ///
    /// # Errors
    /// If it cannot be started, or if it fails: then with its standard error.
    pub fn run(&self, program: &str, words: &str) -> Result<String, TestbedError> {
        let mut command = Command::new(program);
        let output = self.output(command.args(words.split_whitespace()))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(TestbedError::Command(
            format!("{program} {words}"),
            said.trim().to_owned(),
        ))
    }

    /// An Ethernet cable to another namespace (two veth devices), both ends up.
    ///
    /// # Errors
    /// If the devices cannot be made.
    pub fn veth(&self, name: &str, other: &Self, there: &str) -> Result<(), TestbedError> {
        let (process, fd) = (std::process::id(), other.net.as_raw_fd());
        self.ip(&format!(
            "link add {name} up type veth peer name {there} netns /proc/{process}/fd/{fd}"
        ))?;
        other.ip(&format!("link set {there} up"))
    }

    /// A bridge with these devices as ports, up. It is invisible: it sends nothing itself.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn bridge(&self, name: &str, ports: &[&str]) -> Result<(), TestbedError> {
        self.ip(&format!("link add {name} up type bridge"))?;
        for port in ports {
            self.ip(&format!("link set {port} master {name}"))?;
        }
        // Without addresses it sends no requests. If the kernel has br_netfilter, packets that are
        // not in order are left alone.
        let silence = || {
            for device in ports.iter().chain([&name]) {
                let file = format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6");
                std::fs::write(file, "1")?;
            }
            for family in ["ip", "ip6", "arp"] {
                let file = format!("/proc/sys/net/bridge/bridge-nf-call-{family}tables");
                if std::fs::exists(&file)? {
                    std::fs::write(file, "0")?;
                }
            }
            Ok(())
        };
        self.enter(silence)?
            .map_err(TestbedError::system("tune a bridge"))
    }

    /// An Ethernet device (TAP) whose other end this process holds.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn port(&self, name: &str) -> Result<Port, TestbedError> {
        // Otherwise tun_rs would make the node, which the administrator should do.
        if !std::path::Path::new("/dev/net/tun").exists() {
            return Err(TestbedError::NoTun);
        }
        let interfaces = self.interfaces.try_clone();
        let device = self.enter(|| {
            // Without offloads, so that packets come as they would on a wire, with checksums. Its
            // queue has room for everything that TCP sends at once.
            let device = DeviceBuilder::new()
                .name(name)
                .layer(Layer::L2)
                .mtu(1500)
                .tx_queue_len(10_000)
                .enable(true)
                .build_sync()?;
            device.set_nonblocking(true).map(|()| device)
        })?;
        Ok(Port {
            device: device.map_err(TestbedError::system("make a TAP device"))?,
            name: name.to_owned(),
            interfaces: interfaces.map_err(TestbedError::system("hold a namespace"))?,
        })
    }

    /// The counters of one of its devices.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn counters(&self, device: &str) -> Result<DeviceCounters, TestbedError> {
        counters(&self.interfaces, device)
    }

    /// Gives a device an address, with the length of its network: `2001:db8::1`, 64.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn address(&self, device: &str, address: IpAddr, bits: u8) -> Result<(), TestbedError> {
        self.ip(&format!("address add {address}/{bits} dev {device}"))
    }
}

/// The counters of a device since it was made. Bytes include Ethernet headers; a super-packet (GSO)
/// is one packet, with its headers once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceCounters {
    /// Packets that came in.
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets that went out.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that should have left, but were dropped.
    pub sent_dropped: u64,
}

/// The counters of a device in an open `/proc/net/dev`.
fn counters(interfaces: &File, device: &str) -> Result<DeviceCounters, TestbedError> {
    let text = read_again(interfaces)?;
    let line = (text.lines()).find_map(|line| line.trim().strip_prefix(device)?.strip_prefix(':'));
    // Receive: bytes packets errs drop fifo frame compressed multicast; transmit: the same.
    let fields = line.unwrap_or_default().split_whitespace().map(str::parse);
    match fields.collect::<Result<Vec<u64>, _>>().as_deref() {
        Ok(
            &[
                bytes,
                packets,
                _,
                _,
                _,
                _,
                _,
                _,
                sent,
                sent_packets,
                _,
                dropped,
                ..,
            ],
        ) => Ok(DeviceCounters {
            received_packets: packets,
            received_bytes: bytes,
            sent_packets,
            sent_bytes: sent,
            sent_dropped: dropped,
        }),
        _ => Err(unreadable("/proc/net/dev")),
    }
}

/// The error of a program that cannot be started.
fn failed(command: &Command) -> impl Fn(io::Error) -> TestbedError + use<> {
    let program = command.get_program().to_string_lossy().into_owned();
    move |error| TestbedError::Command(program.clone(), error.to_string())
}

/// Runs a function in a new thread, whose namespaces end with it.
fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| join(scope.spawn(work)))
}

/// A program that runs in a namespace; killed when dropped.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// The process.
    pub fn child(&mut self) -> &mut Child {
        &mut self.0
    }

    /// Interrupts the process, as Ctrl-C does. The caller still has to wait for its end.
    ///
    /// # Errors
    /// If it has ended and was waited for.
    pub fn interrupt(&self) -> Result<(), TestbedError> {
        let process = Pid::from_raw(self.0.id().cast_signed());
        kill(process, Signal::SIGINT)
            .map_err(|error| TestbedError::system("interrupt a program")(error.into()))
    }

    /// Waits for its end, and returns its output, if that was to be kept.
    ///
    /// # Errors
    /// If it cannot be waited for.
    pub fn output(mut self) -> Result<Output, TestbedError> {
        use io::Read as _;
        let failed = TestbedError::system("wait for a program");
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let (out, err) = (self.0.stdout.take(), self.0.stderr.take());
        // Both at once: a program that fills one pipe waits.
        thread::scope(|scope| {
            let errors = scope.spawn(|| err.map_or(Ok(0), |mut err| err.read_to_end(&mut stderr)));
            out.map_or(Ok(0), |mut out| out.read_to_end(&mut stdout))
                .and(join(errors))
        })
        .map_err(&failed)?;
        let status = self.0.wait().map_err(&failed)?;
        Ok(Output {
            status,
            stdout,
            stderr,
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An Ethernet device of a namespace whose other end this process holds: frames sent here are
/// received by the namespace, and the other way round. A [`Link`](super::link::Link) connects two.
pub struct Port {
    device: SyncDevice,
    name: String,
    interfaces: File,
}

impl Port {
    /// The end of a device of the calling thread's namespace.
    pub(crate) fn open(device: SyncDevice, name: &str) -> Result<Self, TestbedError> {
        let interfaces = File::open("/proc/thread-self/net/dev");
        Ok(Self {
            device,
            name: name.to_owned(),
            interfaces: interfaces.map_err(TestbedError::system("hold a namespace"))?,
        })
    }

    /// Hands a frame, without check sequence, to the namespace.
    ///
    /// # Errors
    /// If the device does not take it: it is down, or the frame shorter than a header.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.device.send(frame).map(drop)
    }

    /// The next frame that the namespace sent, or `None` if there is none now.
    ///
    /// # Errors
    /// If the device is gone.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.device.recv(buffer) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Frames that the namespace sent and that were lost because this process did not receive them
    /// in time.
    ///
    /// # Errors
    /// If the counters cannot be read.
    pub fn lost(&self) -> Result<u64, TestbedError> {
        Ok(counters(&self.interfaces, &self.name)?.sent_dropped)
    }
}

impl End for Port {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    fn take(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.device.recv(buffer)
    }

    fn hand(&self, packet: &[u8]) -> io::Result<()> {
        self.device.send(packet).map(drop)
    }

    /// It is 0 if the counters cannot be read, for example because the device is gone: then another
    /// call fails.
    fn lost(&self) -> u64 {
        Port::lost(self).unwrap_or(0)
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Port").field("name", &self.name).finish()
    }
}
