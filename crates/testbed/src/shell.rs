//! A shell: a network namespace whose way outside leads through elements, in real time.
//!
//! ```text
//! command ─ tgN ═ elements ═ raw sockets, masquerade ─ the network outside
//!                          ═ tgN ─ copies of the replies
//! ```
//!
//! The namespace has one device, `tgN`. A thread takes its packets, leads them through the elements, and sends them outside
//! through raw sockets, as if this machine had sent them. A table of nftables, which belongs to one process, gives them
//! this machine's address, and turns the replies to a second device `tgN`. So nothing outside needs to be a router:
//! forwarding stays off, and rules about forwarded packets do not apply. The kernel removes devices, table and namespace when
//! the last process that holds them ends, even if it is killed.

use std::fs::File;
use std::io::{self, Write};
use std::net::IpAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};
use tun_rs::{DeviceBuilder, SyncDevice};

use crate::forward::End;
use crate::link::{Layer, Link, LinkPlan, LinkReport};
use crate::namespace::Port;
use crate::{TestbedError, join};
use addresses::{Addresses, Taken, Way};
use guard::Guard;
use names::Names;
use outside::Outside;
use translation::Translation;

pub use first::{Blocked, is_ignored, run_first};
pub use rows::{ShellElementRow, ShellWindowRow};
pub use terminal::Foreground;
pub use user::{Obstacle, UserNamespaces, may_open_shells};

mod addresses;
mod first;
mod guard;
mod names;
mod outside;
mod reach;
mod refusal;
mod rows;
mod terminal;
mod translation;
mod user;

#[cfg(test)]
mod tests;

/// A namespace behind elements. Dropping it ends its network; programs that run in it stay, without one.
///
/// A program whose downloads pass a link of 20 Mbit/s, and whose packets take 10 ms each way:
///
/// ```no_run
/// use std::process::Command;
/// use tidegate_limiter::Rate;
/// use tidegate_testbed::TestbedError;
/// use tidegate_testbed::link::{ElementKind, LinkPlan, QueueKind};
/// use tidegate_testbed::shell::Shell;
///
/// fn example() -> Result<(), TestbedError> {
///     let delay = ElementKind::Delay { delay: 10_000_000, jitter: 0 };
///     let link = ElementKind::Link {
///         rate: Rate::from_bits_per_second(20_000_000),
///         queue: QueueKind::DropTail { bytes: None, packets: Some(100) },
///     };
///     let shell = Shell::open(&LinkPlan {
///         forward: vec![delay.clone(), link],
///         back: vec![delay],
///         ..LinkPlan::default()
///     })?;
///     let status = shell.start(Command::new("curl").arg("https://example.org"))?.wait()?;
///     println!("{status}, {} packets dropped", shell.finish()?.dropped[0]);
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Shell {
    link: Link,
    net: File,
    addresses: Addresses,
    translation: Translation,
    names: Option<Names>,
    guard: Guard,
    is_filtered: bool,
}

impl Shell {
    /// Opens one behind the network of the calling thread. Forward is the way to the shell.
    ///
    /// # Errors
    /// If rights are missing, if the plan contradicts itself, or the system refuses anything.
    pub fn open(plan: &LinkPlan) -> Result<Self, TestbedError> {
        // Otherwise tun_rs would make the node, which the administrator should do.
        if !std::path::Path::new("/dev/net/tun").exists() {
            return Err(TestbedError::NoTun);
        }
        let (addresses, port) = gateway()?;
        let mtu = addresses.mtu;
        let guard = Guard::default();
        let translation = Translation::new(&addresses, guard.clone())?;
        let outside = Outside::new(port, addresses.clone())?;
        let is_filtered = outside.is_filtered();
        let (inside, net) = thread::scope(|scope| join(scope.spawn(|| inside(&addresses, mtu))))?;
        let ends: [Box<dyn End>; 2] = [Box::new(outside), Box::new(inside)];
        let watching = guard.clone();
        let link = Link::between(ends, plan, Layer::Packets, move || {
            watching.lose("the shell's link");
        })?;
        Ok(Self {
            link,
            net,
            addresses,
            translation,
            names: None,
            guard,
            is_filtered,
        })
    }

    /// This machine's address for programs in the shell. Servers outside that listen at any address
    /// are reached there.
    pub fn gateway(&self) -> IpAddr {
        self.addresses.gateway.into()
    }

    /// The shell's address in packets before they leave this machine.
    pub fn address(&self) -> IpAddr {
        self.addresses.shell.into()
    }

    /// Whether rules of this machine seem to drop what it sends to the shell, and so all replies.
    pub fn is_filtered(&self) -> bool {
        self.is_filtered
    }

    /// Lets programs in the shell look up names, if `/etc/resolv.conf` names a server at a loopback or link-local address, such as 127.0.0.53, or
    /// at another address of this machine, or none, which means 127.0.0.1: passes questions of the shell to the gateway on to it. Returns the text
    /// that the shell's `/etc/resolv.conf` is to have then, for [`run_first`]. Nothing can be done [without the file](has_names_file).
    ///
    /// # Errors
    /// If the gateway's port for names cannot be used.
    pub fn answer_names(&mut self) -> Result<Option<String>, TestbedError> {
        let Some(text) = names::file() else {
            return Ok(None);
        };
        let own = reach::own();
        let Some(server) = names::unreached(&text, &own) else {
            return Ok(None);
        };
        self.names = Names::new(self.addresses.shell, self.addresses.gateway, server)?;
        Ok(names::rewritten(&text, &own, self.gateway()))
    }

    /// Runs a function in a new thread that is in the shell's network. Sockets that it opens stay there.
    ///
    /// # Errors
    /// If the namespace cannot be entered.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, TestbedError> {
        let enter = || {
            setns(&self.net, CloneFlags::CLONE_NEWNET)
                .map_err(|error| TestbedError::system("enter a namespace")(error.into()))?;
            Ok(work())
        };
        thread::scope(|scope| join(scope.spawn(enter)))
    }

    /// Starts a program in it, in a separate namespace of processes: when the program ends, the kernel
    /// ends all that it has started. The program is process 1 there.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(&self, command: &mut Command) -> Result<Running, TestbedError> {
        let name = command.get_program().to_string_lossy().into_owned();
        let net = self.net.try_clone();
        let net = net.map_err(TestbedError::system("hold a namespace"))?;
        let (to, from) = mpsc::channel();
        let command = std::mem::replace(command, Command::new(&name));
        // A program may ask to be killed with the thread that started it, so this thread waits for it.
        let thread = thread::Builder::new().name("shell".into()).spawn(move || {
            let mut command = command;
            match spawn(&net, &mut command) {
                Ok(mut child) => {
                    let _ = to.send(Ok(child.id()));
                    child.wait()
                }
                Err(error) => {
                    let _ = to.send(Err(error));
                    Err(io::ErrorKind::NotFound.into())
                }
            }
        });
        let thread = thread.map_err(TestbedError::system("start a thread"))?;
        match from.recv() {
            Ok(Ok(id)) => {
                self.guard.protect(id)?;
                Ok(Running { id, thread })
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(TestbedError::Command(name, "it was not started".into())),
        }
    }

    /// How well it worked so far. Near is outside.
    ///
    /// # Errors
    /// If the link has failed.
    pub fn report(&self) -> Result<LinkReport, TestbedError> {
        self.link.report()
    }

    /// Ends its network, and returns how well it worked.
    ///
    /// # Errors
    /// If the link or anything else that the shell needs has failed, or a capture could not be written.
    pub fn finish(self) -> Result<LinkReport, TestbedError> {
        let report = self.link.finish();
        drop((self.translation, self.names));
        let report = report?;
        self.guard.check().map(|()| report)
    }
}

/// Whether this machine has an `/etc/resolv.conf`, in whose place the shell sees another one. Without it, programs ask a server at 127.0.0.1,
/// which is not reached from a shell.
pub fn has_names_file() -> bool {
    names::file().is_some()
}

/// A program that runs in a shell.
#[derive(Debug)]
pub struct Running {
    id: u32,
    thread: JoinHandle<io::Result<ExitStatus>>,
}

impl Running {
    /// The number of its process outside.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// If it cannot be waited for.
    pub fn wait(self) -> Result<ExitStatus, TestbedError> {
        let result = self.thread.join();
        let result = result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        result.map_err(TestbedError::system("wait for a program"))
    }
}

/// Starts a program as the first of new namespaces of processes.
fn spawn(net: &File, command: &mut Command) -> Result<Child, TestbedError> {
    setns(net, CloneFlags::CLONE_NEWNET)
        .and_then(|()| unshare(CloneFlags::CLONE_NEWPID))
        .map_err(|error| TestbedError::system("make a namespace of processes")(error.into()))?;
    command.spawn().map_err(|error| {
        let name = command.get_program().to_string_lossy().into_owned();
        TestbedError::Command(name, error.to_string())
    })
}

/// The device outside, with the first number that is free.
fn gateway() -> Result<(Addresses, Port), TestbedError> {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev");
    let text = text.map_err(TestbedError::system("list the devices"))?;
    let way = Way::here();
    let taken = Taken::here(&names::file().unwrap_or_default());
    for number in addresses::unused(&text) {
        let Some(mut addresses) = Addresses::free(number, &way, &taken) else {
            continue;
        };
        let device = match device(&addresses.name, way.mtu, addresses.gateway) {
            Ok(device) => device,
            // Another shell was faster.
            Err(error) if error.raw_os_error() == Some(Errno::EBUSY as i32) => continue,
            Err(error) => return Err(TestbedError::system("make a TUN device")(error)),
        };
        ip(&roomy(&addresses.name))?;
        let six = device.add_address_v6(addresses.gateway6, addresses::BITS6);
        addresses.has_six = six.is_ok();
        let port = Port::open(device, &addresses.name)?;
        return Ok((addresses, port));
    }
    let full = io::Error::other("there are too many shells");
    Err(TestbedError::system("make a TUN device")(full))
}

/// The shell's namespace, and its device.
fn inside(addresses: &Addresses, mtu: u16) -> Result<(Port, File), TestbedError> {
    unshare(CloneFlags::CLONE_NEWNET)
        .map_err(|error| TestbedError::system("make a network namespace")(error.into()))?;
    let net = File::open("/proc/thread-self/ns/net");
    let net = net.map_err(TestbedError::system("hold a namespace"))?;
    let name = &addresses.name;
    let device =
        device(name, mtu, addresses.shell).map_err(TestbedError::system("make a TUN device"))?;
    let mut commands = roomy(name) + &format!("link set lo up\nroute add default dev {name}\n");
    if addresses.has_six {
        device
            .add_address_v6(addresses.shell6, addresses::BITS6)
            .map_err(TestbedError::system("give a TUN device an address"))?;
        commands += &format!("route add ::/0 dev {name}\n");
    }
    ip(&commands)?;
    Ok((Port::open(device, name)?, net))
}

/// A TUN device in the thread's namespace, up. It has no offloads, so that packets come as they would
/// on a wire, with checksums.
fn device(name: &str, mtu: u16, address: std::net::Ipv4Addr) -> io::Result<SyncDevice> {
    let device = DeviceBuilder::new()
        .name(name)
        .mtu(mtu)
        .ipv4(address, addresses::BITS, None)
        .enable(true)
        .build_sync()?;
    device.set_nonblocking(true).map(|()| device)
}

/// The command of `ip` that gives a device's queue room for everything that TCP sends at once. In a user's namespaces only netlink
/// may do that.
fn roomy(name: &str) -> String {
    format!("link set dev {name} txqueuelen 10000\n")
}

/// A command of the system's. Users without rights do not have the folders in their PATH where Debian keeps some of these.
fn tool(name: &str) -> Command {
    let mut command = Command::new(name);
    let system = "/usr/local/sbin:/usr/sbin:/sbin";
    // An empty part of it would be the current folder.
    match std::env::var("PATH").unwrap_or_default().as_str() {
        "" => command.env("PATH", format!("{system}:/usr/bin:/bin")),
        path => command.env("PATH", format!("{path}:{system}")),
    };
    command
}

/// Runs several commands of `ip` in the thread's namespace.
fn ip(commands: &str) -> Result<(), TestbedError> {
    let failed = |error: io::Error| TestbedError::Command("ip -batch -".into(), error.to_string());
    let mut child = tool("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(commands.as_bytes()).map_err(failed)?;
    }
    let output = child.wait_with_output().map_err(failed)?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(TestbedError::Command("ip -batch -".into(), said))
        }
    }
}
