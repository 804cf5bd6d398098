//! The kernel's counters under `/proc/net`, read many times from files that stay open.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::TestbedError;

/// The error for a file of the kernel whose form is unknown.
pub(crate) fn unreadable(file: &str) -> TestbedError {
    TestbedError::System {
        what: "read the namespace's counters",
        source: io::Error::new(
            io::ErrorKind::InvalidData,
            format!("unknown form of {file}"),
        ),
    }
}

/// Reads an open file of the kernel from its start. The file's position is not used, because clones
/// of the file share it.
pub(crate) fn read_again(file: &File) -> Result<String, TestbedError> {
    let failed = TestbedError::system("read the namespace's counters");
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let read = file.read_at(&mut buffer, bytes.len() as u64);
        match read.map_err(&failed)? {
            0 => break,
            read => bytes.extend_from_slice(&buffer[..read]),
        }
    }
    String::from_utf8(bytes).map_err(|_| unreadable("/proc/net"))
}
