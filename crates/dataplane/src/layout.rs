// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lays out a path: creates the workers of a mapping, and the rings and pools that connect them.
//!
//! The layout of a mapping whose segments have `r0, r1, ...` replicas:
//!
//! ```text
//! source queue 0 .. r0-1 -> workers of segment 0 -> r0 x r1 rings -> workers of segment 1 -> ...
//!            ^                                                             |
//!            +------ buffer return rings: one per (later worker, queue) <--+
//! ```
//!
//! A packet in bucket `b` goes to replica `table_k[b]` of segment `k`. No dispatcher thread is
//! needed, because the tables balance the load. A buffer belongs to the pool of the source queue
//! that fills it, and returns to this queue over a return ring. At any time, exactly one worker or
//! ring owns it.

use crate::bucket::indirection;
use crate::burst::{Burst, MAX_BURST};
use crate::context::{Account, StageContext};
use crate::error::RunError;
use crate::idle::Rest;
use crate::idle::wake::{Sleeper, Waker};
use crate::job::{Job, find, steering};
use crate::live::limit::Limit;
use crate::live::receive::{LiveQueue, Rules};
use crate::live::transmit::LiveSink;
use crate::packet::Packet;
use crate::pool::Pool;
use crate::queue::{Origin, SourceQueue};
use crate::ring::{Consumer, ring};
use crate::sink::Sink;
use crate::source::{Feed, Progress, Replay, Timetable};
use crate::stage::{BUCKETS, BuildContext};
use crate::stock::Stock;
use crate::worker::bypass::{Branch, Bypass};
use crate::worker::homes::Homes;
use crate::worker::{Head, Inlet, OCCUPANCY_STEPS, Outlet, Part, Tail, Worker};
use linerate_path::model::{Mapping, Path, RunLength, RunOptions, Sink as SinkSpec, Source};
use linerate_record::random::mix;
use linerate_record::run::Tally;
use std::sync::Arc;

/// A worker's position in the mapping (segment and replica), and its CPU.
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

/// Data that the workers of a run borrow, such as the buffer pools. It outlives the workers.
pub(crate) struct Ground {
    timetable: Option<Timetable>,
    ticks_per_s: f64,
    progress: Progress,
    /// Buffer pools, one per source queue.
    pools: Vec<Pool>,
    /// Limit on the packets that the run receives from interfaces; `None` for no limit.
    limit: Option<Limit>,
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
            limit: limit(&job.options).map(Limit::new),
        }
    }
}

/// Timing of a run: the tick rate, and the due times of frames.
#[derive(Clone, Copy)]
pub(crate) struct Pace<'g> {
    /// Due times of frames; `None` if packets arrive as fast as the path accepts them.
    pub(crate) timetable: Option<&'g Timetable>,
    pub(crate) ticks_per_s: f64,
}

/// A worker that has not started yet, and its place: segment, replica and CPU.
pub(crate) type Placed<'g> = (Place, Worker<'g, 'g>);

/// Creates the workers of a job's mapping, and the rings that connect them.
///
/// # Errors
/// Returns an error if a stage kind is unknown or a stage cannot be built.
pub(crate) fn lay_out<'g>(
    job: &Job<'g>,
    ground: &'g mut Ground,
) -> Result<(Pace<'g>, Vec<Placed<'g>>), RunError> {
    let Ground { timetable, ticks_per_s, progress, pools, limit: live } = ground;
    let pace = Pace { timetable: timetable.as_ref(), ticks_per_s: *ticks_per_s };
    let feed = Feed {
        traffic: job.traffic,
        timetable: pace.timetable,
        progress,
        limit: limit(&job.options).unwrap_or(u64::MAX),
        pass_ns: job.traffic.duration_ns() + 1,
    };
    Ok((pace, workers(job, feed, live.as_ref(), pools)?))
}

/// Returns the number of packets to offer; `None` for no limit.
fn limit(options: &RunOptions) -> Option<u64> {
    match options.length {
        RunLength::Packets(packets) => Some(packets),
        RunLength::Seconds(_) => None,
    }
}

fn workers<'g>(
    job: &Job<'g>,
    feed: Feed<'g>,
    limit: Option<&'g Limit>,
    pools: &'g mut [Pool],
) -> Result<Vec<Placed<'g>>, RunError> {
    let places = places(job);
    let weights = match job.path.source {
        // The distribution of live packets over buckets is not known in advance.
        Source::Interface(_) => [1; BUCKETS],
        _ => job.traffic.bucket_weights(),
    };
    let segments = &job.mapping.segments;
    let tables: Vec<[u8; BUCKETS]> =
        segments.iter().map(|s| indirection(&weights, s.replicas)).collect();
    let wakers = wakers(job, &places)?;
    let (mut outlets, mut inlets) = rings(job, &places, &wakers);
    let (mut homes, mut returns) = return_rings(job, &places);
    let mut pools = pools.iter_mut().enumerate();
    let mut workers = Vec::with_capacity(places.len());
    for (index, place) in places.iter().enumerate() {
        let head = if place.segment == 0 {
            let (queue, pool) = pools.next().expect("there is one pool per replica of segment 0");
            let origin = match live_queue(job, queue, limit)? {
                Some(live) => Origin::Live(Box::new(live)),
                None => Origin::Replay(Replay::new(feed, queue, order(job, &tables[0], queue))),
            };
            let returns = std::mem::take(&mut returns[queue]);
            let free = pool.packets(queue as u16);
            let stock = Stock::new(free, returns, job.stage_kernels());
            Head::Source(Box::new(SourceQueue { origin, stock }))
        } else {
            Head::Rings { inlets: std::mem::take(&mut inlets[index]), turn: 0 }
        };
        let tail = match tables.get(place.segment + 1) {
            None => Tail::Sink(sink(job, place.replica)),
            Some(&replica_of) => Tail::Rings {
                outlets: std::mem::take(&mut outlets[index]),
                replica_of,
                full: job.options.full_ring,
            },
        };
        let rest = rest(job, *place, &head, wakers[index].as_ref());
        let parts = parts(job, *place)?;
        let worker = Worker {
            head,
            rest,
            bypass: Bypass::new(parts.iter().any(|part| part.branch.is_some())),
            parts,
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

/// Creates a waker for each worker that may sleep; the other workers get `None`.
fn wakers(job: &Job<'_>, places: &[Place]) -> Result<Vec<Option<Arc<Waker>>>, RunError> {
    let parks = |place: &Place| job.idle_policy(place.segment).parks();
    let waker = |place| parks(place).then(|| Waker::new().map(Arc::new)).transpose();
    places.iter().map(waker).collect::<Result<_, _>>().map_err(RunError::System)
}

/// Returns a worker's idle policy and what can wake it: `waker` or, if its input `head` is a live
/// source, a frame on an interface.
fn rest(job: &Job<'_>, place: Place, head: &Head<'_, '_>, waker: Option<&Arc<Waker>>) -> Rest {
    let live = match head {
        Head::Source(queue) => match &queue.origin {
            Origin::Live(live) => Some(live),
            Origin::Replay(_) => None,
        },
        Head::Rings { .. } => None,
    };
    let descriptors = live.into_iter().flat_map(|live| live.descriptors());
    let sleeper = waker.map(|waker| Sleeper::new(waker, descriptors));
    Rest::new(job.idle_policy(place.segment), job.oversubscribe, sleeper)
}

/// Returns source queue number `queue` of a live source; `None` if packets are replayed from
/// memory.
fn live_queue<'g>(
    job: &Job<'g>,
    queue: usize,
    limit: Option<&'g Limit>,
) -> Result<Option<LiveQueue<'g>>, RunError> {
    let (Source::Interface(live), Some(ports)) = (&job.path.source, job.live) else {
        return Ok(None);
    };
    let rules = Rules {
        buffer_bytes: live.buffer_bytes as usize,
        cuts: live.cut_segments,
        steers: steering(job.path, job.kinds)?,
        limit,
        queue: [queue as u64, job.mapping.segments[0].replicas.into()],
    };
    Ok(Some(LiveQueue::new(ports, ports.take_receivers(queue), rules)))
}

/// Returns the sink of worker `replica` of the last segment.
fn sink(job: &Job<'_>, replica: usize) -> Sink {
    match (&job.path.sink, job.live) {
        (SinkSpec::Interface(_), Some(ports)) => {
            Sink::sending(LiveSink::new(ports.take_senders(replica), job.options.full_ring))
        }
        _ => Sink::keeping(kept_packets(job)),
    }
}

/// Returns the place (segment, replica and CPU) of each worker, ordered by segment, then by
/// replica.
fn places(job: &Job<'_>) -> Vec<Place> {
    assert_eq!(job.cpus.len(), job.mapping.workers(), "a job needs one CPU per worker");
    let burst = job.options.burst as usize;
    assert!((1..=MAX_BURST).contains(&burst), "burst size is {burst}; it must be 1 to {MAX_BURST}");
    let all = job.mapping.segments.iter().enumerate();
    all.flat_map(|(segment, s)| (0..s.replicas as usize).map(move |replica| (segment, replica)))
        .zip(job.cpus)
        .map(|((segment, replica), &cpu)| Place { segment, replica, cpu })
        .collect()
}

/// Returns the number of buffers per source queue: enough to fill all rings through which packets
/// of this queue pass, plus two bursts per worker that they reach. With fewer buffers, the source
/// would run out of them before the rings are full.
///
/// A queue's packets enter at one worker of the first segment, never at its other replicas. This
/// worker has a ring to each worker of the second segment. Behind it, each worker of a segment has
/// a ring to each worker of the next segment.
fn slots(mapping: &Mapping, options: &RunOptions) -> usize {
    let replicas: Vec<usize> = mapping.segments.iter().map(|s| s.replicas as usize).collect();
    let behind = replicas.windows(2).skip(1).map(|pair| pair[0] * pair[1]);
    let rings = replicas.get(1).copied().unwrap_or(0) + behind.sum::<usize>();
    let workers = 1 + replicas[1..].iter().sum::<usize>();
    rings * options.ring as usize + 2 * MAX_BURST * workers
}

/// Returns the total size in bytes of all packet buffers that a run allocates.
pub fn buffers_bytes(path: &Path, mapping: &Mapping, options: &RunOptions) -> u64 {
    let queues = u64::from(mapping.segments[0].replicas);
    queues * slots(mapping, options) as u64 * Pool::stride(buffer(path)) as u64
}

fn buffer(path: &Path) -> usize {
    path.source.buffer_bytes() as usize
}

/// Returns the indices of a source queue's frames, in order. If `job.confine` is set, returns a
/// sample of at most that many.
fn order(job: &Job<'_>, table: &[u8; BUCKETS], queue: usize) -> Vec<u32> {
    let frames = job.traffic.frames().iter().enumerate();
    let own = frames.filter(|(_, frame)| usize::from(table[usize::from(frame.bucket)]) == queue);
    let own: Vec<u32> = own.map(|(index, _)| index as u32).collect();
    match job.confine {
        Some(most) => sample(&own, most),
        None => own,
    }
}

/// Returns at most `most` frames, one from each of equally long stretches of `all`, so that the
/// sample has the mix of sizes and protocols of all frames; the first frames of a capture often
/// differ from the rest. The position within a stretch is pseudo-random, because sizes and
/// protocols are often periodic: generated frames use the sizes in rotation.
fn sample(all: &[u32], most: usize) -> Vec<u32> {
    let step = all.len().div_ceil(most.max(1)).max(1);
    let steps = all.chunks(step).enumerate();
    steps.map(|(n, part)| part[mix(n as u64) as usize % part.len()]).collect()
}

fn kept_packets(job: &Job<'_>) -> u64 {
    match job.path.sink {
        SinkSpec::Null | SinkSpec::Interface(_) => 0,
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
                branch: Branch::new(used.only),
                input_packets: 0,
                measured: [0, u64::MAX],
                audited_output: Tally::default(),
            })
        })
        .collect()
}

type Outlets<'p> = Vec<Vec<Outlet<'p>>>;
type Inlets<'p> = Vec<Vec<Inlet<'p>>>;

/// Creates the rings between workers. Returns the output rings and the input rings of each worker.
fn rings<'p>(
    job: &Job<'_>,
    places: &[Place],
    wakers: &[Option<Arc<Waker>>],
) -> (Outlets<'p>, Inlets<'p>) {
    let capacity = job.options.ring as usize;
    let mut outlets: Outlets<'_> = places.iter().map(|_| Vec::new()).collect();
    let mut inlets: Inlets<'_> = places.iter().map(|_| Vec::new()).collect();
    for (from, sender) in places.iter().enumerate() {
        for (to, receiver) in places.iter().enumerate() {
            if receiver.segment == sender.segment + 1 {
                let (producer, consumer) = ring(capacity);
                let waker = wakers[to].clone();
                outlets[from].push(Outlet { waker, ..Outlet::new(producer) });
                let occupancy = [0; OCCUPANCY_STEPS];
                inlets[to].push(Inlet { ring: consumer, capacity, occupancy });
            }
        }
    }
    (outlets, inlets)
}

type Returns<'p> = Vec<Vec<Consumer<Packet<'p>>>>;

/// Creates the buffer return rings, one from each later worker to each source queue. Returns the
/// producers by worker and the consumers by source queue.
fn return_rings<'p>(job: &Job<'_>, places: &[Place]) -> (Vec<Homes<'p>>, Returns<'p>) {
    let queues = job.mapping.segments[0].replicas as usize;
    let capacity = slots(job.mapping, &job.options).next_power_of_two();
    let mut homes: Vec<Homes<'_>> = places.iter().map(|_| Homes::default()).collect();
    let mut returns: Returns<'_> = (0..queues).map(|_| Vec::new()).collect();
    for (place, homes) in places.iter().zip(&mut homes) {
        if place.segment > 0 {
            for returns in &mut returns {
                let (producer, consumer) = ring(capacity);
                homes.add(producer);
                returns.push(consumer);
            }
        }
    }
    (homes, returns)
}

#[cfg(test)]
mod tests;
