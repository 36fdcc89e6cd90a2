// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lays a path out on strands, runs it, and gathers what the strands saw.
//!
//! Layout of a mapping with segments of `r0, r1, ...` replicas:
//!
//! ```text
//! source queue 0 .. r0-1 -> strands of segment 0 -> r0 x r1 rings -> strands of segment 1 -> ...
//!            ^                                                             |
//!            +---------- ways home: one ring per (later strand, queue) <---+
//! ```
//!
//! A packet of bucket `b` goes to replica `table_k[b]` of segment `k`; the tables balance the
//! packets of the traffic, so no strand has to hand packets out. Buffers belong to the source queue
//! that fills them and go home by rings too: every buffer has one owner at every moment.

use crate::bucket::indirection;
use crate::burst::{Burst, MAX_BURST};
use crate::counting::{Counting, TurnCounter};
use crate::gather;
use crate::kernels::StageKernels;
use crate::ledger::StageLedger;
use crate::meter::{Meter, Readings, Span};
use crate::packet::Packet;
use crate::pool::Pool;
use crate::replay::{Replayed, replay};
use crate::ring::{Consumer, Producer, ring};
use crate::sink::{Kept, Sink};
use crate::source::{Feed, Progress, SourceQueue, Timetable};
use crate::stage::{BUCKETS, BuildContext, BuildError, StageKind, Steer};
use crate::strand::{Control, Head, Inlet, OCCUPANCY_STEPS, Outlet, Part, Strand, Tail};
use crate::traffic::Traffic;
use linerate_kernels::Kernels;
use linerate_linux as linux;
use linerate_machine::core_clock;
use linerate_machine::ticks::{ticks, ticks_per_second};
use linerate_path::model::{FullRing, Mapping, Path, RunLength, RunOptions, Sink as SinkSpec};
use linerate_record::run::{CountedEvent, RunReport, Tally};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// Running before measuring, so that caches, tables and clocks have settled.
const WARM_UP: Duration = Duration::from_millis(60);

/// When a paced source begins: later than its strand, or it would begin with a backlog.
const START_DELAY: Duration = Duration::from_millis(20);

/// How often the one that waits for the strands looks up.
const LOOK_UP: Duration = Duration::from_millis(5);

/// Everything one run needs.
pub struct Job<'a> {
    /// The path. Its own mapping and options are not used.
    pub path: &'a Path,
    /// The kinds of stage the path may name.
    pub kinds: &'a [StageKind],
    /// The packets.
    pub traffic: &'a Traffic,
    /// Which stages run on which strand.
    pub mapping: &'a Mapping,
    /// One processor per strand, in order of segment, then replica.
    pub cpus: &'a [u32],
    /// How to run.
    pub options: RunOptions,
    /// Let strands share processors: they yield while they wait.
    pub oversubscribe: bool,
    /// Offer only the first so many frames of each queue, over and over: everything a stage looks
    /// up is then in the nearest cache.
    pub confine: Option<usize>,
    /// Recount the octets after every stage instead of trusting the stages' accounts.
    pub audit: bool,
    /// Checksum and copy for all strands.
    pub kernels: Kernels,
    /// Log calls of the kernels in a sample of turns and make them again at the end, to tell their
    /// share in each stage: some 50 ms more per stage that calls any. Not where strands share
    /// processors, since they would disturb each other.
    pub replay: bool,
    /// Hardware events to count around the stages, in a sample of turns. Not where strands share
    /// processors, like calls of the kernels.
    pub counting: Option<&'a Counting>,
}

impl Job<'_> {
    fn replays(&self) -> bool {
        self.replay && !self.oversubscribe
    }

    /// The kernels for one stage of one strand.
    fn stage_kernels(&self) -> StageKernels {
        match self.replays() {
            true => StageKernels::logging(self.kernels),
            false => StageKernels::new(self.kernels),
        }
    }
}

/// How the one who asked for a run keeps in touch with it.
pub struct Watch<'a> {
    /// Set it to end the run early; the report is made all the same.
    pub stop: &'a AtomicBool,
    /// Told now and then which share of the run is over, 0 to 1.
    pub progress: &'a dyn Fn(f64),
}

/// What a run gives.
#[derive(Debug)]
pub struct Outcome {
    /// The profile.
    pub report: RunReport,
    /// What the sinks kept.
    pub kept: Kept,
}

/// Why a run did not happen or did not end well.
#[derive(Debug)]
pub enum RunError {
    /// The path names a kind of stage that does not exist.
    UnknownKind(String),
    /// A stage could not be made.
    Stage {
        /// Index of the stage in the path.
        stage: usize,
        /// What was wrong.
        error: BuildError,
    },
    /// A system call failed.
    System(linux::Error),
    /// A stage panicked.
    Panicked {
        /// The strand, `segment.replica`.
        strand: String,
        /// The stage.
        stage: String,
        /// Position of the packet in the source's sequence; `None` when it was not at a packet.
        packet: Option<u64>,
        /// What the stage said.
        message: String,
        /// The profile up to then.
        report: Box<RunReport>,
    },
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnknownKind(kind) => write!(f, "there is no stage of kind '{kind}'"),
            Self::Stage { stage, error } => write!(f, "stage {stage}: {error}"),
            Self::System(error) => error.fmt(f),
            Self::Panicked { strand, stage, packet, message, .. } => {
                write!(f, "stage '{stage}' on strand {strand} panicked")?;
                if let Some(packet) = packet {
                    write!(f, " at packet {packet}")?;
                }
                write!(f, ": {message}")
            }
        }
    }
}

impl std::error::Error for RunError {}

/// The steering of a path: what its stages need, in order of the stages.
///
/// # Errors
/// When a stage is unknown or refuses its parameters.
pub fn steering(path: &Path, kinds: &[StageKind]) -> Result<Vec<Arc<dyn Steer>>, RunError> {
    let mut all = Vec::new();
    for (stage, used) in path.stages.iter().enumerate() {
        let steer = (find(kinds, &used.kind)?.steer)(&used.params);
        all.extend(steer.map_err(|error| RunError::Stage { stage, error })?);
    }
    Ok(all)
}

pub(crate) fn find<'k>(kinds: &'k [StageKind], kind: &str) -> Result<&'k StageKind, RunError> {
    let found = kinds.iter().find(|k| k.spec.kind == kind);
    found.ok_or_else(|| RunError::UnknownKind(kind.to_owned()))
}

/// Runs a job to its end, or until it is stopped.
///
/// The calling thread sleeps meanwhile. Every thread the job needs is started and ended here.
///
/// # Errors
/// See [`RunError`]. A panic of a stage ends the run and is an error that carries the profile.
///
/// # Panics
/// When `job.cpus` does not have one processor per strand of `job.mapping`, when a burst is not of
/// 1 to [`MAX_BURST`] packets, or when the capacity of the rings is not a power of two.
pub fn run(job: &Job<'_>, watch: &Watch<'_>) -> Result<Outcome, RunError> {
    run_metered::<true>(job, watch)
}

/// As [`run`], without the profile: for benches that ask what the profile costs. The report's
/// totals are right, everything else in it is empty. No feature of the crate, which would then be
/// built twice, and with it all that stands above it.
///
/// # Errors
/// As [`run`].
pub fn run_unmetered(job: &Job<'_>, watch: &Watch<'_>) -> Result<Outcome, RunError> {
    run_metered::<false>(job, watch)
}

/// Where a strand stands in the mapping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) segment: usize,
    pub(crate) replica: usize,
    pub(crate) cpu: u32,
}

impl Place {
    pub(crate) fn name(self) -> String {
        format!("{}.{}", self.segment, self.replica)
    }
}

/// A strand that has ended.
pub(crate) struct Ended<'a, 'p> {
    pub(crate) place: Place,
    pub(crate) strand: Strand<'a, 'p>,
    pub(crate) readings: Readings,
    /// Processor time of the whole run, warming up included.
    pub(crate) cpu_ns: u64,
    /// Core cycles per tick before and after, where they could be measured.
    pub(crate) clock: [Option<f64>; 2],
    /// What a panic said.
    pub(crate) panic: Option<String>,
    /// What the kernels did for each part: head, stages, tail; empty where that was not asked for.
    /// `None` where nothing was logged.
    pub(crate) kernels: Vec<Option<Vec<Replayed>>>,
    /// Which events were counted; empty where none were asked for.
    pub(crate) counted: Vec<CountedEvent>,
}

fn run_metered<const ON: bool>(job: &Job<'_>, watch: &Watch<'_>) -> Result<Outcome, RunError> {
    let places = places(job);
    let rate = ticks_per_second();
    let line_bits = job.path.line.map(|l| l.bits_per_second * f64::from(l.ports));
    let timetable = Timetable::new(job.traffic, job.options.rate, line_bits, rate);
    let queues = job.mapping.segments[0].replicas as usize;
    let progress = Progress::new(queues);
    let (slots, buffer) = (slots(job.mapping, &job.options), buffer(job.path));
    let mut pools: Vec<Pool> = (0..queues).map(|_| Pool::new(slots, buffer)).collect();
    let feed = Feed {
        traffic: job.traffic,
        timetable: timetable.as_ref(),
        progress: &progress,
        limit: match job.options.length {
            RunLength::Packets(packets) => packets,
            RunLength::Seconds(_) => u64::MAX,
        },
        pass_ns: job.traffic.duration_ns() + 1,
    };
    let strands = lay_out(job, &places, feed, &mut pools)?;
    let abort = AtomicBool::new(false);
    let stop = AtomicBool::new(false);
    let control =
        Control { stop: &stop, abort: &abort, yields: job.oversubscribe, audit: job.audit };
    let start = Start::soon(job, timetable.is_some(), rate);
    let mut ended = execute::<ON>(job, watch, &control, strands, start)?;
    let interrupted = watch.stop.load(Ordering::Relaxed);
    let panic = ended.iter().position(|e| e.panic.is_some());
    let report =
        gather::report(job, &mut ended, timetable.as_ref(), rate, interrupted || panic.is_some());
    if let Some(index) = panic {
        return Err(panicked(&ended[index], report));
    }
    let kept: Vec<Kept> = ended
        .into_iter()
        .filter_map(|e| match e.strand.tail {
            Tail::Sink(sink) => Some(sink.kept),
            Tail::Rings { .. } => None,
        })
        .collect();
    Ok(Outcome { report, kept: Kept::merge(&kept) })
}

fn places(job: &Job<'_>) -> Vec<Place> {
    assert_eq!(job.cpus.len(), job.mapping.strands(), "one processor per strand");
    let burst = job.options.burst as usize;
    assert!((1..=MAX_BURST).contains(&burst), "a burst of {burst}: not 1 to {MAX_BURST}");
    let all = job.mapping.segments.iter().enumerate();
    all.flat_map(|(segment, s)| (0..s.replicas as usize).map(move |replica| (segment, replica)))
        .zip(job.cpus)
        .map(|((segment, replica), &cpu)| Place { segment, replica, cpu })
        .collect()
}

/// Buffers of one source queue: enough to fill one ring to each later strand and to keep two bursts
/// on every strand. With fewer the source would wait for buffers before the rings are full.
fn slots(mapping: &Mapping, options: &RunOptions) -> usize {
    let strands = mapping.strands();
    let later = strands - mapping.segments[0].replicas as usize;
    later * options.ring as usize + 2 * MAX_BURST * strands
}

/// Octets of all buffers of a run.
pub fn buffers_octets(path: &Path, mapping: &Mapping, options: &RunOptions) -> u64 {
    let queues = u64::from(mapping.segments[0].replicas);
    queues * slots(mapping, options) as u64 * Pool::stride(buffer(path)) as u64
}

fn buffer(path: &Path) -> usize {
    path.source.buffer_octets() as usize
}

/// Makes the strands and everything between them.
fn lay_out<'a, 'p>(
    job: &Job<'_>,
    places: &[Place],
    feed: Feed<'a>,
    pools: &'p mut [Pool],
) -> Result<Vec<Strand<'a, 'p>>, RunError> {
    let weights = job.traffic.bucket_weights();
    let segments = &job.mapping.segments;
    let tables: Vec<[u8; BUCKETS]> =
        segments.iter().map(|s| indirection(&weights, s.replicas)).collect();
    let (mut outlets, mut inlets) = rings(job, places);
    let (mut homes, mut returns) = ways_home(job, places);
    let mut pools = pools.iter_mut().enumerate();
    let mut strands = Vec::with_capacity(places.len());
    for (index, place) in places.iter().enumerate() {
        let head = if place.segment == 0 {
            let (queue, pool) = pools.next().expect("one pool per replica of segment 0");
            let order = order(job, &tables[0], queue);
            let returns = std::mem::take(&mut returns[queue]);
            let free = pool.packets(queue as u16);
            let kernels = job.stage_kernels();
            let source = SourceQueue::new(feed, queue, order, free, returns, kernels);
            Head::Source(Box::new(source))
        } else {
            Head::Rings { inlets: std::mem::take(&mut inlets[index]), turn: 0 }
        };
        let tail = match tables.get(place.segment + 1) {
            None => Tail::Sink(Sink::keeping(kept_packets(job))),
            Some(&replica_of) => Tail::Rings {
                outlets: std::mem::take(&mut outlets[index]),
                replica_of,
                full: job.options.full_ring,
            },
        };
        strands.push(Strand {
            head,
            parts: parts(job, *place)?,
            tail,
            homes: std::mem::take(&mut homes[index]),
            burst_size: job.options.burst as usize,
            burst: Burst::new(),
            at: 0,
            input: Tally::default(),
            output: Tally::default(),
            measured: [[0; 2], [u64::MAX; 2]],
            overflow: Tally::default(),
        });
    }
    Ok(strands)
}

/// The frames of one source queue, in order.
fn order(job: &Job<'_>, table: &[u8; BUCKETS], queue: usize) -> Vec<u32> {
    let frames = job.traffic.frames().iter().enumerate();
    let own = frames.filter(|(_, frame)| usize::from(table[usize::from(frame.bucket)]) == queue);
    own.map(|(index, _)| index as u32).take(job.confine.unwrap_or(usize::MAX)).collect()
}

fn kept_packets(job: &Job<'_>) -> u64 {
    match job.path.sink {
        SinkSpec::Null => 0,
        SinkSpec::Capture { packets, .. } => packets,
    }
}

fn parts(job: &Job<'_>, place: Place) -> Result<Vec<Part>, RunError> {
    let segment = &job.mapping.segments[place.segment];
    let context = BuildContext { replica: place.replica as u32, replicas: segment.replicas };
    let stages = segment.stages.clone();
    stages
        .map(|stage| {
            let used = &job.path.stages[stage];
            let made = (find(job.kinds, &used.kind)?.build)(&used.params, &context);
            Ok(Part {
                name: used.name.clone(),
                stage: made.map_err(|error| RunError::Stage { stage, error })?,
                ledger: StageLedger { kernels: job.stage_kernels(), ..StageLedger::default() },
                input_packets: 0,
                measured: [0, u64::MAX],
                audited_output: Tally::default(),
            })
        })
        .collect()
}

type Outlets<'p> = Vec<Vec<Outlet<'p>>>;
type Inlets<'p> = Vec<Vec<Inlet<'p>>>;

/// The rings between the strands: for each strand those it writes and those it reads.
fn rings<'p>(job: &Job<'_>, places: &[Place]) -> (Outlets<'p>, Inlets<'p>) {
    let capacity = job.options.ring as usize;
    let mut outlets: Outlets<'_> = places.iter().map(|_| Vec::new()).collect();
    let mut inlets: Inlets<'_> = places.iter().map(|_| Vec::new()).collect();
    for (from, sender) in places.iter().enumerate() {
        for (to, receiver) in places.iter().enumerate() {
            if receiver.segment == sender.segment + 1 {
                let (producer, consumer) = ring(capacity);
                outlets[from].push(Outlet::new(producer));
                let occupancy = [0; OCCUPANCY_STEPS];
                inlets[to].push(Inlet { ring: consumer, capacity, occupancy });
            }
        }
    }
    (outlets, inlets)
}

type Homes<'p> = Vec<Vec<Producer<Packet<'p>>>>;
type Returns<'p> = Vec<Vec<Consumer<Packet<'p>>>>;

/// The ways home: for each strand its way to every source queue, and for each queue those that end
/// there.
fn ways_home<'p>(job: &Job<'_>, places: &[Place]) -> (Homes<'p>, Returns<'p>) {
    let queues = job.mapping.segments[0].replicas as usize;
    let capacity = slots(job.mapping, &job.options).next_power_of_two();
    let mut homes: Homes<'_> = places.iter().map(|_| Vec::new()).collect();
    let mut returns: Returns<'_> = (0..queues).map(|_| Vec::new()).collect();
    for (place, homes) in places.iter().zip(&mut homes) {
        if place.segment > 0 {
            for returns in &mut returns {
                let (producer, consumer) = ring(capacity);
                homes.push(producer);
                returns.push(consumer);
            }
        }
    }
    (homes, returns)
}

/// When a run begins.
#[derive(Clone, Copy)]
struct Start {
    /// When the first packet of a paced source is due, in ticks.
    source: u64,
    /// The part of the run that is measured.
    span: Span,
}

impl Start {
    /// To be called when everything is laid out: a paced source does not wait for the strands. A
    /// run of so many packets is measured from the first.
    fn soon(job: &Job<'_>, paced: bool, ticks_per_second: f64) -> Self {
        let now = ticks();
        let after = |delay: Duration| now + (delay.as_secs_f64() * ticks_per_second) as u64;
        let source = if paced { after(START_DELAY) } else { now };
        let (start, end) = match job.options.length {
            RunLength::Seconds(seconds) => {
                let start = after(WARM_UP);
                (start, start + (seconds * ticks_per_second) as u64)
            }
            RunLength::Packets(_) => (source, u64::MAX),
        };
        Self { source, span: Span { start, end, ticks_per_second } }
    }
}

/// Starts the strands, waits for their end, and ends them when their time is over.
fn execute<'a, 'p, const ON: bool>(
    job: &Job<'_>,
    watch: &Watch<'_>,
    control: &Control<'_>,
    strands: Vec<Strand<'a, 'p>>,
    start: Start,
) -> Result<Vec<Ended<'a, 'p>>, RunError> {
    std::thread::scope(|scope| {
        let mut threads = Vec::with_capacity(strands.len());
        let mut refused = None;
        for (strand, place) in strands.into_iter().zip(places(job)) {
            let body = move || strand_main::<ON>(job, control, place, strand, start);
            let name = format!("strand {}", place.name());
            match std::thread::Builder::new().name(name).spawn_scoped(scope, body) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    control.abort.store(true, Ordering::Relaxed);
                    refused = Some(no_thread(place, &error));
                    break;
                }
            }
        }
        wait_for(&threads, job.options.length, watch, control);
        let ended = threads
            .into_iter()
            .map(|thread| thread.join().expect("outside its stages a strand does not panic"));
        let ended = ended.collect::<Result<_, _>>()?;
        refused.map_or(Ok(ended), Err)
    })
}

fn no_thread(place: Place, error: &std::io::Error) -> RunError {
    RunError::System(linux::Error::Call {
        call: "clone",
        value: format!("a thread for strand {}", place.name()),
        errno: error.raw_os_error().unwrap_or(0),
        advice: "raise the limit of processes, ulimit -u or that of the container",
    })
}

fn wait_for<T>(
    threads: &[ScopedJoinHandle<'_, T>],
    length: RunLength,
    watch: &Watch<'_>,
    control: &Control<'_>,
) {
    let begun = Instant::now();
    let length = match length {
        RunLength::Seconds(seconds) => Some(WARM_UP + Duration::from_secs_f64(seconds)),
        RunLength::Packets(_) => None,
    };
    while !threads.iter().all(ScopedJoinHandle::is_finished) {
        let passed = begun.elapsed();
        let over = length.is_some_and(|length| passed >= length);
        if over || watch.stop.load(Ordering::Relaxed) {
            control.stop.store(true, Ordering::Relaxed);
        }
        if let Some(length) = length {
            (watch.progress)((passed.as_secs_f64() / length.as_secs_f64()).min(1.0));
        }
        std::thread::sleep(LOOK_UP);
    }
}

/// Makes the other strands leave when this one panics outside its stages.
struct AbortOnPanic<'a>(&'a AtomicBool);

impl Drop for AbortOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// The body of a strand's thread.
fn strand_main<'a, 'p, const ON: bool>(
    job: &Job<'_>,
    control: &Control<'_>,
    place: Place,
    mut strand: Strand<'a, 'p>,
    start: Start,
) -> Result<Ended<'a, 'p>, RunError> {
    let _abort = AbortOnPanic(control.abort);
    if let Err(error) = linux::pin_current_thread(place.cpu) {
        control.abort.store(true, Ordering::Relaxed);
        return Err(RunError::System(error));
    }
    let core_clock = || match job.oversubscribe {
        false => core_clock::core_cycles_per_tick().ok().map(|clock| clock.value),
        true => None,
    };
    let before = core_clock();
    let seed = 0x9E37_79B9 ^ ((place.segment as u32) << 8) ^ place.replica as u32;
    if let Head::Source(queue) = &mut strand.head {
        queue.start_at(start.source);
    }
    let parts = strand.parts.len() + 2;
    let counting = job.counting.filter(|_| ON && !job.oversubscribe);
    let (counter, counted) =
        counting.map_or_else(|| (None, Vec::new()), |counting| TurnCounter::new(counting, parts));
    let (yields, logs) = (job.oversubscribe, job.replays());
    let mut meter = Meter::<ON>::new(start.span, parts, seed, yields, logs, counter);
    let cpu_ns = linux::thread_cpu_time_ns();
    let result = catch_unwind(AssertUnwindSafe(|| strand.run(&mut meter, control)));
    let panic = result.err().map(|payload| {
        control.abort.store(true, Ordering::Relaxed);
        message(&*payload)
    });
    let cpu_ns = linux::thread_cpu_time_ns() - cpu_ns;
    strand.close();
    let readings = meter.finish();
    let clock = [before, core_clock()];
    let kernels = if job.replays() && panic.is_none() { replays(&strand) } else { Vec::new() };
    Ok(Ended { place, strand, readings, cpu_ns, clock, panic, kernels, counted })
}

/// What the kernels did for each part of a strand.
fn replays(strand: &Strand<'_, '_>) -> Vec<Option<Vec<Replayed>>> {
    let burst = strand.burst_size;
    let head = match &strand.head {
        Head::Source(queue) => replay(&queue.kernels, burst),
        Head::Rings { .. } => Some(Vec::new()),
    };
    let stages = strand.parts.iter().map(|part| replay(&part.ledger.kernels, burst));
    std::iter::once(head).chain(stages).chain([Some(Vec::new())]).collect()
}

fn message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "(no message)".to_owned())
}

fn panicked(ended: &Ended<'_, '_>, report: RunReport) -> RunError {
    let strand = &ended.strand;
    let stage = match strand.at.checked_sub(1).and_then(|index| strand.parts.get(index)) {
        Some(part) => part.name.clone(),
        None => gather::end_name(strand, strand.at == 0).to_owned(),
    };
    let packet = strand.burst.at_cursor();
    RunError::Panicked {
        strand: ended.place.name(),
        stage,
        packet: packet.map(|p| p.meta().position),
        message: ended.panic.clone().unwrap_or_default(),
        report: Box::new(report),
    }
}

/// What a full ring does, in the words of the report.
pub(crate) fn overflow_cause(full: FullRing) -> Option<&'static str> {
    (full == FullRing::Drop).then_some("ring_full")
}
