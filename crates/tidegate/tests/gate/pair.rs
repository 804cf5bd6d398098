//! Two routers with gates stand in for one another, by the files of the page about pairs and keepalived.

use std::net::UdpSocket;
use std::ops::Range;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::readme::{STALL, commands, type_in};
use super::support::{Findings, alone, measured, permitted, skip};
use tidegate_testbed::TestbedError;
use tidegate_testbed::namespace::{Namespace, Process};

/// The plan, and what is sent, in bit/s.
const PLAN: f64 = 20e6;
const SENT: f64 = 60e6;
/// Bytes of a datagram with its headers.
const BYTES: f64 = 1242.0;
/// When the first router fails, and when the measurement ends, in seconds.
const FAILS: f64 = 2.0;
const ENDS: f64 = 6.0;
/// Slots in which bytes are counted, in a second.
const SLOTS: usize = 20;

/// Two routers between a host of the network and a subscriber.
struct Pair {
    core: Namespace,
    home: Namespace,
    routers: [Namespace; 2],
    _switches: [Namespace; 2],
    folder: tempfile::TempDir,
}

impl Pair {
    fn new() -> Result<Self, TestbedError> {
        let [core, home] = [Namespace::new()?, Namespace::new()?];
        let routers = [Namespace::new()?, Namespace::new()?];
        let switches = [Namespace::new()?, Namespace::new()?];
        for (switch, (host, device)) in switches.iter().zip([(&core, "eth1"), (&home, "eth2")]) {
            switch.veth("host", host, "eth0")?;
            for (port, router) in ["first", "second"].into_iter().zip(&routers) {
                switch.veth(port, router, device)?;
            }
            switch.bridge("br0", &["host", "first", "second"])?;
        }
        core.address("eth0", [198, 51, 100, 1].into(), 24)?;
        core.ip("route add 192.0.2.0/24 via 198.51.100.2")?;
        home.address("eth0", [192, 0, 2, 16].into(), 24)?;
        home.ip("route add default via 192.0.2.1")?;
        for (host, router) in [10, 20].into_iter().zip(&routers) {
            router.address("eth1", [198, 51, 100, host].into(), 24)?;
            router.address("eth2", [192, 0, 2, 200 + host].into(), 24)?;
            let forward = || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1");
            router.enter(forward)?.unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        Ok(Self {
            core,
            home,
            routers,
            _switches: switches,
            folder,
        })
    }

    /// Starts the gate and keepalived on a router, by the page.
    fn start(&self, number: usize, priority: u32) -> Process {
        let folder = self.folder.path().join(number.to_string());
        std::fs::create_dir(&folder).unwrap();
        let router = &self.routers[number];
        type_in(
            router,
            &folder,
            &commands("run-two-gates-as-a-pair", "limits"),
        );
        let addresses = commands("run-two-gates-as-a-pair", "addresses");
        type_in(
            router,
            &folder,
            &format!("PRIORITY={priority}\n{addresses}"),
        );
        let mut command = Command::new("keepalived");
        command.args(["--dont-fork", "--log-console", "--use-file"]);
        command.arg(folder.join("keepalived.conf"));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        router.start(&mut command).unwrap()
    }

    /// Waits until a router has the shared addresses.
    fn wait_for(&self, number: usize) {
        let end = Instant::now() + Duration::from_secs(20);
        let has = |address| {
            let all = self.routers[number].run("ip", "-brief address");
            all.unwrap().contains(address)
        };
        while !(has("198.51.100.2/") && has("192.0.2.1/")) {
            assert!(Instant::now() < end, "router {number} has no address");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Sends more than the plan to the subscriber. Calls `fail` after a while. Returns the bytes that came in
    /// each slot, and the longest time for which the machine let this wait.
    fn flood(&self, fail: impl FnOnce()) -> (Vec<f64>, Duration) {
        let bind = |space: &Namespace, address: &str| {
            let socket = space.enter(|| UdpSocket::bind(address)).unwrap().unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        };
        let receiver = bind(&self.home, "192.0.2.16:9000");
        let sender = bind(&self.core, "198.51.100.1:0");
        let (began, mut sent, mut fail) = (Instant::now(), 0.0, Some(fail));
        let (mut last, mut stall) = (began, Duration::ZERO);
        let mut slots = vec![0.0; (ENDS * SLOTS as f64) as usize];
        loop {
            let now = began.elapsed().as_secs_f64();
            if now >= ENDS {
                return (slots, stall);
            }
            stall = stall.max(last.elapsed());
            if now >= FAILS
                && let Some(fail) = fail.take()
            {
                fail();
            }
            last = Instant::now();
            while sent < now * SENT / 8.0 {
                // While nobody has the address, there is no way.
                let _ = sender.send_to(&[0; 1200], "192.0.2.16:9000");
                sent += BYTES;
            }
            while receiver.recv(&mut [0; 2000]).is_ok() {
                let at = (began.elapsed().as_secs_f64() * SLOTS as f64) as usize;
                if let Some(slot) = slots.get_mut(at) {
                    *slot += BYTES;
                }
            }
            thread::sleep(Duration::from_micros(500));
        }
    }
}

/// The fastest of the windows of this many slots, as a part of the plan.
fn fastest(slots: &[f64], window: usize) -> f64 {
    let sums = slots
        .windows(window)
        .map(|window| window.iter().sum::<f64>());
    let most = sums.fold(0.0, f64::max);
    most * 8.0 * SLOTS as f64 / window as f64 / PLAN
}

/// The longest time without packets from a slot on.
fn silence(slots: &[f64], from: usize) -> Range<usize> {
    let mut longest = from..from;
    let mut begin = from;
    for (at, bytes) in slots.iter().enumerate().skip(from) {
        if *bytes > 0.0 {
            begin = at + 1;
        } else if at + 1 - begin > longest.len() {
            longest = begin..at + 1;
        }
    }
    longest
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn a_pair_limits_from_the_first_packet_of_the_other_router_on() {
    let _alone = alone();
    let test = "a_pair_limits_from_the_first_packet_of_the_other_router_on";
    if Command::new("keepalived")
        .arg("--version")
        .output()
        .is_err()
    {
        return skip(test, "needs keepalived (packaging/setup test installs it)");
    }
    measured(|| {
        let pair = permitted(test, Pair::new())?;
        let first = pair.start(0, 150);
        let _second = pair.start(1, 100);
        pair.wait_for(0);
        let (slots, stall) = pair.flood(|| {
            // As if its power failed: it cannot say that it goes.
            for device in ["eth1", "eth2"] {
                pair.routers[0]
                    .ip(&format!("link set {device} down"))
                    .unwrap();
            }
            drop(first);
        });
        pair.wait_for(1);
        let mut found = Findings::default();
        let failed = (FAILS * SLOTS as f64) as usize;
        let before = fastest(&slots[SLOTS / 2..failed], SLOTS);
        found.within("before, of the plan", before, 0.95, 1.05);
        let silence = silence(&slots, failed);
        let gap = silence.len() as f64 / SLOTS as f64;
        found.within("seconds without packets", gap, 0.3, 2.0);
        let after = &slots[silence.end..];
        found.within(
            "a second after it, of the plan",
            fastest(after, SLOTS),
            0.9,
            1.1,
        );
        found.within(
            "250 ms after it, of the plan",
            fastest(after, SLOTS / 4),
            0.9,
            1.5,
        );
        if stall > STALL {
            found.late = stall.as_nanos() as u64;
        }
        Some(found)
    });
}
