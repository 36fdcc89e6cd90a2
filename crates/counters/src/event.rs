// SPDX-License-Identifier: MIT OR Apache-2.0
//! An event as it can be asked for, resolved for this machine.

use linerate_linux::perf::Selector;

/// Who counts an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// A counter of the processor: one of few.
    Hardware,
    /// The kernel itself, always and at no cost in counters.
    Software,
    /// A tracepoint of the kernel, likewise.
    Tracepoint,
}

/// An event, resolved for this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its name in the record: the portable one where there is one, else as it was asked for.
    pub name: String,
    /// The processor's own name and code, e.g. `INST_RETIRED (0x08)`.
    pub native: Option<String>,
    /// What one count is: `events`, `ns`.
    pub unit: &'static str,
    /// Who counts it.
    pub class: Class,
    /// Its numbers for the kernel.
    pub selector: Selector,
    /// Whether the user asked for user mode only (`name:u`).
    pub is_user_only: bool,
}
