// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the cost of a stage's kernel calls by replaying them on the same worker after the run.
//!
//! ```text
//! ROUNDS times:
//!     stretch <- consecutive calls of one kernel, from a random position in the log
//!     in random order, for the variant in use, every other variant, and a loop without calls:
//!         run the first calls of the stretch untimed, then time all of them on warm buffers
//!     ticks per call   <- (ticks - ticks of the empty loop) / calls
//!     ratio of variant <- (its ticks - empty) / (ticks of the one in use - empty)
//! ```
//!
//! Lengths and offsets are the same as in the run, in the same order, so branches are equally hard
//! to predict. Buffers that were summed in one call are replayed in one call. The data is not the
//! same: the replay uses as many buffers as a burst has packets, in rotation, and they stay in the
//! cache. Calls that waited for memory in the run are therefore cheaper in the replay, and calls
//! that overlapped with other work are more expensive.
//!
//! The cost includes neither cache misses that the calls cause in other code, nor header checksums,
//! which are inlined.

use crate::kernels::{Call, StageKernels};
use linerate_kernels::checksum::Buffer;
use linerate_kernels::{Kernel, Kernels, Sum, variants};
use linerate_machine::ticks::ticks;
use linerate_record::stats::{CONFIDENCE, Estimate, median_interval, paired_ratio};
use linerate_trial::{Dropped, Length, Machine, Rules, Samples, Watch, Window, rounds};
use std::convert::Infallible;
use std::hint::black_box;

/// Number of rounds. A round takes half a millisecond with kernel variants that process 10 to 50
/// bytes per tick.
const ROUNDS: u32 = 40;

/// Maximum number of calls per stretch (consecutive logged calls that are timed together). This
/// many calls take tens of microseconds, which is long compared with the resolution of the
/// timestamp counter, and short compared with the time between interruptions.
const STRETCH_CALLS: usize = 2_048;

/// Approximate maximum number of bytes processed by a stretch of more than [`CALLS_MIN`] calls.
const STRETCH_BYTES: u64 = 1 << 20;

/// The first `1 / WARM_PART` of a stretch's calls are executed untimed before the whole stretch is
/// timed. Otherwise, the time would include two costs that a path does not have: some processors
/// take about 10 us to power up wide vector units, and branch predictors are cold after system
/// calls.
const WARM_PART: usize = 4;

/// Minimum number of logged calls needed for a replay.
const CALLS_MIN: usize = 32;

/// Maximum length of a replayed call in bytes; longer calls are truncated.
const BYTES_MAX: u32 = 1 << 20;

/// Result of replaying a stage's calls to one kernel.
#[derive(Clone, Debug)]
pub(crate) struct Replayed {
    pub(crate) kernel: Kernel,
    pub(crate) in_use: &'static str,
    /// Variant of the kernel that is selected by default on this machine.
    pub(crate) selected: &'static str,
    pub(crate) calls_per_packet: f64,
    pub(crate) bytes_per_call: f64,
    /// Ticks per call with the variant in use, or why they are unknown.
    pub(crate) ticks_per_call: Result<Estimate, String>,
    /// Time taken by each variant that this machine supports, relative to the variant in use.
    pub(crate) ratios: Vec<(&'static str, Estimate)>,
}

/// Replays a stage's logged calls. Returns one entry per kernel that it called; `None` if no
/// iteration with packets was logged. `burst` is the number of packets per burst.
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

/// A variant and its kernels.
type Routine = (&'static str, Kernels);

/// Returns the routines of a kernel that this CPU supports, starting with the one in use. If
/// several variants share a routine, it is listed once.
fn routines(stage: &StageKernels, kernel: Kernel) -> Vec<Routine> {
    let in_use = stage.kernels().origin(kernel);
    let supported = variants().filter_map(|v| Some((v.name(), v.kernels().ok()?)));
    let others =
        supported.filter(|(name, kernels)| *name != in_use && kernels.origin(kernel) == *name);
    std::iter::once((in_use, *stage.kernels())).chain(others).collect()
}

/// Net ticks (without the overhead of the loop) per routine and round.
struct Rounds {
    kernel: Kernel,
    routines: Vec<Routine>,
    /// Net ticks by routine, then by round: ticks of the routine minus ticks of the empty loop.
    /// `None` if one of the two was preempted, or if the difference is not positive.
    net: Vec<Vec<Option<f64>>>,
    /// Number of calls per round.
    calls: f64,
}

impl Rounds {
    /// Computes net ticks from the ticks of each routine and of the empty loop, which is the last
    /// of the `samples`.
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

    /// Returns the ticks per call of the routine in use; `None` if no round is valid.
    fn ticks_per_call(&self) -> Option<Estimate> {
        let all: Vec<f64> = self.net[0].iter().flatten().map(|net| net / self.calls).collect();
        (!all.is_empty()).then(|| median_interval(&all, CONFIDENCE))
    }

    /// Returns each supported variant's time relative to the routine in use.
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
            // Load the stretch's log entries into the cache.
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

/// Maximum total size of the source buffers in bytes, less than half of an L2 cache. There is
/// always at least one buffer, even if it is larger.
const WARM_BYTES: usize = 256 << 10;

/// Buffers for replayed calls, in pairs of a source and a destination buffer. There is one pair per
/// packet of a burst, or fewer if the source buffers would exceed [`WARM_BYTES`].
struct Scratch {
    from: Vec<u8>,
    to: Vec<u8>,
    /// Offsets of the first source buffer and of the first destination buffer. Both are aligned to
    /// 64 bytes.
    first: [usize; 2],
    /// Distance between buffers (`stride`) and their total size (`all`).
    stride: usize,
    all: usize,
    clock: Machine,
}

impl Scratch {
    fn new(calls: &[Call], burst: usize, clock: Machine) -> Self {
        let longest = calls.iter().map(|call| call.bytes).max().unwrap_or(0).min(BYTES_MAX);
        // As in a pool, the stride is an odd number of cache lines, so that the first lines of the
        // buffers map to different cache sets.
        let stride = 64 * ((longest as usize + 63).div_ceil(64) | 1);
        let all = stride * burst.min(WARM_BYTES / stride).max(1);
        // The bytes must not be zero: the kernel maps zeroed pages that were never written to one
        // physical page.
        let from = vec![0xa5; all + 64];
        let to = vec![0x5a; all + 64 + 4_096];
        let [start_from, start_to] = [&from, &to].map(|bytes| bytes.as_ptr().align_offset(64));
        // Keep source and destination buffers half a page apart, because a load waits for an
        // earlier store to an address with the same low 12 bits (4K aliasing).
        let [a, b] = [from.as_ptr().addr() + start_from, to.as_ptr().addr() + start_to];
        let apart = (a + 2_048).wrapping_sub(b) % 4_096;
        let first = [start_from, start_to + apart];
        Self { from, to, first, stride, all, clock }
    }

    /// Runs the first part of `calls` untimed, then times all of them, and returns their ticks.
    /// `one` executes a single call, given its destination and source.
    #[inline]
    fn timed<'s>(
        &'s mut self,
        calls: &[Call],
        mut one: impl FnMut(&mut [u8], &'s [u8], &Call),
    ) -> Result<f64, Dropped> {
        let (from, to) = (&self.from[self.first[0]..], &mut self.to[self.first[1]..]);
        let (stride, all) = (self.stride, self.all);
        let mut pass = |calls: &[Call]| {
            let mut at = 0;
            for call in calls {
                let bytes = call.bytes.min(BYTES_MAX) as usize;
                let (src, dst) = (at + usize::from(call.src), at + usize::from(call.dst));
                one(&mut to[dst..dst + bytes], &from[src..src + bytes], call);
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

    /// Returns the ticks taken by all `calls`, executed with the variant in `kernels`.
    fn made(&mut self, kernel: Kernel, kernels: &Kernels, calls: &[Call]) -> Result<f64, Dropped> {
        match kernel {
            Kernel::Checksum => {
                let mut pending = Pending::default();
                self.timed(calls, |_, src, call| pending.add(kernels, src, call))
            }
            Kernel::Copy => self.timed(calls, |dst, src, _| kernels.copy(dst, src)),
            Kernel::CopyChecksum => self.timed(calls, |dst, src, _| {
                black_box(kernels.copy_checksum(dst, src, Sum::ZERO));
            }),
            Kernel::Fill => self.timed(calls, |dst, _, _| kernels.fill(dst, 0x5a)),
        }
    }

    /// Returns the ticks taken to iterate over `calls` without executing any.
    fn empty(&mut self, calls: &[Call]) -> Result<f64, Dropped> {
        self.timed(calls, |dst, src, _| {
            black_box((dst.as_ptr(), src.as_ptr(), src.len()));
        })
    }
}

/// Buffers collected for the next `checksum_burst` call. Those left over from the untimed calls are
/// summed in the timed part; those left over from the timed part are never summed.
#[derive(Default)]
struct Pending<'s> {
    buffers: [Buffer<'s>; BURST_MAX],
    sums: [Sum; BURST_MAX],
    count: usize,
}

/// Maximum number of buffers per call; longer bursts are replayed as several calls.
const BURST_MAX: usize = 32;

impl<'s> Pending<'s> {
    #[inline]
    fn add(&mut self, kernels: &Kernels, src: &'s [u8], call: &Call) {
        if self.count > 0 && (!call.is_same_call || self.count == BURST_MAX) {
            kernels.checksum_burst(&self.buffers[..self.count], &mut self.sums[..self.count]);
            black_box(&self.sums);
            self.count = 0;
        }
        if call.is_burst {
            self.buffers[self.count] = Buffer::new(src);
            self.count += 1;
        } else {
            black_box(kernels.checksum(src, Sum::ZERO));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_one_call_are_summed_by_one_call() {
        let kernels = Kernels::by_name("portable").expect("always there");
        let call = Call {
            bytes: 2,
            kernel: Kernel::Checksum,
            src: 0,
            dst: 0,
            is_same_call: false,
            is_burst: true,
        };
        let next = Call { is_same_call: true, ..call };
        let mut pending = Pending::default();
        for (which, expected) in [(&call, 1), (&next, 2), (&next, 3), (&call, 1), (&next, 2)] {
            pending.add(&kernels, &[0xff, 0xff], which);
            assert_eq!(pending.count, expected);
        }
        let summed = pending.sums.iter().filter(|sum| **sum != Sum::ZERO).count();
        assert_eq!(summed, 3, "the first call is executed when the second begins");
        pending.add(&kernels, &[1], &Call { is_burst: false, ..call });
        assert_eq!(pending.count, 0);
        (0..=BURST_MAX).for_each(|_| pending.add(&kernels, &[1], &next));
        assert_eq!(pending.count, 1, "a burst longer than the maximum");
    }
}
