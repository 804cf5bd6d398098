//! Plans, policies and seats as the programs of the gate read them, in the maps of any data path.

mod access;
pub(crate) mod directory;
pub(crate) mod layout;
pub(crate) mod nodes;
pub(crate) mod policy;
mod record;
pub(crate) mod stored_once;
pub(crate) mod watched;

pub(crate) use access::Maps;
pub use access::MapsError;
pub use layout::Stranger;
