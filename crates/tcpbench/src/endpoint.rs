// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface of a TCP stack under test.
//!
//! One endpoint is one TCP control block with its own interface, as in the white paper "Enhanced
//! TCP/IP Performance with AltiVec", figure 8: client and server are two of them, of one stack or
//! of two. Not supported: more than one connection at a time, listening backlogs, IPv6.

pub use crate::link::{Checksums, Congestion, HEADER_BYTES, Micros, SERVER_PORT, Side, WireMode};
use crate::routines::{Reading, Routines, Tallies};
use crate::wire::Port;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

/// Settings of an endpoint.
#[derive(Clone, Debug)]
pub struct Config {
    /// End of the connection.
    pub side: Side,
    /// Largest payload of a segment, in bytes.
    pub segment: usize,
    /// Capacity of the send buffer and of the receive buffer in bytes; a multiple of `segment` is
    /// best.
    pub buffer: usize,
    /// The routines for sums and copies.
    pub routines: Routines,
    /// Side that computes checksums, if any.
    pub checksums: Checksums,
    /// Transport of frames to the receiver.
    pub wire: WireMode,
    /// Whether small segments wait for acknowledgements (Nagle's algorithm).
    pub nagle: bool,
    /// How long acknowledgements are delayed, in virtual microseconds; 0 disables the delay. A
    /// stack whose delay is not adjustable keeps its own.
    pub ack_delay: Micros,
    /// Reaction to loss.
    pub congestion: Congestion,
    /// Seed of initial sequence numbers and ports.
    pub seed: u64,
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// No connection, or one in TIME_WAIT.
    Closed,
    /// Listening, or the first handshake is not over.
    Opening,
    /// Both directions carry data.
    Open,
    /// The peer has closed and everything from it was received; this end may still send.
    PeerClosed,
    /// This end has closed, and the closing handshake is not complete.
    Closing,
}

/// Counters of an endpoint since its creation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames sent.
    pub sent: u64,
    /// Frames received.
    pub received: u64,
    /// Received frames dropped because of a wrong checksum.
    pub bad_checksums: u64,
}

/// One end of a connection.
pub trait Endpoint {
    /// Starts to connect or to listen. Only in [`State::Closed`].
    ///
    /// # Errors
    /// The stack refuses, in its own words.
    fn open(&mut self, now: Micros) -> Result<(), String>;

    /// State of the connection.
    fn state(&self) -> State;

    /// Number of bytes [`send`](Self::send) would accept.
    fn send_room(&self) -> usize;

    /// Copies as many bytes as fit into the send buffer; returns their number.
    fn send(&mut self, bytes: &[u8]) -> usize;

    /// Copies data received in order; returns the number of bytes.
    fn receive(&mut self, into: &mut [u8]) -> usize;

    /// Closes this direction: data already sent will still arrive.
    fn close(&mut self);

    /// Processes what the port has received, runs timers, and sends pending frames.
    fn poll(&mut self, now: Micros, port: &mut Port<'_>);

    /// Latest time of the next call of `poll` if nothing arrives and nothing is sent.
    fn poll_at(&mut self, now: Micros) -> Option<Micros>;

    /// Returns the counters.
    fn counters(&self) -> Counters;

    /// Starts or stops watching the calls of routines, by this method of reading the counter around
    /// each; resets the statistics.
    fn watch(&mut self, reading: Option<Reading>);

    /// Starts or stops reporting to a sampler which routine runs, by the numbers of
    /// [`Activity`](crate::routines::Activity); stops watching.
    fn mark(&mut self, activity: Option<&Arc<AtomicU8>>);

    /// Statistics of the calls since watching started.
    fn tallies(&self) -> Tallies;
}

/// A TCP stack.
pub trait Stack {
    /// One word, the same in records and on command lines.
    fn name(&self) -> &'static str;

    /// The version, for provenance.
    fn version(&self) -> String;

    /// Whether copies and sums inside the stack go through the seam.
    fn copies_by_routines(&self) -> bool;

    /// Creates an endpoint.
    ///
    /// # Errors
    /// A request that the stack does not support, such as a segment size it was not built for, with
    /// what to do.
    fn endpoint(&self, config: &Config) -> Result<Box<dyn Endpoint>, String>;
}
