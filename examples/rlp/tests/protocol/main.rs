// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each part of the protocol against a slow, obvious reference.

mod channel;
mod envelope;
mod frame;
mod sessions;
mod theory;
mod window;
