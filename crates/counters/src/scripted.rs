// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel test double, which refuses events as scripted and counts software events in place of
//! hardware events. It is the only [`Opener`] other than [`Kernel`].

use crate::opener::{Kernel, Opener};
use linerate_linux::errno::EINVAL;
use linerate_linux::perf::{self, OpenError, Request, SOFTWARE, Selector, Target};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Software event counted in place of hardware events unless [`Scripted::counting`] sets another:
/// page faults, which a test can cause one at a time.
pub const PAGE_FAULTS: Selector = Selector::new(SOFTWARE, 2);

/// Software event that counts the target's CPU time in nanoseconds.
pub const TASK_CLOCK: Selector = Selector::new(SOFTWARE, 1);

/// A kernel test double that calls `refuse` before opening an event. Given a request and the events
/// already in its group, leader first, `refuse` returns the error number, if any.
pub struct Scripted<R> {
    refuse: R,
    counts: fn(Selector) -> Selector,
    groups: Mutex<BTreeMap<String, Vec<Member>>>,
}

/// An open event in a group.
struct Member {
    descriptor: String,
    selector: Selector,
}

impl<R: Fn(&Request, &[Selector]) -> Option<i32>> Scripted<R> {
    /// Creates a scripted kernel that counts page faults in place of hardware events.
    pub fn new(refuse: R) -> Self {
        Self { refuse, counts: |_| PAGE_FAULTS, groups: Mutex::default() }
    }

    /// Sets the software event to count in place of each hardware event: `counts(event)`.
    pub fn counting(self, counts: fn(Selector) -> Selector) -> Self {
        Self { counts, ..self }
    }

    /// Returns the events in this leader's group, leader first; none without a leader.
    fn group(&self, leader: Option<&perf::Event>) -> Vec<Selector> {
        let groups = self.groups.lock().expect("no test should panic while it opens events");
        let group = leader.and_then(|leader| groups.get(&descriptor(leader)));
        group.map_or_else(Vec::new, |group| group.iter().map(|member| member.selector).collect())
    }

    fn note(&self, event: &perf::Event, selector: Selector, leader: Option<&perf::Event>) {
        let member = Member { descriptor: descriptor(event), selector };
        let mut groups = self.groups.lock().expect("no test should panic while it opens events");
        // The kernel reuses a closed event's descriptor number for the next one.
        groups.remove(&member.descriptor);
        groups.values_mut().for_each(|group| group.retain(|m| m.descriptor != member.descriptor));
        groups
            .entry(leader.map_or(member.descriptor.clone(), descriptor))
            .or_default()
            .push(member);
    }
}

/// Returns a scripted kernel that refuses every event with this error number.
pub fn refusing(errno: i32) -> Scripted<impl Fn(&Request, &[Selector]) -> Option<i32>> {
    Scripted::new(move |_, _| Some(errno))
}

/// Returns a scripted kernel for a processor on which a group can have at most `counters` hardware
/// events.
pub fn with_counters(counters: usize) -> Scripted<impl Fn(&Request, &[Selector]) -> Option<i32>> {
    Scripted::new(move |request, group| full(counters, request, group))
}

/// Returns `EINVAL`, as the kernel does, for a hardware event in a group that already has
/// `counters` of them.
pub fn full(counters: usize, request: &Request, group: &[Selector]) -> Option<i32> {
    let needs_counter = |selector: &Selector| selector.kind != SOFTWARE;
    let taken = group.iter().filter(|member| needs_counter(member)).count();
    (needs_counter(&request.selector) && taken >= counters).then_some(EINVAL)
}

impl<R: Fn(&Request, &[Selector]) -> Option<i32>> Opener for Scripted<R> {
    fn open(
        &self,
        request: &Request,
        target: Target,
        leader: Option<&perf::Event>,
    ) -> Result<perf::Event, OpenError> {
        if let Some(errno) = (self.refuse)(request, &self.group(leader)) {
            return Err(OpenError { errno });
        }
        let selector = match request.selector.kind {
            SOFTWARE => request.selector,
            _ => (self.counts)(request.selector),
        };
        let event = Kernel.open(&Request { selector, ..*request }, target, leader)?;
        self.note(&event, request.selector, leader);
        Ok(event)
    }
}

/// Returns a string that identifies an open event by file descriptor and target.
fn descriptor(event: &perf::Event) -> String {
    format!("{event:?}")
}
