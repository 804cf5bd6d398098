//! Interfaces that are special: loopback, and those that go down for a while.

use std::collections::BTreeSet;
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use tidegate_sample::{By, Event, Options, Place, Prefixes, Requests, Sampler, Source};
use tidegate_testbed::namespace::Namespace;
use tidegate_trace::read::Capture;
use tidegate_trace::wire::{Flags, decode};

use crate::{Failure, at_both_places, choice, fetch, flows, namespace, pair, sampled, serve};

at_both_places!(
    packets_of_loopback_are_taken_once,
    an_interface_that_was_down_is_sampled_again,
    packets_of_an_interface_that_is_removed_are_kept,
    both_directions_of_a_client_pass_a_port_of_a_bridge,
);

fn packets_of_loopback_are_taken_once(place: Place) -> Result<(), Failure> {
    let Some(space) = namespace("packets_of_loopback_are_taken_once")? else {
        return Ok(());
    };
    space.ip("link set lo up")?;
    let folder = tempfile::tempdir()?;
    let mut options = Options::new("lo", folder.path().join("out"), choice(1.0));
    options.place = place;
    let (files, _) = sampled(&space, options, || {
        transfer(&space, &space, "127.0.0.1:4000")
    });
    let mut openings = 0;
    for file in files {
        let mut capture = Capture::new(File::open(file)?)?;
        while let Some(frame) = capture.frame()? {
            let packet = decode(&frame).expect("a TCP packet");
            openings += u32::from(packet.flags.has(Flags::SYN));
        }
    }
    assert_eq!(openings, 2, "a SYN and the answer");
    Ok(())
}

fn packets_of_an_interface_that_is_removed_are_kept(place: Place) -> Result<(), Failure> {
    let Some((server, client)) = pair("packets_of_an_interface_that_is_removed_are_kept")? else {
        return Ok(());
    };
    let folder = tempfile::tempdir()?;
    let mut options = Options::new("inside", folder.path(), choice(1.0));
    options.place = place;
    let source = server.enter(|| Source::open(&options))??;
    let mut sampler = Sampler::new(source, options)?;
    let requests = Requests::default();
    let mut files = Vec::new();
    thread::scope(|scope| {
        let running = scope.spawn(|| {
            sampler.run(&requests, &mut |event| {
                if let Event::Closed(closed) = event {
                    files.push(closed.path);
                }
            })
        });
        transfer(&server, &client, "192.0.2.1:4000");
        // The kernel hands over what it has several times a second.
        thread::sleep(Duration::from_millis(600));
        server.ip("link del inside").expect("removed");
        let error = running.join().expect("no panic").expect_err("it is gone");
        assert!(error.to_string().contains("went away"), "{error}");
    });
    assert_eq!(flows(&files).len(), 2, "both directions");
    Ok(())
}

fn an_interface_that_was_down_is_sampled_again(place: Place) -> Result<(), Failure> {
    let Some((server, client)) = pair("an_interface_that_was_down_is_sampled_again")? else {
        return Ok(());
    };
    let folder = tempfile::tempdir()?;
    let mut options = Options::new("inside", folder.path().join("out"), choice(1.0));
    options.place = place;
    let (files, _) = sampled(&server, options, || {
        for port in [4000, 4001] {
            transfer(&server, &client, &format!("192.0.2.1:{port}"));
            server.ip("link set inside down").expect("down");
            // Longer than the sampler waits for packets at a time.
            thread::sleep(Duration::from_millis(600));
            server.ip("link set inside up").expect("up");
        }
    });
    let mut ports: Vec<u16> = flows(&files).keys().map(|(from, _)| from.port()).collect();
    ports.retain(|port| *port < 5000);
    assert_eq!(ports, [4000, 4001]);
    Ok(())
}

/// The port leads to the server, so there the server's address is that of the client, whatever the ports of the flows say.
fn both_directions_of_a_client_pass_a_port_of_a_bridge(place: Place) -> Result<(), Failure> {
    let test = "both_directions_of_a_client_pass_a_port_of_a_bridge";
    let Some(middle) = namespace(test)? else {
        return Ok(());
    };
    let (server, client) = (Namespace::new()?, Namespace::new()?);
    middle.veth("inner", &server, "inside")?;
    middle.veth("outer", &client, "outside")?;
    middle.bridge("bridge", &["inner", "outer"])?;
    // What says which interfaces are ports is that of the namespace where it is mounted.
    middle.run("mount", "-t sysfs sysfs /sys")?;
    client.address("outside", "192.0.2.2".parse()?, 24)?;
    let servers: Vec<SocketAddr> = (11..19)
        .map(|last| ([192, 0, 2, last], 4000).into())
        .collect();
    for address in &servers {
        server.address("inside", address.ip(), 24)?;
    }
    let folder = tempfile::tempdir()?;
    let mut options = Options::new("inner", folder.path(), choice(0.5));
    options.choice.by = By::Client(Prefixes { v4: 32, v6: 64 });
    options.place = place;
    let choice = options.choice.clone();
    let (files, _) = sampled(&middle, options, || {
        for address in &servers {
            transfer(&server, &client, &address.to_string());
        }
    });
    let taken = |address: &&SocketAddr| choice.takes_client(address.ip());
    let expected: BTreeSet<SocketAddr> = servers.iter().filter(taken).copied().collect();
    assert!((1..8).contains(&expected.len()), "{expected:?}");
    let found = flows(&files);
    let leaving: BTreeSet<SocketAddr> = found.keys().map(|(_, to)| *to).collect();
    let arriving: BTreeSet<SocketAddr> = found.keys().map(|(from, _)| *from).collect();
    let of_servers = |ends: &BTreeSet<SocketAddr>| -> BTreeSet<SocketAddr> {
        ends.iter()
            .filter(|end| servers.contains(end))
            .copied()
            .collect()
    };
    assert_eq!(of_servers(&leaving), expected);
    assert_eq!(of_servers(&arriving), expected);
    Ok(())
}

/// A short connection to this address of the server.
fn transfer(server: &Namespace, client: &Namespace, address: &str) {
    let address: SocketAddr = address.parse().expect("an address");
    let listener = server.enter(|| TcpListener::bind(address));
    let listener = listener.expect("the namespace").expect("bound");
    thread::scope(|scope| {
        scope.spawn(|| serve(&listener, 1).expect("served"));
        let all = client.enter(|| fetch(address, 100));
        all.expect("the namespace").expect("fetched");
    });
    // The last packets are on their way.
    thread::sleep(Duration::from_millis(300));
}
