// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why an event is not counted, and which command would change that.

use crate::event::Event;
use crate::surroundings::Surroundings;
use linerate_linux::perf::{OpenError, Request, Target};

/// An event that is not counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What keeps it from being counted.
    pub cause: Cause,
    /// The same in a sentence, with the values found.
    pub sentence: String,
    /// The exact command that would change it, where there is one.
    pub fix: Option<String>,
}

/// What keeps an event from being counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// A virtual machine whose host passes no counters on.
    NoVirtualPmu,
    /// The processor may have counters, but the kernel found no driver or no description for them.
    NoPmuDriver,
    /// The device tree has no node for the counters, or an empty one.
    DeviceTreeWithoutPmu,
    /// `kernel.perf_event_paranoid` is too high for what was asked.
    Paranoid,
    /// A seccomp filter forbids the system call.
    Seccomp,
    /// A capability is missing that even a low paranoid level does not replace.
    MissingCapability,
    /// `kernel.perf_user_access` is off (arm64): no reads from user space.
    UserAccessOff,
    /// The watchdog of the kernel holds a counter.
    WatchdogHoldsCounter,
    /// Cores of several kinds: the event exists on some of them only.
    HybridCores,
    /// The processor is none of the tables', and the event is not an architectural one.
    UnknownProcessor,
    /// More events at once than there are counters.
    TooManyEvents,
    /// The kernel knows the processor but not this event on it.
    UnsupportedEvent,
    /// The event's table says that this processor does not count it.
    NotInTable,
    /// The simulator does not model it.
    NotSimulated,
    /// There is no Valgrind.
    NoValgrind,
    /// The kernel was built without perf events.
    NoPerfEvents,
    /// Somebody else holds the counters alone.
    CountersBusy,
    /// No file descriptors are left.
    NoDescriptors,
    /// The process is gone.
    TargetGone,
    /// It was opened but never got a counter.
    NeverScheduled,
    /// Something else; the sentence has the error number.
    Other,
}

impl Cause {
    /// The cause as a word for scripts.
    pub fn word(self) -> &'static str {
        match self {
            Self::NoVirtualPmu => "no_virtual_pmu",
            Self::NoPmuDriver => "no_pmu_driver",
            Self::DeviceTreeWithoutPmu => "device_tree_without_pmu",
            Self::Paranoid => "paranoid",
            Self::Seccomp => "seccomp",
            Self::MissingCapability => "missing_capability",
            Self::UserAccessOff => "user_access_off",
            Self::WatchdogHoldsCounter => "watchdog_holds_counter",
            Self::HybridCores => "hybrid_cores",
            Self::UnknownProcessor => "unknown_processor",
            Self::TooManyEvents => "too_many_events",
            Self::UnsupportedEvent => "unsupported_event",
            Self::NotInTable => "not_in_table",
            Self::NotSimulated => "not_simulated",
            Self::NoValgrind => "no_valgrind",
            Self::NoPerfEvents => "no_perf_events",
            Self::CountersBusy => "counters_busy",
            Self::NoDescriptors => "no_descriptors",
            Self::TargetGone => "target_gone",
            Self::NeverScheduled => "never_scheduled",
            Self::Other => "other",
        }
    }
}

/// An attempt to open an event that the kernel refused.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// What was to be counted.
    pub event: &'a Event,
    /// How it was asked for.
    pub request: &'a Request,
    /// On what.
    pub target: Target,
    /// How many events the group had that it was to join; 0 when it was opened alone.
    pub group_len: usize,
    /// Whether the processor is one of the event tables'.
    pub is_known_processor: bool,
}

/// Why the kernel refused.
pub fn explain(error: OpenError, attempt: &Attempt<'_>, around: &Surroundings) -> Refusal {
    let _ = (attempt, around);
    Refusal { cause: Cause::Other, sentence: error.to_string(), fix: None }
}

/// Why an event was opened and never got a counter in all the time it was counted.
pub fn never_scheduled(event: &Event, around: &Surroundings) -> Refusal {
    let sentence = format!("`{}` never got a counter", event.name);
    let cause = if around.facts().is_watchdog_on {
        Cause::WatchdogHoldsCounter
    } else {
        Cause::NeverScheduled
    };
    Refusal { cause, sentence, fix: None }
}

/// Why there is no simulator; `None` if there is.
pub fn no_valgrind(around: &Surroundings) -> Option<Refusal> {
    around.facts().valgrind.is_none().then(|| Refusal {
        cause: Cause::NoValgrind,
        sentence: "Valgrind, which simulates the caches, is not in PATH".to_owned(),
        fix: Some("sudo apt install valgrind".to_owned()),
    })
}

/// Why the simulator does not count `event`.
pub fn not_simulated(event: &str) -> Refusal {
    Refusal {
        cause: Cause::NotSimulated,
        sentence: format!("Valgrind does not simulate `{event}`"),
        fix: None,
    }
}
