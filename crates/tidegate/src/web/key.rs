//! The key that only the printed address has.
//!
//! Every program on this machine can reach a port on loopback. What is not for all users of the machine needs this key.

use std::fs::File;
use std::io::Read;

use anyhow::Context;
use axum::http::{HeaderMap, header};
use subtle::ConstantTimeEq;

/// What the page's requests carry: 128 random bits.
pub struct Key(String);

impl Key {
    /// Another key for each run of the program.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn random() -> anyhow::Result<Self> {
        let mut bytes = [0; 16];
        File::open("/dev/urandom")
            .and_then(|mut file| file.read_exact(&mut bytes))
            .context("cannot read /dev/urandom")?;
        Ok(Self(
            bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        ))
    }

    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether a request carries it.
    pub fn is_in(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(header::AUTHORIZATION);
        let given = given.and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        given.is_some_and(|given| given.ct_eq(self.0.as_bytes()).into())
    }
}

/// What a request without it is answered.
pub const MISSING: &str =
    "the key is missing or wrong: open the address that `tidegate web` printed";
