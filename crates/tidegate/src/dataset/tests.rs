//! What happens between threads, where a test of the program could only wait for chance.

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    detect: Detect,
}

/// Two threads have the same content under two names. The second one must not be lost if the first one gives up.
#[test]
fn a_capture_waits_for_another_one_of_the_same_content() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("rows");
    let Line { detect } = Line::parse_from([
        "detect".as_ref(),
        "--follow".as_ref(),
        "--dataset".as_ref(),
        root.as_os_str(),
        folder.path().as_os_str(),
    ]);
    let detector = detect.analysis.detector().unwrap();
    let job = Job {
        options: &detect,
        detector,
        dataset: open(&root, &detect.analysis, &detector, &[]).unwrap(),
        networks: Networks::default(),
        bar: ProgressBar::hidden(),
        stop: Arc::default(),
        terminated: Arc::default(),
        count: Count::default(),
        broken: OnceLock::new(),
        unsaid: OnceLock::new(),
        waiting: Mutex::default(),
        unread: Unread::default(),
        told: AtomicBool::default(),
    };
    let capture = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../corpus/policed-1500kbit/policed-1500kbit.pcap.xz"
    );
    let input = Input::file(Path::new(capture));
    let file = input.open(&job.bar, &job.stop).unwrap();
    let content = job.dataset.identify([("first", file)]).unwrap();
    let Ok(Claim::New(draft)) = job.dataset.claim(content) else {
        panic!("it is new")
    };
    assert!(job.add(&input).unwrap().error.is_none());
    assert!(job.free().is_empty(), "the first one is not done");
    drop(draft);
    let free = job.free();
    assert_eq!(free.len(), 1);
    assert!(job.add(&free[0]).unwrap().error.is_none());
    assert_eq!(job.count.added.load(Ordering::Relaxed), 1);

    // One that left its name is no problem: it arrives again. Others are tried again.
    let at = |name: &str| folder.path().join(name);
    let gone = job.add(&Input::file(&at("gone.pcap"))).unwrap();
    assert!(gone.error.is_none());
    std::os::unix::fs::symlink(at("loop.pcap"), at("loop.pcap")).unwrap();
    let closed = job.add(&Input::file(&at("loop.pcap"))).unwrap();
    assert!(closed.error.is_some() && job.unread.take(&at("loop.pcap")));
}

#[test]
fn a_panic_of_a_thread_stops_the_others() {
    let stop = AtomicBool::new(false);
    drop(Alarm(&stop));
    assert!(!stop.load(Ordering::Relaxed));
    let ended = std::thread::scope(|scope| {
        let work = || {
            let _alarm = Alarm(&stop);
            std::panic::resume_unwind(Box::new("without a message"));
        };
        scope.spawn(work).join()
    });
    assert!(ended.is_err() && stop.load(Ordering::Relaxed));
}
