// SPDX-License-Identifier: MIT OR Apache-2.0
//! A synthetic processor: hardware events are page faults or the task clock of the real kernel, but
//! a group takes only as many of them as there are counters.

use linerate_counters::event::{Class, Event};
use linerate_counters::opener::{Kernel, Opener};
use linerate_linux::errno;
use linerate_linux::perf::{self, HARDWARE, OpenError, RAW, Request, SOFTWARE, Selector, Target};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// What the processor calls the task clock, page faults, and an event with its own counter.
pub(crate) const CLOCK: u64 = 0x100;
pub(crate) const FAULTS: u64 = 0x200;
pub(crate) const OWN: u64 = 0x300;

/// A processor with this number of counters.
pub(crate) struct Pmu {
    counters: usize,
    /// Refuses a request before anything else is looked at.
    refuse: fn(&Request) -> Option<i32>,
    /// Hardware events in each group, by descriptors: the leader's, and the members'.
    groups: Mutex<BTreeMap<String, Vec<String>>>,
}

impl Pmu {
    pub(crate) fn new(counters: usize) -> Self {
        Self::refusing(counters, |_| None)
    }

    pub(crate) fn refusing(counters: usize, refuse: fn(&Request) -> Option<i32>) -> Self {
        Self { counters, refuse, groups: Mutex::default() }
    }
}

/// The name of a descriptor: its number, and what it is now.
fn descriptor(event: &perf::Event) -> String {
    format!("{event:?}")
}

impl Opener for Pmu {
    fn open(
        &self,
        request: &Request,
        target: Target,
        leader: Option<&perf::Event>,
    ) -> Result<perf::Event, OpenError> {
        if let Some(errno) = (self.refuse)(request) {
            return Err(OpenError { errno });
        }
        let Selector { kind, config, .. } = request.selector;
        let needs_counter = matches!(kind, RAW | HARDWARE) && config & !0xff != OWN;
        let mut groups = self.groups.lock().unwrap();
        let leader_name = leader.map(descriptor);
        let taken = leader_name.iter().flat_map(|name| &groups[name]).count();
        if needs_counter && taken >= self.counters {
            return Err(OpenError { errno: errno::EINVAL });
        }
        let real = match config & !0xff {
            _ if !matches!(kind, RAW | HARDWARE) => request.selector,
            FAULTS => Selector::new(SOFTWARE, 2),
            _ => Selector::new(SOFTWARE, 1),
        };
        let event = Kernel.open(&Request { selector: real, ..*request }, target, leader)?;
        let name = descriptor(&event);
        // A number that is given again belonged to an event that is closed.
        groups.values_mut().for_each(|members| members.retain(|member| *member != name));
        groups.insert(name.clone(), Vec::new());
        if needs_counter {
            groups.get_mut(&leader_name.unwrap_or(name.clone())).unwrap().push(name);
        }
        Ok(event)
    }
}

pub(crate) fn event(name: &str, class: Class, kind: u32, config: u64) -> Event {
    Event {
        name: name.to_owned(),
        native: None,
        unit: "events",
        class,
        selector: Selector::new(kind, config),
        is_user_only: false,
    }
}

/// `count` different hardware events that all count the same.
pub(crate) fn hardware(what: u64, count: u64) -> Vec<Event> {
    (0..count).map(|i| event(&format!("h{i}"), Class::Hardware, RAW, what + i)).collect()
}

pub(crate) fn software(name: &str, config: u64) -> Event {
    event(name, Class::Software, SOFTWARE, config)
}
