// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Radio Link Protocol (RLP) between a packet network and access terminals: one byte stream per
//! session, with retransmission on request and without acknowledgements.
//!
//! The network side uses A10: IPv4 and GRE with key and sequence number ([`envelope`]). A key
//! identifies a session ([`sessions`]); duplicate and late packets are dropped ([`window`]). The
//! payload is appended to the session's stream. The [`sender`] cuts it into frames ([`mod@frame`])
//! for the access side, and keeps sent bytes for retransmission as long as its ring has room.
//!
//! The other end's [`receiver`] reassembles the stream, requests missing bytes in rounds, and
//! abandons those that do not arrive. A [`peer`] combines both halves; the two ends are symmetric.
//! A [`terminal`] is a peer behind a lossy [`channel`], a [`trial`] runs a session over it and
//! compares every byte, and [`theory`] predicts the fraction of abandoned bytes.
//!
//! The protocol uses no threads, no clock and, after construction, no allocation: time is a number
//! passed by the caller. docs/rlp.md describes the protocol and lists the fields that are this
//! project's own.
//!
//! [`app`] contains the packet-path stages and traffic sources that use the protocol; [`ppp`]
//! frames the packets that streams carry.
//!
//! A11 (the caller opens sessions), encryption, and the radio protocol's reset procedure are not
//! implemented.

#![forbid(unsafe_code)]

pub mod app;
pub mod channel;
pub mod envelope;
pub mod frame;
pub mod peer;
pub mod ppp;
pub mod receiver;
pub mod sender;
pub mod sessions;
pub mod terminal;
pub mod theory;
pub mod trial;
pub mod window;

/// Returns the 64-bit byte number nearest to `near` whose low 32 bits are `wire`.
///
/// Bytes are numbered from 0 in 64 bits; packets carry only the low 32. The result is correct if
/// the true number is within 2^31 bytes of `near`; it may be negative if `near` is small.
#[inline]
fn unwrap_near(wire: u32, near: u64) -> i64 {
    // The difference modulo 2^32, taken as signed, is the true one if that is below 2^31 in
    // magnitude.
    near as i64 + i64::from(wire.wrapping_sub(near as u32).cast_signed())
}
