//! The commands on the pages about bridges and routers do what the pages say.

use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::support::{Findings, TIDEGATE, alone, measured, permitted};
use tidegate_testbed::TestbedError;
use tidegate_testbed::namespace::Namespace;

/// The sender may wait for this time: a queue that stays empty for longer loses a part of its share.
pub const STALL: Duration = Duration::from_millis(20);

/// Pages.
const BRIDGE: &str = "limit-subscribers-on-a-bridge";
const ROUTER: &str = "limit-subscribers-on-a-router";

/// The commands behind this mark of a page.
pub fn commands(page: &str, mark: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/how-to");
    let path = format!("{folder}/{page}.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, rest) = text
        .split_once(&format!("<!-- gate: {mark} -->\n```sh\n"))
        .unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

/// Types the commands into a shell in this folder of a machine, and returns what they print.
pub fn type_in(machine: &Namespace, folder: &Path, commands: &str) -> String {
    let path = std::env::var("PATH").unwrap();
    // Commands are typed by their names.
    let _ = symlink(TIDEGATE, folder.join("tidegate"));
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", commands]).current_dir(folder);
    shell.env("PATH", format!("{}:{path}", folder.display()));
    let output = machine.output(&mut shell).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{commands}\n{said}");
    String::from_utf8(output.stdout).unwrap()
}

/// A machine with two network cards, and what is behind them.
struct Machine {
    core: Namespace,
    middle: Namespace,
    home: Namespace,
    folder: tempfile::TempDir,
    /// The address of the network's host.
    there: &'static str,
}

impl Machine {
    fn new() -> Result<Self, TestbedError> {
        let [core, middle, home] = [Namespace::new()?, Namespace::new()?, Namespace::new()?];
        middle.veth("eth1", &core, "eth0")?;
        middle.veth("eth2", &home, "eth0")?;
        home.address("eth0", [192, 0, 2, 16].into(), 24)?;
        let folder = tempfile::tempdir().unwrap();
        Ok(Self {
            core,
            middle,
            home,
            folder,
            there: "192.0.2.1",
        })
    }

    /// The same, as a bridge between two hosts of one network.
    fn between() -> Result<Self, TestbedError> {
        let machine = Self::new()?;
        machine.core.address("eth0", [192, 0, 2, 1].into(), 24)?;
        Ok(machine)
    }

    /// The same, as a router between two networks. The network's host knows a way to the subscriber, if it is
    /// not to see the router's address only.
    fn router(knows: bool) -> Result<Self, TestbedError> {
        let machine = Self {
            there: "198.51.100.1",
            ..Self::new()?
        };
        let Self {
            core, middle, home, ..
        } = &machine;
        core.address("eth0", [198, 51, 100, 1].into(), 24)?;
        middle.address("eth1", [198, 51, 100, 2].into(), 24)?;
        middle.address("eth2", [192, 0, 2, 1].into(), 24)?;
        for device in ["eth1", "eth2"] {
            middle.ip(&format!("link set {device} up"))?;
        }
        home.ip("route add default via 192.0.2.1")?;
        if knows {
            core.ip("route add 192.0.2.0/24 via 198.51.100.2")?;
        }
        let forward = || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1");
        middle.enter(forward)?.unwrap();
        Ok(machine)
    }

    /// Types the commands into a shell, and returns what they print.
    fn type_in(&self, commands: &str) -> String {
        type_in(&self.middle, self.folder.path(), commands)
    }

    /// What comes through of 60 Mbit/s of datagrams, in Mbit/s with Ethernet headers; and the longest
    /// time for which the machine let the sender wait, which then sends all at once.
    fn through(&self, from: &Namespace, to: &Namespace, address: &str) -> (f64, Duration) {
        let address = format!("{address}:9000");
        let receiver = to.enter(|| UdpSocket::bind(&address)).unwrap().unwrap();
        let sender = from
            .enter(|| UdpSocket::bind("0.0.0.0:0"))
            .unwrap()
            .unwrap();
        Self::pour(&sender, address.parse().unwrap(), &receiver)
    }

    /// The same from the network to a subscriber that asked for it: a translated address has no other way in. Also
    /// returns the address that asked.
    fn answered(&self) -> (f64, Duration, SocketAddr) {
        let bind = |space: &Namespace, address: &str| {
            let bound = space.enter(|| UdpSocket::bind(address));
            bound.unwrap().unwrap()
        };
        let sender = bind(&self.core, "198.51.100.1:9000");
        let receiver = bind(&self.home, "192.0.2.16:9000");
        receiver.send_to(&[0; 100], "198.51.100.1:9000").unwrap();
        sender
            .set_read_timeout(Some(Duration::from_secs(2)))
            .unwrap();
        let (_, asked) = sender.recv_from(&mut [0; 200]).unwrap();
        let (rate, stall) = Self::pour(&sender, asked, &receiver);
        (rate, stall, asked)
    }

    /// What comes through at the same time of two subscribers behind one address, which is asserted.
    fn both(&self, down: bool) -> [(f64, Duration); 2] {
        let bind = |space: &Namespace, address: &str| {
            let bound = space.enter(|| UdpSocket::bind(address));
            bound.unwrap().unwrap()
        };
        let ends = [("192.0.2.16", 9000), ("192.0.2.17", 9001)].map(|(address, port)| {
            let outer = bind(&self.core, &format!("198.51.100.1:{port}"));
            let inner = bind(&self.home, &format!("{address}:9000"));
            inner
                .send_to(&[0; 100], outer.local_addr().unwrap())
                .unwrap();
            outer
                .set_read_timeout(Some(Duration::from_secs(2)))
                .unwrap();
            let (_, asked) = outer.recv_from(&mut [0; 200]).unwrap();
            assert_eq!(asked.ip().to_string(), "198.51.100.2");
            (inner, outer, asked)
        });
        thread::scope(|scope| {
            let poured = ends.each_ref().map(|(inner, outer, asked)| {
                scope.spawn(move || match down {
                    true => Self::pour(outer, *asked, inner),
                    false => Self::pour(inner, outer.local_addr().unwrap(), outer),
                })
            });
            poured.map(|thread| thread.join().unwrap())
        })
    }

    /// What a receiver gets of 60 Mbit/s.
    fn pour(sender: &UdpSocket, to: SocketAddr, receiver: &UdpSocket) -> (f64, Duration) {
        receiver.set_nonblocking(true).unwrap();
        let (start, end) = (Duration::from_millis(500), Duration::from_millis(2500));
        let (began, mut sent, mut bytes) = (Instant::now(), 0_u32, 0_usize);
        let mut buffer = [0; 2000];
        let (mut last, mut stall) = (Duration::ZERO, Duration::ZERO);
        loop {
            let now = began.elapsed();
            stall = stall.max(now - last);
            last = now;
            if now >= end {
                break;
            }
            // 1242 bytes each.
            let due = (now.as_secs_f64() * 60e6 / 8.0 / 1242.0) as u32;
            while sent < due {
                sender.send_to(&[0; 1200], to).unwrap();
                sent += 1;
            }
            while let Ok(received) = receiver.recv(&mut buffer) {
                if now >= start {
                    bytes += received + 42;
                }
            }
            thread::sleep(Duration::from_micros(500));
        }
        let rate = bytes as f64 * 8.0 / (end - start).as_secs_f64() / 1e6;
        (rate, stall)
    }

    /// Looks at what comes down (or up): this rate in Mbit/s, within 5 %.
    fn measure(&self, found: &mut Findings, down: bool, what: &str, rate: f64) {
        let (passed, stall) = if down {
            self.through(&self.core, &self.home, "192.0.2.16")
        } else {
            self.through(&self.home, &self.core, self.there)
        };
        self.compare(found, down, what, (passed, stall), rate);
    }

    /// Compares a rate with what it is to be.
    fn compare(
        &self,
        found: &mut Findings,
        down: bool,
        what: &str,
        (passed, stall): (f64, Duration),
        rate: f64,
    ) {
        if stall > STALL {
            found.late = found.late.max(stall.as_nanos() as u64);
        }
        let way = if down { "down" } else { "up" };
        let (least, most) = (rate * 0.95, rate * 1.05);
        found.within(&format!("{way} {what}, Mbit/s"), passed, least, most);
    }
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn the_commands_for_a_bridge_limit_and_remove_the_limits() {
    let _alone = alone();
    let test = "the_commands_for_a_bridge_limit_and_remove_the_limits";
    measured(|| {
        let machine = permitted(test, Machine::between())?;
        let mut found = Findings::default();
        let said = machine.type_in(&commands(BRIDGE, "on"));
        assert!(said.contains("ann"), "{said}");
        machine.measure(&mut found, true, "at first", 20.0);
        machine.measure(&mut found, false, "at first", 5.0);
        let said = machine.type_in(&commands(BRIDGE, "change"));
        assert!(said.contains("40"), "{said}");
        machine.measure(&mut found, true, "changed", 40.0);
        machine.measure(&mut found, false, "changed", 10.0);
        machine.type_in(&commands(BRIDGE, "off"));
        machine.measure(&mut found, true, "without", 60.0);
        machine.measure(&mut found, false, "without", 60.0);
        // The bridge stays, and it alone.
        let left = machine
            .middle
            .run("find", "/sys/fs/bpf /run -name *tidegate*");
        assert_eq!(left.unwrap(), "");
        machine.middle.ip("link show br0").unwrap();
        Some(found)
    });
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn the_commands_for_a_router_limit_with_and_without_translation() {
    let _alone = alone();
    let test = "the_commands_for_a_router_limit_with_and_without_translation";
    measured(|| {
        let mut found = Findings::default();
        let machine = permitted(test, Machine::router(true))?;
        machine.type_in(&commands(ROUTER, "routed"));
        machine.measure(&mut found, true, "routed", 20.0);
        machine.measure(&mut found, false, "routed", 5.0);
        machine.type_in("tidegate gate down");

        let machine = permitted(test, Machine::router(false))?;
        machine.type_in(
            "nft add table ip nat
            nft add chain ip nat out '{ type nat hook postrouting priority 100; }'
            nft add rule ip nat out oifname eth1 masquerade",
        );
        machine.type_in(&commands(ROUTER, "translated"));
        let (passed, stall, asked) = machine.answered();
        assert_eq!(asked.ip().to_string(), "198.51.100.2");
        machine.compare(&mut found, true, "translated", (passed, stall), 20.0);
        machine.measure(&mut found, false, "translated", 5.0);
        machine.type_in("tidegate gate down");

        machine.home.ip("addr add 192.0.2.17/24 dev eth0").unwrap();
        machine.type_in(&commands(ROUTER, "outside"));
        for (down, rates) in [(true, [20.0, 10.0]), (false, [5.0, 4.0])] {
            let both = machine.both(down).into_iter().zip(rates);
            for ((passed, rate), name) in both.zip(["ann", "bob"]) {
                machine.compare(&mut found, down, name, passed, rate);
            }
        }
        machine.type_in("tidegate gate down");
        Some(found)
    });
}
