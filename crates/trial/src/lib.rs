// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measuring engine, which does all timing of work on this machine.
//!
//! | task | module |
//! |---|---|
//! | reading the time, and the kernel's CPU accounting of the thread | [`clock`] |
//! | checking that the thread had its CPU for the whole window | [`clean`] |
//! | finding the amount of work that fills a window | [`filling`](mod@filling) |
//! | measuring the best time of one unit of work | [`best`] |
//! | comparing contestants | [`rounds`](mod@rounds), [`samples`] |
//! | stop requests and progress reports | [`watch`] |
//!
//! All of these read time through [`Clock`]. It is implemented by [`Machine`] for this machine, and
//! by [`Scripted`] with time controlled by a test, so that tests of the engine need no wall clock.
//!
//! The engine does not know what the work is, does not interpret times, and prints nothing.

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
