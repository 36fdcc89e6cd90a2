// SPDX-License-Identifier: MIT OR Apache-2.0
//! Synthetic processors whose hardware events count page faults or the thread's CPU time.

use linerate_counters::event::{Class, Event};
use linerate_counters::opener::Opener;
use linerate_counters::scripted::{PAGE_FAULTS, Scripted, TASK_CLOCK, full};
use linerate_linux::perf::{RAW, Request, SOFTWARE, Selector};

/// Event codes of the synthetic processor, in this order: the task clock, page faults, and an event
/// with a dedicated counter.
pub(crate) const CLOCK: u64 = 0x100;
pub(crate) const FAULTS: u64 = 0x200;
pub(crate) const OWN: u64 = 0x300;

/// Returns an opener for a synthetic processor with this many counters.
pub(crate) fn pmu(counters: usize) -> impl Opener {
    pmu_refusing(counters, |_| None)
}

/// Returns an opener for a synthetic processor with this many counters, on a kernel that first
/// calls `refuse` for each request.
pub(crate) fn pmu_refusing(counters: usize, refuse: fn(&Request) -> Option<i32>) -> impl Opener {
    let shares_counters = |selector: &Selector| selector.config & !0xff != OWN;
    Scripted::new(move |request: &Request, group: &[Selector]| {
        let rivals: Vec<Selector> = group.iter().copied().filter(shares_counters).collect();
        let no_room = || full(counters, request, &rivals);
        refuse(request).or_else(|| shares_counters(&request.selector).then(no_room).flatten())
    })
    .counting(|selector| if selector.config & !0xff == FAULTS { PAGE_FAULTS } else { TASK_CLOCK })
}

pub(crate) fn event(name: &str, class: Class, kind: u32, config: u64) -> Event {
    Event {
        name: name.to_owned(),
        native: None,
        unit: "events",
        class,
        selector: Selector::new(kind, config),
        is_user_only: false,
        unit_cpus: Vec::new(),
    }
}

/// Returns `count` different hardware events that all count `what`.
pub(crate) fn hardware(what: u64, count: u64) -> Vec<Event> {
    (0..count).map(|i| event(&format!("h{i}"), Class::Hardware, RAW, what + i)).collect()
}

pub(crate) fn software(name: &str, config: u64) -> Event {
    event(name, Class::Software, SOFTWARE, config)
}
