//! The secret that chooses flows and makes pseudonyms.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use sha2::{Digest, Sha256};

/// Bytes of a key.
const LENGTH: usize = 32;
/// Secret words of the hash that chooses flows: one to begin with, four for each address, and one for the ports.
pub(crate) const WORDS: usize = 10;
/// No file with a key is longer.
const LONGEST: u64 = 4096;

/// A secret of 32 bytes. Servers with the same key sample the same flows.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; LENGTH]);

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The file, or the system's random numbers, cannot be read.
    #[error("cannot read {0}: {1}")]
    Read(String, io::Error),
    /// It holds something else.
    #[error(
        "{0}: this is not a key of 64 hexadecimal digits. To make one: (umask 077; openssl rand -hex 32 > {0})"
    )]
    NotAKey(String),
}

impl Key {
    /// A random key.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn random() -> Result<Self, KeyError> {
        let source = "/dev/urandom";
        let mut bytes = [0; LENGTH];
        let read = fs::File::open(source).and_then(|mut file| {
            use io::Read as _;
            file.read_exact(&mut bytes)
        });
        read.map_err(|error| KeyError::Read(source.to_owned(), error))?;
        Ok(Self(bytes))
    }

    /// The key in a file of 64 hexadecimal digits.
    ///
    /// # Errors
    /// It cannot be read, or holds something else.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        use io::Read as _;
        let name = path.display().to_string();
        let mut text = String::new();
        fs::File::open(path)
            .and_then(|file| file.take(LONGEST).read_to_string(&mut text))
            .map_err(|error| match error.kind() {
                io::ErrorKind::InvalidData => KeyError::NotAKey(name.clone()),
                _ => KeyError::Read(name.clone(), error),
            })?;
        Self::parse(text.trim()).ok_or(KeyError::NotAKey(name))
    }

    fn parse(text: &str) -> Option<Self> {
        let digits: Option<Vec<u8>> = text
            .chars()
            .map(|digit| digit.to_digit(16).map(|value| value as u8))
            .collect();
        let digits = digits.filter(|digits| digits.len() == 2 * LENGTH)?;
        let mut bytes = [0; LENGTH];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
        Some(Self(bytes))
    }

    /// A key for tests and examples.
    pub fn from_bytes(bytes: [u8; LENGTH]) -> Self {
        Self(bytes)
    }

    /// The secret words of the hash that chooses flows.
    pub(crate) fn for_flows(&self) -> [u64; WORDS] {
        std::array::from_fn(|at| {
            let bytes = self.derived(&format!("tidegate sample: flows {at}"));
            (u128::from_be_bytes(bytes) >> 64) as u64
        })
    }

    /// The two keys of Crypto-PAn, as its authors split them: the cipher's, and the one that makes the padding.
    pub(crate) fn for_addresses(&self) -> ([u8; 16], [u8; 16]) {
        let (mut cipher, mut pad) = ([0; 16], [0; 16]);
        cipher.copy_from_slice(&self.0[..16]);
        pad.copy_from_slice(&self.0[16..]);
        (cipher, pad)
    }

    /// A name that does not tell the key: files with the same name were sampled with the same key.
    pub fn name(&self) -> String {
        let bytes = self.derived("tidegate sample: name");
        bytes[..4]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    fn derived(&self, purpose: &str) -> [u8; 16] {
        let digest = Sha256::new()
            .chain_update(purpose)
            .chain_update(self.0)
            .finalize();
        let mut key = [0; 16];
        key.copy_from_slice(&digest[..16]);
        key
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_digits_is_a_key_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let digits = "00ff".repeat(16);
        fs::write(&path, format!("{digits}\n")).unwrap();
        let key = Key::read(&path).unwrap();
        assert_eq!(key.0[..4], [0, 255, 0, 255]);
        assert!(!format!("{key:?}").contains("00ff00ff"));
        for wrong in [
            "",
            "00ff",
            &"0g".repeat(32),
            &digits.repeat(2),
            &"é".repeat(64),
        ] {
            fs::write(&path, wrong).unwrap();
            let error = Key::read(&path).unwrap_err();
            assert!(matches!(error, KeyError::NotAKey(_)), "{wrong}: {error}");
        }
        fs::write(&path, [0xff; 64]).unwrap();
        assert!(matches!(Key::read(&path), Err(KeyError::NotAKey(_))));
        assert_ne!(Key::random().unwrap(), Key::random().unwrap());
    }
}
