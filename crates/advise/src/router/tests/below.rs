//! Queues below classes of htb and below tbf.

use super::*;

const HTB: &str = "tc class add dev eth0 parent 1: classid 1:10 htb rate 10mbit\n";
const TBF: &str = "tc qdisc add dev eth0 root handle 1: tbf rate 10mbit burst 10k limit 100k\n";

/// The queue in bytes, and what is assumed.
fn queue(text: &str) -> (Option<u64>, Vec<String>) {
    (shaper(text).1, read(text).unwrap().assumed)
}

#[test]
fn fifos_below_a_limit_are_its_queue() {
    for (line, bytes) in [
        (
            "tc qdisc add dev eth0 parent 1:10 handle 20: pfifo limit 50",
            50 * 1514,
        ),
        (
            "tc qdisc replace dev eth0 handle 20: parent 1:10 bfifo limit 30k",
            30 << 10,
        ),
        (
            "tc qdisc add dev eth1 parent 1:10 sfq\ntc qdisc add dev eth0 parent 1:a sfq\ntc qdisc del dev eth0 parent 1:10 sfq\ntc qdisc add dev eth0 parent 1:10 pfifo limit 7",
            7 * 1514,
        ),
        (
            "qdisc add dev eth0 parent 1:10 pfifo limit 9\nqdisc change dev eth0 parent 1:10 pfifo limit 8",
            8 * 1514,
        ),
        (
            "tc qdisc add dev eth0 \\\n parent 1:10 \\\n pfifo limit 50",
            50 * 1514,
        ),
    ] {
        assert_eq!(
            queue(&format!("{HTB}{line}\n")),
            (Some(bytes), vec![]),
            "{line}"
        );
        let below_tbf = line.replace("1:10", "1:1");
        assert_eq!(
            queue(&format!("{TBF}{below_tbf}\n")).0,
            Some(bytes),
            "{line}"
        );
    }
    // Typed with a path, and both in one line.
    let path = format!("/sbin/tc qdisc add dev eth0 parent 1:10 pfifo limit 50\n{HTB}");
    let one_line = format!(
        "{} tc qdisc add dev eth0 parent 1:10 pfifo limit 50",
        HTB.trim_end()
    );
    for text in [path, one_line] {
        assert_eq!(queue(&text), (Some(50 * 1514), vec![]), "{text}");
    }
    let bare = format!("{HTB}tc qdisc add dev eth0 parent 1:10 pfifo\n");
    let (bytes, assumed) = queue(&bare);
    assert_eq!(bytes, Some(1000 * 1514));
    assert_eq!(
        assumed,
        ["The queue in line 2 has no `limit`: 1000 packets (`txqueuelen`) are assumed."]
    );
}

#[test]
fn queues_are_found_in_what_tc_prints() {
    let queues = "qdisc htb 1: dev eth0 root refcnt 2 r2q 10 default 0x10 direct_packets_stat 0 direct_qlen 1000\nqdisc pfifo 20: dev eth0 parent 1:10 limit 100p\n";
    let class = "class htb 1:10 parent 1:1 leaf 20: prio 0 rate 5Mbit ceil 10Mbit burst 15Kb cburst 1600b \n";
    for text in [format!("{queues}{class}"), format!("{class}{queues}")] {
        assert_eq!(queue(&text).0, Some(100 * 1514), "{text}");
    }
    let tbf = "qdisc tbf 8001: root refcnt 2 rate 10Mbit burst 32Kb lat 50ms \nqdisc bfifo 8002: parent 8001:1 limit 15140b\n";
    assert_eq!(queue(tbf), (Some(15_140), vec![]));
}

#[test]
fn other_queues_below_a_limit_are_not_taken_for_fifos() {
    for kind in ["fq_codel", "cake", "sfq perturb 10", "netem delay 5ms"] {
        let name = kind.split(' ').next().unwrap();
        for limit in [HTB, TBF] {
            let text = format!("{limit}tc qdisc add dev eth0 parent 1:10 handle 20: {kind}\n");
            let error = read(&text).unwrap_err();
            assert_eq!((error.line, error.column), (2, 46), "{error}");
            let said = format!("the queue below the limit in line 1 is `{name}`");
            assert!(error.message.starts_with(&said), "{error}");
        }
    }
    // Another class is not concerned.
    let second = HTB.replace("1:10", "1:20");
    let text = format!("{HTB}{second}tc qdisc add dev eth0 parent 1:10 fq_codel\n");
    let found = read(&text).unwrap();
    assert_eq!(found.line, 2);
    assert_assumed(&found, "Line 3 is left out");
    // A limit below a limit is one more.
    let text =
        format!("{HTB}tc qdisc add dev eth0 parent 1:10 tbf rate 5mbit burst 10k limit 50k\n");
    assert_assumed(&read(&text).unwrap(), "1 more limit");
}

#[test]
fn a_peak_rate_is_not_simulated() {
    for limit in [
        "tc qdisc add dev eth0 root tbf latency 50ms",
        "tc filter x police drop",
    ] {
        let text = format!("{limit} rate 10mbit burst 32k peakrate 20mbit minburst 1540");
        assert_assumed(&read(&text).unwrap(), "`peakrate` is not simulated");
    }
    // What the peak rate and its bucket send within `latency`, if it is less than what the rate and its own send.
    let tbf = "tc qdisc add dev eth0 root tbf rate 10mbit burst 100000 latency 50ms peakrate 11mbit minburst 1540";
    assert_eq!(queue(tbf).0, Some(68_750 + 1_540));
    assert_eq!(
        queue(&tbf.replace("11mbit", "100mbit")).0,
        Some(62_500 + 100_000)
    );
}

#[test]
fn only_the_leaves_of_a_tree_of_classes_have_queues() {
    let root = "tc class add dev eth0 parent 1: classid 1:1 htb rate 30mbit\n";
    let leaf = "tc class add dev eth0 parent 1:1 classid 1:10 htb rate 10mbit ceil 20mbit\n";
    let fifo = "tc qdisc add dev eth0 parent 1:10 pfifo limit 50\n";
    for text in [format!("{root}{leaf}{fifo}"), format!("{leaf}{fifo}{root}")] {
        assert_eq!(
            (shaper(&text).0, queue(&text).0),
            (20 * MBIT, Some(50 * 1514)),
            "{text}"
        );
        let notes = read(&text).unwrap().assumed;
        assert!(
            !notes.iter().any(|note| note.contains("more limit")),
            "{notes:?}"
        );
    }
    let error = read(&format!(
        "{root}{leaf}{}",
        fifo.replace("pfifo limit 50", "fq_codel")
    ));
    assert!(
        error
            .unwrap_err()
            .message
            .starts_with("the queue below the limit in line 2 is `fq_codel`")
    );
    let printed = "class htb 1:1 root rate 30Mbit ceil 30Mbit burst 1600b cburst 1600b \nclass htb 1:10 parent 1:1 leaf 20: prio 0 rate 10Mbit ceil 20Mbit burst 1600b cburst 1600b \nqdisc pfifo 20: parent 1:10 limit 50p\n";
    assert_eq!(
        (shaper(printed).0, queue(printed).0),
        (20 * MBIT, Some(50 * 1514))
    );
    // A class of another device is none of its children, nor is one that is removed.
    let elsewhere = leaf.replace("eth0", "eth1");
    let removed = leaf.replace("class add", "class del");
    for other in [elsewhere, removed] {
        assert_eq!(shaper(&format!("{root}{other}")).0, 30 * MBIT, "{other}");
    }
    // Classes in a circle are no tree.
    let circle = "tc class add dev eth0 parent 1:1 classid 1:1 htb rate 30mbit\n";
    assert_eq!(shaper(circle).0, 30 * MBIT);
}
