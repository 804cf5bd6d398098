//! An end of the path: a network namespace with a TUN device and sockets.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use socket2::{Domain, Socket, Type};
use tidegate_lab::plan::Plan;
use tun_rs::{DeviceBuilder, SyncDevice};

use crate::proc::{read_again, unreadable};
use crate::{TestbedError, join};

/// The servers' address, of a block reserved for documentation (RFC 5737).
pub(super) const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// The clients'.
const CLIENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
/// The port of the first flow's server; the others' follow.
const PORT: u16 = 5001;
/// Most flows of a run.
pub(super) const MAX_FLOWS: usize = 1000;
/// Bytes of TCP and IPv4 headers, with timestamps.
const HEADERS: u16 = 52;

/// The port at which a flow's server listens.
pub(super) fn port(flow: usize) -> u16 {
    PORT + flow as u16
}

/// The flow whose server listens at this port.
pub(super) fn flow(port: u16) -> Option<usize> {
    port.checked_sub(PORT).map(usize::from)
}

/// A namespace and the descriptors that hold it: no process is in it.
pub(super) struct Host {
    /// The end of its device that does not belong to the kernel.
    pub(super) device: SyncDevice,
    /// One socket for each flow: the server's listens, the client's is not connected yet.
    pub(super) sockets: Vec<Socket>,
    /// Its `/proc/net/dev` and `/proc/net/netstat`: open files stay those of the namespace.
    interfaces: File,
    counters: File,
}

impl Host {
    /// The sending end.
    pub(super) fn server(plan: &Plan) -> Result<Self, TestbedError> {
        let listen = |i: usize| {
            let socket = socket()?;
            // Connections inherit it, so it is in force from the first packet on.
            let algorithm = plan.flows[i].tcp.algorithm.name();
            let chosen = socket.set_tcp_congestion(algorithm.as_bytes());
            chosen.map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => TestbedError::Algorithm(algorithm),
                _ => TestbedError::system("choose a congestion control")(error),
            })?;
            let address = SocketAddrV4::new(SERVER, port(i));
            socket
                .bind(&address.into())
                .and_then(|()| socket.listen(1))
                .map_err(TestbedError::system("listen"))?;
            Ok(socket)
        };
        Self::new(plan, SERVER, listen)
    }

    /// The receiving end.
    pub(super) fn client(plan: &Plan) -> Result<Self, TestbedError> {
        Self::new(plan, CLIENT, |_| socket())
    }

    fn new(
        plan: &Plan,
        address: Ipv4Addr,
        open: impl Fn(usize) -> Result<Socket, TestbedError> + Sync,
    ) -> Result<Self, TestbedError> {
        // Otherwise tun_rs would make the node, which the administrator should do.
        if !std::path::Path::new("/dev/net/tun").exists() {
            return Err(TestbedError::NoTun);
        }
        let enter = || {
            unshare(CloneFlags::CLONE_NEWNET)
                .map_err(|error| TestbedError::system("make a network namespace")(error.into()))?;
            tune(plan)?;
            // Without offloads, so that packets come as they would on a wire, with checksums. Its
            // queue has room for everything that TCP sends at once.
            let mtu = plan.flows.first().map_or(1448, |flow| flow.tcp.mss) as u16 + HEADERS;
            let device = DeviceBuilder::new()
                .name("lab")
                .mtu(mtu)
                .tx_queue_len(10_000)
                .ipv4(address, 24u8, None)
                .enable(true)
                .build_sync()
                .map_err(TestbedError::system("make a TUN device"))?;
            device
                .set_nonblocking(true)
                .map_err(TestbedError::system("set up a TUN device"))?;
            let proc = |name| {
                File::open(name).map_err(TestbedError::system("read the namespace's counters"))
            };
            Ok(Self {
                device,
                sockets: (0..plan.flows.len()).map(&open).collect::<Result<_, _>>()?,
                interfaces: proc("/proc/thread-self/net/dev")?,
                counters: proc("/proc/thread-self/net/netstat")?,
            })
        };
        // The namespace is that of the thread, and stays that of the files that it opens.
        thread::scope(|scope| join(scope.spawn(enter)))
    }

    /// Packets that its device had to drop, in either direction.
    pub(super) fn lost(&self) -> Result<u64, TestbedError> {
        let text = read_again(&self.interfaces)?;
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("lab:"));
        let fields: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
        // Receive: bytes packets errs drop fifo frame compressed multicast; transmit: the same.
        let field = |i: usize| fields.get(i).and_then(|text| text.parse::<u64>().ok());
        let lost = [2, 3, 10, 11].map(field).into_iter().sum::<Option<u64>>();
        lost.ok_or_else(|| unreadable("/proc/net/dev"))
    }

    /// Retransmission timeouts so far, of all its connections.
    pub(super) fn timeouts(&self) -> Result<u64, TestbedError> {
        let text = read_again(&self.counters)?;
        let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
        let (names, values) = (lines.next(), lines.next());
        let mut pairs = (names.unwrap_or_default().split_whitespace())
            .zip(values.unwrap_or_default().split_whitespace());
        pairs
            .find(|&(name, _)| name == "TCPTimeouts")
            .and_then(|(_, value)| value.parse().ok())
            .ok_or_else(|| unreadable("/proc/net/netstat"))
    }
}

/// A socket that leaves nothing behind. Otherwise a connection that was closed with unsent data
/// would retransmit for minutes, and keep its namespace.
fn socket() -> Result<Socket, TestbedError> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None);
    socket
        .and_then(|socket| socket.set_linger(Some(Duration::ZERO)).map(|()| socket))
        .map_err(TestbedError::system("open a socket"))
}

/// Sets up the thread's namespace like the virtual lab: flows learn nothing from earlier flows, and
/// no buffer limits them. These settings belong to the namespace.
fn tune(plan: &Plan) -> Result<(), TestbedError> {
    let window = plan.flows.iter().map(|flow| flow.tcp.receive_window).max();
    // About half of the buffer becomes window, the rest is for the kernel's own structures.
    let receive = format!("4096 131072 {}", u64::from(window.unwrap_or(0)) * 2);
    for (setting, value) in [
        ("tcp_no_metrics_save", "1"),
        ("tcp_rmem", &receive),
        ("tcp_wmem", "4096 65536 67108864"),
    ] {
        std::fs::write(format!("/proc/sys/net/ipv4/{setting}"), value)
            .map_err(TestbedError::system("tune a network namespace"))?;
    }
    Ok(())
}

/// Gives real-time priority (SCHED_FIFO) to the calling thread, and to threads that it starts from
/// now on. Returns whether the system allowed it.
pub fn real_time() -> bool {
    schedule(&["--fifo", "--pid", "20"])
}

/// Keeps the processors from sleeping until it is dropped: a thread for each of them has the lowest priority (SCHED_IDLE), in which any other
/// work interrupts it at once, and runs an endless loop.
///
/// A processor that sleeps takes time to wake up, in a virtual machine 0.1 to 0.7 ms, and more where the host is busy.
/// Acknowledgements that are due meanwhile come as one. On an idle machine, reno without an access
/// link behind a bucket of 31 kB got 5.2 Mbit/s, and 7.4 when other work kept the machine busy.
#[derive(Debug)]
pub struct Awake(Arc<AtomicBool>);

impl Awake {
    /// Starts the threads. Where the system does not allow the priority, they end at once.
    #[expect(
        clippy::new_without_default,
        reason = "a default value should start no threads"
    )]
    pub fn new() -> Self {
        let awake = Self(Arc::default());
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            let stop = Arc::clone(&awake.0);
            thread::spawn(move || keep_awake(&stop));
        }
        awake
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn keep_awake(stop: &AtomicBool) {
    if schedule(&["--idle", "--pid", "0"]) {
        while !stop.load(Ordering::Relaxed) {
            // Not the hint to a processor that this is a loop: a hypervisor would conclude that the
            // processor waits for another one, and put it to sleep.
            std::hint::black_box(());
        }
    }
}

/// Gives the calling thread a scheduling policy. Returns whether the system allowed it.
fn schedule(policy: &[&str]) -> bool {
    let thread = nix::unistd::gettid().to_string();
    let status = Command::new("chrt")
        .args(policy)
        .arg(&thread)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}
