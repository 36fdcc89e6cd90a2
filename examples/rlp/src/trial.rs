// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a session end to end over a lossy link, and compares every byte.
//!
//! In each tick both ends receive, end expired rounds, deliver bytes, append a packet to their
//! stream and send. Byte `n` of a stream is a function of `n`, so that delivered bytes can be
//! compared without storing the sent ones. After the last packet, idle frames continue until both
//! streams are complete.

use crate::channel::{Channel, Counts as ChannelCounts, Weather};
use crate::frame;
use crate::peer::{Peer, Speech};
use crate::receiver::{Limits as Receives, Taken};
use crate::sender::Limits as Sends;
use crate::terminal::Terminal;
use std::ops::Range;

/// Settings of a simulated transfer over an impaired link.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// Packets in each direction, one per tick.
    pub packets: u64,
    /// Stream bytes per packet, first downlink, then uplink; 0 for no stream.
    pub packet_bytes: [usize; 2],
    /// Send each packet immediately, with a short last frame, instead of filling frames.
    pub flush: bool,
    /// Sender limits at both ends.
    pub sends: Sends,
    /// Receiver limits at both ends.
    pub receives: Receives,
    /// The link, down and up.
    pub weather: [Weather; 2],
    /// Number of equal parts of the stream; abandoned bytes are counted per part.
    pub batches: usize,
    /// Random seed.
    pub seed: u64,
}

/// Statistics for one direction of a trial.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Bytes appended by the sender.
    pub sent: u64,
    /// Bytes delivered by the receiver, each equal to the byte sent at its position.
    pub delivered: u64,
    /// Bytes abandoned by the receiver.
    pub aborted: u64,
    /// Bytes abandoned per batch.
    pub batches: Vec<u64>,
    /// The link's frame counts.
    pub link: ChannelCounts,
    /// Frames retransmitted.
    pub again: u64,
}

impl Outcome {
    fn abort(&mut self, bytes: Range<u64>, bytes_per_batch: u64) {
        self.aborted += bytes.end - bytes.start;
        for byte in bytes {
            self.batches[(byte / bytes_per_batch) as usize] += 1;
        }
    }
}

/// Violations of the protocol's guarantees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A delivered byte differs from the one sent at its position.
    Differs {
        /// Position in the stream, from 0.
        byte: u64,
    },
    /// Bytes were reported as abandoned out of order.
    Misplaced {
        /// First abandoned byte.
        first: u64,
    },
    /// A stream is still incomplete after many idle ticks.
    Unsettled,
}

/// Number of idle ticks after which an incomplete stream counts as a failure.
const PATIENCE: u64 = 100_000;
const PACKET_BYTES: usize = 16 << 10;

/// Stream content computed from byte numbers.
#[derive(Clone, Copy, Debug)]
struct Text {
    seed: u64,
}

impl Text {
    fn fill(self, first: u64, out: &mut [u8]) {
        let mut number = first;
        let mut rest = out;
        while !rest.is_empty() {
            let from = (number % 8) as usize;
            let word = self.word(number / 8).to_le_bytes();
            let bytes = rest.len().min(8 - from);
            let (head, tail) = rest.split_at_mut(bytes);
            head.copy_from_slice(&word[from..from + bytes]);
            (rest, number) = (tail, number + bytes as u64);
        }
    }

    fn word(self, number: u64) -> u64 {
        let mixed = (number ^ self.seed).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ mixed >> 31
    }
}

/// One direction's state: bytes appended and delivered so far.
struct Stream {
    text: Text,
    packet_bytes: usize,
    bytes_per_batch: u64,
    outcome: Outcome,
    buffer: Vec<u8>,
}

impl Stream {
    fn new(trial: &Trial, direction: usize) -> Self {
        let packet_bytes = trial.packet_bytes[direction];
        let bytes = trial.packets * packet_bytes as u64;
        Self {
            text: Text { seed: trial.seed.wrapping_add(direction as u64) },
            packet_bytes,
            bytes_per_batch: bytes.div_ceil(trial.batches as u64).max(1),
            outcome: Outcome { batches: vec![0; trial.batches], ..Outcome::default() },
            buffer: vec![0; 2 * PACKET_BYTES],
        }
    }

    fn append(&mut self, peer: &mut Peer) {
        let packet = &mut self.buffer[..self.packet_bytes];
        self.text.fill(self.outcome.sent, packet);
        if peer.sender.append(packet) {
            self.outcome.sent += self.packet_bytes as u64;
        }
    }

    fn take(&mut self, peer: &mut Peer) -> Result<(), Failure> {
        let (out, wanted) = self.buffer.split_at_mut(PACKET_BYTES);
        loop {
            let next = self.outcome.delivered + self.outcome.aborted;
            match peer.receiver.take(out) {
                Taken::Bytes(bytes) => {
                    self.text.fill(next, &mut wanted[..bytes]);
                    if let Some(at) = (0..bytes).find(|&at| out[at] != wanted[at]) {
                        return Err(Failure::Differs { byte: next + at as u64 });
                    }
                    self.outcome.delivered += bytes as u64;
                }
                Taken::Aborted { first, bytes } if first == next => {
                    self.outcome.abort(first..first + bytes, self.bytes_per_batch);
                }
                Taken::Aborted { first, .. } => return Err(Failure::Misplaced { first }),
                Taken::Nothing => return Ok(()),
            }
        }
    }

    fn is_whole(&self) -> bool {
        self.outcome.delivered + self.outcome.aborted == self.outcome.sent
    }
}

/// A running trial.
struct Run {
    network: Peer,
    terminal: Terminal,
    streams: [Stream; 2],
    packet: Vec<u8>,
}

impl Run {
    fn new(trial: &Trial) -> Self {
        let peer = || Peer::new(1, trial.sends, trial.receives);
        let [down, up] = [0, 1].map(|i| Channel::new(trial.weather[i], trial.seed * 2 + i as u64));
        Self {
            network: peer(),
            terminal: Terminal::new(peer(), down, up),
            streams: [0, 1].map(|direction| Stream::new(trial, direction)),
            packet: vec![0; PACKET_BYTES],
        }
    }

    fn tick(&mut self, now: u64, how: &Speech) -> Result<(), Failure> {
        let Self { network, terminal, streams, packet } = self;
        terminal.arrive(now, |packet| {
            if let Ok(access) = frame::parse(packet) {
                // Cannot fail: the link does not damage frames.
                let _ = network.hear(&access);
            }
        });
        network.receiver.tick(now);
        terminal.tick(now);
        let [down, up] = streams;
        down.take(&mut terminal.peer)?;
        up.take(network)?;
        if !how.idle {
            down.append(network);
            up.append(&mut terminal.peer);
        }
        let mut down_how = *how;
        while let Some(bytes) = network.speak(now, packet, &down_how) {
            // Cannot fail: the packet was just written.
            let _ = terminal.send(now, &packet[..bytes]);
            down_how.idle = false;
        }
        terminal.speak(now, how);
        Ok(())
    }
}

impl Trial {
    /// Runs the trial and returns the results for both directions, down and up.
    ///
    /// # Errors
    /// Returns the first [`Failure`].
    ///
    /// # Panics
    /// Panics if a peer's sender or receiver rejects the limits.
    pub fn run(&self) -> Result<[Outcome; 2], Failure> {
        let mut run = Run::new(self);
        let mut how = Speech { flush: self.flush, ..Speech::default() };
        for now in 0..self.packets {
            run.tick(now, &how)?;
        }
        (how.flush, how.idle) = (true, true);
        for now in self.packets..self.packets + PATIENCE {
            if run.streams.iter().all(Stream::is_whole) {
                break;
            }
            run.tick(now, &how)?;
        }
        if !run.streams.iter().all(Stream::is_whole) {
            return Err(Failure::Unsettled);
        }
        let Run { network, terminal, streams: [mut down, mut up], .. } = run;
        (down.outcome.link, up.outcome.link) = (*terminal.down.counts(), *terminal.up.counts());
        down.outcome.again = network.sender.counts().frames_again;
        up.outcome.again = terminal.peer.sender.counts().frames_again;
        Ok([down.outcome, up.outcome])
    }
}
