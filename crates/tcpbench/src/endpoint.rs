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
    /// Which end it is.
    pub side: Side,
    /// Largest payload of a segment, in bytes.
    pub segment: usize,
    /// Bytes the send and the receive buffer hold; a multiple of `segment` is best.
    pub buffer: usize,
    /// The routines for sums and copies.
    pub routines: Routines,
    /// Whether, and on which side, checksums are computed.
    pub checksums: Checksums,
    /// How frames reach the receiver.
    pub wire: WireMode,
    /// Whether small segments wait for acknowledgements (Nagle's algorithm).
    pub nagle: bool,
    /// For how long acknowledgements are held back, in virtual microseconds; 0 for not at all. A
    /// stack whose delay is not adjustable keeps its own.
    pub ack_delay: Micros,
    /// How it reacts to loss.
    pub congestion: Congestion,
    /// For initial sequence numbers and ports.
    pub seed: u64,
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// There is none, or none any more; what waits only to be forgotten counts as none.
    Closed,
    /// Listening, or the first handshake is not over.
    Opening,
    /// Both directions carry data.
    Open,
    /// The peer has sent all it had to send, and all of it was received; this end may send.
    PeerClosed,
    /// This end has closed, and the closing is not over.
    Closing,
}

/// Counters of an endpoint since its creation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames given to the wire.
    pub sent: u64,
    /// Frames taken from the wire.
    pub received: u64,
    /// Of those received, the ones dropped for a wrong checksum.
    pub bad_checksums: u64,
}

/// One end of a connection.
pub trait Endpoint {
    /// Begins to connect, or to wait for a connection. Only in [`State::Closed`].
    ///
    /// # Errors
    /// The stack refuses, in its own words.
    fn open(&mut self, now: Micros) -> Result<(), String>;

    /// State of the connection.
    fn state(&self) -> State;

    /// Number of bytes [`send`](Self::send) would accept.
    fn send_room(&self) -> usize;

    /// Copies as many bytes as there is room for into the send buffer; how many that were.
    fn send(&mut self, bytes: &[u8]) -> usize;

    /// Copies data received in order; returns the number of bytes.
    fn receive(&mut self, into: &mut [u8]) -> usize;

    /// Bytes that are sent will still arrive; nothing more can be sent.
    fn close(&mut self);

    /// Processes what the port has received, runs timers, and sends pending frames.
    fn poll(&mut self, now: Micros, port: &mut Port<'_>);

    /// When `poll` should be called at the latest, if nothing arrives and nothing is sent.
    fn poll_at(&mut self, now: Micros) -> Option<Micros>;

    /// Returns the counters.
    fn counters(&self) -> Counters;

    /// Starts or stops watching the calls of routines, with this method of reading the counter
    /// around each; resets the statistics.
    fn watch(&mut self, reading: Option<Reading>);

    /// Starts or stops reporting to a sampler which routine runs, by the numbers of
    /// [`Activity`](crate::routines::Activity); stops watching.
    fn mark(&mut self, activity: Option<&Arc<AtomicU8>>);

    /// Statistics of the calls of routines since the watch began.
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

    /// Makes an endpoint.
    ///
    /// # Errors
    /// A request that the stack does not support, such as a segment size it was not built for, with
    /// what to do.
    fn endpoint(&self, config: &Config) -> Result<Box<dyn Endpoint>, String>;
}
