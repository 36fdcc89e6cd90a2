// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the safe interface against the definition of the checksum and against plain copies: the
//! arguments passed to the C code, and the guarantees about lengths, names and sums. `native/check`
//! shows that each variant is correct at every length and alignment; here, a sample suffices.

mod arithmetic;
#[cfg(feature = "bench")]
mod bench;
mod moves;
mod rig;
mod sums;
mod variants;
