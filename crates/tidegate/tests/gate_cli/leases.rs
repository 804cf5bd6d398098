//! Who is who, as the scripts on the page about live addresses say it: run by Kea, a DHCP server, and as pppd runs them.

use std::os::unix::fs::PermissionsExt;

use super::*;

const CLIENT: &str = "02:00:00:00:00:77";

/// The script behind this mark of the page.
fn script(mark: &str) -> String {
    let page = include_str!("../../../../docs/how-to/move-addresses-live.md");
    let (_, rest) = page
        .split_once(&format!("<!-- gate: {mark} -->\n```sh\n"))
        .expect("the mark is on the page");
    rest.split_once("```").expect("its end").0.to_owned()
}

/// A file that is a program.
fn program(path: &Path, text: &str) {
    fs::write(path, text).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("set");
}

/// A gate with subscribers that get their addresses live, and `tidegate` where shells find it. None if the test is
/// skipped.
fn machine() -> Option<Machine> {
    let machine = match Machine::new(None) {
        Ok(machine) => machine,
        Err(error) => {
            let line =
                format!("skipped TEST: gate_cli: needs root and a BPF file system: {error}\n");
            let _ = std::io::stderr().write_all(line.as_bytes());
            return None;
        }
    };
    let live = ["cem", CLIENT].map(|name| {
        format!("[[subscriber]]\nname = \"{name}\"\nplan = \"gold\"\naddresses = \"live\"\n")
    });
    machine.write(&(FILE.to_owned() + &live.concat()));
    let (code, _, err) = machine.run("mount", &["-t", "tmpfs", "none", "/usr/local/bin"]);
    assert_eq!(code, 0, "{err}");
    // Scripts do not know where the test keeps the state.
    let text = format!(
        "#!/bin/sh\nexec {} \"$@\" --state {}\n",
        machine.path("tidegate").display(),
        machine.path("state").display()
    );
    program(&machine.path("typed"), &text);
    let typed = machine.path("typed").display().to_string();
    let (code, _, err) = machine.run("cp", &[&typed, "/usr/local/bin/tidegate"]);
    assert_eq!(code, 0, "{err}");
    machine.gate(&["up", &machine.file()]);
    Some(machine)
}

fn matches(machine: &Machine, name: &str) -> Value {
    let text = machine.gate(&["status", name, "--json"]);
    serde_json::from_str::<Value>(&text).expect("JSON")["matches"].clone()
}

#[test]
fn a_pppoe_server_by_its_scripts() {
    let Some(machine) = machine() else { return };
    for mark in ["ip-up", "ip-down"] {
        program(&machine.path(mark), &script(mark));
    }
    // The variables of pppd, and the arguments that Debian's run-parts passes.
    let run = |mark: &str| {
        let path = machine.path(mark).display().to_string();
        let words = [
            "-i",
            "PATH=/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin",
        ];
        let variables = [
            "PEERNAME=cem",
            "IPREMOTE=192.0.2.1",
            "IPLOCAL=198.51.100.9",
            "IFNAME=ppp0",
        ];
        let arguments = [&path, "ppp0", "", "0", "198.51.100.9", "192.0.2.1", ""];
        let (code, out, err) = machine.run("env", &[&words[..], &variables, &arguments].concat());
        assert_eq!(code, 0, "{out}{err}");
    };
    run("ip-up");
    assert_eq!(
        matches(&machine, "cem"),
        serde_json::json!(["192.0.2.1/32"])
    );
    machine.send(3);
    assert_eq!(machine.alice()["down"]["passed_packets"], 0);
    run("ip-down");
    assert_eq!(matches(&machine, "cem"), serde_json::json!([]));
    machine.send(2);
    assert_eq!(machine.alice()["down"]["passed_packets"], 2);
    machine.gate(&["down"]);
}

/// Ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_dhcp_server_by_kea() {
    let hooks = glob("/usr/lib", "kea/hooks/libdhcp_run_script.so");
    let (Some(hook), Ok(_)) = (hooks, Command::new("udhcpc").arg("--help").output()) else {
        let line =
            "skipped TEST: gate_cli: needs Kea and udhcpc (packaging/setup test installs them)\n";
        let _ = std::io::stderr().write_all(line.as_bytes());
        return;
    };
    let Some(machine) = machine() else { return };
    program(&machine.path("lease"), &script("dhcp"));
    let network = format!(
        "set -e
        ip link add name lan0 type veth peer name lan1 address {CLIENT}
        ip link set lan0 up
        ip link set lan1 up
        ip address add 192.0.2.129/25 dev lan0"
    );
    let (code, _, err) = machine.run("sh", &["-c", &network]);
    assert_eq!(code, 0, "{err}");
    let configuration = serde_json::json!({ "Dhcp4": {
        "interfaces-config": { "interfaces": ["lan0"], "dhcp-socket-type": "raw" },
        "lease-database": { "type": "memfile", "persist": false },
        "valid-lifetime": 4,
        "expired-leases-processing": { "reclaim-timer-wait-time": 1 },
        "subnet4": [{ "id": 1, "subnet": "192.0.2.128/25", "pools": [{ "pool": "192.0.2.140 - 192.0.2.140" }] }],
        "hooks-libraries": [{ "library": hook, "parameters": { "name": machine.path("lease"), "sync": false } }],
    }});
    let file = machine.path("kea.json");
    fs::write(&file, configuration.to_string()).expect("written");
    let told = fs::File::create(machine.path("kea.log")).expect("a log");
    let server = machine
        .command("kea-dhcp4", &["-c", &file.display().to_string()])
        .env("KEA_LOCKFILE_DIR", machine.path(""))
        .env("KEA_PIDFILE_DIR", machine.path(""))
        .stdout(told.try_clone().expect("a log"))
        .stderr(told)
        .spawn()
        .expect("it runs");
    let _server = Server(server);
    let log = || fs::read_to_string(machine.path("kea.log")).unwrap_or_default();
    until("Kea listens", || log().contains("DHCP4_STARTED"));
    // Asks four times at most.
    let words = "-i lan1 -n -q -f -t 4 -T 2 -s /bin/true";
    let words: Vec<&str> = words.split(' ').collect();
    let (code, out, err) = machine.run("udhcpc", &words);
    assert_eq!(code, 0, "{out}{err}{}", log());
    let assigned = serde_json::json!(["192.0.2.140/32"]);
    until("the gate has the lease", || {
        matches(&machine, CLIENT) == assigned
    });
    // Nobody renews it.
    until("the gate has its end", || {
        matches(&machine, CLIENT) == serde_json::json!([])
    });
    machine.gate(&["down"]);
}

/// The file of this name below a folder for some architecture.
fn glob(folder: &str, name: &str) -> Option<PathBuf> {
    let mut all = fs::read_dir(folder).ok()?.flatten();
    all.find_map(|entry| Some(entry.path().join(name)).filter(|path| path.exists()))
}
