//! The gate on DPDK in front of the kernel's TCP: between two devices of a namespace, which DPDK takes by packet
//! sockets (af_packet). The machine in the middle is a bridge no longer.

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use super::felt::{download, link, watching};
use super::support::{
    BRIDGE, Findings, Gate, TIDEGATE, alone, has_iperf, jain, measured, permitted,
};
use super::tcp::{WHOLE, findings, observe, queue_each, round_trips, windows};
use tidegate_testbed::iperf::{Bulk, Received};
use tidegate_testbed::link::LinkPlan;
use tidegate_testbed::namespace::{Namespace, Process};
use tidegate_testbed::site::{LinkPosition, Site};

/// A site whose middle forwards nothing by itself.
fn site(test: &str, link: &LinkPlan) -> Option<Site> {
    let site = permitted(test, Site::new(link, LinkPosition::Core))?;
    site.leave_to_dpdk().unwrap();
    Some(site)
}

/// Interrupts a daemon, and waits until it has ended well.
fn interrupt(mut daemon: Process, gate: &Gate<'_>) {
    daemon.interrupt().unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    let status = loop {
        match daemon.child().try_wait().unwrap() {
            Some(status) => break status,
            None => assert!(Instant::now() < end, "it runs on: {}", gate.log()),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let log = gate.log();
    assert!(status.success(), "{status}: {log}");
    assert!(log.contains("the ports are closed"), "{log}");
}

/// Jain's index of what the six flows received in the whole window.
fn jain_of_all(received: &[Received]) -> f64 {
    let seconds = windows(received, 0..6);
    let sum = |flow: usize| seconds.iter().map(|second| second[flow]).sum();
    jain(&(0..6).map(sum).collect::<Vec<f64>>())
}

/// Six connections of three congestion controls over two round-trip times share the rate.
#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn mixed_senders_share_fairly_on_dpdk() {
    let _alone = alone();
    let test = "mixed_senders_share_fairly_on_dpdk";
    if !has_iperf(test) {
        return;
    }
    measured(|| {
        let site = site(test, &round_trips())?;
        let hosts = [129, 130, 131, 193, 194, 195];
        let configuration = |rate: &str| format!("{BRIDGE}\n{}", queue_each(rate, &hosts));
        let gate = Gate::new(&site.middle, &configuration("30mbit"));
        let daemon = gate.daemon_with(&Site::ON_DPDK);
        let algorithms = ["reno", "cubic", "bbr"].into_iter().cycle();
        let bulks: Vec<_> = (hosts.into_iter().zip(algorithms))
            .map(|(host, algorithm)| {
                Bulk::new(site.client_address(host).unwrap(), algorithm, WHOLE)
            })
            .collect();
        let (window, received) = observe(&site, &gate, &bulks);
        let mut found = findings(&site);
        found.within("rate, Mbit/s", window.rate("alice") / 1e6, 29.7, 30.3);
        found.within("gate's count", window.agreement(&["alice"]), 0.995, 1.005);
        found.within("Jain's index of 10 s", jain_of_all(&received), 0.99, 1.0);
        // The whole file, and one subscriber, live.
        gate.write(&configuration("20mbit"));
        let said = gate.run("reload");
        assert!(
            said.starts_with("0 added, 0 removed, 1 with other limits"),
            "{said}"
        );
        assert!(gate.run("status alice").contains("20.0 Mbit/s"));
        gate.run("set alice --down 10mbit");
        assert!(gate.run("status alice").contains("10.0 Mbit/s"));
        interrupt(daemon, &gate);
        assert!(!gate.try_run("status").status.success());
        Some(found)
    });
}

/// The same two devices with two pairs of queues each, and two cores for packets. The kernel spreads the flows of a subscriber over
/// both, so one of them hands packets to the other.
const ON_TWO_CORES: [&str; 7] = [
    "--dpdk",
    "wan=net_af_packet0,iface=wan,qpairs=2",
    "--dpdk",
    "lan=net_af_packet1,iface=lan,qpairs=2",
    "--eal",
    "--no-huge -m 768 --lcores 0@0,1@0,2@1 --log-level=error",
    "--no-wire",
];

/// A shaper, a FairPolicer and phantom queues, one after the other by reload, on two cores: all have the rate, and six flows share
/// it. If each core had a limiter of its own, it would be twice as much.
#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn all_schemes_limit_on_two_cores_of_dpdk() {
    let _alone = alone();
    let test = "all_schemes_limit_on_two_cores_of_dpdk";
    if !has_iperf(test) {
        return;
    }
    measured(|| {
        let site = site(test, &link())?;
        let hosts = [129, 130, 131, 193, 194, 195];
        let shared = queue_each("20mbit", &hosts);
        let shaped = "scheme = \"shaper\"\nqueue = \"50kB\"\ndown =";
        let policed = "[plan.fair]\ndown = \"20mbit\"\nscheme = \"fair-policer\"\nburst = \"500kB\"\n\
                       [[subscriber]]\nname = \"alice\"\nplan = \"fair\"\naddresses = \"192.0.2.0/24\"\n";
        let schemes = [
            // What a stall of this machine beyond 10 ms leaves of the rate is not made up for.
            ("shaper", shared.replace("down =", shaped), 0.01, 0.02),
            // Its bucket has 2 % of the bytes of the window.
            ("fair-policer", policed.to_owned(), 0.3, 0.02),
            ("bc-pqp", shared.clone(), 0.1, 0.01),
        ];
        let gate = Gate::new(&site.middle, &format!("{BRIDGE}\n{}", schemes[0].1));
        let daemon = gate.daemon_with(&ON_TWO_CORES);
        let bulks: Vec<_> = (hosts.into_iter())
            .map(|host| Bulk::new(site.client_address(host).unwrap(), "cubic", WHOLE))
            .collect();
        let mut found = Findings::default();
        for (scheme, plan, most_drops, error) in schemes {
            gate.write(&format!("{BRIDGE}\n{plan}"));
            gate.run("reload");
            let (window, received) = observe(&site, &gate, &bulks);
            let mut check = |what: &str, value, least, most| {
                found.within(&format!("{scheme}: {what}"), value, least, most);
            };
            let part = window.rate("alice") / 20e6;
            check("part of the rate", part, 1.0 - error, 1.0 + error);
            let count = window.agreement(&["alice"]);
            check("gate's count", count, 1.0 - error, 1.0 + error);
            check("drops", window.drops("alice"), 0.0, most_drops);
            check("Jain's index of 10 s", jain_of_all(&received), 0.99, 1.0);
        }
        interrupt(daemon, &gate);
        found.late = site.link.report().unwrap().lateness.p99;
        Some(found)
    });
}

/// What lines feel, beside what the senders' kernel says of its connections.
#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn round_trips_on_dpdk_are_those_of_the_senders_kernel() {
    let _alone = alone();
    let test = "round_trips_on_dpdk_are_those_of_the_senders_kernel";
    if !has_iperf(test) {
        return;
    }
    measured(|| {
        let site = site(test, &link())?;
        let mut found = Findings::default();
        let gate = Gate::new(&site.middle, &watching());
        let daemon = gate.daemon_with(&Site::ON_DPDK);
        download(&site, LinkPosition::Core, &gate, &mut found);
        interrupt(daemon, &gate);
        found.late = site.link.report().unwrap().lateness.p99;
        Some(found)
    });
}

/// Sends a datagram every 20 ms to a client that answers, for at most this time. Returns how long the first answer took, if there is one.
fn answered(server: &Namespace, client: SocketAddr, most: Duration) -> Option<Duration> {
    let ask = || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        let pause = Some(Duration::from_millis(20));
        socket.set_read_timeout(pause).unwrap();
        let began = Instant::now();
        while began.elapsed() < most {
            socket.send_to(b"?", client).unwrap();
            if socket.recv(&mut [0]).is_ok() {
                return Some(began.elapsed());
            }
        }
        None
    };
    server.enter(ask).unwrap()
}

/// Takes down a gate when the test ends, also if it fails: a wire outlives it otherwise.
struct TakenDown<'a>(&'a Gate<'a>);

impl Drop for TakenDown<'_> {
    fn drop(&mut self) {
        self.0.try_run("down");
    }
}

/// The same two devices. No cores are named, so DPDK takes all, the first one for control.
const ON_ALL_CORES: [&str; 6] = [
    "--dpdk",
    "wan=net_af_packet0,iface=wan",
    "--dpdk",
    "lan=net_af_packet1,iface=lan",
    "--eal",
    "--no-huge -m 512 --log-level=error",
];

/// The number of the process that a process started.
fn child_of(process: u32) -> Option<i32> {
    let all = std::fs::read_dir("/proc").unwrap().map(Result::unwrap);
    let mut numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.find(|number| {
        let status = std::fs::read_to_string(format!("/proc/{number}/status"));
        let is_its = format!("PPid:\t{process}");
        status.is_ok_and(|status| status.lines().any(|line| line == is_its))
    })
}

/// Packet sockets of an interface that was deleted take nothing from another one with its name.
#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn an_interface_that_is_made_again_is_not_attached() {
    let _alone = alone();
    let Some(site) = site("an_interface_that_is_made_again_is_not_attached", &link()) else {
        return;
    };
    let gate = Gate::new(
        &site.middle,
        &format!("{BRIDGE}\n{}", queue_each("20mbit", &[129])),
    );
    let daemon = gate.daemon_with(&Site::ON_DPDK);
    let said = gate.try_run("up FILE");
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("a daemon on DPDK runs this gate"), "{said}");
    site.middle.ip("link set lan down").unwrap();
    site.middle.ip("link set lan name other").unwrap();
    site.middle.ip("link set other up").unwrap();
    let said = gate.run("status");
    assert!(said.contains("the interface is named other now"), "{said}");
    site.middle.ip("link del other").unwrap();
    site.middle
        .ip("link add lan type veth peer name far")
        .unwrap();
    let said = gate.run("status");
    assert!(said.contains("not attached: nothing is limited"), "{said}");
    let until = Instant::now() + Duration::from_secs(15);
    while !gate
        .log()
        .contains("the interface lan was deleted since the daemon began")
    {
        assert!(Instant::now() < until, "{}", gate.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    interrupt(daemon, &gate);
}

/// The gate drops what it does not know. If it is killed, all packets pass, until the next gate limits or the wire is taken down.
#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn a_daemon_that_dies_leaves_a_plain_wire() {
    const SOON: Duration = Duration::from_secs(10);
    const NEVER: Duration = Duration::from_secs(1);
    let _alone = alone();
    let Some(site) = site("a_daemon_that_dies_leaves_a_plain_wire", &link()) else {
        return;
    };
    let client = SocketAddr::new(site.client_address(16).unwrap(), 7);
    let answers = || UdpSocket::bind(client).unwrap();
    let answers = site.client.enter(answers).unwrap();
    std::thread::spawn(move || {
        while let Ok((_, from)) = answers.recv_from(&mut [0]) {
            let _ = answers.send_to(b"!", from);
        }
    });
    let passes = |most| answered(&site.server, client, most);
    let other = "[[subscriber]]\nname = \"other\"\ndown = \"20mbit\"\naddresses = \"192.0.2.77\"\n";
    let folder = tempfile::tempdir().unwrap();
    let events = folder.path().join("events");
    let gate = Gate::new(
        &site.middle,
        &format!("unknown = \"drop\"\nevents = {events:?}\n{BRIDGE}\n{other}"),
    );
    let _taken_down = TakenDown(&gate);
    let with_wire = &ON_ALL_CORES;
    let wire_after_kill = |mut daemon: Process| {
        daemon.child().kill().unwrap();
        daemon.child().wait().unwrap();
        let took = passes(SOON).expect("no packet passes");
        eprintln!(
            "the first packet passed {} ms after the death",
            took.as_millis()
        );
        for command in ["status", "set other --down 1mbit", "flows other", "top"] {
            let said = gate.try_run(command);
            let said = String::from_utf8_lossy(&said.stderr).into_owned();
            assert!(said.contains("a plain wire (process "), "{command}: {said}");
        }
        assert!(gate.log().contains("the daemon died"), "{}", gate.log());
        let events = std::fs::read_to_string(&events).unwrap();
        let last = events.lines().last().unwrap();
        assert!(last.contains(r#""event":"wire""#), "{last}");
    };

    let daemon = gate.daemon_with(with_wire);
    assert_eq!(passes(NEVER), None);
    wire_after_kill(daemon);
    let mut daemon = gate.daemon_with(with_wire);
    assert_eq!(passes(NEVER), None);
    let said = gate.run("status");
    assert!(
        said.contains("wan             dpdk-ingress down  link up"),
        "{said}"
    );
    // The kernel would give the packets to both.
    let mut second = Command::new(TIDEGATE);
    second
        .args(["gate", "--state"])
        .arg(folder.path().join("other"));
    second.arg("wire").args(with_wire);
    let second = site.middle.output(&mut second).unwrap();
    let said = String::from_utf8_lossy(&second.stderr);
    let number = daemon.child().id();
    let taken = format!("process {number} passes the packets of wan on already");
    assert!(said.contains(&taken), "{said}");
    assert_eq!(passes(NEVER), None);
    wire_after_kill(daemon);
    // The kernel's gate would limit nothing beside it.
    let said = gate.try_run("up FILE");
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("a plain wire (process "), "{said}");
    // A daemon that does not start leaves the wire as it was. Some mistakes are found before it ends, and some after.
    let no_interface = with_wire.map(|word| word.replace("iface=wan", "iface=gone"));
    let no_cores = with_wire.map(|word| word.replace("-m 512", "-m 512 -l 0,999"));
    let no_driver = with_wire.map(|word| word.replace("net_af_packet0", "net_nothing0"));
    for (words, why) in [
        (
            no_interface,
            "there is no interface gone in this network namespace",
        ),
        (no_cores, "DPDK does not start: Invalid argument"),
        (
            no_driver,
            "it has no driver of one of the names net_nothing0 and net_af_packet1",
        ),
    ] {
        let said = gate.fails_with(&words.each_ref().map(String::as_str));
        assert!(said.contains(why), "{said}");
        assert!(
            said.contains("the plain wire that was before begins again"),
            "{said}"
        );
        assert!(said.lines().count() < 20, "{said}");
        assert!(passes(SOON).is_some(), "{said}");
    }
    assert!(gate.run("down").contains("the plain wire has ended"));
    assert_eq!(passes(NEVER), None);
    // A daemon that ends by itself leaves none. It says when the process ends that stands by.
    let mut daemon = gate.daemon_with(with_wire);
    let stands_by = child_of(daemon.child().id()).expect("it stands by");
    let kill = Command::new("kill")
        .args(["-KILL", &stands_by.to_string()])
        .status();
    assert!(kill.unwrap().success());
    let until = Instant::now() + SOON;
    while !gate.log().contains("the process that stands by has ended") {
        assert!(Instant::now() < until, "{}", gate.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    let said = gate.run("status");
    assert!(said.contains("no process stands by: "), "{said}");
    interrupt(daemon, &gate);
    assert_eq!(passes(NEVER), None);
    let said = gate.try_run("status");
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(!said.contains("wire"), "{said}");
    // By hand.
    let mut wire = Command::new(TIDEGATE);
    wire.args(["gate", "wire"]).args(with_wire);
    let mut wire = site.middle.start(&mut wire).unwrap();
    assert!(passes(SOON).is_some());
    wire.interrupt().unwrap();
    assert!(wire.child().wait().unwrap().success());
    assert_eq!(passes(NEVER), None);
    // Each core for packets needs queues.
    let mut wire = Command::new(TIDEGATE);
    let eal = ["--no-huge -m 512 --lcores 0@0,1@0,2@0 --log-level=error"];
    wire.args(["gate", "wire"]).args(&with_wire[..5]).args(eal);
    let output = site.middle.enter(|| wire.output().unwrap()).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let few = "the device net_af_packet0 has 1 pairs of queues, and each of the 2 cores for packets needs one";
    assert!(said.contains(few), "{said}");
}
