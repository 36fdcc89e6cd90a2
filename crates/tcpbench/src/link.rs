// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conventions shared by both ends of a connection and the wire: time, addresses, headers, and how
//! checksums and frames are handled.

use std::net::Ipv4Addr;

/// Virtual time in microseconds since the start of a run.
pub type Micros = u64;

/// TCP port that the server listens on.
pub const SERVER_PORT: u16 = 5001;

/// Combined size of the IPv4 and TCP headers of a data segment in bytes; neither has options.
pub const HEADER_BYTES: usize = 40;

/// One of the two ends of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The end that opens connections.
    Client,
    /// The end that listens for connections.
    Server,
}

impl Side {
    /// Returns the IPv4 address of this end.
    pub const fn address(self) -> Ipv4Addr {
        match self {
            Self::Client => Ipv4Addr::new(192, 0, 2, 1),
            Self::Server => Ipv4Addr::new(192, 0, 2, 2),
        }
    }

    /// Returns the other end of the connection.
    pub const fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// Which component computes and verifies TCP checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Checksums {
    /// The routines of the set being measured.
    Routines,
    /// The stack's own code.
    Stack,
    /// None: checksums are sent as 0 and not verified, which gives an upper bound on the speedup.
    Off,
}

/// How frames get from sender to receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WireMode {
    /// Frames are copied, as by a driver with its own buffers. The checksum may be computed during
    /// the copy.
    Copy,
    /// Frames are passed by reference, as far as the stack supports it.
    Reference,
}

/// An endpoint's congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Congestion {
    /// No congestion control: only the receiver's window limits the sender.
    None,
    /// Reno, or the stack's equivalent.
    Reno,
}
