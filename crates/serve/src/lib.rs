//! A video server that keeps its own rate, and a player that measures it.
//!
//! [`server`] sends progressive video over HTTP/1.1 and HTTP/2, each connection paced; [`media`] says how fast videos
//! play; [`player`] watches videos as a browser would, and reports what a viewer would have seen.

pub mod media;
pub mod player;
pub mod server;
