// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file read piece by piece: only one packet is in memory at a time.

use super::CaptureError;
use std::io::{self, Read};

/// Bytes of a packet or block at most; 60 times what a network carries at once. Longer ones are
/// damage.
pub(super) const PACKET_BYTES_MAX: usize = 16 << 20;

/// A file and how much of it was read.
pub(super) struct Input<R> {
    from: R,
    offset: u64,
    buffer: Vec<u8>,
}

impl<R: Read> Input<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, offset: 0, buffer: Vec::new() }
    }

    /// Bytes from the start of the file to what is read next.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The bytes taken last.
    pub(super) fn buffer(&self) -> &[u8] {
        &self.buffer
    }

    /// Takes `bytes`, [`PACKET_BYTES_MAX`] at most, into the buffer; `false` where the file ends
    /// before: then those that there are.
    pub(super) fn take(&mut self, bytes: usize) -> Result<bool, CaptureError> {
        self.buffer.clear();
        self.take_more(bytes)
    }

    /// Takes `bytes` behind those that were taken last.
    pub(super) fn take_more(&mut self, bytes: usize) -> Result<bool, CaptureError> {
        let taken = self.from.by_ref().take(bytes as u64).read_to_end(&mut self.buffer);
        let taken = taken.map_err(unreadable)?;
        self.offset += taken as u64;
        Ok(taken == bytes)
    }

    /// Reads past `bytes`; `false` where the file ends before.
    pub(super) fn skip(&mut self, bytes: u64) -> Result<bool, CaptureError> {
        let skipped = io::copy(&mut self.from.by_ref().take(bytes), &mut io::sink());
        let skipped = skipped.map_err(unreadable)?;
        self.offset += skipped;
        Ok(skipped == bytes)
    }

    /// Reads to the end of the file; bytes of all of it.
    pub(super) fn end(&mut self) -> Result<u64, CaptureError> {
        self.skip(u64::MAX)?;
        Ok(self.offset)
    }
}

fn unreadable(error: io::Error) -> CaptureError {
    CaptureError::Unreadable(error.to_string())
}
