//! The capture that tests of several commands read.

use std::path::Path;

/// A capture of five transfers that a router policed to 1.5 Mbit/s.
pub fn capture() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../corpus/policed-1500kbit/policed-1500kbit.pcap.xz");
    path.to_str().expect("text").to_owned()
}
