// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames, and the queues that carry them from one end to the other.

use std::collections::VecDeque;

/// An IPv4 packet on the wire.
#[derive(Debug)]
pub struct Frame {
    /// Of the size of the largest frame, whatever is used of it.
    storage: Vec<u8>,
    octets: usize,
}

impl Frame {
    /// Its octets in two parts, the second of which may be empty and otherwise begins at an even
    /// offset behind the headers.
    pub fn parts(&self) -> [&[u8]; 2] {
        [&self.storage[..self.octets], &[]]
    }

    /// How many octets it has.
    pub fn octets(&self) -> usize {
        self.octets
    }

    /// Its octets, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.storage[..self.octets]
    }
}

/// Frames not in use, the one used last on top.
#[derive(Debug)]
pub struct Pool {
    free: Vec<Frame>,
    octets_max: usize,
}

impl Pool {
    /// For frames of up to so many octets.
    pub fn new(octets_max: usize) -> Self {
        Self { free: Vec::new(), octets_max }
    }

    /// A frame of so many octets, whose content means nothing yet.
    ///
    /// # Panics
    /// If that is more than the pool is for.
    pub fn take(&mut self, octets: usize) -> Frame {
        assert!(
            octets <= self.octets_max,
            "a frame of {octets} octets, at most {} fit",
            self.octets_max
        );
        let fresh = || Frame { storage: vec![0; self.octets_max], octets: 0 };
        let mut frame = self.free.pop().unwrap_or_else(fresh);
        frame.octets = octets;
        frame
    }

    /// The frame is not needed any more.
    pub fn put(&mut self, frame: Frame) {
        self.free.push(frame);
    }
}

/// What an endpoint sees of the wire while it is polled.
#[derive(Debug)]
pub struct Port<'a> {
    /// Frames that have arrived, the oldest in front.
    pub arrived: &'a mut VecDeque<Frame>,
    /// Frames to be sent, the latest at the back.
    pub sent: &'a mut VecDeque<Frame>,
    /// Where frames come from, and go when they have been read.
    pub pool: &'a mut Pool,
}
