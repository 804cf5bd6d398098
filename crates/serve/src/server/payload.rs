//! Bytes of a body on their way to the socket.

use std::sync::Arc;

use hyper::body::{Buf, Bytes};

use super::connection::Connection;

/// Bytes of a body on their way to the socket. The writer calls `advance`, so the connection can tell them from other bytes.
#[derive(Debug)]
pub(super) struct Payload {
    bytes: Bytes,
    connection: Arc<Connection>,
}

impl Payload {
    pub fn new(bytes: Bytes, connection: Arc<Connection>) -> Self {
        Self { bytes, connection }
    }
}

impl Buf for Payload {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.connection.delivered(count);
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        let left = self.remaining();
        if left > 0 {
            self.connection.discarded(left);
        }
    }
}
