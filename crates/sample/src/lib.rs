#![doc = include_str!("../README.md")]
#![cfg(target_os = "linux")]

mod address;
mod choice;
mod choices;
mod counters;
mod error;
mod feed;
mod files;
mod filter;
mod folder;
mod fraction;
mod hide;
mod hook;
mod key;
mod listen;
mod load;
mod net;
mod options;
mod output;
mod packet;
mod place;
mod privileges;
mod records;
mod recover;
mod sampler;
mod source;
mod sys;

pub use address::Addresses;
pub use choice::{By, Choice};
pub use counters::Counters;
pub use error::{Refused, SampleError};
pub use feed::Consumer;
pub use files::{Closed, Rotation, was_set_back};
pub use fraction::Fraction;
pub use key::{Key, KeyError};
pub use net::{Network, Prefixes};
pub use options::{Event, Options};
pub use place::Place;
pub use privileges::drop_privileges;
pub use sampler::{Requests, Sampler};
pub use source::Source;
