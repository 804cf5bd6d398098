//! Captures of samplers in datasets.

use tidegate_trace::read::Capture;
use tidegate_trace::write::pcapng::{Interface, Marks, PcapngWriter, Section};

use super::*;

/// A capture of transfers whose clients have networks in the tables.
fn policed() -> PathBuf {
    let is_it = |path: &PathBuf| text(path).contains("policed-1500kbit");
    captures().into_iter().find(is_it).expect("a capture")
}

/// A capture's frames in sections with these shares, as a sampler writes them: the share changes after so many frames.
pub fn with_shares(capture: &Path, shares: &[(usize, &str)]) -> (Vec<u8>, Vec<u64>) {
    let mut capture = Capture::new(File::open(capture).expect("a capture")).expect("a capture");
    let (mut bytes, mut times) = (Vec::new(), Vec::new());
    for (frames, share) in shares {
        let comment = format!("tidegate sample: fraction={share} by=flow");
        let section = Section {
            comment: &comment,
            ..Section::default()
        };
        let mut out = None;
        for _ in 0..*frames {
            let Some(frame) = capture.frame().expect("whole") else {
                break;
            };
            let out = out.get_or_insert_with(|| {
                times.push(frame.at);
                let interface = Interface {
                    name: "eth0",
                    link: frame.link,
                    filter: "",
                };
                PcapngWriter::new(Vec::new(), &section, &interface).expect("written")
            });
            out.frame(frame.at, frame.data, frame.wire_len, Marks::default())
                .expect("written");
        }
        bytes.extend(out.expect("frames").into_inner());
    }
    (bytes, times)
}

/// The sampler's share is in its files, so nobody has to repeat it. A transfer has the smallest share of its time.
#[test]
fn the_share_of_a_sampler_is_in_the_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let changes = [(300, "0.01"), (300, "0.005"), (usize::MAX, "0.02")];
    let (bytes, times) = with_shares(&policed(), &changes);
    assert_eq!(times.len(), changes.len());
    let sampled = folder.path().join("sampled.pcapng");
    fs::write(&sampled, bytes).expect("written");
    let dataset = folder.path().join("dataset");
    let (code, _, err) = run(&["detect", "--dataset", text(&dataset), text(&sampled)]);
    assert_eq!(code, 0, "{err}");
    let of = &["sampled_fraction", "start_s", "duration_s"];
    let found = rows(&dataset, of);
    for row in &found {
        let start: u64 = row[1].parse().expect("nanoseconds");
        let seconds: f64 = row[2].parse().unwrap_or(0.0);
        let end = start + (seconds * 1e9).round() as u64;
        let expected = match (end < times[1], start < times[2]) {
            (true, _) => "0.01",
            (_, true) => "0.005",
            _ => "0.02",
        };
        assert_eq!(row[0], expected, "{row:?}, changes at {times:?}");
    }
    assert!(found.iter().any(|row| row[0] == "0.005"), "{found:?}");

    // What the user says counts.
    let other = folder.path().join("other");
    let arguments = ["detect", "--dataset", text(&other), "--sampled", "0.5"];
    let (code, _, err) = run(&[&arguments[..], &[text(&sampled)]].concat());
    assert_eq!(code, 0, "{err}");
    let shares: BTreeSet<Key> = rows(&other, &["sampled_fraction"]).into_iter().collect();
    assert_eq!(shares, BTreeSet::from([vec!["0.5".to_owned()]]));
}

/// Each sampler has a share of its own, so the files of two are not one capture. They can be added apart.
#[test]
fn files_of_two_samplers_are_not_joined() {
    let folder = tempfile::tempdir().expect("a folder");
    let from = folder.path().join("samples");
    fs::create_dir(&from).expect("a folder");
    for (interface, share, capture) in [("eth0", "0.5", 0), ("eth1", "0.001", 1)] {
        let said = format!("{share} addresses=keep key=0 host=web1 interface={interface}");
        let (bytes, _) = with_shares(&captures()[capture], &[(usize::MAX, &said)]);
        fs::write(from.join(format!("{interface}.pcapng")), bytes).expect("written");
    }
    let dataset = folder.path().join("dataset");
    let arguments = ["detect", "--dataset", text(&dataset), text(&from)];
    let (code, _, err) = run(&[&arguments[..], &["--join"]].concat());
    assert_eq!(code, 1, "{err}");
    let apart = "of a sampler on eth1 of web1, and before of one on eth0 of web1";
    assert!(err.contains(apart), "{err}");
    let (code, _, err) = run(&arguments);
    assert_eq!(code, 0, "{err}");
    let shares: BTreeSet<Key> = rows(&dataset, &["sampled_fraction"]).into_iter().collect();
    let expected = ["0.001", "0.5"].map(|share| vec![share.to_owned()]);
    assert_eq!(shares, BTreeSet::from(expected));
}

#[test]
fn pseudonyms_have_no_networks() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = format!("{}/../dataset/tests/asn.mmdb", env!("CARGO_MANIFEST_DIR"));
    for (addresses, some) in [("keep", true), ("pseudonym", false)] {
        let capture = folder.path().join(format!("{addresses}.pcapng"));
        let said = format!("0.5 addresses={addresses}");
        let (bytes, _) = with_shares(&policed(), &[(usize::MAX, &said)]);
        fs::write(&capture, bytes).expect("written");
        let dataset = folder.path().join(addresses);
        let arguments = ["detect", "--dataset", text(&dataset), "--asn", &table];
        let (code, _, err) = run(&[&arguments[..], &[text(&capture)]].concat());
        assert_eq!(code, 0, "{err}");
        assert_eq!(err.contains("pseudonyms, which have no networks"), !some);
        let found = rows(&dataset, &["client_asn"]);
        assert_eq!(found.iter().any(|row| row[0] != "null"), some, "{found:?}");
    }
}
