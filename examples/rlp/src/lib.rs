// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Radio Link Protocol (RLP) between a packet network and access terminals: a byte stream per
//! session, retransmitted on request, with no acknowledgements.
//!
//! The network side speaks A10: IPv4, GRE with key and sequence number ([`envelope`]). A key names
//! a session ([`sessions`]); packets that come twice or late are dropped ([`window`]). What they
//! carry is appended to the session's stream, and the [`sender`] cuts it into frames
//! ([`mod@frame`]) for the access side, which it keeps for as long as its ring reaches back.
//!
//! The other end's [`receiver`] reassembles the stream, requests missing bytes in rounds, and
//! abandons those that do not arrive. A [`peer`] is both halves; the two ends are symmetric. A
//! [`terminal`] is a peer behind a lossy [`channel`], a [`trial`] runs a session over it and
//! compares every byte, and [`theory`] predicts the abandoned share.
//!
//! Free of threads, clocks and allocation once set up: time is a number the caller passes.
//! docs/rlp.md has the protocol and says which of its fields are ours.
//!
//! [`app`] makes stages of a packet path of it, and its traffic; [`ppp`] frames what streams carry.
//!
//! Leaves out: A11 (sessions are opened by the caller), encryption, the reset procedure of the
//! radio's own protocol.

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

/// The byte number, nearest to `near`, whose low 32 bits are `wire`.
///
/// Bytes are numbered from 0 in 64 bits; packets carry the low 32. Numbers within 2^31 bytes of
/// `near` are recovered; the result may be negative when `near` is small.
#[inline]
fn unwrap_near(wire: u32, near: u64) -> i64 {
    // The difference modulo 2^32, taken as signed, is the true one while it is below 2^31.
    near as i64 + i64::from(wire.wrapping_sub(near as u32).cast_signed())
}
