//! Two routers with gates stand in for one another, by the files of the page about pairs and keepalived.

use std::net::UdpSocket;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::readme::{STALL, commands, type_in};
use super::support::{Findings, Gate, alone, measured, permitted, skip};
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
        type_in(
            &self.routers[number],
            &folder,
            &commands("run-two-gates-as-a-pair", "limits"),
        );
        self.keepalived(number, priority, &folder)
    }

    /// Starts keepalived on a router, by the page.
    fn keepalived(&self, number: usize, priority: u32, folder: &Path) -> Process {
        let router = &self.routers[number];
        let addresses = commands("run-two-gates-as-a-pair", "addresses");
        type_in(router, folder, &format!("PRIORITY={priority}\n{addresses}"));
        let mut command = Command::new("keepalived");
        command.args(["--dont-fork", "--log-console", "--use-file"]);
        command.arg(folder.join("keepalived.conf"));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        router.start(&mut command).unwrap()
    }

    /// Takes the first router away as if its power failed: it cannot say that it goes.
    fn cut_off(&self, keepalived: Process) {
        for device in ["eth1", "eth2"] {
            self.routers[0]
                .ip(&format!("link set {device} down"))
                .unwrap();
        }
        drop(keepalived);
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

    /// Sends more than the plan to the subscriber for some seconds. Calls `fail` after as many. Returns the bytes that came in
    /// each slot, and the longest time for which the machine let this wait.
    fn flood(&self, fails: f64, ends: f64, fail: impl FnOnce()) -> (Vec<f64>, Duration) {
        let bind = |space: &Namespace, address: &str| {
            let socket = space.enter(|| UdpSocket::bind(address)).unwrap().unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        };
        let receiver = bind(&self.home, "192.0.2.16:9000");
        let sender = bind(&self.core, "198.51.100.1:0");
        let (began, mut sent, mut fail) = (Instant::now(), 0.0, Some(fail));
        let (mut last, mut stall) = (began, Duration::ZERO);
        let mut slots = vec![0.0; (ends * SLOTS as f64) as usize];
        loop {
            let now = began.elapsed().as_secs_f64();
            if now >= ends {
                return (slots, stall);
            }
            stall = stall.max(last.elapsed());
            if now >= fails
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

/// Whether keepalived is there. Reports if not.
fn has_keepalived(test: &str) -> bool {
    let there = Command::new("keepalived").arg("--version").output().is_ok();
    if !there {
        skip(test, "needs keepalived (packaging/setup test installs it)");
    }
    there
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn a_pair_limits_from_the_first_packet_of_the_other_router_on() {
    let _alone = alone();
    let test = "a_pair_limits_from_the_first_packet_of_the_other_router_on";
    if !has_keepalived(test) {
        return;
    }
    measured(|| {
        let pair = permitted(test, Pair::new())?;
        let first = pair.start(0, 150);
        let _second = pair.start(1, 100);
        pair.wait_for(0);
        let (slots, stall) = pair.flood(FAILS, ENDS, || pair.cut_off(first));
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

/// What the first router let pass at once does not pass the second one again: it knows what the subscriber saved, what was set
/// live, and the volume of its month.
#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn the_gates_of_a_pair_know_what_the_other_one_knows() {
    let _alone = alone();
    let test = "the_gates_of_a_pair_know_what_the_other_one_knows";
    if !has_keepalived(test) {
        return;
    }
    // Eight seconds of the plan.
    const BOOST: f64 = 20e6;
    measured(|| {
        let pair = permitted(test, Pair::new())?;
        let secret = pair.folder.path().join("secret");
        std::fs::write(&secret, "0123456789abcdef0123456789abcdef").unwrap();
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
        let folders = ["first", "second"].map(|name| {
            let folder = pair.folder.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            folder
        });
        let secret = secret.display();
        let gate = |number: usize| {
            let [own, other] = [[10, 20], [20, 10]][number];
            let usage = folders[number].join("usage.json");
            let text = format!(
                "[[interface]]\nname = \"eth1\"\nside = \"core\"\n\
                 [[interface]]\nname = \"eth2\"\nside = \"access\"\n\
                 [plan.home]\ndown = \"20mbit\"\nboost = \"20MB\"\n\
                 [[subscriber]]\nname = \"ann\"\nplan = \"home\"\naddresses = \"192.0.2.16\"\n\
                 [[subscriber]]\nname = \"bob\"\nplan = \"home\"\naddresses = \"192.0.2.17\"\n\
                 [usage]\nfile = \"{}\"\n\
                 [api]\nlisten = \"198.51.100.{own}:9642\"\ntoken = \"{secret}\"\n\
                 [pair]\npeer = \"198.51.100.{other}:9642\"\ntoken = \"{secret}\"\n",
                usage.display()
            );
            Gate::new(&pair.routers[number], &text)
        };
        let gates = [gate(0), gate(1)];
        let _daemons = [gates[0].daemon(), gates[1].daemon()];
        let first = pair.keepalived(0, 150, &folders[0]);
        let _second = pair.keepalived(1, 100, &folders[1]);
        pair.wait_for(0);
        let mut found = Findings::default();

        // A live change at one is one at the other, either way.
        gates[0].run("set bob --down 7mbit --key boost=1MB");
        thread::sleep(Duration::from_secs(4));
        gates[1].run("assign bob 192.0.2.18");
        thread::sleep(Duration::from_secs(4));
        for gate in &gates {
            let bob = gate.run("status bob --json");
            let bob: serde_json::Value = serde_json::from_str(&bob).unwrap();
            assert_eq!(bob["down"]["rate"], 7_000_000, "{bob}\n{}", gate.log());
            assert_eq!(bob["keys"]["boost"], "1MB", "{bob}");
            let matches = serde_json::json!(["192.0.2.17/32", "192.0.2.18/32"]);
            assert_eq!(bob["matches"], matches, "{bob}");
        }

        // Four seconds use up what was saved, and at least a question for volumes follows.
        let (fails, ends) = (13.0, 18.0);
        let (slots, stall) = pair.flood(fails, ends, || pair.cut_off(first));
        pair.wait_for(1);
        let sum = |slots: &[f64]| slots.iter().sum::<f64>();
        let failed = (fails * SLOTS as f64) as usize;
        let most = PLAN / 8.0 * fails + BOOST;
        found.within(
            "before, of the bound",
            sum(&slots[..failed]) / most,
            0.9,
            1.02,
        );
        let silence = silence(&slots, failed);
        let after = &slots[silence.end..silence.end + 3 * SLOTS];
        let seconds = sum(after) * 8.0 / PLAN;
        // Without what the other gate tells, it is nine.
        found.within("seconds of the plan in three after it", seconds, 2.7, 4.0);
        let usage = gates[1].run("usage");
        let ann = usage.lines().find(|line| line.starts_with("ann,")).unwrap();
        let bytes: f64 = ann.split(',').nth(3).unwrap().parse().unwrap();
        // It learned that at most 10 s before the first one failed, and counts itself every 5 s.
        let known = bytes / sum(&slots);
        found.within("volume at the second one, of all", known, 0.4, 1.05);
        if stall > STALL {
            found.late = stall.as_nanos() as u64;
        }
        Some(found)
    });
}
