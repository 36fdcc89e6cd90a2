// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a file sequentially, with no more than one packet in memory.

use super::CaptureError;
use std::io::{self, Read};

/// Maximum size of a packet or block in bytes: 256 times the largest IP packet. A larger one is
/// treated as damaged.
pub(super) const PACKET_BYTES_MAX: usize = 16 << 20;

/// The capture file being read, with the read position.
pub(super) struct Input<R> {
    from: R,
    offset: u64,
    buffer: Vec<u8>,
}

impl<R: Read> Input<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, offset: 0, buffer: Vec::new() }
    }

    /// Returns the file offset of the next read.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the bytes that the last `take`, and any `take_more` since then, have read.
    pub(super) fn buffer(&self) -> &[u8] {
        &self.buffer
    }

    /// Reads `bytes` bytes, at most [`PACKET_BYTES_MAX`], into the buffer. If the file ends early,
    /// returns `false` with the remaining bytes in the buffer.
    pub(super) fn take(&mut self, bytes: usize) -> Result<bool, CaptureError> {
        self.buffer.clear();
        self.take_more(bytes)
    }

    /// Appends `bytes` more bytes to the buffer. Returns `false` if the file ends early.
    pub(super) fn take_more(&mut self, bytes: usize) -> Result<bool, CaptureError> {
        let taken = self.from.by_ref().take(bytes as u64).read_to_end(&mut self.buffer);
        let taken = taken.map_err(unreadable)?;
        self.offset += taken as u64;
        Ok(taken == bytes)
    }

    /// Skips `bytes` bytes. Returns `false` if the file ends early.
    pub(super) fn skip(&mut self, bytes: u64) -> Result<bool, CaptureError> {
        let skipped = io::copy(&mut self.from.by_ref().take(bytes), &mut io::sink());
        let skipped = skipped.map_err(unreadable)?;
        self.offset += skipped;
        Ok(skipped == bytes)
    }

    /// Reads to the end of the file and returns its size.
    pub(super) fn end(&mut self) -> Result<u64, CaptureError> {
        self.skip(u64::MAX)?;
        Ok(self.offset)
    }
}

fn unreadable(error: io::Error) -> CaptureError {
    CaptureError::Unreadable(error.to_string())
}
