// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface of a TCP stack under test.
//!
//! An endpoint is a TCP control block with its own interface, as in the white paper "Enhanced
//! TCP/IP Performance with AltiVec", figure 8: client and server are two endpoints, of the same
//! stack or of different ones. Not supported: more than one connection at a time, listening
//! backlogs, IPv6.

pub use crate::link::{Checksums, Congestion, HEADER_BYTES, Micros, SERVER_PORT, Side, WireMode};
use crate::routines::{Reading, Routines, Tallies};
use crate::wire::Port;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

/// Settings of an endpoint.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which end of the connection this is.
    pub side: Side,
    /// Maximum segment payload, in bytes.
    pub segment: usize,
    /// Capacity of the send buffer, and of the receive buffer, in bytes; ideally a multiple of
    /// `segment`.
    pub buffer: usize,
    /// The routines for checksums and copies.
    pub routines: Routines,
    /// What computes checksums, if anything.
    pub checksums: Checksums,
    /// How frames reach the receiver.
    pub wire: WireMode,
    /// Whether small segments wait for acknowledgements (Nagle's algorithm).
    pub nagle: bool,
    /// How long acknowledgements are delayed, in virtual microseconds; 0 disables the delay. A
    /// stack whose delay is not adjustable keeps its own.
    pub ack_delay: Micros,
    /// Reaction to loss.
    pub congestion: Congestion,
    /// Random seed for initial sequence numbers and ports.
    pub seed: u64,
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// No connection, or one in TIME_WAIT.
    Closed,
    /// Listening, or the opening handshake is not complete.
    Opening,
    /// Both directions carry data.
    Open,
    /// The peer has closed and everything it sent was received; this end may still send.
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
    /// Starts connecting or listening. Allowed only in [`State::Closed`].
    ///
    /// # Errors
    /// The stack refuses; the message is its own.
    fn open(&mut self, now: Micros) -> Result<(), String>;

    /// State of the connection.
    fn state(&self) -> State;

    /// Number of bytes that [`send`](Self::send) would accept.
    fn send_room(&self) -> usize;

    /// Copies as many bytes as fit into the send buffer; returns their number.
    fn send(&mut self, bytes: &[u8]) -> usize;

    /// Copies data that was received in order; returns the number of bytes.
    fn receive(&mut self, into: &mut [u8]) -> usize;

    /// Closes this direction: data already sent will still arrive.
    fn close(&mut self);

    /// Processes what the port has received, runs timers, and sends pending frames.
    fn poll(&mut self, now: Micros, port: &mut Port<'_>);

    /// Latest time by which `poll` must be called again if nothing arrives and nothing is sent.
    fn poll_at(&mut self, now: Micros) -> Option<Micros>;

    /// Returns the counters.
    fn counters(&self) -> Counters;

    /// Starts or stops watching the calls to routines, with this method of reading the counter
    /// around each call; resets the statistics.
    fn watch(&mut self, reading: Option<Reading>);

    /// Starts or stops reporting to a sampler which routine is running, as the number of an
    /// [`Activity`](crate::routines::Activity); stops watching.
    fn mark(&mut self, activity: Option<&Arc<AtomicU8>>);

    /// Statistics of the calls since watching started.
    fn tallies(&self) -> Tallies;
}

/// A TCP stack.
pub trait Stack {
    /// Name of the stack: one word, the same in records and on command lines.
    fn name(&self) -> &'static str;

    /// The version, for provenance.
    fn version(&self) -> String;

    /// Whether copies and checksums inside the stack go through the seam.
    fn copies_by_routines(&self) -> bool;

    /// Creates an endpoint.
    ///
    /// # Errors
    /// The stack does not support the request, such as a segment size that it was not built for;
    /// the message says what to do.
    fn endpoint(&self, config: &Config) -> Result<Box<dyn Endpoint>, String>;
}
