// SPDX-License-Identifier: MIT OR Apache-2.0
//! The safe face against the definition of the checksum and against plain copies: what it passes to
//! the C, what it promises about lengths, names and sums. That each variant is right at every
//! length and alignment is for `native/check` to show; here a part of those is enough.

mod arithmetic;
#[cfg(feature = "bench")]
mod bench;
mod moves;
mod rig;
mod sums;
mod variants;
