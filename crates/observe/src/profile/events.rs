// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sampling events, with one ring per CPU. There is one event per thread and CPU, inherited by new
//! threads and processes. If threads switch often, there is one event per CPU instead, and samples
//! of other programs are ignored.

mod cycles;
mod items;
mod rings;
#[cfg(test)]
mod tests;
mod threads;

use super::switching::switches_often;
use crate::ObserveError;
use crate::refusal::explain;
use crate::sampler::cost::affordable;
use crate::sampler::{CPU_CLOCK, CPU_CLOCK_NAME};
use items::{of_change, of_sample};
use linerate_linux::errno::{EACCES, ENODEV, EPERM, ESRCH};
use linerate_linux::perf::{self, Event, HARDWARE, OpenError, Request, SOFTWARE, Selector, Target};
use linerate_linux::sample::{Every, Fields, Record, Ring, open_chains};
use linerate_linux::{monotonic_ns, page_bytes};
use linerate_machine::Root;
use linerate_record::random::Random;
use linerate_record::stats::Estimate;
use linerate_record::why::Unread;
use threads::{refused_threads, threads, too_many};

pub(super) use items::{Item, UserState, What};

/// Sampling rate while a thread is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleRate {
    /// Samples per second, triggered by cycles if there is a PMU, otherwise by CPU time.
    PerSecond(u64),
    /// CPU time between samples, in nanoseconds.
    Nanoseconds(u64),
    /// At most this many samples per second, and fewer if samples are expensive.
    AtMost(u64),
}

impl SampleRate {
    /// Replaces `AtMost` by a fixed rate that limits the cost of sampling; returns other rates
    /// unchanged. `cost_ns` is the CPU time per sample, in nanoseconds.
    pub(super) fn fixed(self, cost_ns: Option<Estimate>) -> Self {
        /// Maximum share of a thread's time that its samples may take, unless that leaves fewer
        /// than `LEAST` per second.
        const SHARE: f64 = 0.02;
        const LEAST: u64 = 97;
        match self {
            Self::AtMost(most) => {
                Self::PerSecond(affordable(cost_ns, SHARE, LEAST.min(most), most))
            }
            fixed => fixed,
        }
    }

    /// Returns the CPU time between samples, in nanoseconds.
    pub(super) fn period_ns(self) -> u64 {
        match self {
            Self::PerSecond(rate) | Self::AtMost(rate) => 1_000_000_000 / rate.max(1),
            Self::Nanoseconds(period) => period,
        }
    }
}

/// `PERF_COUNT_HW_CPU_CYCLES`.
const CYCLES: Selector = Selector::new(HARDWARE, 0);
/// `PERF_COUNT_SW_TASK_CLOCK`.
const TASK_CLOCK: Selector = Selector::new(SOFTWARE, 1);
/// Maximum number of CPUs of a machine on which whole CPUs may be sampled instead of threads.
const MAX_CPUS: usize = 64;
/// Number of file descriptors reserved for uses other than sampling events.
const OTHER_FILES: u64 = 400;
/// Jitter of the sampling period, as a fraction of the period. Prevents sampling in lockstep with
/// the program: over the 50 samples of a slice of a busy thread, the phase moves by up to five
/// periods. A thread that starts during the window keeps the period of that moment, so this is also
/// the largest error of its share. With 0.02, the intervals of loops of a millisecond were too wide
/// to rank the loops (docs/decisions/0449).
const JITTER: f64 = 0.1;
/// Minimum number of samples of an event between changes of its period. At each change, the kernel
/// begins a new period and drops the elapsed part of the old one, half a period on average, so
/// changes reduce the number of samples, by at most 5 %. A slice of a busy thread has about 50
/// samples.
const SAMPLES: u64 = 10;
/// Minimum ratio of the time between two passes over all events to the time that a pass takes. A
/// pass disturbs the program: to access a running event, the kernel interrupts its CPU.
const REST: u64 = 50;

/// Events of all sampled threads.
pub(super) struct Events {
    /// Events of each sampled thread, with their CPUs. Those of the first thread own the rings.
    threads: Vec<Vec<(u32, Event)>>,
    /// Events that sample whole CPUs; empty if threads are sampled.
    by_cpu: Vec<Event>,
    /// Events that count the CPU time of threads if whole CPUs are sampled.
    clocks: Vec<Event>,
    /// One ring per CPU.
    rings: Vec<Ring>,
    kind: Kind,
    rate: SampleRate,
    /// Current sampling period, in nanoseconds of CPU time.
    period_ns: u64,
    /// Number of events that the current pass over all events has reached. Zero between passes.
    varied: usize,
    /// Time that each event had run at the last change of its period, in nanoseconds: first the
    /// events of CPUs, then those of threads.
    changed_ns: Vec<u64>,
    /// Time of the last change of periods.
    varied_ns: u64,
    /// Time from which all events may be read again.
    due_ns: u64,
    /// Time at which the rings were last read.
    drained_ns: u64,
    /// Stack bytes per sample.
    stack_bytes: u32,
    cpus: usize,
    lost: u64,
    /// CPU time of the threads before the window, in nanoseconds.
    ran_ns: u64,
    random: Random,
    unread: Vec<Unread>,
}

/// The event to sample.
#[derive(Clone, Copy, Debug)]
struct Kind {
    selector: Selector,
    name: &'static str,
    has_kernel: bool,
    /// Events per second of CPU time.
    per_second: f64,
}

impl Kind {
    const fn new(selector: Selector, name: &'static str) -> Self {
        Self { selector, name, has_kernel: true, per_second: 1e9 }
    }

    /// Returns the kind with the rate of its event in this thread; `None` if it cannot be counted.
    fn measured(self) -> Option<Self> {
        match self.is_clock() {
            true => Some(self),
            false => Some(Self { per_second: cycles::per_second(self.request())?, ..self }),
        }
    }

    fn request(self) -> Request {
        let exclude_kernel = !self.has_kernel;
        Request { exclude_kernel, disabled: false, inherit: true, ..Request::new(self.selector) }
    }

    fn is_clock(self) -> bool {
        self.selector == CPU_CLOCK
    }

    /// Converts CPU time between samples to a number of events. The number is fixed, so that all
    /// samples have the same weight. If the kernel were to adapt it to a number of samples per
    /// second, a thread that runs half of the time would be sampled twice as often while it runs.
    fn every(self, period_ns: u64) -> Every {
        Every::Events((period_ns as f64 * self.per_second / 1e9).max(1.0) as u64)
    }
}

impl Events {
    /// Opens events for all threads of `pids` on every online CPU.
    pub(super) fn open(
        root: &Root,
        pids: &[u32],
        rate: SampleRate,
        stack_bytes: u32,
    ) -> Result<Self, ObserveError> {
        let cpus = root.cpu_list("sys/devices/system/cpu/online").unwrap_or_else(|| vec![0]);
        let threads = threads(root, pids);
        let most = linerate_linux::raise_open_files().saturating_sub(OTHER_FILES);
        let most = (most as usize / cpus.len().max(1)).max(1);
        let mut events = Self::choose(&threads, cpus[0], rate, stack_bytes)?;
        events.cpus = cpus.len();
        if threads.len() > most {
            events.unread.push(too_many(threads.len() - most));
        }
        if events.can_sample_cpus() && switches_often(root, &threads, cpus.len()) {
            events.sample_cpus(&cpus);
        }
        events.open_threads(&threads[..most.min(threads.len())], &cpus)?;
        Ok(events)
    }

    /// Opens the events of threads. Threads that have ended are skipped without a note.
    fn open_threads(&mut self, tids: &[u32], cpus: &[u32]) -> Result<(), ObserveError> {
        for (at, &tid) in tids.iter().enumerate() {
            let refused = match self.is_by_cpu() {
                true => self.count_thread(tid).err(),
                false => self.sample_thread(tid, cpus)?,
            };
            let Some(error) = refused.filter(|error| error.errno != ESRCH) else { continue };
            if self.threads.is_empty() && self.clocks.is_empty() {
                return Err(ObserveError::NotSampled { reason: error.to_string(), fix: None });
            }
            self.unread.push(refused_threads(tids.len() - at, error));
            break;
        }
        Ok(())
    }

    /// Counts the CPU time of a thread.
    fn count_thread(&mut self, tid: u32) -> Result<(), OpenError> {
        self.clocks.push(perf::open(&running_time(), Target::Thread(tid), None)?);
        Ok(())
    }

    /// Samples a thread on all CPUs. If an event is refused, returns the refusal, and the thread is
    /// not sampled at all: samples from only some CPUs would distort the shares of its functions.
    fn sample_thread(&mut self, tid: u32, cpus: &[u32]) -> Result<Option<OpenError>, ObserveError> {
        let (request, every) = (self.kind.request(), self.kind.every(self.period_ns));
        let mut of_thread = Vec::new();
        for &cpu in cpus {
            match open_chains(&request, every, self.stack_bytes, (Some(tid), cpu)) {
                Ok(event) => of_thread.push((cpu, event)),
                // The CPU has gone offline.
                Err(OpenError { errno: ENODEV }) => {}
                Err(error) => return Ok(Some(error)),
            }
        }
        if of_thread.is_empty() {
            return Ok(None);
        }
        match self.threads.first() {
            None => {
                self.rings = self.map_rings(of_thread.iter().map(|(_, event)| event))?;
            }
            Some(owners) => {
                // Without a ring, an event would write nothing.
                of_thread.retain(|(cpu, _)| owners.iter().any(|(of, _)| of == cpu));
                for (cpu, event) in &of_thread {
                    let owner = owners.iter().find(|(of, _)| of == cpu);
                    let connected = owner.map_or(Ok(()), |(_, owner)| event.write_to(owner));
                    connected.map_err(cannot_lock)?;
                }
            }
        }
        self.threads.push(of_thread);
        Ok(None)
    }

    /// Returns whether sampling whole CPUs makes sense. It does not for cycles, which cost nothing
    /// to count per thread, nor on a large machine, where one event per CPU would cost more than
    /// the threads' own events.
    fn can_sample_cpus(&self) -> bool {
        self.kind.is_clock() && self.kind.has_kernel && self.cpus <= MAX_CPUS
    }

    /// Opens events that sample whole CPUs: all of them or, if that is not permitted, none.
    fn sample_cpus(&mut self, cpus: &[u32]) {
        let request = Request { inherit: false, ..self.kind.request() };
        let every = self.kind.every(self.period_ns);
        let open = |&cpu: &u32| open_chains(&request, every, self.stack_bytes, (None, cpu)).ok();
        let Some(by_cpu) = cpus.iter().map(open).collect::<Option<Vec<Event>>>() else { return };
        let Ok(rings) = self.map_rings(by_cpu.iter()) else { return };
        (self.by_cpu, self.rings) = (by_cpu, rings);
    }

    /// Returns whether whole CPUs are sampled. In this case, the items include samples and events
    /// of other programs.
    pub(super) fn is_by_cpu(&self) -> bool {
        !self.by_cpu.is_empty()
    }

    /// Selects the event that the kernel permits for the first existing thread.
    fn choose(
        threads: &[u32],
        cpu: u32,
        rate: SampleRate,
        stack_bytes: u32,
    ) -> Result<Self, ObserveError> {
        let clock = Kind::new(CPU_CLOCK, CPU_CLOCK_NAME);
        let kinds = match rate {
            SampleRate::PerSecond(_) | SampleRate::AtMost(_) => {
                &[Kind::new(CYCLES, "cycles"), clock][..]
            }
            SampleRate::Nanoseconds(_) => &[clock],
        };
        let mut unread = Vec::new();
        let mut refused = OpenError { errno: ESRCH };
        let mut of = *threads.first().ok_or(ObserveError::NoProcess)?;
        for &tid in threads {
            for (kind, has_kernel) in kinds.iter().flat_map(|kind| [(kind, true), (kind, false)]) {
                let kind = Kind { has_kernel, ..*kind };
                let at = (Some(tid), cpu);
                let every = kind.every(rate.period_ns());
                let opened = open_chains(&kind.request(), every, stack_bytes, at);
                match opened.map(|_| kind.measured()) {
                    Ok(Some(kind)) => return Ok(Self::new(kind, rate, stack_bytes, unread)),
                    // Without its rate, the event cannot be sampled by CPU time.
                    Ok(None) => {}
                    Err(error) => {
                        (refused, of) = (error, tid);
                        if has_kernel && matches!(error.errno, EACCES | EPERM) {
                            let target = Target::Thread(tid);
                            let request = kind.request();
                            let name = kind.name;
                            unread = vec![explain("kernel_samples", name, request, target, error)];
                        }
                    }
                }
            }
            if refused.errno != ESRCH {
                break;
            }
        }
        let request = Kind { has_kernel: false, ..clock }.request();
        let Unread { reason, fix, .. } =
            explain("samples", CPU_CLOCK_NAME, request, Target::Thread(of), refused);
        Err(ObserveError::NotSampled { reason, fix })
    }

    fn new(kind: Kind, rate: SampleRate, stack_bytes: u32, unread: Vec<Unread>) -> Self {
        Self {
            threads: Vec::new(),
            by_cpu: Vec::new(),
            clocks: Vec::new(),
            rings: Vec::new(),
            kind,
            rate,
            period_ns: rate.period_ns(),
            varied: 0,
            changed_ns: Vec::new(),
            varied_ns: monotonic_ns(),
            due_ns: 0,
            drained_ns: 0,
            stack_bytes,
            cpus: 1,
            lost: 0,
            ran_ns: 0,
            random: Random::new(rate.period_ns()),
            unread,
        }
    }

    /// Maps a ring for each event, all of the same size.
    fn map_rings<'a>(
        &self,
        owners: impl Iterator<Item = &'a Event> + Clone,
    ) -> Result<Vec<Ring>, ObserveError> {
        let fields = Fields::chains(self.stack_bytes);
        let pages = rings::pages(self.stack_bytes, self.cpus, page_bytes());
        rings::map(owners, pages, |event, pages| Ring::map(event, pages, fields))
            .map_err(cannot_lock)
    }

    /// Begins the window. Samples and CPU time from before the window do not count, because opening
    /// the events of many threads takes long. Passes the other items that have arrived to `each`.
    pub(super) fn begin(&mut self, mut each: impl FnMut(Item)) {
        self.drain(|item| {
            if !matches!(item.what, What::Sample { .. }) {
                each(item);
            }
        });
        self.lost = 0;
        self.ran_ns += self.run_ns();
    }

    /// Reads all items since the last call, in time order.
    pub(super) fn drain(&mut self, each: impl FnMut(Item)) {
        let mut items = Vec::new();
        let lost = &mut self.lost;
        for ring in &mut self.rings {
            ring.drain(|record| match record {
                Record::Sample(sample) => items.push(of_sample(&sample)),
                Record::Process(change) => items.push(of_change(&change)),
                Record::Lost(records) => *lost += records,
                Record::Throttled | Record::Other(_) => {}
            });
        }
        self.drained_ns = monotonic_ns();
        items.sort_by_key(|item| item.time_ns);
        items.into_iter().for_each(each);
    }

    /// Returns the time at which the rings were last read.
    pub(super) fn drained_ns(&self) -> u64 {
        self.drained_ns
    }

    /// Draws a new sampling period around the requested one, and sets it for the events with at
    /// least [`SAMPLES`] samples since the last change. Call at the end of each slice. If a pass
    /// over all events would take too long, the remaining events follow in the next calls.
    pub(super) fn vary(&mut self) {
        let now_ns = monotonic_ns();
        let until_ns = now_ns + now_ns.saturating_sub(self.varied_ns) / REST;
        self.varied_ns = now_ns;
        if self.varied == 0 {
            let factor = 1.0 + JITTER * (2.0 * self.random.uniform() - 1.0);
            self.period_ns = (self.rate.period_ns() as f64 * factor) as u64;
        }
        let every = self.kind.every(self.period_ns);
        let of_threads = self.threads.iter().flatten().map(|(_, event)| event);
        for event in self.by_cpu.iter().chain(of_threads).skip(self.varied) {
            if self.changed_ns.len() == self.varied {
                self.changed_ns.push(0);
            }
            let changed_ns = &mut self.changed_ns[self.varied];
            let ran_ns = event.read().map_or(0, |reading| reading.running_ns);
            if ran_ns.saturating_sub(*changed_ns) >= SAMPLES * self.period_ns {
                *changed_ns = ran_ns;
                // If refused, the period stays as it was.
                let _ = event.set_every(every);
            }
            self.varied += 1;
            if monotonic_ns() >= until_ns {
                return;
            }
        }
        self.varied = 0;
    }

    /// Returns the sampling period last drawn by [`Self::vary`], in nanoseconds of CPU time. Events
    /// with few samples may still have an earlier period, which differs from the requested one by
    /// at most [`JITTER`]. Only valid if samples come from a clock.
    pub(super) fn period_ns(&self) -> u64 {
        self.period_ns
    }

    /// Returns the CPU time of all threads in the window so far, in nanoseconds.
    pub(super) fn run_ns(&self) -> u64 {
        let running = |event: &Event| event.read().map_or(0, |reading| reading.running_ns);
        let of_threads = self.threads.iter().flatten().map(|(_, event)| event);
        let all: u64 = self.clocks.iter().chain(of_threads).map(running).sum();
        all.saturating_sub(self.ran_ns)
    }

    /// Returns the number of samples that the CPU time so far should have produced; `None` if all
    /// CPU time is sampled, if cycles are sampled, or if the last call was too recent for the
    /// number of events that must be read. The last call (`is_last`) is never too recent.
    pub(super) fn samples_due(&mut self, is_last: bool) -> Option<u64> {
        let is_partly = self.kind.is_clock() && !self.kind.has_kernel;
        let began_ns = monotonic_ns();
        if !is_partly || (began_ns < self.due_ns && !is_last) {
            return None;
        }
        let due = self.run_ns() / self.rate.period_ns().max(1);
        let now_ns = monotonic_ns();
        self.due_ns = now_ns + REST * (now_ns - began_ns);
        Some(due)
    }

    /// Returns the stack bytes per sample; `None` with frame pointers.
    pub(super) fn stack_bytes(&self) -> Option<u32> {
        (self.stack_bytes > 0).then_some(self.stack_bytes)
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns whether samples come from a clock, which cannot fire while interrupts are off.
    pub(super) fn is_clock(&self) -> bool {
        self.kind.is_clock()
    }

    pub(super) fn has_kernel(&self) -> bool {
        self.kind.has_kernel
    }

    pub(super) fn name(&self) -> &'static str {
        self.kind.name
    }

    pub(super) fn unread(&mut self) -> Vec<Unread> {
        std::mem::take(&mut self.unread)
    }
}

fn cannot_lock(error: std::io::Error) -> ObserveError {
    ObserveError::NotSampled {
        reason: format!("cannot lock memory for samples: {error}"),
        fix: Some("sudo sysctl kernel.perf_event_mlock_kb=4096".to_owned()),
    }
}

/// Returns the event that counts the CPU time of a thread and its descendants without sampling it.
fn running_time() -> Request {
    Request { disabled: false, inherit: true, ..Request::new(TASK_CLOCK) }
}
