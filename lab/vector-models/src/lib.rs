// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models of schemes for sharing a processor's vector registers between tasks and interrupts,
//! checked by exploring every interleaving of their steps.
//!
//! The schemes are those in `native/vector_context`, line by line with the same names: two readings
//! of Freescale's application note AN2581, each with different reactions to a full stack, and ours.
//! For each kind of preemption, a scheme is either correct, or there is a shortest trace to a
//! defect.
//!
//! Not modelled: more contexts than `MOST`, compilers that use vector registers on their own,
//! systems that switch tasks in a nested interrupt, and time.
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
