// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cost of a stage's kernel calls, replayed by the same worker after its run.
//!
//! ```text
//! ROUNDS times:
//!     stretch <- calls of one kernel as they came, from a random place in the log
//!     in random order: the variant in use, every other variant, and a loop that calls nothing
//!         make the first calls of the stretch, untimed; then all, on warm buffers; ticks of these
//!     ticks per call   <- (ticks - ticks of the empty loop) / calls
//!     ratio of variant <- (its ticks - empty) / (ticks of the one in use - empty)
//! ```
//!
//! Lengths and offsets are those of the run, in the same order, so branches are just as hard to
//! predict. The data differ: a burst's worth of buffers, used in rotation, stays in the cache.
//! Calls that waited for memory in the run are therefore cheaper here, and calls that overlapped
//! with other work are more expensive.
//!
//! Left out: the cache misses that the calls cause in other code, and inline header checksums.

use crate::kernels::{Call, StageKernels};
use linerate_kernels::{Kernel, Kernels, Sum, variants};
use linerate_machine::ticks::ticks;
use linerate_record::stats::{CONFIDENCE, Estimate, median_interval, paired_ratio};
use linerate_trial::{Dropped, Length, Machine, Rules, Samples, Watch, Window, rounds};
use std::convert::Infallible;
use std::hint::black_box;

/// Number of rounds. Each round takes half a millisecond with variants that move 10 to 50 bytes per
/// tick.
const ROUNDS: u32 = 40;

/// Maximum number of calls per stretch (consecutive logged calls that are timed together). A
/// stretch of this length takes tens of microseconds: long compared with the counter's granularity,
/// short compared with the time between disturbances.
const STRETCH_CALLS: usize = 2_048;

/// Approximate maximum number of bytes per stretch.
const STRETCH_BYTES: u64 = 1 << 20;

/// Reciprocal of the untimed share at the start of a stretch: some processors take about 10 us to
/// power up wide vector units, a cost that a path using them continuously does not pay, and system
/// calls leave predictors cold.
const WARM_PART: usize = 4;

/// Minimum number of calls worth timing.
const CALLS_MIN: usize = 32;

/// Maximum length of a replayed call; longer calls are replayed with this length.
const BYTES_MAX: u32 = 1 << 20;

/// Result of replaying the calls of one kernel by one stage.
#[derive(Clone, Debug)]
pub(crate) struct Replayed {
    pub(crate) kernel: Kernel,
    pub(crate) in_use: &'static str,
    /// The variant that is selected by default on this machine.
    pub(crate) selected: &'static str,
    pub(crate) calls_per_packet: f64,
    pub(crate) bytes_per_call: f64,
    /// Ticks per call for the variant in use, or the reason why they are unknown.
    pub(crate) ticks_per_call: Result<Estimate, String>,
    /// Time relative to the variant in use, for each variant that can run here.
    pub(crate) ratios: Vec<(&'static str, Estimate)>,
}

/// Replays a stage's logged calls; returns one entry per kernel called. `None` if no iteration with
/// packets was logged. `burst` is the number of packets per burst.
pub(crate) fn replay(stage: &StageKernels, burst: usize) -> Option<Vec<Replayed>> {
    let packets = stage.logged_packets();
    if packets == 0 {
        return None;
    }
    let called = Kernel::ALL.into_iter().filter(|kernel| stage.total(*kernel).calls > 0);
    let replayed = called.map(|kernel| {
        let total = stage.total(kernel);
        let in_use = stage.kernels().origin(kernel);
        let bytes_per_call = total.bytes as f64 / total.calls as f64;
        let (ticks_per_call, ratios) = match timed(stage, kernel, burst, bytes_per_call) {
            Ok(rounds) => {
                let ticks = rounds.ticks_per_call();
                let none = || "every round of the replay was preempted".to_owned();
                (ticks.ok_or_else(none), rounds.ratios())
            }
            Err(why) => (Err(why), Vec::new()),
        };
        Replayed {
            kernel,
            in_use,
            selected: Kernels::selected().origin(kernel),
            calls_per_packet: total.calls as f64 / packets as f64,
            bytes_per_call,
            ticks_per_call,
            ratios,
        }
    });
    Some(replayed.collect())
}

/// A routine for a kernel, and its variant.
type Routine = (&'static str, Kernels);

/// Returns the routines for a kernel that this CPU can run: the one in use first, without
/// duplicates if several variants share a routine.
fn routines(stage: &StageKernels, kernel: Kernel) -> Vec<Routine> {
    let in_use = stage.kernels().origin(kernel);
    let supported = variants().filter_map(|v| Some((v.name(), v.kernels().ok()?)));
    let others =
        supported.filter(|(name, kernels)| *name != in_use && kernels.origin(kernel) == *name);
    std::iter::once((in_use, *stage.kernels())).chain(others).collect()
}

/// Net ticks for each routine in each round.
struct Rounds {
    kernel: Kernel,
    routines: Vec<Routine>,
    /// Net ticks by routine, then by round: the ticks of the routine minus those of the empty loop;
    /// `None` if either was disturbed or the difference is not positive.
    net: Vec<Vec<Option<f64>>>,
    /// Number of calls per round.
    calls: f64,
}

impl Rounds {
    /// Computes net ticks from the ticks of each routine and, last, of the empty loop.
    fn new(kernel: Kernel, routines: Vec<Routine>, samples: &Samples<f64>, calls: usize) -> Self {
        let empty = samples.each(routines.len());
        let net = |which: usize| {
            let rounds = samples.each(which).iter().zip(empty);
            let net = |(whole, empty): (&Result<f64, _>, &Result<f64, _>)| {
                Some((*whole).ok()? - (*empty).ok()?).filter(|net| *net > 0.0)
            };
            rounds.map(net).collect()
        };
        let net = (0..routines.len()).map(net).collect();
        Self { kernel, routines, net, calls: calls as f64 }
    }

    /// Returns ticks per call for the routine in use; `None` without a valid round.
    fn ticks_per_call(&self) -> Option<Estimate> {
        let all: Vec<f64> = self.net[0].iter().flatten().map(|net| net / self.calls).collect();
        (!all.is_empty()).then(|| median_interval(&all, CONFIDENCE))
    }

    /// Returns the time relative to the routine in use, for every variant that can run here.
    fn ratios(&self) -> Vec<(&'static str, Estimate)> {
        let supported = variants().filter_map(|v| Some((v.name(), v.kernels().ok()?)));
        let timed = supported.filter_map(|(name, kernels)| {
            let origin = kernels.origin(self.kernel);
            let index = self.routines.iter().position(|(routine, _)| *routine == origin)?;
            let rounds = self.net[0].iter().zip(&self.net[index]);
            let both = rounds.filter_map(|(in_use, other)| in_use.zip(*other));
            let (in_use, other): (Vec<f64>, Vec<f64>) = both.unzip();
            let ratio = paired_ratio(&in_use, &other, CONFIDENCE);
            ratio.value.is_finite().then_some((name, ratio))
        });
        timed.collect()
    }
}

fn timed(
    stage: &StageKernels,
    kernel: Kernel,
    burst: usize,
    bytes_per_call: f64,
) -> Result<Rounds, String> {
    let calls = stage.calls(kernel);
    if calls.len() < CALLS_MIN {
        return Err(format!("only {} calls were logged; run longer", calls.len()));
    }
    let stretch = (STRETCH_BYTES as f64 / bytes_per_call.max(1.0)) as usize;
    let stretch = stretch.clamp(CALLS_MIN, STRETCH_CALLS).min(calls.len());
    let routines = routines(stage, kernel);
    let names: Vec<&str> = routines.iter().map(|routine| routine.0).chain(["nothing"]).collect();
    let (clock, seed) = (Machine::counter(), ticks());
    let length = Length::Rounds(ROUNDS);
    let rules = Rules { what: "replay", contestants: &names, placements: 1, length, seed };
    let mut scratch = Scratch::new(&calls, burst, clock);
    let (mut random, mut from) = (fastrand::Rng::with_seed(seed), 0);
    let Ok(samples) = rounds(&rules, &clock, &Watch::unattended(), |turn| {
        if turn.is_first {
            from = random.usize(..=calls.len() - stretch);
            // Brings the stretch into the cache.
            _ = scratch.empty(&calls[from..from + stretch]);
        }
        let calls = &calls[from..from + stretch];
        Ok::<_, Infallible>(match routines.get(turn.contestant) {
            Some((_, kernels)) => scratch.made(kernel, kernels, calls),
            None => scratch.empty(calls),
        })
    });
    Ok(Rounds::new(kernel, routines, &samples, stretch))
}

/// Maximum total size of the source buffers, in bytes: less than half of an L2. There is always at
/// least one buffer, even if it is larger.
const WARM_BYTES: usize = 256 << 10;

/// Buffers for the calls: for each packet of a burst, one to read and one to write.
struct Scratch {
    from: Vec<u8>,
    to: Vec<u8>,
    /// Offsets of the first buffers, which are 64-byte aligned.
    first: [usize; 2],
    /// Distance between buffers (`stride`), and their total size (`all`).
    stride: usize,
    all: usize,
    clock: Machine,
}

impl Scratch {
    fn new(calls: &[Call], burst: usize, clock: Machine) -> Self {
        let longest = calls.iter().map(|call| call.bytes).max().unwrap_or(0).min(BYTES_MAX);
        // The stride is an odd number of cache lines, as in a pool: the first lines of the buffers
        // fall into different cache sets.
        let stride = 64 * ((longest as usize + 63).div_ceil(64) | 1);
        let all = stride * burst.min(WARM_BYTES / stride).max(1);
        // Filled with a nonzero value: pages that were never written all map to the same physical
        // page.
        let from = vec![0xa5; all + 64];
        let to = vec![0x5a; all + 64 + 4_096];
        let [start_from, start_to] = [&from, &to].map(|bytes| bytes.as_ptr().align_offset(64));
        // The buffers for reading and writing are half a page apart: a load waits for an earlier
        // store to an address with the same low 12 bits (4K aliasing).
        let [a, b] = [from.as_ptr().addr() + start_from, to.as_ptr().addr() + start_to];
        let apart = (a + 2_048).wrapping_sub(b) % 4_096;
        let first = [start_from, start_to + apart];
        Self { from, to, first, stride, all, clock }
    }

    /// Returns the ticks that `one` takes for all of `calls`, after a lead-in with the first of
    /// them.
    #[inline]
    fn timed(
        &mut self,
        calls: &[Call],
        mut one: impl FnMut(&mut [u8], &[u8]),
    ) -> Result<f64, Dropped> {
        let (from, to) = (&self.from[self.first[0]..], &mut self.to[self.first[1]..]);
        let (stride, all) = (self.stride, self.all);
        let mut pass = |calls: &[Call]| {
            let mut at = 0;
            for call in calls {
                let bytes = call.bytes.min(BYTES_MAX) as usize;
                let (src, dst) = (at + usize::from(call.src), at + usize::from(call.dst));
                one(&mut to[dst..dst + bytes], &from[src..src + bytes]);
                at += stride;
                if at == all {
                    at = 0;
                }
            }
        };
        let mut window = Window::open(&self.clock);
        pass(&calls[..calls.len() / WARM_PART]);
        window.start();
        pass(calls);
        let window = window.close();
        window.keep(window.ticks as f64)
    }

    /// Returns the ticks that all `calls` of a kernel take.
    fn made(&mut self, kernel: Kernel, kernels: &Kernels, calls: &[Call]) -> Result<f64, Dropped> {
        match kernel {
            Kernel::Checksum => self.timed(calls, |_, src| {
                black_box(kernels.checksum(src, Sum::ZERO));
            }),
            Kernel::Copy => self.timed(calls, |dst, src| kernels.copy(dst, src)),
            Kernel::CopyChecksum => self.timed(calls, |dst, src| {
                black_box(kernels.copy_checksum(dst, src, Sum::ZERO));
            }),
            Kernel::Fill => self.timed(calls, |dst, _| kernels.fill(dst, 0x5a)),
        }
    }

    /// Returns the ticks for iterating over `calls` without making any call.
    fn empty(&mut self, calls: &[Call]) -> Result<f64, Dropped> {
        self.timed(calls, |dst, src| {
            black_box((dst.as_ptr(), src.as_ptr(), src.len()));
        })
    }
}
