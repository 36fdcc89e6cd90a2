// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the stages as a path uses them: frames in, frames out, with a check of the accounting
//! after every stage. Frames are built and checked with `etherparse`, which shares no code with the
//! stages.

mod count;
mod experiments;
mod filter;
mod forward;
mod frames;
mod gre;
mod idle;
mod nat;
mod parse;
mod rig;
mod robust;
mod verify;
