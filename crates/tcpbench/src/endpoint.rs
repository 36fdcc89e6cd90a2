// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a TCP stack must do to take part.
//!
//! One endpoint is one TCP control block with an interface of its own, as in the white paper
//! "Enhanced TCP/IP Performance with AltiVec", figure 8: client and server are two of them, of one
//! stack or of two. Left out: more than one connection at a time, listening backlogs, IPv6.

pub use crate::link::{Checksums, Congestion, HEADER_BYTES, Micros, SERVER_PORT, Side, WireMode};
use crate::routines::{Reading, Routines, Tallies};
use crate::wire::Port;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

/// What an endpoint is made for.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which end it is.
    pub side: Side,
    /// Largest payload of a segment, in bytes.
    pub segment: usize,
    /// Bytes the send and the receive buffer hold; a multiple of `segment` is best.
    pub buffer: usize,
    /// What computes sums and copies.
    pub routines: Routines,
    /// Whether, and by whom, checksums are computed.
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

/// Where a connection is.
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

/// What an endpoint has counted since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames given to the wire.
    pub sent: u64,
    /// Frames taken from the wire.
    pub received: u64,
    /// Of those received, dropped for a sum that did not match.
    pub bad_checksums: u64,
}

/// One end of a connection.
pub trait Endpoint {
    /// Begins to connect, or to wait for a connection. Only in [`State::Closed`].
    ///
    /// # Errors
    /// The stack refuses, in its own words.
    fn open(&mut self, now: Micros) -> Result<(), String>;

    /// Where the connection is.
    fn state(&self) -> State;

    /// How many bytes [`send`](Self::send) would take.
    fn send_room(&self) -> usize;

    /// Copies as many bytes as there is room for into the send buffer; how many that were.
    fn send(&mut self, bytes: &[u8]) -> usize;

    /// Copies what has arrived, in order; how many bytes that were.
    fn receive(&mut self, into: &mut [u8]) -> usize;

    /// Bytes that are sent will still arrive; nothing more can be sent.
    fn close(&mut self);

    /// Takes in what the port has received, runs timers, and gives out what is to be sent.
    fn poll(&mut self, now: Micros, port: &mut Port<'_>);

    /// When `poll` should be called at the latest, if nothing arrives and nothing is sent.
    fn poll_at(&mut self, now: Micros) -> Option<Micros>;

    /// What has been counted.
    fn counters(&self) -> Counters;

    /// Begins or ends watching the calls of routines, the counter read so around each; what had
    /// been seen is forgotten.
    fn watch(&mut self, reading: Option<Reading>);

    /// Begins or ends telling a sampler which routine runs, by the numbers of
    /// [`Activity`](crate::routines::Activity); ends watching.
    fn mark(&mut self, activity: Option<&Arc<AtomicU8>>);

    /// What was seen of calls of routines since the watch began.
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
    /// What the stack cannot do, such as a segment size it was not built for, with what to do.
    fn endpoint(&self, config: &Config) -> Result<Box<dyn Endpoint>, String>;
}
