#![doc = include_str!("../README.md")]
#![cfg(target_os = "linux")]

mod choice;
mod error;
mod files;
mod filter;
mod fraction;
mod key;
mod net;
mod packet;
mod privileges;
mod sampler;
mod sys;

pub use choice::{By, Choice};
pub use error::SampleError;
pub use files::{Closed, Rotation};
pub use fraction::Fraction;
pub use key::{Key, KeyError};
pub use net::{Network, Prefixes};
pub use privileges::drop_privileges;
pub use sampler::{Event, Options, Sampler, Source};
