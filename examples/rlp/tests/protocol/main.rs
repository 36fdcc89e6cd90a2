// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares each part of the protocol with a slow, obviously correct reference.

mod channel;
mod envelope;
mod frame;
mod sessions;
mod theory;
mod window;
