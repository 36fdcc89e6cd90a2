// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lays out a path: creates a mapping's workers and everything between them.
//!
//! The layout for a mapping whose segments have `r0, r1, ...` replicas:
//!
//! ```text
//! source queue 0 .. r0-1 -> workers of segment 0 -> r0 x r1 rings -> workers of segment 1 -> ...
//!            ^                                                             |
//!            +------ buffer return rings: one per (later worker, queue) <--+
//! ```
//!
//! A packet of bucket `b` goes to replica `table_k[b]` of segment `k`; the tables balance the
//! traffic's packets, so no dispatcher is needed. Buffers belong to the source queue that fills
//! them and return to it over rings as well: every buffer has exactly one owner at any time.

use crate::bucket::indirection;
use crate::burst::{Burst, MAX_BURST};
use crate::context::{Account, StageContext};
use crate::error::RunError;
use crate::job::{Job, find};
use crate::packet::Packet;
use crate::pool::Pool;
use crate::ring::{Consumer, Producer, ring};
use crate::sink::Sink;
use crate::source::{Feed, Progress, SourceQueue, Timetable};
use crate::stage::{BUCKETS, BuildContext};
use crate::worker::{Head, Inlet, OCCUPANCY_STEPS, Outlet, Part, Tail, Worker};
use linerate_path::model::{Mapping, Path, RunLength, RunOptions, Sink as SinkSpec};
use linerate_record::run::Tally;

/// Position of a worker in the mapping.
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

/// Data that the workers of a run share and borrow. It outlives the workers.
pub(crate) struct Ground {
    timetable: Option<Timetable>,
    ticks_per_s: f64,
    progress: Progress,
    /// The pools of buffers, one per source queue.
    pools: Vec<Pool>,
}

impl Ground {
    /// Allocates the buffers and computes the due time of each frame.
    pub(crate) fn new(job: &Job<'_>, ticks_per_s: f64) -> Self {
        let line_bits = job.path.line.map(|l| l.bits_per_s * f64::from(l.ports));
        let rate = job.options.rate;
        let queues = job.mapping.segments[0].replicas as usize;
        let (slots, buffer) = (slots(job.mapping, &job.options), buffer(job.path));
        Self {
            timetable: Timetable::new(job.traffic, rate, line_bits, ticks_per_s),
            ticks_per_s,
            progress: Progress::new(queues),
            pools: (0..queues).map(|_| Pool::new(slots, buffer)).collect(),
        }
    }
}

/// Timing of a run: tick rate, and due times of the frames.
#[derive(Clone, Copy)]
pub(crate) struct Pace<'g> {
    /// Due times of the frames; `None` if packets arrive as fast as they are accepted.
    pub(crate) timetable: Option<&'g Timetable>,
    pub(crate) ticks_per_s: f64,
}

/// A worker that has not started yet, and its place.
pub(crate) type Placed<'g> = (Place, Worker<'g, 'g>);

/// Creates the workers and everything between them.
///
/// # Errors
/// If a stage is unknown or cannot be built.
pub(crate) fn lay_out<'g>(
    job: &Job<'g>,
    ground: &'g mut Ground,
) -> Result<(Pace<'g>, Vec<Placed<'g>>), RunError> {
    let Ground { timetable, ticks_per_s, progress, pools } = ground;
    let pace = Pace { timetable: timetable.as_ref(), ticks_per_s: *ticks_per_s };
    let feed = Feed {
        traffic: job.traffic,
        timetable: pace.timetable,
        progress,
        limit: match job.options.length {
            RunLength::Packets(packets) => packets,
            RunLength::Seconds(_) => u64::MAX,
        },
        pass_ns: job.traffic.duration_ns() + 1,
    };
    Ok((pace, workers(job, feed, pools)?))
}

fn workers<'g>(
    job: &Job<'_>,
    feed: Feed<'g>,
    pools: &'g mut [Pool],
) -> Result<Vec<Placed<'g>>, RunError> {
    let places = places(job);
    let weights = job.traffic.bucket_weights();
    let segments = &job.mapping.segments;
    let tables: Vec<[u8; BUCKETS]> =
        segments.iter().map(|s| indirection(&weights, s.replicas)).collect();
    let (mut outlets, mut inlets) = rings(job, &places);
    let (mut homes, mut returns) = return_rings(job, &places);
    let mut pools = pools.iter_mut().enumerate();
    let mut workers = Vec::with_capacity(places.len());
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
        let worker = Worker {
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
        };
        workers.push((*place, worker));
    }
    Ok(workers)
}

/// Returns the places of a job's workers, in order of segment, then replica.
fn places(job: &Job<'_>) -> Vec<Place> {
    assert_eq!(job.cpus.len(), job.mapping.workers(), "one processor per worker");
    let burst = job.options.burst as usize;
    assert!((1..=MAX_BURST).contains(&burst), "a burst of {burst}: not 1 to {MAX_BURST}");
    let all = job.mapping.segments.iter().enumerate();
    all.flat_map(|(segment, s)| (0..s.replicas as usize).map(move |replica| (segment, replica)))
        .zip(job.cpus)
        .map(|((segment, replica), &cpu)| Place { segment, replica, cpu })
        .collect()
}

/// Returns the number of buffers for one source queue: enough to fill one ring to each later worker
/// and to keep two bursts on every worker. With fewer, the source would wait for buffers before the
/// rings are full.
fn slots(mapping: &Mapping, options: &RunOptions) -> usize {
    let workers = mapping.workers();
    let later = workers - mapping.segments[0].replicas as usize;
    later * options.ring as usize + 2 * MAX_BURST * workers
}

/// Returns the total size of a run's buffers, in bytes.
pub fn buffers_bytes(path: &Path, mapping: &Mapping, options: &RunOptions) -> u64 {
    let queues = u64::from(mapping.segments[0].replicas);
    queues * slots(mapping, options) as u64 * Pool::stride(buffer(path)) as u64
}

fn buffer(path: &Path) -> usize {
    path.source.buffer_bytes() as usize
}

/// Returns the indices of one source queue's frames, in order; at most `job.confine` of them.
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
            let kind = find(job.kinds, &used.kind)?;
            let made = (kind.build)(&used.params, &context);
            Ok(Part {
                name: used.name.clone(),
                drop_causes: kind.spec.drop_causes,
                stage: made.map_err(|error| RunError::Stage { stage, error })?,
                context: StageContext { account: Account::default(), kernels: job.stage_kernels() },
                input_packets: 0,
                measured: [0, u64::MAX],
                audited_output: Tally::default(),
            })
        })
        .collect()
}

type Outlets<'p> = Vec<Vec<Outlet<'p>>>;
type Inlets<'p> = Vec<Vec<Inlet<'p>>>;

/// Creates the rings between the workers; returns the output rings and the input rings of each
/// worker.
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

/// Creates the buffer return rings, one from each later worker to every source queue. Returns their
/// producers by worker and their consumers by source queue.
fn return_rings<'p>(job: &Job<'_>, places: &[Place]) -> (Homes<'p>, Returns<'p>) {
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
