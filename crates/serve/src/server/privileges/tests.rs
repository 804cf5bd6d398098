use super::drop_privileges;

#[test]
fn nothing_remains() {
    // Each thread has separate capabilities: only this thread loses them.
    let thread = std::thread::spawn(|| {
        drop_privileges().unwrap();
        std::fs::read_to_string("/proc/thread-self/status").unwrap()
    });
    let status = thread.join().unwrap();
    for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
        let line = format!("{set}:\t0000000000000000\n");
        assert!(status.contains(&line), "{status}");
    }
    assert!(status.contains("NoNewPrivs:\t1\n"), "{status}");
}
