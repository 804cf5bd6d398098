//! The gate as an operator uses it: commands, daemon and API over the kernel, in a separate network
//! namespace and BPF file system.

mod leases;
mod radius;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use serde_json::Value;

/// A network namespace and a mount namespace, which end with it.
struct Machine {
    folder: tempfile::TempDir,
    holder: Child,
    /// The user who runs the gate, with only the rights of the service; `None` for the user of the test.
    user: Option<&'static str>,
}

/// Two subscribers on `gold`, alice and bob, and `core0` on the core's side.
static FILE: LazyLock<String> = LazyLock::new(|| {
    include_str!("../../../gate/tests/gate.toml")
        .replace("\"lo\"", "\"core0\"")
        .replace("plan = \"basic\"", "plan = \"gold\"")
});

/// Its other end is where packets to alice come from.
const NETWORK: &str = "\
set -e
mkdir BPF
mount -t bpf bpf BPF
chown -R USER FOLDER
touch PROGRAM
mount --bind TIDEGATE PROGRAM
ip link set lo up
ip link add name core0 type veth peer name far0
ip link set core0 up
ip link set far0 up
ip address add 198.51.100.1/24 dev far0
ip neighbour add 198.51.100.2 lladdr 02:00:00:00:00:01 dev far0
ip route add 192.0.2.1/32 via 198.51.100.2 dev far0
";

impl Machine {
    fn new(user: Option<&'static str>) -> Result<Self, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let holder = Command::new("unshare")
            .args(["--net", "--mount", "sleep", "300"])
            .stdin(Stdio::null())
            .spawn()
            .map_err(|error| format!("unshare: {error}"))?;
        let machine = Self {
            folder,
            holder,
            user,
        };
        machine.write(&FILE);
        // Waits for the namespaces: /proc shows when the process has left those of the test.
        let here = fs::read_link("/proc/self/ns/net").expect("a namespace");
        let its = format!("/proc/{}/ns/mnt", machine.holder.id());
        let net = format!("/proc/{}/ns/net", machine.holder.id());
        let mounts = fs::read_link("/proc/self/ns/mnt").expect("a namespace");
        let until = Instant::now() + Duration::from_secs(5);
        loop {
            let moved = |path: &str, here: &Path| fs::read_link(path).is_ok_and(|ns| ns != here);
            if moved(&net, &here) && moved(&its, &mounts) {
                break;
            }
            if Instant::now() > until {
                return Err("namespaces cannot be made".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let path = |name| machine.path(name).display().to_string();
        let network = NETWORK
            .replace("BPF", &path("bpf"))
            .replace("TIDEGATE", env!("CARGO_BIN_EXE_tidegate"))
            .replace("PROGRAM", &path("tidegate"))
            .replace("FOLDER", &path(""))
            .replace("USER", user.unwrap_or("0"));
        let (code, _, err) = machine.run("sh", &["-c", &network]);
        if code == 0 { Ok(machine) } else { Err(err) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, text: &str) {
        let (pins, state) = (self.path("bpf/gate"), self.path("state"));
        let folders = format!("pins = {pins:?}\nstate = {state:?}\n");
        fs::write(self.path("gate.toml"), folders + text).expect("written");
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        let holder = self.holder.id().to_string();
        command
            .args(["--target", &holder, "--net", "--mount", program])
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) -> (i32, String, String) {
        let output = self
            .command(program, arguments)
            .output()
            .expect("nsenter runs");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        let code = output.status.code().expect("an exit code");
        (code, text(output.stdout), text(output.stderr))
    }

    fn gate_command(&self, arguments: &[&str]) -> Command {
        let state = self.path("state").display().to_string();
        let program = self.path("tidegate").display().to_string();
        let mut command = if let Some(user) = self.user {
            let set = capabilities();
            let words = format!(
                "--reuid {user} --regid {user} --clear-groups --no-new-privs \
                 --inh-caps {set} --ambient-caps {set} --bounding-set {set}"
            );
            let words: Vec<_> = words.split_whitespace().chain([&*program]).collect();
            self.command("setpriv", &words)
        } else {
            self.command(&program, &[])
        };
        command.arg("gate").args(arguments);
        command.args(["--state", &state]);
        command
    }

    /// Runs a command that must succeed. Returns what it printed.
    fn gate(&self, arguments: &[&str]) -> String {
        let output = self.gate_command(arguments).output().expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let err = text(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {err}");
        text(&output.stdout)
    }

    /// Runs a command that must fail with this code. Returns its error.
    fn gate_fails(&self, arguments: &[&str], code: i32) -> String {
        let output = self.gate_command(arguments).output().expect("it runs");
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {err}");
        err
    }

    fn file(&self) -> String {
        self.path("gate.toml").display().to_string()
    }

    fn alice(&self) -> Value {
        serde_json::from_str(&self.gate(&["status", "alice", "--json"])).expect("JSON")
    }

    /// Sends this number of packets to alice.
    fn send(&self, packets: u32) {
        let script = format!("for i in $(seq {packets}); do echo x > /dev/udp/192.0.2.1/9; done");
        let (code, _, err) = self.run("bash", &["-c", &script]);
        assert_eq!(code, 0, "{err}");
    }

    fn daemon(&self) -> Daemon {
        let mut child = self
            .gate_command(&["run", &self.file(), "--log-format", "json"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        let socket = self.path("state/control.sock");
        let until = Instant::now() + Duration::from_secs(20);
        while status(&socket).is_none() {
            if Instant::now() > until || child.try_wait().expect("a child").is_some() {
                let _ = child.kill();
                let mut log = String::new();
                let _ = child
                    .stderr
                    .take()
                    .map(|mut err| err.read_to_string(&mut log));
                panic!("the daemon does not answer: {log}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Daemon(child)
    }
}

/// The rights of the service, in the notation of setpriv.
fn capabilities() -> String {
    let unit = include_str!("../../../../packaging/systemd/tidegate-gate.service");
    let line = unit
        .lines()
        .find_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let names = line.expect("a bounding set").split_whitespace();
    let names = names.map(|name| name.trim_start_matches("CAP_").to_lowercase());
    ["-all".to_owned()]
        .into_iter()
        .chain(names.map(|name| format!("+{name}")))
        .collect::<Vec<_>>()
        .join(",")
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// A daemon, which is killed when this is dropped. nsenter is replaced by the program that it starts.
struct Daemon(Child);

impl Daemon {
    fn signal(&self, signal: &str) {
        let process = self.0.id().to_string();
        let sent = Command::new("kill").args([signal, &process]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Its exit code, and its log.
    fn ended(mut self) -> (Option<i32>, String) {
        let mut log = String::new();
        let err = self.0.stderr.as_mut().expect("a pipe");
        err.read_to_string(&mut log).expect("text");
        (self.0.wait().expect("a child").code(), log)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The body of an answer of the daemon.
fn ask(socket: &Path, method: &str, path: &str) -> Option<String> {
    let mut stream = UnixStream::connect(socket).ok()?;
    write!(stream, "{method} {path} HTTP/1.0\r\nHost: gate\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer.split_once("\r\n\r\n")?.1.to_owned())
}

fn status(socket: &Path) -> Option<Value> {
    serde_json::from_str(&ask(socket, "GET", "/v1/status")?).ok()
}

/// Waits until a condition holds.
fn until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn an_operators_day() {
    a_day(None);
}

/// The user with the rights of the service.
#[test]
fn an_operators_day_with_the_services_rights() {
    a_day(Some("0"));
    a_day(Some("65534"));
}

fn a_day(user: Option<&'static str>) {
    let machine = match Machine::new(user) {
        Ok(machine) => machine,
        Err(error) => {
            let line =
                format!("skipped TEST: gate_cli: needs root and a BPF file system: {error}\n");
            let _ = std::io::stderr().write_all(line.as_bytes());
            return;
        }
    };

    // The gate goes up without a daemon.
    let none = machine.gate_fails(&["status"], 1);
    assert!(none.contains("no gate is up"), "{none}");
    let checked = machine.gate(&["check", &machine.file()]);
    assert!(
        checked.contains("2 subscribers with 2 prefixes and 1 tag"),
        "{checked}"
    );
    assert!(!checked.contains("no interface core0"), "{checked}");
    let up = machine.gate(&["up", &machine.file()]);
    assert!(up.contains("attached to core0 tc-ingress, down"), "{up}");
    let twice = machine.gate_fails(&["up", &machine.file()], 1);
    assert!(twice.contains("already"), "{twice}");
    machine.send(10);
    let alice = machine.alice();
    assert_eq!(alice["down"]["passed_packets"], 10, "{alice}");
    let queues = alice["down"]["queues"].as_array().expect("queues");
    assert!(
        queues.iter().any(|queue| queue["passed_bytes"] != 0),
        "{alice}"
    );

    // Live changes and changes of the file. A file with errors changes nothing.
    assert_eq!(
        machine.gate(&["set", "alice", "--down", "20mbit"]),
        "alice: 20.0 Mbit/s down, 10.0 Mbit/s up (plan gold)\n"
    );
    assert_eq!(machine.alice()["down"]["rate"], 20_000_000);
    for (wrong, meant) in [
        (
            &["set", "alise", "--down", "20mbit"][..],
            "did you mean `alice`?",
        ),
        (&["set", "alice", "--plan", "glod"], "did you mean `gold`?"),
        (&["assign", "bib", "192.0.2.7"], "did you mean `bob`?"),
        (&["status", "alise"], "did you mean `alice`?"),
    ] {
        let error = machine.gate_fails(wrong, 1);
        assert!(error.contains(meant), "{wrong:?}: {error}");
    }
    machine.write(&FILE.replace("vlan = 7", "vlan = 8"));
    let reloaded = machine.gate(&["reload"]);
    assert!(
        reloaded.contains("1 with other addresses or tags, 1 unchanged"),
        "{reloaded}"
    );
    machine.write(&FILE.replace("50mbit", "50mbi"));
    let bad = machine.gate_fails(&["reload"], 1);
    assert!(bad.contains("gate.toml:7:"), "{bad}");
    let alice = machine.alice();
    assert_eq!(
        alice["down"]["passed_packets"], 10,
        "counters go on: {alice}"
    );

    // A suspended subscriber gets nothing, and an address goes to another subscriber and back.
    let counted = |name: &str| {
        let text = machine.gate(&["status", name, "--json"]);
        let down = &serde_json::from_str::<Value>(&text).expect("JSON")["down"];
        [&down["passed_packets"], &down["excess_packets"]]
            .map(|count| count.as_u64().expect("a number"))
    };
    let suspended = machine.gate(&["set", "alice", "--suspend"]);
    assert!(suspended.starts_with("alice: suspended"), "{suspended}");
    machine.send(3);
    assert_eq!(counted("alice"), [10, 3]);
    assert_eq!(machine.gate(&["set", "alice", "--resume", "--quiet"]), "");
    assert_eq!(
        machine.gate(&["assign", "bob", "192.0.2.1"]),
        "bob: vlan 8, 192.0.2.1/32\n192.0.2.1/32: alice no longer\n"
    );
    machine.send(2);
    assert_eq!((counted("alice"), counted("bob")), ([10, 3], [2, 0]));
    assert_eq!(
        machine.gate(&["release", "192.0.2.1"]),
        "192.0.2.1/32: alice has it again, bob no longer\n"
    );
    let nobody = machine.gate_fails(&["release", "192.0.2.99"], 1);
    assert!(
        nobody.contains("no subscriber has 192.0.2.99/32"),
        "{nobody}"
    );
    machine.send(2);
    assert_eq!((counted("alice"), counted("bob")), ([12, 3], [2, 0]));
    machine.gate(&["set", "alice", "--reset", "--down", "20mbit"]);

    // More subscribers than one map of limiters has room for.
    let more = |number: u32| {
        let address = std::net::Ipv4Addr::from(0x0a00_0000 + number);
        format!(
            "[[subscriber]]\nname = \"s{number}\"\nplan = \"gold\"\naddresses = \"{address}\"\n"
        )
    };
    let many = |count| FILE.to_owned() + &(0..count).map(more).collect::<String>();
    for count in [1_500, 3_000] {
        machine.write(&many(count));
        machine.gate(&["reload"]);
        let last = machine.gate(&["status", &format!("s{}", count - 1), "--json"]);
        let last: Value = serde_json::from_str(&last).expect("JSON");
        assert_eq!(last["down"]["rate"], 50_000_000, "{last}");
    }

    // A daemon takes over, answers commands, and reloads on SIGHUP.
    machine.write(&FILE);
    let daemon = machine.daemon();
    let socket = machine.path("state/control.sock");
    assert_eq!(
        machine.gate(&["set", "alice", "--down", "30mbit"]),
        "alice: 30.0 Mbit/s down, 10.0 Mbit/s up (plan gold)\n"
    );
    assert_eq!(machine.alice()["down"]["rate"], 30_000_000);
    assert_eq!(
        machine.gate(&["assign", "alice", "vlan 77"]),
        "alice: 192.0.2.1/32, 2001:db8::/56, vlan 77\n"
    );
    assert_eq!(
        machine.gate(&["release", "vlan 77"]),
        "vlan 77: no subscriber has it, alice no longer\n"
    );
    let unknown = machine.gate_fails(&["set", "alice", "--plan", "glod"], 1);
    assert!(unknown.contains("did you mean `gold`?"), "{unknown}");
    let usage = machine.gate_fails(&["usage"], 1);
    assert!(usage.contains("add [usage] with file = "), "{usage}");
    machine.gate(&["set", "alice", "--reset"]);
    assert_eq!(machine.alice()["down"]["rate"], 50_000_000);
    machine.write(&FILE.replace("50mbit", "60mbit"));
    daemon.signal("-HUP");
    until("SIGHUP reloads", || {
        machine.alice()["down"]["rate"] == 60_000_000
    });
    machine.write("plan = 7");
    let bad = machine.gate_fails(&["reload"], 1);
    assert!(bad.contains("gate.toml:1:"), "{bad}");
    let metrics = ask(&socket, "GET", "/metrics").expect("metrics");
    let line = "tidegate_gate_subscriber_packets_total{subscriber=\"alice\",direction=\"down\",verdict=\"passed\"} 12";
    assert!(metrics.contains(line), "{metrics}");
    let second = machine.gate_fails(&["run", &machine.file()], 1);
    assert!(second.contains("gate.toml:1:"), "{second}");

    // It is killed. The limits stay in force, and the next daemon takes them over.
    machine.write(&FILE);
    daemon.signal("-KILL");
    drop(daemon);
    machine.send(5);
    assert_eq!(machine.alice()["down"]["passed_packets"], 17);
    let daemon = machine.daemon();
    assert_eq!(machine.alice()["down"]["passed_packets"], 17);
    assert_eq!(
        machine.alice()["down"]["rate"],
        50_000_000,
        "the file counts"
    );

    // SIGTERM leaves the limits in force. `down` ends the next daemon.
    daemon.signal("-TERM");
    let (code, log) = daemon.ended();
    assert_eq!(code, Some(0), "{log}");
    let events: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert!(
        events
            .iter()
            .any(|event| event["message"] == "took over the gate that was up"),
        "{log}"
    );
    assert!(!socket.exists());
    machine.send(1);
    assert_eq!(machine.alice()["down"]["passed_packets"], 18);
    let daemon = machine.daemon();
    machine.gate(&["down"]);
    let (code, log) = daemon.ended();
    assert_eq!(code, Some(0), "{log}");
    assert!(!machine.path("state").exists());
    let bpf = machine.path("bpf").display().to_string();
    let (_, left, _) = machine.run("ls", &[&bpf]);
    assert!(!left.contains("gate"), "{left}");
    let (_, left, _) = machine.run("tc", &["qdisc", "show", "dev", "core0"]);
    assert!(!left.contains("clsact"), "{left}");

    // The pins do not tell where the state is: the command says how to remove that as well.
    machine.gate(&["up", &machine.file()]);
    let (pins, elsewhere) = (machine.path("bpf/gate"), machine.path("elsewhere"));
    let [pins, elsewhere] = [pins, elsewhere].map(|path| path.display().to_string());
    let mut down = machine.gate_command(&[]);
    let done = down.args(["down", "--pins", &pins, "--state", &elsewhere]);
    let done = done.output().expect("it runs");
    let told = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(told.contains("all limits are removed"), "{told}{done:?}");
    assert!(
        told.contains(&format!("its state was not in {elsewhere}: ")),
        "{told}"
    );
    assert!(machine.path("state/state.json").exists());
    let rest = machine.gate(&["down"]);
    assert!(rest.contains("no gate was up"), "{rest}");
    assert!(!machine.path("state").exists() && !machine.path("elsewhere").exists());
}

/// The volume of a month is counted over daemons, and a spent one changes the plan.
#[test]
fn a_month_of_little_volume() {
    let machine = match Machine::new(None) {
        Ok(machine) => machine,
        Err(error) => {
            let line =
                format!("skipped TEST: gate_cli: needs root and a BPF file system: {error}\n");
            let _ = std::io::stderr().write_all(line.as_bytes());
            return;
        }
    };
    let terms = "[plan.gold]\nquota = \"430B\"\nquota-of = \"down\"\nquota-plan = \"slow\"\n";
    let slow = "\n[plan.slow]\ndown = \"1mbit\"\nup = \"1mbit\"\n[usage]\nfile = \"usage.json\"\n";
    let file = FILE.replace("[plan.gold]\n", terms) + slow;
    machine.write(&format!("events = \"events.jsonl\"\n{file}"));
    let daemon = machine.daemon();
    let used = || machine.alice()["plan"].clone();
    assert_eq!(used(), "gold");
    let counted = |bytes: &str| {
        until("the volume is counted", || {
            machine.gate(&["usage"]).contains(&format!("-01,{bytes},"))
        });
    };
    // A packet has 44 bytes: 430 are 9 of them, and some.
    counted("0,0");
    machine.send(5);
    counted("220,0");
    // What passes while no daemon runs counts later.
    daemon.signal("-KILL");
    drop(daemon);
    machine.send(3);
    let daemon = machine.daemon();
    counted("352,0");
    assert_eq!(used(), "gold");
    machine.send(2);
    until("the plan changes", || used() == "slow");
    assert_eq!(machine.alice()["down"]["rate"], 1_000_000);
    let line = machine.gate(&["usage"]);
    assert!(line.contains(",440,0,430,quota"), "{line}");
    let shown = machine.gate(&["status", "alice"]);
    assert!(
        shown.contains("plan slow instead of gold, because its quota is used up"),
        "{shown}"
    );

    // The gate begins again, as after a restart of the machine: the volume does not.
    machine.gate(&["down"]);
    let events = fs::read_to_string(machine.path("events.jsonl")).expect("events");
    let events: Vec<Value> = events
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let what: Vec<&str> = events
        .iter()
        .filter_map(|event| event["event"].as_str())
        .collect();
    assert_eq!(
        what,
        ["start", "start", "turn", "stop", "down"],
        "{events:?}"
    );
    assert_eq!(
        (&events[2]["subscriber"], &events[2]["why"]),
        (&"alice".into(), &"quota".into())
    );
    assert!(
        events[4]["by"]
            .as_str()
            .is_some_and(|by| by.starts_with("uid 0 pid "))
    );
    assert_eq!(daemon.ended().0, Some(0));
    let daemon = machine.daemon();
    until("the plan changes", || used() == "slow");
    machine.gate(&["down"]);
    drop(daemon);
}
