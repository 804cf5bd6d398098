//! A server of progressive video: HTTP/1.1 and HTTP/2, in two phases [Trickle §2], each connection paced in one of several ways.

mod account;
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
mod kernel;
mod listen;
mod listeners;
mod log;
mod memory;
mod metrics;
mod metrics_page;
mod mime;
mod pace;
mod privileges;
mod range;
mod request;
mod session;
mod shared;
mod slots;
mod socket;
#[cfg(test)]
mod tests;
mod tls;
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
pub use tidegate_limiter::pacing::{Way, WayError};
pub use tls::Certificate;
pub use viewer::{SessionName, SessionNameError};
