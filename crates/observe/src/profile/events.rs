// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sampled events: one per thread and CPU, inherited by new threads and processes, with a ring
//! per CPU.

use crate::ObserveError;
use crate::procfs::task::Stat;
use crate::refusal::explain;
use crate::sampler::maps::Mapping;
use crate::sampler::{CPU_CLOCK, CPU_CLOCK_NAME};
use linerate_linux::errno::{EACCES, EPERM, ESRCH};
use linerate_linux::perf::{Event, HARDWARE, OpenError, Request, Selector, Target};
use linerate_linux::sample::{Change, Every, Fields, Record, Registers, Ring, open_chains};
use linerate_machine::Root;
use linerate_record::random::Random;
use linerate_record::why::Unread;

/// Sampling rate of a running thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleRate {
    /// Samples per second: on cycles if there is a PMU, on CPU time otherwise.
    PerSecond(u64),
    /// CPU time between samples, nanoseconds.
    Nanoseconds(u64),
}

impl SampleRate {
    /// CPU time between samples, nanoseconds.
    pub(super) fn period_ns(self) -> u64 {
        match self {
            Self::PerSecond(rate) => 1_000_000_000 / rate.max(1),
            Self::Nanoseconds(period) => period,
        }
    }
}

/// `PERF_COUNT_HW_CPU_CYCLES`.
const CYCLES: Selector = Selector::new(HARDWARE, 0);
/// Maximum number of pages per ring: together with the ring's first page, the most that a user may
/// lock per CPU.
const RING_PAGES: usize = 128;
/// Maximum number of pages per ring with stack copies, and over all such rings.
const STACK_RING_PAGES: usize = 1024;
const ALL_STACK_PAGES: usize = 8192;
/// File descriptors reserved for uses other than events.
const OTHER_FILES: u64 = 400;
/// Jitter of the sampling period, so that sampling cannot run in lockstep with the program.
const JITTER: f64 = 0.1;

/// The events of all sampled threads.
pub(super) struct Events {
    threads: Vec<Vec<Event>>,
    rings: Vec<Ring>,
    kind: Kind,
    rate: SampleRate,
    /// Current sampling period in CPU time, nanoseconds.
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

/// Kinds of items.
pub(super) enum What {
    /// A sample of a thread: the call chain, innermost first, with a flag per address: whether it
    /// is in the kernel.
    Sample { tid: u32, chain: Vec<(u64, bool)>, user: Option<UserState> },
    /// A mapping of code.
    Mapped(Mapping),
    /// A thread was renamed; after execve(2), its process runs another program.
    Named { tid: u32, name: String, is_exec: bool },
    /// The process was started by `parent`.
    Started { parent: u32 },
}

/// State from which user-mode callers are found: registers and a copy of the stack.
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
        for &tid in threads.iter().take(most) {
            let mut of_thread = Vec::new();
            for (at, &cpu) in cpus.iter().enumerate() {
                let (request, every) = (events.kind.request(), events.kind.every(rate));
                // A thread that has ended is not reported.
                let opened = open_chains(&request, every, stack_bytes, (tid, cpu));
                let Ok(event) = opened else { break };
                of_thread.push(events.connect(at, event)?);
            }
            events.threads.push(of_thread);
        }
        Ok(events)
    }

    /// Chooses the event that the kernel permits for the first existing thread.
    fn choose(
        threads: &[u32],
        cpu: u32,
        rate: SampleRate,
        stack_bytes: u32,
    ) -> Result<Self, ObserveError> {
        let clock = Kind::new(CPU_CLOCK, CPU_CLOCK_NAME);
        let kinds = match rate {
            SampleRate::PerSecond(_) => &[Kind::new(CYCLES, "cycles"), clock][..],
            SampleRate::Nanoseconds(_) => &[clock],
        };
        let mut unread = Vec::new();
        let mut refused = OpenError { errno: ESRCH };
        let mut of = *threads.first().ok_or(ObserveError::NoProcess)?;
        for &tid in threads {
            for (kind, has_kernel) in kinds.iter().flat_map(|kind| [(kind, true), (kind, false)]) {
                let kind = Kind { has_kernel, ..*kind };
                match open_chains(&kind.request(), kind.every(rate), stack_bytes, (tid, cpu)) {
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

    /// Connects an event to the ring of its CPU, the `at`-th; the first event of a CPU owns the
    /// ring.
    fn connect(&mut self, at: usize, event: Event) -> Result<Event, ObserveError> {
        let cannot = |error: std::io::Error| ObserveError::NotSampled {
            reason: format!("cannot lock memory for samples: {error}"),
            fix: Some("sudo sysctl kernel.perf_event_mlock_kb=4096".to_owned()),
        };
        if let Some(owner) = self.threads.first().and_then(|first| first.get(at)) {
            event.write_to(owner).map_err(cannot)?;
            return Ok(event);
        }
        let mut pages = match self.stack_bytes {
            0 => RING_PAGES,
            _ => (ALL_STACK_PAGES / self.cpus).clamp(RING_PAGES, STACK_RING_PAGES),
        };
        let ring = loop {
            match Ring::map(&event, pages, Fields::chains(self.stack_bytes)) {
                Ok(ring) => break ring,
                Err(_) if pages > 1 => pages /= 2,
                Err(error) => return Err(cannot(error)),
            }
        };
        self.rings.push(ring);
        Ok(event)
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

    /// Draws new sampling periods around the requested one. With cycles, the kernel adapts the
    /// period itself.
    pub(super) fn vary(&mut self) {
        if !self.kind.is_clock() {
            return;
        }
        let factor = 1.0 + JITTER * (2.0 * self.random.uniform() - 1.0);
        self.period_ns = (self.rate.period_ns() as f64 * factor) as u64;
        for event in self.threads.iter().flatten() {
            // If this is refused, the period stays as it was.
            let _ = event.set_every(Every::Events(self.period_ns));
        }
    }

    /// Sampling period in CPU time since [`Self::vary`], nanoseconds; valid for the clock.
    pub(super) fn period_ns(&self) -> u64 {
        self.period_ns
    }

    /// CPU time of all threads so far, nanoseconds.
    pub(super) fn run_ns(&self) -> u64 {
        let running = |event: &Event| event.read().map_or(0, |reading| reading.running_ns);
        self.threads.iter().flatten().map(running).sum()
    }

    /// Number of samples equivalent to CPU time without samples; `None` if all CPU time is sampled,
    /// or if the kernel chooses the period.
    pub(super) fn samples_due(&self) -> Option<u64> {
        let is_partly = self.kind.is_clock() && !self.kind.has_kernel;
        is_partly.then(|| self.run_ns() / self.rate.period_ns().max(1))
    }

    /// Stack bytes per sample; `None` if callers are found by frame pointers.
    pub(super) fn stack_bytes(&self) -> Option<u32> {
        (self.stack_bytes > 0).then_some(self.stack_bytes)
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Whether samples come from a clock, which cannot fire while interrupts are off.
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

/// Addresses of a sample and its callers.
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

/// Threads of processes, those with the most CPU time first.
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
        reason: format!("{threads} threads were not sampled: open-file limit reached"),
        fix: Some("ulimit -n 65536  # in the shell, before linerate".to_owned()),
    }
}
