// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measuring engine: all timing of work on this machine goes through it.
//!
//! | question | module |
//! |---|---|
//! | reading the time, and the kernel's CPU accounting of the thread | [`clock`] |
//! | checking that the thread had its CPU for the whole window | [`clean`] |
//! | which amount of work fills a window? | [`filling`](mod@filling) |
//! | how fast is one piece of work at its best? | [`best`] |
//! | how do contestants compare? | [`rounds`](mod@rounds), [`samples`] |
//! | who may stop it, and who hears of its progress? | [`watch`] |
//!
//! All of these read time through [`Clock`]. [`Machine`] implements it for this machine,
//! [`Scripted`] with time that passes as a test dictates, so that the engine is tested without a
//! wall clock.
//!
//! The engine does not know what the work is or what the times mean, and it prints nothing.

#![forbid(unsafe_code)]

pub mod best;
pub mod clean;
pub mod clock;
pub mod filling;
pub mod rounds;
pub mod samples;
pub mod scripted;
pub mod watch;

pub use clean::{Account, CPU_SHARE_MIN, Dropped, Timed, Window, time};
pub use clock::{Clock, Machine, ThisThread};
pub use filling::{Fill, filling};
pub use rounds::{Length, Rules, Turn, orders, rounds};
pub use samples::{Counts, Samples};
pub use scripted::Scripted;
pub use watch::Watch;
