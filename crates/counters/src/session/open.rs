// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens as many events as possible for a session, in the best modes that the kernel permits.

use super::groups::{Groups, Sums};
use super::pack::{Packer, Packing};
use super::{NEVER, Options, SLICE_ALONE, Scope, Session};
use crate::catalog::is_kernel_only;
use crate::event::{Class, Event};
use crate::opener::{Opener, open_best};
use crate::refusal::{Attempt, Refusal};
use crate::rotation::{Plan, Slices, Turn, Turns};
use linerate_linux::perf::{OpenError, Request, SOFTWARE, Selector, Target};
use std::fs;
use std::path::Path;

/// Event number of the kernel's CPU clock (`enum perf_sw_ids`).
const CPU_CLOCK: u64 = 0;
/// Event number of the kernel's task clock (`enum perf_sw_ids`).
const TASK_CLOCK: u64 = 1;

/// Execution modes excluded from an event's count.
#[derive(Clone, Copy, Debug)]
struct Manner {
    exclude_kernel: bool,
    exclude_hypervisor: bool,
}

/// Opens events on a target, which may be running. A thread that the target creates in the meantime
/// inherits only some of the events, or none, and the kernel refuses to read a group that was not
/// inherited completely. In that case, all events are opened again, up to a few times.
pub(super) fn open(
    opener: &dyn Opener,
    root: &Path,
    events: &[Event],
    scope: &Scope,
    options: &Options,
) -> Session {
    const ATTEMPTS: u32 = 5;
    let mut attempts = 0;
    loop {
        attempts += 1;
        let before = targets(scope, root);
        let session = Opening::new(opener, root, events, scope, options, &before).open();
        let is_still = || match scope {
            Scope::Held(_) | Scope::CurrentThread | Scope::Cpus(_) => true,
            Scope::Thread(_) | Scope::Process(_) => {
                let now = targets(scope, root);
                now.iter().all(|target| before.contains(target)) && session.groups.are_readable()
            }
        };
        if attempts == ATTEMPTS || is_still() {
            return session;
        }
    }
}

/// Session state while its events are being opened.
struct Opening<'a> {
    opener: &'a dyn Opener,
    root: &'a Path,
    events: &'a [Event],
    scope: &'a Scope,
    options: &'a Options,
    groups: Groups,
    outcomes: Vec<Result<(), Refusal>>,
    manners: Vec<Manner>,
    /// Events that are not multiplexed, each with its group and its index in that group.
    always: Vec<(usize, (usize, usize))>,
    /// Multiplexed event sets, each with its group.
    sets: Vec<(Vec<usize>, usize)>,
}

impl<'a> Opening<'a> {
    fn new(
        opener: &'a dyn Opener,
        root: &'a Path,
        events: &'a [Event],
        scope: &'a Scope,
        options: &'a Options,
        targets: &[Target],
    ) -> Self {
        let manner = |event: &Event| Manner {
            exclude_kernel: event.is_user_only
                || event.class == Class::Hardware && options.user_only == Some(true),
            exclude_hypervisor: true,
        };
        Self {
            opener,
            root,
            events,
            scope,
            options,
            groups: Groups::new(targets),
            outcomes: vec![Ok(()); events.len()],
            manners: events.iter().map(manner).collect(),
            always: Vec::new(),
            sets: Vec::new(),
        }
    }

    fn open(mut self) -> Session {
        let clock = self.open_clock();
        self.open_software(clock);
        let packing = self.pack();
        for &event in &packing.always {
            self.open_in_addition_to_sets(event);
        }
        let plan = Plan { sets: packing.sets, ..self.plan() };
        let (_, first) = self.turns(&plan);
        for (number, set) in plan.sets.iter().enumerate() {
            self.open_set(set, number == first.set);
        }
        self.into_session()
    }

    /// Returns the schedule for the events opened so far.
    fn plan(&self) -> Plan {
        Plan {
            always: self.always.iter().map(|&(event, _)| event).collect(),
            sets: self.sets.iter().map(|(set, _)| set.clone()).collect(),
            slice: self.options.slice,
        }
    }

    /// Returns the set order after the first slice (`None` if nothing is multiplexed), and the
    /// first slice.
    fn turns(&self, plan: &Plan) -> (Option<Turns>, Turn) {
        let mut turns = plan.is_rotating().then(|| Turns::new(plan, self.options.seed));
        let alone = Turn { set: 0, length: SLICE_ALONE };
        let first = turns.as_mut().map_or(alone, Turns::next_turn);
        (turns, first)
    }

    fn into_session(self) -> Session {
        let plan = self.plan();
        let (turns, first) = self.turns(&plan);
        let is_base = |&(event, _): &(usize, _)| Some(event) == self.options.scale_by;
        Session {
            user_only: (0..self.events.len()).map(|event| self.is_user_only(event)).collect(),
            events: self.events.to_vec(),
            outcomes: self.outcomes,
            starts_with_exec: matches!(self.scope, Scope::Held(_)),
            groups: self.groups,
            base: self.always.iter().position(is_base),
            always: self.always.iter().map(|&(_, place)| place).collect(),
            sets: self.sets.iter().map(|&(_, group)| group).collect(),
            turns,
            current: first.set,
            first_length: if plan.sets.is_empty() { NEVER } else { first.length },
            shown: vec![Sums::default(); plan.sets.len()],
            base_shown: Sums::default(),
            slices: Slices::new(&plan),
            is_behind: false,
            lap: None,
            is_counting: false,
            plan,
        }
    }

    /// Opens an always-counted group led by a clock, which measures how long the group is counted.
    /// Returns the group number; `None` if the kernel refuses the clock.
    fn open_clock(&mut self) -> Option<usize> {
        let number = if matches!(self.scope, Scope::Cpus(_)) { CPU_CLOCK } else { TASK_CLOCK };
        let selector = Selector::new(SOFTWARE, number);
        let both = Manner { exclude_kernel: false, exclude_hypervisor: true };
        let user = Manner { exclude_kernel: true, ..both };
        [both, user].iter().find_map(|&manner| {
            let leader = self.leader(selector, manner, true);
            self.groups.lead(self.opener, &leader, |_| true).ok()
        })
    }

    fn open_software(&mut self, clock: Option<usize>) {
        for event in 0..self.events.len() {
            if self.events[event].class == Class::Hardware {
                continue;
            }
            if self.events[event].is_user_only && !self.has_user_part(event) {
                // The event occurs only in the kernel, so its user mode count would be 0.
                self.outcomes[event] = Err(Refusal::KernelOnly);
                continue;
            }
            let opened = match clock {
                Some(clock) => self.join(event, clock).or_else(|_| self.lead_alone(event)),
                None => self.lead_alone(event),
            };
            self.note_always(event, opened);
        }
    }

    /// Returns whether the event can occur in user mode.
    fn has_user_part(&self, event: usize) -> bool {
        !is_kernel_only(&self.events[event])
    }

    fn note_always(&mut self, event: usize, opened: Result<(usize, usize), Refusal>) {
        match opened {
            Ok(place) => self.always.push((event, place)),
            Err(refusal) => self.outcomes[event] = Err(refusal),
        }
    }

    fn join(&mut self, event: usize, group: usize) -> Result<(usize, usize), OpenError> {
        let member = self.member(event);
        self.groups.join(group, self.opener, &member)?;
        Ok((group, self.groups.len_of(group) - 1))
    }

    /// Opens an event as the leader of a group that is not multiplexed, in the best modes that the
    /// kernel permits. Returns the group number and the event's index in the group.
    fn lead_alone(&mut self, event: usize) -> Result<(usize, usize), Refusal> {
        self.manners[event] = self.granted(event)?;
        let leader = self.leader(self.events[event].selector, self.manners[event], true);
        match self.lead(event, &leader) {
            Ok(group) => Ok((group, 0)),
            Err(error) => Err(self.refused(error, leader, 0)),
        }
    }

    /// Opens an event as the leader of a group: on all targets or, if it counts whole units, on one
    /// CPU of each unit.
    fn lead(&mut self, event: usize, leader: &Request) -> Result<usize, OpenError> {
        let cpus = self.counted_cpus(event).ok().flatten();
        let is_on = |target| match (&cpus, target) {
            (Some(cpus), Target::Cpu(cpu)) => cpus.contains(&cpu),
            _ => true,
        };
        self.groups.lead(self.opener, leader, is_on)
    }

    /// Returns the CPUs on which to open an event that counts whole units; `None` to open it on all
    /// targets. The kernel opens such an event on any CPU and counts that CPU's unit, so each unit
    /// must have exactly one event: either every target is the CPU listed for a unit, or all listed
    /// CPUs are targets. If there is only one target, its unit is counted.
    fn counted_cpus(&self, event: usize) -> Result<Option<Vec<u32>>, Refusal> {
        let unit_cpus = &self.events[event].unit_cpus;
        match self.scope {
            Scope::Cpus(cpus) if cpus.len() > 1 && !unit_cpus.is_empty() => {
                if cpus.iter().all(|cpu| unit_cpus.contains(cpu)) {
                    Ok(None)
                } else if unit_cpus.iter().all(|cpu| cpus.contains(cpu)) {
                    Ok(Some(unit_cpus.clone()))
                } else {
                    Err(Refusal::WholeUnits { unit_cpus: unit_cpus.clone() })
                }
            }
            _ => Ok(None),
        }
    }

    /// Opens each hardware event on a trial basis, and packs those that can be opened into sets.
    fn pack(&mut self) -> Packing {
        let mut able = Vec::new();
        for event in 0..self.events.len() {
            if self.events[event].class != Class::Hardware {
                continue;
            }
            match self.counted_cpus(event).and_then(|_| self.granted(event)) {
                Ok(manner) => {
                    self.manners[event] = manner;
                    able.push(event);
                }
                Err(refusal) => self.outcomes[event] = Err(refusal),
            }
        }
        let request =
            |&event: &usize| self.leader(self.events[event].selector, self.manners[event], false);
        let packer = Packer {
            opener: self.opener,
            requests: &able.iter().map(request).collect::<Vec<_>>(),
            // Each of these events could be opened on its target.
            targets: &able.iter().filter_map(|&event| self.trial_target(event)).collect::<Vec<_>>(),
            is_watchdog_on: able.len() > 1 && self.is_watchdog_on(),
            base: able.iter().position(|&event| Some(event) == self.options.scale_by),
            sessions: self.options.sessions.max(1),
        };
        let mut packing = packer.pack();
        packing.always.iter_mut().for_each(|event| *event = able[*event]);
        packing.sets.iter_mut().flatten().for_each(|event| *event = able[*event]);
        packing
    }

    /// Returns whether the kernel's NMI watchdog may hold a counter on every CPU.
    fn is_watchdog_on(&self) -> bool {
        let setting = self.root.join("proc/sys/kernel/nmi_watchdog");
        fs::read_to_string(setting).is_ok_and(|on| on.trim() != "0")
    }

    /// Returns the target on which to open an event on a trial basis: the first on which it is
    /// counted. Some units exist only on some CPUs, and their events cannot be opened elsewhere.
    fn trial_target(&self, event: usize) -> Option<Target> {
        let cpus = self.counted_cpus(event).ok().flatten();
        cpus.and_then(|cpus| cpus.first().copied())
            .map(Target::Cpu)
            .or_else(|| self.groups.first_target())
    }

    /// Returns the best modes in which the kernel permits an event to be opened.
    fn granted(&self, event: usize) -> Result<Manner, Refusal> {
        let Some(target) = self.trial_target(event) else {
            return Err(Refusal::NoTarget);
        };
        let request = self.leader(self.events[event].selector, self.manners[event], false);
        let open = |request: &Request| self.opener.open(request, target, None);
        let (_, granted) = open_best(&request, self.may_leave_out_the_kernel(event), open)
            .map_err(|error| self.refused(error, request, 0))?;
        let Request { exclude_kernel, exclude_hypervisor, .. } = granted;
        Ok(Manner { exclude_kernel, exclude_hypervisor })
    }

    fn may_leave_out_the_kernel(&self, event: usize) -> bool {
        let is_open =
            self.events[event].class != Class::Hardware || self.options.user_only.is_none();
        is_open && self.has_user_part(event)
    }

    /// Opens a hardware event that is counted all the time, alongside every set.
    fn open_in_addition_to_sets(&mut self, event: usize) {
        let beside = |&(other, (group, _)): &(usize, (usize, usize))| {
            (self.events[other].class == Class::Hardware).then_some(group)
        };
        let group = self.always.iter().find_map(beside);
        let opened = match group {
            Some(group) => self.join(event, group).map_err(|error| {
                self.refused(error, self.member(event), self.groups.len_of(group))
            }),
            None => self.lead_alone(event),
        };
        self.note_always(event, opened);
    }

    /// Opens a set of events that fit on the counters together. An event refused at this point (for
    /// example because no file descriptors are left) is omitted from the set.
    fn open_set(&mut self, set: &[usize], is_first: bool) {
        let mut open = Vec::new();
        let mut group = None;
        for &event in set {
            let selector = self.events[event].selector;
            let leader = self.leader(selector, self.manners[event], is_first);
            let opened = match group {
                Some(group) => {
                    let len = self.groups.len_of(group);
                    let joined = self.join(event, group).map(|_| group);
                    joined.map_err(|error| self.refused(error, self.member(event), len))
                }
                None => (self.lead(event, &leader)).map_err(|error| self.refused(error, leader, 0)),
            };
            match opened {
                Ok(opened) => {
                    group = Some(opened);
                    open.push(event);
                }
                Err(refusal) => self.outcomes[event] = Err(refusal),
            }
        }
        self.sets.extend(group.map(|group| (open, group)));
    }

    /// Returns the request for a group leader. If `may_start` is set and the target is a held child
    /// process, execve(2) starts the group.
    fn leader(&self, selector: Selector, manner: Manner, may_start: bool) -> Request {
        Request {
            exclude_kernel: manner.exclude_kernel,
            exclude_hypervisor: manner.exclude_hypervisor,
            inherit: self.options.inherit && !matches!(self.scope, Scope::Cpus(_)),
            enable_on_exec: may_start && matches!(self.scope, Scope::Held(_)),
            ..Request::new(selector)
        }
    }

    /// Returns the request for another group member, which starts and stops with its leader.
    fn member(&self, event: usize) -> Request {
        let leader = self.leader(self.events[event].selector, self.manners[event], false);
        Request { disabled: false, ..leader }
    }

    /// Returns the refusal for an event that was to join a group of `group_len` events.
    fn refused(&self, error: OpenError, request: Request, group_len: usize) -> Refusal {
        match self.groups.first_target() {
            Some(target) => Refusal::NotOpened(Attempt { error, request, target, group_len }),
            None => Refusal::NoTarget,
        }
    }

    /// Returns whether kernel mode is really excluded for this event; clocks always include both
    /// modes.
    fn is_user_only(&self, event: usize) -> bool {
        let Event { class, selector, .. } = &self.events[event];
        let is_clock =
            *class == Class::Software && [CPU_CLOCK, TASK_CLOCK].contains(&selector.config);
        self.manners[event].exclude_kernel && !is_clock
    }
}

/// Returns the targets (threads or CPUs) to open the events on.
fn targets(scope: &Scope, root: &Path) -> Vec<Target> {
    match scope {
        Scope::Held(id) | Scope::Thread(id) => vec![Target::Thread(*id)],
        Scope::CurrentThread => vec![Target::CurrentThread],
        Scope::Cpus(cpus) => cpus.iter().copied().map(Target::Cpu).collect(),
        Scope::Process(pid) => {
            let tasks = fs::read_dir(root.join(format!("proc/{pid}/task")));
            let names = tasks.into_iter().flatten().flatten().map(|task| task.file_name());
            let ids = names.filter_map(|name| name.to_str()?.parse().ok());
            let threads: Vec<Target> = ids.map(Target::Thread).collect();
            if threads.is_empty() { vec![Target::Thread(*pid)] } else { threads }
        }
    }
}
