//! Who is who, as an access server says by RADIUS.

use super::*;

/// A circuit without an address, as in LibreQoS's example for RADIUS: the column MAC has the name of its user.
const CIRCUITS: &str = "Circuit ID,Circuit Name,Device ID,Device Name,Parent Node,MAC,IPv4,IPv6,\
    Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps,Comment\n\
    circuit-1,One,device-1,Router,,pppoe-one,,,6,3,60,20,\n";

/// FreeRADIUS's radclient tells the gate who has which address, and changes plans.
#[test]
fn an_access_server_by_radius() {
    let skipped = |why: &str| {
        let line = format!("skipped TEST: gate_cli: {why}\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    };
    if Command::new("radclient").arg("-v").output().is_err() {
        return skipped("needs radclient (packaging/setup test installs it)");
    }
    let machine = match Machine::new(None) {
        Ok(machine) => machine,
        Err(error) => return skipped(&format!("needs root and a BPF file system: {error}")),
    };
    let secret = machine.path("radius.secret");
    fs::write(&secret, "testing123\n").expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&secret, mode).expect("set");
    let radius = "[radius]\naccounting = \"127.0.0.1:1813\"\nchange = \"127.0.0.1:3799\"\n\
        secret = \"radius.secret\"\nclients = [\"127.0.0.1\"]\n\
        [[subscriber]]\nname = \"cem\"\nplan = \"gold\"\naddresses = \"live\"\nusers = \"cem@isp\"\n\
        [[subscriber]]\nname = \"dot\"\nplan = \"gold\"\naddresses = \"live\"\nsuspended = true\n\
        [[import]]\ncsv = \"circuits.csv\"\nlive = true\n";
    fs::write(machine.path("circuits.csv"), CIRCUITS).expect("written");
    machine.write(&(FILE.to_owned() + radius));
    let daemon = machine.daemon();
    let of = |name: &str| -> Value {
        serde_json::from_str(&machine.gate(&["status", name, "--json"])).expect("JSON")
    };
    let ask = |port: u16, kind: &str, secret: &str, attributes: &str| {
        let script = format!(
            "echo '{attributes}' | radclient -x -t 2 -r 1 127.0.0.1:{port} {kind} {secret}"
        );
        let (code, out, err) = machine.run("sh", &["-c", &script]);
        (code, out + &err)
    };
    let acct = |attributes: &str| ask(1813, "acct", "testing123", attributes);
    let coa = |kind: &str, attributes: &str| ask(3799, kind, "testing123", attributes);

    // A session begins, with the address that alice has in the file, and its packets are counted for cem.
    let session = "User-Name = cem, Framed-IP-Address = 192.0.2.1, Acct-Session-Id = 1, Delegated-IPv6-Prefix = 2001:db8:77::/48";
    let (code, said) = acct(&format!("Acct-Status-Type = Start, {session}"));
    assert!(code == 0 && said.contains("Accounting-Response"), "{said}");
    assert_eq!(
        of("cem")["matches"],
        serde_json::json!(["192.0.2.1/32", "2001:db8:77::/48"])
    );
    machine.send(4);
    assert_eq!(of("cem")["down"]["passed_packets"], 4);
    assert_eq!(of("alice")["down"]["passed_packets"], 0);
    assert_eq!(
        acct(&format!("Acct-Status-Type = Interim-Update, {session}")).0,
        0
    );
    // Nobody's session is answered, so that it is not sent again.
    assert_eq!(
        acct("Acct-Status-Type = Start, User-Name = nobody, Framed-IP-Address = 192.0.2.1").0,
        0
    );

    // Its end is not that of an earlier session, whose packet comes late.
    let late = session.replace("Acct-Session-Id = 1", "Acct-Session-Id = 0");
    assert_eq!(acct(&format!("Acct-Status-Type = Stop, {late}")).0, 0);
    assert_eq!(of("cem")["matches"].as_array().map(Vec::len), Some(2));
    // A change is none of accounting's business, and what proxies note comes back.
    let (_, said) = ask(
        1813,
        "coa",
        "testing123",
        "User-Name = cem, Filter-Id = gold",
    );
    assert!(said.contains("No reply"), "{said}");
    let change = "User-Name = cem, Filter-Id = gold, Proxy-State = 0x6f6e65";
    let (code, said) = coa("coa", change);
    assert!(code == 0 && said.matches("0x6f6e65").count() == 2, "{said}");
    let (_, said) = coa(
        "coa",
        "User-Name = dot, Framed-IP-Address = 192.0.2.1, Filter-Id = gold",
    );
    assert!(said.contains("Session-Context-Not-Found"), "{said}");

    // Who has another name there.
    for (user, subscriber, address) in [
        ("pppoe-one", "circuit-1", "192.0.2.77"),
        ("cem@isp", "cem", "192.0.2.78"),
    ] {
        let session = format!("User-Name = \"{user}\", Framed-IP-Address = {address}");
        acct(&format!("Acct-Status-Type = Start, {session}"));
        let has = format!("{address}/32");
        let matches = of(subscriber)["matches"].to_string();
        assert!(matches.contains(&has), "{subscriber}: {matches}");
        acct(&format!("Acct-Status-Type = Stop, {session}"));
        let matches = of(subscriber)["matches"].to_string();
        assert!(!matches.contains(&has), "{subscriber}: {matches}");
    }

    // Changes: a plan, rates, and what cannot be done.
    let (code, said) = coa("coa", "User-Name = cem, Filter-Id = iron");
    assert!(
        code != 0 && said.contains("CoA-NAK") && said.contains("Invalid-Request"),
        "{said}"
    );
    let (code, said) = coa(
        "coa",
        "Framed-IP-Address = 192.0.2.1, WISPr-Bandwidth-Max-Down = 3000000",
    );
    assert!(code == 0 && said.contains("CoA-ACK"), "{said}");
    assert_eq!(of("cem")["down"]["rate"], 3_000_000);
    assert_eq!(coa("coa", "User-Name = cem, Filter-Id = gold").0, 0);
    assert_eq!(
        (&of("cem")["down"]["rate"], &of("cem")["plan"]),
        (&50_000_000.into(), &"gold".into())
    );
    // Only rates end with a new plan. Who is suspended in the file and not by a live change stays so.
    let set = [
        "set",
        "dot",
        "--resume",
        "--from-mac",
        "02:00:00:00:00:07",
        "--key",
        "boost=5s",
    ];
    machine.gate(&[&set[..], &["--down", "3mbit"]].concat());
    let from = of("dot")["from"].clone();
    assert_eq!(coa("coa", "User-Name = dot, Filter-Id = basic").0, 0);
    let dot = of("dot");
    assert_eq!(
        (&dot["plan"], &dot["down"]["rate"], &dot["suspended"]),
        (&"basic".into(), &10_000_000.into(), &false.into()),
        "{dot}"
    );
    assert_eq!(dot["keys"], serde_json::json!({ "boost": "5s" }));
    assert!(dot["from"] == from && !from.is_null(), "{dot}");
    let (_, said) = coa("coa", "User-Name = nobody, Filter-Id = gold");
    assert!(said.contains("Session-Context-Not-Found"), "{said}");
    let (_, said) = coa("coa", "Filter-Id = gold");
    assert!(said.contains("Missing-Attribute"), "{said}");
    // Another secret gets no answer.
    let (code, said) = ask(3799, "coa", "guessed", "User-Name = cem, Filter-Id = gold");
    assert!(code != 0 && said.contains("No reply"), "{said}");

    // The session ends: the file says whose the address is.
    assert_eq!(acct(&format!("Acct-Status-Type = Stop, {session}")).0, 0);
    machine.send(2);
    assert_eq!(of("alice")["down"]["passed_packets"], 2);
    assert_eq!(of("cem")["matches"], serde_json::json!([]));
    // A session that is ended from outside.
    acct(&format!("Acct-Status-Type = Start, {session}"));
    let (code, said) = coa("disconnect", "User-Name = cem");
    assert!(code == 0 && said.contains("Disconnect-ACK"), "{said}");
    assert_eq!(of("cem")["matches"], serde_json::json!([]));
    // alice has hers in the file. Another subscriber has it now, and keeps it.
    acct(&format!("Acct-Status-Type = Start, {session}"));
    for user in ["alice", "dot"] {
        let (_, said) = coa("disconnect", &format!("User-Name = {user}"));
        assert!(said.contains("Session-Context-Not-Found"), "{user}: {said}");
    }
    assert_eq!(of("cem")["matches"].as_array().map(Vec::len), Some(2));

    // Prefixes may have 16 lengths; /48 and /56 are in use. What has no room is answered, since it would have none when it
    // is sent again.
    for bits in 20..34 {
        machine.gate(&["assign", "dot", &format!("2001::/{bits}")]);
    }
    let before = of("cem")["matches"].clone();
    let (code, said) = acct(
        "Acct-Status-Type = Start, User-Name = cem, Delegated-IPv6-Prefix = 2001:db8:7000::/36",
    );
    assert!(code == 0 && said.contains("Accounting-Response"), "{said}");
    assert_eq!(of("cem")["matches"], before);
    let error = machine.gate_fails(&["assign", "cem", "2001:db8:7000::/36"], 1);
    let needed =
        "2001:db8:7000::/36 cannot be assigned: 17 different lengths of IPv6 prefixes are needed";
    assert!(error.contains(needed), "{error}");

    // However many packets are ignored, they are a line a second.
    let began = Instant::now();
    let flood = "for i in $(seq 200); do echo x > /dev/udp/127.0.0.1/1813; done; sleep 1.2";
    assert_eq!(machine.run("bash", &["-c", flood]).0, 0);
    let seconds = began.elapsed().as_secs();
    machine.gate(&["down"]);
    daemon.signal("-TERM");
    let (_, log) = daemon.ended();
    let lines = log
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let ignored: Vec<Value> = lines
        .filter(|line: &Value| line.to_string().contains("no packet of RADIUS"))
        .collect();
    assert!(ignored.len() as u64 <= seconds + 1, "{ignored:?}");
    let packets = |line: &Value| line["packets"].as_u64().unwrap_or(1);
    assert_eq!(ignored.iter().map(packets).sum::<u64>(), 200, "{ignored:?}");
}
