// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conventions shared by both ends of a connection and the wire: time, addresses, headers, and what
//! computes checksums and copies frames.

use std::net::Ipv4Addr;

/// Virtual time since the start of a run, in microseconds.
pub type Micros = u64;

/// The port the server listens on.
pub const SERVER_PORT: u16 = 5001;

/// Total size in bytes of the IPv4 and TCP headers of a segment that carries data: neither has
/// options.
pub const HEADER_BYTES: usize = 40;

/// One end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Opens connections.
    Client,
    /// The end that listens.
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

    /// The opposite end.
    pub const fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// What computes and verifies TCP checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Checksums {
    /// The routines of the set.
    Routines,
    /// The stack's own code, whatever that is.
    Stack,
    /// Nothing, as a bound. Checksums are sent as 0 and not verified.
    Off,
}

/// How the bytes of a sent frame reach the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WireMode {
    /// Copied, as by a driver with its own buffers; the checksum may be computed during the copy.
    Copy,
    /// Passed by reference, as far as the stack supports it.
    Reference,
}

/// Congestion control of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Congestion {
    /// None: only the receiver's window limits it.
    None,
    /// Reno, or the stack's equivalent.
    Reno,
}
