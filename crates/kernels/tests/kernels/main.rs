// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the safe interface against the definition of the checksum and against plain copies: what
//! it passes to the C code, and what it promises about lengths, names and sums. Showing that each
//! variant is correct at every length and alignment is the job of `native/check`; here, some
//! lengths and alignments are enough.

mod arithmetic;
#[cfg(feature = "bench")]
mod bench;
mod moves;
mod rig;
mod sums;
mod variants;
