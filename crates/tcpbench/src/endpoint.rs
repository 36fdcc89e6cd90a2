// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interface to a TCP stack under test.
//!
//! An endpoint is a TCP control block with its own network interface, as in the white paper
//! "Enhanced TCP/IP Performance with AltiVec", figure 8. Client and server are two endpoints, of
//! the same stack or of different ones. Concurrent connections, listen backlogs and IPv6 are not
//! supported.

pub use crate::link::{Checksums, Congestion, HEADER_BYTES, Micros, SERVER_PORT, Side, WireMode};
use crate::routines::{Reading, Routines, Tallies};
use crate::wire::Port;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

/// Settings of one endpoint.
#[derive(Clone, Debug)]
pub struct Config {
    /// Whether the endpoint is the client or the server.
    pub side: Side,
    /// Maximum payload of a segment in bytes.
    pub segment: usize,
    /// Capacity of the send buffer and of the receive buffer in bytes, ideally a multiple of
    /// `segment`.
    pub buffer: usize,
    /// Checksum and copy routines that the stack should use.
    pub routines: Routines,
    /// Which component computes the checksums, if any does.
    pub checksums: Checksums,
    /// Whether frames are copied to the receiver or passed by reference.
    pub wire: WireMode,
    /// Whether Nagle's algorithm is enabled: small segments wait for acknowledgements.
    pub nagle: bool,
    /// Delayed ACK timeout in virtual microseconds; 0 disables it. Ignored by stacks with a fixed
    /// timeout.
    pub ack_delay: Micros,
    /// Congestion control algorithm.
    pub congestion: Congestion,
    /// Seed for initial sequence numbers and ports.
    pub seed: u64,
}

/// State of a connection, as seen by one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// There is no connection, or it is in TIME_WAIT.
    Closed,
    /// The endpoint is listening, or the handshake is not complete.
    Opening,
    /// The connection is established in both directions.
    Open,
    /// The peer has closed, and everything it sent was received. This end may still send.
    PeerClosed,
    /// This end has closed, but the closing handshake is not complete.
    Closing,
}

/// Frame counts of an endpoint since it was created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Number of frames sent.
    pub sent: u64,
    /// Number of frames received.
    pub received: u64,
    /// Number of received frames dropped because of a bad checksum.
    pub bad_checksums: u64,
}

/// One end of a connection.
pub trait Endpoint {
    /// Starts connecting or listening. Only valid in [`State::Closed`].
    ///
    /// # Errors
    /// Returns the stack's own message if it refuses.
    fn open(&mut self, now: Micros) -> Result<(), String>;

    /// Returns the connection state, as seen by this endpoint.
    fn state(&self) -> State;

    /// Returns how many bytes [`send`](Self::send) would accept.
    fn send_room(&self) -> usize;

    /// Copies as many bytes as fit into the send buffer, and returns how many.
    fn send(&mut self, bytes: &[u8]) -> usize;

    /// Copies received in-order data into `into`, and returns the number of bytes copied.
    fn receive(&mut self, into: &mut [u8]) -> usize;

    /// Closes the sending direction. Data already sent will still arrive.
    fn close(&mut self);

    /// Processes frames that have arrived at the port, runs timers, and sends pending frames.
    fn poll(&mut self, now: Micros, port: &mut Port<'_>);

    /// Returns when `poll` must be called again even if no frame arrives and no data is sent;
    /// `None` if no timer is pending.
    fn poll_at(&mut self, now: Micros) -> Option<Micros>;

    /// Returns the frame counts since the endpoint was created.
    fn counters(&self) -> Counters;

    /// Starts timing calls to the routines: the timestamp counter is read before and after each
    /// call, as `reading` specifies. `None` stops timing. Either resets the statistics.
    fn watch(&mut self, reading: Option<Reading>);

    /// Starts storing the number of the current [`Activity`](crate::routines::Activity) in
    /// `activity`, where a sampler can read it; `None` stops this. Timing stops in either case.
    fn mark(&mut self, activity: Option<&Arc<AtomicU8>>);

    /// Returns statistics on calls to routines since [`watch`](Self::watch).
    fn tallies(&self) -> Tallies;
}

/// A TCP stack under test.
pub trait Stack {
    /// Returns the stack's name, a single word used in records and on command lines.
    fn name(&self) -> &'static str;

    /// Returns the stack's version, for provenance.
    fn version(&self) -> String;

    /// Returns whether the stack's internal copies and checksums use the routine set as well,
    /// through the seam.
    fn copies_by_routines(&self) -> bool;

    /// Creates an endpoint.
    ///
    /// # Errors
    /// Returns an error that says what to do if the stack does not support the request, for example
    /// a segment size that it was not built for.
    fn endpoint(&self, config: &Config) -> Result<Box<dyn Endpoint>, String>;
}
