// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the scheduler events of all CPUs.

use super::format::{Field, Format};
use super::waits::{Scheduled, Waits, What};
use crate::duty::Duty;
use crate::refusal::explain;
use linerate_linux::perf::{Event, Request, Selector, TRACEPOINT, Target};
use linerate_linux::sample::{self, Fields, Record, Ring, Sample, Sampling};
use linerate_record::why::{RanInstead, Unread};

/// Reads scheduler events.
#[derive(Debug)]
pub(super) struct Scheduler {
    /// Switch and wakeup events of each CPU, and the ring they share.
    cpus: Vec<(Event, Event, Ring)>,
    layout: Layout,
    waits: Waits,
    duty: Duty,
}

/// Field positions of both events.
#[derive(Debug)]
struct Layout {
    switch_id: u64,
    from: Field,
    from_name: Field,
    from_state: Field,
    to: Field,
    wakeup_id: u64,
    woken: Field,
    woken_to: Field,
}

/// Number of events per slice and CPU up to which every slice is read. An event costs 1 us, in this
/// program and the kernel together, so with slices of 0.1 s the limit is 0.3 % of a CPU.
const LIMIT: u64 = 300;
/// Maximum number of events per slice over all CPUs up to which every slice is read: one thread
/// reads them all, and takes 3 % of a CPU for them.
const LIMIT_ALL: u64 = 3000;
/// Size of a ring, enough for 2,000 events.
const RING_BYTES: usize = 256 << 10;
/// `TASK_REPORT_MAX`, which is set in the state of a preempted thread.
const PREEMPTED: i64 = 0x100;

impl Layout {
    fn new(switch: &Format, wakeup: &Format) -> Option<Self> {
        Some(Self {
            switch_id: switch.id,
            from: switch.field("prev_pid")?,
            from_name: switch.field("prev_comm")?,
            from_state: switch.field("prev_state")?,
            to: switch.field("next_pid")?,
            wakeup_id: wakeup.id,
            woken: wakeup.field("pid")?,
            woken_to: wakeup.field("target_cpu")?,
        })
    }

    /// Decodes a sample; `None` for other events.
    fn read(&self, sample: &Sample<'_>) -> Option<Scheduled> {
        let raw = sample.raw;
        let id = u64::from(u16::from_ne_bytes(raw.get(..2)?.try_into().ok()?));
        let time_ns = sample.time_ns;
        if id == self.switch_id {
            let state = self.from_state.number(raw);
            let what = What::Switched {
                from: self.from.number(raw) as u32,
                from_name: self.from_name.text(raw),
                can_run: state & (PREEMPTED - 1) == 0,
                to: self.to.number(raw) as u32,
            };
            return Some(Scheduled { time_ns, cpu: sample.cpu, what });
        }
        (id == self.wakeup_id).then(|| Scheduled {
            time_ns,
            cpu: self.woken_to.number(raw) as u32,
            what: What::Woke { tid: self.woken.number(raw) as u32 },
        })
    }
}

impl Scheduler {
    /// Opens both events on `cpus`.
    pub(super) fn open(
        switch: Format,
        wakeup: Format,
        cpus: &[u32],
        now_ns: u64,
    ) -> Result<Self, Unread> {
        let unread = |reason: String| Unread { what: "scheduler".to_owned(), reason, fix: None };
        let layout = Layout::new(&switch, &wakeup);
        let layout =
            layout.ok_or_else(|| unread("sched tracepoints lack required fields".to_owned()))?;
        let mut opened = Vec::new();
        for &cpu in cpus {
            let open = |name: &str, id| {
                let request =
                    Request { disabled: false, ..Request::new(Selector::new(TRACEPOINT, id)) };
                let sampling =
                    Sampling { period: 1, fields: Fields::TRACEPOINT, skips_idle: false };
                let target = Target::Cpu(cpu);
                sample::open(&request, &sampling, target)
                    .map_err(|error| explain("tracepoints", name, request, target, error))
            };
            let switches = open("sched:sched_switch", switch.id)?;
            let ring = Ring::map_bytes(&switches, RING_BYTES, Fields::TRACEPOINT);
            let ring = ring.map_err(|error| {
                unread(format!("cannot allocate memory for sched events: {error}"))
            })?;
            let wakings = open("sched:sched_wakeup", wakeup.id)?;
            let shared = wakings.write_to(&switches);
            shared.map_err(|error| {
                unread(format!("sched events cannot share a ring buffer: {error}"))
            })?;
            opened.push((switches, wakings, ring));
        }
        let duty = Duty::new((LIMIT * cpus.len() as u64).min(LIMIT_ALL), now_ns);
        Ok(Self { cpus: opened, layout, waits: Waits::default(), duty })
    }

    /// Begins the window.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.end_slice(now_ns);
        self.waits.begin_window();
        if self.duty.begin_window(now_ns) {
            self.switch(true);
        }
    }

    pub(super) fn watch(&mut self, tid: u32) {
        self.waits.watch(tid);
    }

    pub(super) fn end_slice(&mut self, now_ns: u64) {
        let mut events = Vec::new();
        let mut lost = 0;
        for (_, _, ring) in &mut self.cpus {
            ring.drain(|record| match record {
                Record::Sample(sample) => events.extend(self.layout.read(&sample)),
                Record::Lost(records) => lost += records,
                Record::Throttled | Record::Process(_) | Record::Other(_) => {}
            });
        }
        let gap = Scheduled { time_ns: now_ns, cpu: 0, what: What::Gap };
        if lost > 0 {
            // A ring that was full reports lost events after it has been read, before the next
            // event.
            self.waits.take(&gap);
        }
        events.sort_by_key(|event| event.time_ns);
        events.iter().for_each(|event| self.waits.take(event));
        let was_on = self.duty.is_on();
        self.duty.end_slice(events.len() as u64 + lost, now_ns);
        if !self.duty.is_on() {
            self.waits.take(&gap);
        }
        if was_on != self.duty.is_on() {
            self.switch(!was_on);
        }
    }

    /// Switches the events on or off.
    fn switch(&self, is_on: bool) {
        for event in self.cpus.iter().flat_map(|(a, b, _)| [a, b]) {
            // Enabling or disabling the event fails if the CPU has gone offline.
            let _ = if is_on { event.enable() } else { event.disable() };
        }
    }

    pub(super) fn instead_of(&self, tid: u32) -> Vec<RanInstead> {
        self.waits.instead_of(tid, self.duty.scale(), linerate_linux::thread_id())
    }

    pub(super) fn waits(&self, tid: u32) -> Vec<u64> {
        self.waits.lengths(tid, self.duty.scale())
    }
}
