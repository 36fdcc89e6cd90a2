// SPDX-License-Identifier: MIT OR Apache-2.0
//! Schemes by which tasks and interrupts share the vector registers of a processor, and the truth
//! about them: every interleaving of their steps, explored.
//!
//! The schemes are those of `native/vector_context`, line by line by the same names: the note
//! AN2581's in its two readings and with its answers to a full stack, and ours. Under each kind of
//! preemption a scheme is right, or there is a shortest trace that shows why not.
//!
//! Not modelled: more contexts than `MOST`, compilers that use vectors on their own, systems that
//! switch tasks in a nesting interrupt, and time.
#![forbid(unsafe_code)]

mod explore;
mod machine;
mod preemption;
mod scheme;
mod verdicts;

pub use explore::{Found, Step, Trace, Wrong, explore};
pub use machine::{MOST, Mover};
pub use preemption::{PREEMPTIONS, Preemption, Tasks};
pub use scheme::{
    DEPTH, Full, Guard, Line, Op, Pair, Scheme, When, exclusive, nested, note, of_tasks, schemes,
    switch,
};
pub use verdicts::{Verdict, document, verdicts};
