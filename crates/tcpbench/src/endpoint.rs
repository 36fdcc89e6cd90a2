// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a TCP stack must do to take part.
//!
//! One endpoint is one TCP control block with an interface of its own, as in the white paper
//! "Enhanced TCP/IP Performance with AltiVec", figure 8: client and server are two of them, of one
//! stack or of two. Left out: more than one connection at a time, listening backlogs, IPv6.

use crate::routines::{Reading, Routines, Tallies};
use crate::wire::Port;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

/// Virtual time since the start of a run, in microseconds.
pub type Micros = u64;

/// The port the server listens on.
pub const SERVER_PORT: u16 = 5001;

/// Octets of the IPv4 and the TCP header of a segment that carries data: neither has options.
pub const HEADER_OCTETS: usize = 40;

/// Which end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Opens connections.
    Client,
    /// Waits for them.
    Server,
}

impl Side {
    /// Its address.
    pub const fn address(self) -> Ipv4Addr {
        match self {
            Self::Client => Ipv4Addr::new(192, 0, 2, 1),
            Self::Server => Ipv4Addr::new(192, 0, 2, 2),
        }
    }

    /// The other end.
    pub const fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// Who computes and verifies the checksums of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Checksums {
    /// The routines of the set.
    Routines,
    /// The stack's own code, whatever that is.
    Stack,
    /// Nobody: the bound. Checksums are sent as 0 and not looked at.
    Off,
}

/// How octets get from a sent frame to its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WireMode {
    /// Copied, as by a driver that keeps its own buffers; sums may be taken on the way.
    Copy,
    /// Handed over where they are, as far as the stack can.
    Reference,
}

/// How an endpoint avoids filling the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Congestion {
    /// It does not: the window of the receiver alone limits it.
    None,
    /// Reno, or what the stack has instead.
    Reno,
}

/// What an endpoint is made for.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which end it is.
    pub side: Side,
    /// Largest payload of a segment, in octets.
    pub segment: usize,
    /// Octets the send and the receive buffer hold; a multiple of `segment` is best.
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

    /// How many octets [`send`](Self::send) would take.
    fn send_room(&self) -> usize;

    /// Copies as many octets as there is room for into the send buffer; how many that were.
    fn send(&mut self, octets: &[u8]) -> usize;

    /// Copies what has arrived, in order; how many octets that were.
    fn receive(&mut self, into: &mut [u8]) -> usize;

    /// Octets that are sent will still arrive; nothing more can be sent.
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
