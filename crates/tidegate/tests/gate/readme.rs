//! The commands on the page about bridges do what the page says.

use std::net::UdpSocket;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::support::{Findings, TIDEGATE, alone, measured, permitted};
use tidegate_testbed::TestbedError;
use tidegate_testbed::namespace::Namespace;

/// The sender may wait for this time: a queue that stays empty for longer loses a part of its share.
const STALL: Duration = Duration::from_millis(20);

/// The commands behind this mark.
fn commands(mark: &str) -> String {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/how-to/limit-subscribers-on-a-bridge.md"
    );
    let text = std::fs::read_to_string(path).unwrap();
    let (_, rest) = text
        .split_once(&format!("<!-- gate: {mark} -->\n```sh\n"))
        .unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

/// A machine with two network cards, and what is behind them.
struct Machine {
    core: Namespace,
    middle: Namespace,
    home: Namespace,
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Result<Self, TestbedError> {
        let [core, middle, home] = [Namespace::new()?, Namespace::new()?, Namespace::new()?];
        middle.veth("eth1", &core, "eth0")?;
        middle.veth("eth2", &home, "eth0")?;
        core.address("eth0", [192, 0, 2, 1].into(), 24)?;
        home.address("eth0", [192, 0, 2, 16].into(), 24)?;
        let folder = tempfile::tempdir().unwrap();
        symlink(TIDEGATE, folder.path().join("tidegate")).unwrap();
        Ok(Self {
            core,
            middle,
            home,
            folder,
        })
    }

    /// Types the commands into a shell, and returns what they print.
    fn type_in(&self, commands: &str) -> String {
        let path = std::env::var("PATH").unwrap();
        let here = self.folder.path();
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", commands]).current_dir(here);
        shell.env("PATH", format!("{}:{path}", here.display()));
        let output = self.middle.output(&mut shell).unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{commands}\n{said}");
        String::from_utf8(output.stdout).unwrap()
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
                sender.send_to(&[0; 1200], &address).unwrap();
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
            self.through(&self.home, &self.core, "192.0.2.1")
        };
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
        let machine = permitted(test, Machine::new())?;
        let mut found = Findings::default();
        let said = machine.type_in(&commands("on"));
        assert!(said.contains("ann"), "{said}");
        machine.measure(&mut found, true, "at first", 20.0);
        machine.measure(&mut found, false, "at first", 5.0);
        let said = machine.type_in(&commands("change"));
        assert!(said.contains("40"), "{said}");
        machine.measure(&mut found, true, "changed", 40.0);
        machine.measure(&mut found, false, "changed", 10.0);
        machine.type_in(&commands("off"));
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
