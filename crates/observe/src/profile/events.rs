// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sampling events, with one ring per CPU. There is one event per thread and CPU, inherited by new
//! threads and processes. If threads switch often, there is one event per CPU instead, and samples
//! of other programs are ignored.

use super::switching::switches_often;
use crate::ObserveError;
use crate::procfs::task::Stat;
use crate::refusal::explain;
use crate::sampler::cost::affordable;
use crate::sampler::maps::Mapping;
use crate::sampler::{CPU_CLOCK, CPU_CLOCK_NAME};
use linerate_linux::errno::{EACCES, EPERM, ESRCH};
use linerate_linux::perf::{self, Event, HARDWARE, OpenError, Request, SOFTWARE, Selector, Target};
use linerate_linux::sample::{Change, Every, Fields, Record, Registers, Ring, open_chains};
use linerate_machine::Root;
use linerate_record::random::Random;
use linerate_record::stats::Estimate;
use linerate_record::why::Unread;

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
/// Maximum number of CPUs in a machine for sampling whole CPUs instead of threads.
const MAX_CPUS: usize = 64;
/// Maximum number of pages per ring. Together with the ring's header page, this is all the memory
/// per CPU that a user may lock by default.
const RING_PAGES: usize = 128;
/// Maximum number of pages per ring if stacks are copied.
const STACK_RING_PAGES: usize = 1024;
/// Maximum number of pages of all rings together if stacks are copied.
const ALL_STACK_PAGES: usize = 8192;
/// File descriptors reserved for other uses.
const OTHER_FILES: u64 = 400;
/// Jitter of the sampling period, as a fraction of the period. Prevents sampling in lockstep with
/// the program.
const JITTER: f64 = 0.1;

/// Events of all sampled threads.
pub(super) struct Events {
    /// Events of each thread. They sample, or only count CPU time if whole CPUs are sampled.
    threads: Vec<Vec<Event>>,
    /// Events that sample whole CPUs; empty if threads are sampled.
    by_cpu: Vec<Event>,
    rings: Vec<Ring>,
    kind: Kind,
    rate: SampleRate,
    /// Current sampling period, in nanoseconds of CPU time.
    period_ns: u64,
    /// Stack bytes per sample.
    stack_bytes: u32,
    cpus: usize,
    lost: u64,
    random: Random,
    unread: Vec<Unread>,
}

/// The event to sample.
#[derive(Clone, Copy, Debug)]
struct Kind {
    selector: Selector,
    name: &'static str,
    has_kernel: bool,
}

impl Kind {
    const fn new(selector: Selector, name: &'static str) -> Self {
        Self { selector, name, has_kernel: true }
    }

    fn request(self) -> Request {
        let exclude_kernel = !self.has_kernel;
        Request { exclude_kernel, disabled: false, inherit: true, ..Request::new(self.selector) }
    }

    fn is_clock(self) -> bool {
        self.selector == CPU_CLOCK
    }

    fn every(self, rate: SampleRate) -> Every {
        match rate {
            SampleRate::PerSecond(rate) if !self.is_clock() => Every::PerSecond(rate),
            rate => Every::Events(rate.period_ns()),
        }
    }
}

/// A sample or a process event.
pub(super) struct Item {
    pub(super) time_ns: u64,
    pub(super) pid: u32,
    pub(super) what: What,
}

/// Kind of item.
pub(super) enum What {
    /// A sample of a thread, with the call chain, innermost first. Each address has a flag that is
    /// true for kernel code.
    Sample { tid: u32, chain: Vec<(u64, bool)>, user: Option<UserState> },
    /// The process has mapped code.
    Mapped(Mapping),
    /// A thread was renamed. After execve(2), its process runs another program.
    Named { tid: u32, name: String, is_exec: bool },
    /// The process was started by `parent`.
    Started { parent: u32 },
}

/// Registers and a stack copy, from which user-mode callers are found.
pub(super) struct UserState {
    pub(super) registers: Registers,
    pub(super) ip: u64,
    pub(super) stack: Vec<u8>,
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
        for &tid in threads.iter().take(most) {
            // Threads that have ended are not reported.
            let of_thread = match events.is_by_cpu() {
                true => {
                    perf::open(&running_time(), Target::Thread(tid), None).into_iter().collect()
                }
                false => events.sample_thread(tid, &cpus)?,
            };
            events.threads.push(of_thread);
        }
        Ok(events)
    }

    /// Opens the events of a thread, one per CPU.
    fn sample_thread(&mut self, tid: u32, cpus: &[u32]) -> Result<Vec<Event>, ObserveError> {
        let mut of_thread = Vec::new();
        for (at, &cpu) in cpus.iter().enumerate() {
            let (request, every) = (self.kind.request(), self.kind.every(self.rate));
            let opened = open_chains(&request, every, self.stack_bytes, (Some(tid), cpu));
            let Ok(event) = opened else { break };
            of_thread.push(self.connect(at, event)?);
        }
        Ok(of_thread)
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
        let every = self.kind.every(self.rate);
        for &cpu in cpus {
            let opened = open_chains(&request, every, self.stack_bytes, (None, cpu)).ok();
            let mapped = opened.and_then(|event| self.map_ring(&event).ok().map(|()| event));
            let Some(event) = mapped else {
                self.by_cpu.clear();
                self.rings.clear();
                return;
            };
            self.by_cpu.push(event);
        }
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
                match open_chains(&kind.request(), kind.every(rate), stack_bytes, at) {
                    Ok(_) => return Ok(Self::new(kind, rate, stack_bytes, unread)),
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
            rings: Vec::new(),
            kind,
            rate,
            period_ns: rate.period_ns(),
            stack_bytes,
            cpus: 1,
            lost: 0,
            random: Random::new(rate.period_ns()),
            unread,
        }
    }

    /// Connects an event to the ring of the CPU at index `at`. A CPU's first event owns the ring.
    fn connect(&mut self, at: usize, event: Event) -> Result<Event, ObserveError> {
        match self.threads.first().and_then(|first| first.get(at)) {
            Some(owner) => event.write_to(owner).map_err(cannot_lock)?,
            None => self.map_ring(&event)?,
        }
        Ok(event)
    }

    /// Maps a ring for an event.
    fn map_ring(&mut self, event: &Event) -> Result<(), ObserveError> {
        let mut pages = match self.stack_bytes {
            0 => RING_PAGES,
            _ => (ALL_STACK_PAGES / self.cpus).clamp(RING_PAGES, STACK_RING_PAGES),
        };
        let ring = loop {
            match Ring::map(event, pages, Fields::chains(self.stack_bytes)) {
                Ok(ring) => break ring,
                Err(_) if pages > 1 => pages /= 2,
                Err(error) => return Err(cannot_lock(error)),
            }
        };
        self.rings.push(ring);
        Ok(())
    }

    /// Reads all items since the last call, in time order.
    pub(super) fn drain(&mut self, each: impl FnMut(Item)) {
        let mut items = Vec::new();
        let lost = &mut self.lost;
        for ring in &mut self.rings {
            ring.drain(|record| match record {
                Record::Sample(sample) => items.push(Item {
                    time_ns: sample.time_ns,
                    pid: sample.pid,
                    what: What::Sample {
                        tid: sample.tid,
                        chain: chain(&sample),
                        user: user_state(&sample),
                    },
                }),
                Record::Process(change) => items.push(of_change(&change)),
                Record::Lost(records) => *lost += records,
                Record::Throttled | Record::Other(_) => {}
            });
        }
        items.sort_by_key(|item| item.time_ns);
        items.into_iter().for_each(each);
    }

    /// Draws a new sampling period around the requested one. When sampling on cycles, the kernel
    /// adapts the period itself.
    pub(super) fn vary(&mut self) {
        if !self.kind.is_clock() {
            return;
        }
        let factor = 1.0 + JITTER * (2.0 * self.random.uniform() - 1.0);
        self.period_ns = (self.rate.period_ns() as f64 * factor) as u64;
        let of_threads = self.threads.iter().flatten().filter(|_| self.by_cpu.is_empty());
        for event in self.by_cpu.iter().chain(of_threads) {
            // If refused, the period stays as it was.
            let _ = event.set_every(Every::Events(self.period_ns));
        }
    }

    /// Returns the sampling period set by [`Self::vary`], in nanoseconds of CPU time. Only valid if
    /// samples come from a clock.
    pub(super) fn period_ns(&self) -> u64 {
        self.period_ns
    }

    /// Returns the CPU time of all threads so far, in nanoseconds.
    pub(super) fn run_ns(&self) -> u64 {
        let running = |event: &Event| event.read().map_or(0, |reading| reading.running_ns);
        self.threads.iter().flatten().map(running).sum()
    }

    /// Returns the number of samples that the CPU time so far should have produced; `None` if all
    /// CPU time is sampled or the kernel chooses the period.
    pub(super) fn samples_due(&self) -> Option<u64> {
        let is_partly = self.kind.is_clock() && !self.kind.has_kernel;
        is_partly.then(|| self.run_ns() / self.rate.period_ns().max(1))
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

/// Returns the addresses of a sample and its callers.
fn chain(sample: &linerate_linux::sample::Sample<'_>) -> Vec<(u64, bool)> {
    let chain: Vec<(u64, bool)> = sample.chain().collect();
    if chain.is_empty() { vec![(sample.ip, sample.is_kernel)] } else { chain }
}

fn user_state(sample: &linerate_linux::sample::Sample<'_>) -> Option<UserState> {
    let registers = sample.registers?;
    let stack = sample.stack.to_vec();
    Some(UserState { registers, ip: sample.user_ip, stack })
}

fn of_change(change: &Change<'_>) -> Item {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (pid, what) = match *change {
        Change::Mapped(mapped) => {
            let (major, minor) = mapped.device;
            let mapping = Mapping {
                start: mapped.start,
                end: mapped.start.saturating_add(mapped.bytes),
                offset: mapped.offset,
                device: format!("{major:02x}:{minor:02x}"),
                inode: mapped.inode,
                path: text(mapped.path),
            };
            (mapped.pid, What::Mapped(mapping))
        }
        Change::Named { pid, tid, name, is_exec, .. } => {
            (pid, What::Named { tid, name: text(name), is_exec })
        }
        Change::Started { pid, parent, .. } => (pid, What::Started { parent }),
    };
    Item { time_ns: change.time_ns(), pid, what }
}

/// Returns the threads of processes, most CPU time first.
fn threads(root: &Root, pids: &[u32]) -> Vec<u32> {
    let ran = |pid: u32, tid: u32| {
        let stat = root.text(&format!("proc/{pid}/task/{tid}/stat"));
        stat.and_then(|text| Stat::parse(&text)).map_or(0, |s| s.user_ticks + s.system_ticks)
    };
    let of_process = |&pid: &u32| {
        let names = root.names(&format!("proc/{pid}/task")).into_iter();
        let tids = names.filter_map(|name| name.parse().ok());
        tids.map(move |tid| (ran(pid, tid), tid)).collect::<Vec<(u64, u32)>>()
    };
    let mut threads: Vec<(u64, u32)> = pids.iter().flat_map(of_process).collect();
    threads.sort_by_key(|&(ran, tid)| (std::cmp::Reverse(ran), tid));
    threads.into_iter().map(|(_, tid)| tid).collect()
}

fn too_many(threads: usize) -> Unread {
    Unread {
        what: "threads".to_owned(),
        reason: format!("{threads} threads were not sampled: the open-file limit was reached"),
        fix: Some("ulimit -n 65536  # in the shell, before linerate".to_owned()),
    }
}
