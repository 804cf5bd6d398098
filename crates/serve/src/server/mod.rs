//! A server of progressive video: HTTP/1.1, HTTP/2 and HTTP/3, in two phases [Trickle §2], each connection paced in one of several ways.
// What only HTTP/3 uses is there without it too.
#![cfg_attr(not(feature = "http3"), allow(dead_code))]

mod account;
mod behind;
mod body;
mod cache;
mod conditional;
mod config;
mod connection;
mod cors;
mod disk;
mod error;
mod files;
mod handler;
#[cfg(feature = "http3")]
mod http3;
#[cfg(not(feature = "http3"))]
#[path = "http3/absent.rs"]
mod http3;
mod kernel;
mod listen;
mod listeners;
mod log;
mod memory;
mod metrics;
mod metrics_page;
mod mime;
mod pace;
mod patience;
mod payload;
mod privileges;
#[cfg(feature = "http3")]
mod quic;
#[cfg(not(feature = "http3"))]
#[path = "quic/absent.rs"]
mod quic;
mod range;
mod reloads;
mod request;
mod rest;
mod resting;
mod sending;
mod session;
mod shared;
mod slots;
mod socket;
#[cfg(test)]
mod tests;
mod tick;
mod tls;
mod transport;
mod viewer;
mod viewers;
mod workers;

pub use cache::{CacheError, CacheRule};
pub use config::{Config, Group, Limits, LogFormat, LogTo};
pub use cors::{Origin, OriginError};
pub use error::ServeError;
pub use listen::Server;
pub use listeners::{Listen, ListenError};
pub use privileges::drop_privileges;
pub use reloads::Reloads;
pub use tidegate_limiter::pacing::{Way, WayError};
pub use tls::Certificate;
pub use viewer::{SessionName, SessionNameError};
