//! Bytes of a body on their way to the socket.

use std::sync::Arc;

use hyper::body::{Buf, Bytes};

use super::connection::Connection;
use super::hole;

/// Bytes of a body on their way to the socket. The writer calls `advance`, so the connection can tell them from other bytes.
#[derive(Debug)]
pub(super) struct Payload {
    content: Content,
    connection: Arc<Connection>,
}

#[derive(Debug)]
enum Content {
    Bytes(Bytes),
    /// A hole of this length, in place of a file's bytes.
    Hole(usize),
}

impl Payload {
    pub fn bytes(bytes: Bytes, connection: Arc<Connection>) -> Self {
        Self {
            content: Content::Bytes(bytes),
            connection,
        }
    }

    /// A hole of this length, for the last of the connection's parts.
    pub fn hole(length: usize, connection: Arc<Connection>) -> Self {
        Self {
            content: Content::Hole(length),
            connection,
        }
    }
}

impl Buf for Payload {
    fn remaining(&self) -> usize {
        match &self.content {
            Content::Bytes(bytes) => bytes.remaining(),
            Content::Hole(left) => *left,
        }
    }

    fn chunk(&self) -> &[u8] {
        match &self.content {
            Content::Bytes(bytes) => bytes,
            Content::Hole(left) => hole::of(*left),
        }
    }

    fn advance(&mut self, count: usize) {
        match &mut self.content {
            Content::Bytes(bytes) => bytes.advance(count),
            Content::Hole(left) => {
                let parts = self.connection.parts();
                parts.expect("holes need parts").passed(count);
                *left -= count;
            }
        }
        self.connection.delivered(count);
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        let left = self.remaining();
        if left == 0 {
            return;
        }
        if let (Content::Hole(_), Some(parts)) = (&self.content, self.connection.parts()) {
            parts.tear();
        }
        self.connection.discarded(left);
    }
}
