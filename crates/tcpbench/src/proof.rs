// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that data arrives unchanged over impaired wires.

use crate::endpoint::Stack;
use crate::error::Error;
use crate::pattern::Pattern;
use crate::routines::Set;
use crate::session::{Session, Setup, Slice};
use crate::stream::Stream;
use crate::wire::Impairments;
use linerate_record::tcp::TcpProof;
use std::rc::Rc;

/// Impairments that are frequent, but not so frequent that a stack makes no progress if it doubles
/// its retransmission timer on each loss.
pub const ROUGH: Impairments = Impairments {
    loss: 0.005,
    reorder: 0.01,
    duplicate: 0.01,
    corrupt: 0.005,
    delay: 5,
    rate: None,
    only_data: false,
};

/// Returns an amount of work that takes a few milliseconds, in bytes, exchanges or connections
/// depending on the pattern.
pub const fn little(pattern: Pattern) -> u64 {
    match pattern {
        Pattern::Bulk => 4 << 20,
        Pattern::Jumbo => 16 << 20,
        Pattern::Mixed => 1 << 20,
        Pattern::Interactive | Pattern::Response => 1000,
    }
}

/// Runs `amount` of work over a wire with the impairments in `setup`, and compares every byte.
///
/// # Errors
/// Returns an error if the received data differs from the data sent, or if there is no progress.
pub fn prove(
    setup: &Setup,
    stacks: [&dyn Stack; 2],
    set: &Set,
    amount: u64,
) -> Result<TcpProof, Error> {
    let stream = Rc::new(Stream::new(setup.seed, setup.buffer_bytes()));
    let mut session = Session::new(setup, stacks, set, &stream)?;
    let Slice { bytes, exchanges, .. } = session.run(amount)?;
    let carried = session.carried();
    Ok(TcpProof {
        bytes,
        exchanges,
        segments: carried.frames,
        lost: carried.lost,
        reordered: carried.reordered,
        duplicated: carried.duplicated,
        corrupted: carried.corrupted,
        masked: carried.masked,
    })
}
