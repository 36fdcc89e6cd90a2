// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs one case as a race between routines. Each routine's calls form timed windows.
//!
//! All routines are called through a pointer, from the same loops. The loop overhead is small
//! compared with the nine or ten cycles of a call, and is included in all times, including the
//! bound's.

use crate::cases::{Case, Length, MEAN_OFFSETS, Source};
use crate::memory::{Footprint, LINE_BYTES, Memory, PAGE_BYTES, SKEW_BYTES};
use crate::mixes::{self, Lengths};
use linerate_kernels::bench::Routine;
use linerate_machine::ticks::ticks;
use linerate_record::kernels::{Kernel, State, Timing};
use linerate_trial::{Fill, Machine, Rules, Samples, Timed, Watch, Window, filling};
use std::convert::Infallible;
use std::hint::black_box;
use std::ops::Range;

/// Fill value of buffers.
pub(crate) const FILL: u8 = 0xa5;

/// Number of packets per window of a mix, the same for all routines.
const MIX_CALLS: u32 = 2048;

/// Number of packet slots for a mix, few enough to stay in L1.
const MIX_SLOTS: usize = 4;
const SLOT_BYTES: usize = 2048;

/// Ratio of timed calls in a window to untimed calls before it.
const LEAD_IN: u32 = 4;

/// Maximum number of attempts to find how many calls fill part of a window.
const FILLING_TRIES: u32 = 3;

/// Maximum calls per cold window. Limits the cost of reading the window's slots again afterwards (2
/// MiB with slots of 2 KiB).
const COLD_CALLS_MAX: u32 = 1024;

/// Returns the distance between cold buffers in bytes: the slot size of a packet pool if the
/// buffers fit in a slot. Otherwise, the buffers are adjacent.
pub(crate) fn cold_stride(bytes: usize) -> usize {
    let with_offset = bytes + LINE_BYTES;
    let slots = [SLOT_BYTES, 10_240].into_iter().find(|&slot| with_offset <= slot);
    slots.unwrap_or(bytes.next_multiple_of(LINE_BYTES) + LINE_BYTES)
}

/// Returns how many bytes a case needs in each of the two areas, source and destination.
pub(crate) fn bytes_needed(case: &Case, footprint: Footprint) -> usize {
    match (case.length, case.state) {
        (Length::Mix(_), _) => MIX_SLOTS * SLOT_BYTES,
        (Length::Bytes(bytes), State::Cold) => footprint.bytes.max(2 * cold_stride(bytes as usize)),
        (Length::Bytes(bytes), _) => bytes as usize + LINE_BYTES,
    }
}

/// Calls per timing window.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Calls {
    /// As many calls as fill the window.
    Filling(Fill),
    /// The same number of calls for all routines.
    Exactly(u32),
}

/// A case with its routines, ready to run.
pub(crate) struct Contest<'a> {
    case: Case,
    routines: &'a [Routine],
    memory: &'a mut Memory,
    /// Generator of lengths; only for a mix.
    mix: Option<Lengths>,
    /// Lengths for the next window; only for a mix.
    lengths: Vec<u16>,
    /// Slot stride in bytes; only for a cold case.
    stride: usize,
    /// Number of slots; only for a cold case.
    slots: usize,
    /// Next slot to use.
    next_slot: usize,
    /// Byte range of the slots used in the window just timed.
    walked: Range<usize>,
}

impl<'a> Contest<'a> {
    /// Prepares the case in `memory`, which must have at least [`bytes_needed`] bytes. The seed
    /// determines the mix.
    pub(crate) fn new(
        case: Case,
        routines: &'a [Routine],
        memory: &'a mut Memory,
        footprint: Footprint,
        seed: u64,
    ) -> Self {
        let mut mix = match case.length {
            Length::Mix(mix) => Some(Lengths::new(mix, seed)),
            Length::Bytes(_) => None,
        };
        let mut lengths = vec![0; MIX_CALLS as usize];
        if let Some(mix) = &mut mix {
            mix.draw(&mut lengths);
        }
        let stride = match case.length {
            Length::Bytes(bytes) => cold_stride(bytes as usize),
            Length::Mix(_) => SLOT_BYTES,
        };
        let slots = bytes_needed(&case, footprint) / stride;
        Self { case, routines, memory, mix, lengths, stride, slots, next_slot: 0, walked: 0..0 }
    }

    /// Returns the average number of bytes per call.
    pub(crate) fn mean_bytes(&self) -> f64 {
        match self.case.length {
            Length::Bytes(bytes) => f64::from(bytes),
            Length::Mix(mix) => mixes::mean(mix),
        }
    }

    /// Returns how many calls fill a window of `ticks` ticks.
    fn calls(&self, ticks: f64) -> Calls {
        let at_most = u32::MAX.into();
        let fill = Fill { window: ticks, multiple: 1, at_most, tries: FILLING_TRIES };
        match (self.case.length, self.case.source, self.case.state) {
            (Length::Mix(_), ..) => Calls::Exactly(MIX_CALLS),
            (_, _, State::Cold) => {
                // At most half of all slots, so that a slot is reused only after a walk over all
                // others.
                let at_most = COLD_CALLS_MAX.min((self.slots / 2).max(1) as u32);
                Calls::Filling(Fill { at_most: at_most.into(), ..fill })
            }
            (_, Source::MeanOffsets, _) => {
                Calls::Filling(Fill { multiple: MEAN_OFFSETS.len() as u64, ..fill })
            }
            _ => Calls::Filling(fill),
        }
    }

    /// Determines a routine's calls per window, and leaves the routine warm.
    fn calls_per_window(&mut self, which: usize, calls: Calls) -> u32 {
        let mut ticks = |calls| {
            let start = ticks();
            self.run(which, calls);
            let ticks = ticks() - start;
            self.settle();
            ticks as f64
        };
        match calls {
            Calls::Exactly(calls) => {
                ticks(calls);
                calls
            }
            Calls::Filling(fill) => {
                let Ok(calls) = filling(&fill, |calls| Ok::<_, Infallible>(ticks(calls as u32)));
                calls as u32
            }
        }
    }

    /// Times one window of a routine. Warm cases have a lead-in. Mixes and cold cases have none, so
    /// that the lengths of a mix are new to the branch predictors, and the lines of a cold case to
    /// the caches.
    fn window(&mut self, which: usize, calls: u32, clock: &Machine) -> Timed {
        let is_mix = matches!(self.case.length, Length::Mix(_));
        let mut window = Window::open(clock);
        if !is_mix && self.case.state != State::Cold {
            self.run(which, calls / LEAD_IN);
            window.start();
        }
        self.run(which, calls);
        window.close()
    }

    /// Races all routines in windows of `ticks` ticks. Returns ticks per call by routine and round.
    pub(crate) fn race(
        &mut self,
        rounds: u32,
        window_ticks: f64,
        clock: &Machine,
        watch: &Watch<'_>,
        seed: u64,
    ) -> Samples<f64> {
        let kind = self.calls(window_ticks);
        let routines = self.routines;
        let calls: Vec<u32> =
            (0..routines.len()).map(|which| self.calls_per_window(which, kind)).collect();
        let names: Vec<&str> = routines.iter().map(Routine::name).collect();
        let what = self.case.to_string();
        let length = linerate_trial::Length::Rounds(rounds);
        let rules = Rules { what: &what, contestants: &names, placements: 1, length, seed };
        let Ok(mut samples) = linerate_trial::rounds(&rules, clock, watch, |turn| {
            let which = turn.contestant;
            let window = self.window(which, calls[which], clock);
            self.settle();
            Ok::<_, Infallible>(window.keep(window.ticks as f64 / f64::from(calls[which])))
        });
        samples.drop_far_slower();
        samples
    }

    /// Makes a window's calls through `call`, which takes destination, source and sum.
    fn calls_of(&mut self, calls: u32, call: impl Fn(&mut [u8], &[u8], u32) -> u32) {
        let (destination, source) = self.memory.both();
        // Offset within the area, which starts `skew` bytes past a page boundary.
        let skewed = (PAGE_BYTES + self.case.skew() - SKEW_BYTES) % PAGE_BYTES;
        let to = self.case.dst_offset.unwrap_or(0) as usize + skewed;
        let from = match self.case.source {
            Source::At(offset) => offset as usize,
            Source::None | Source::MeanOffsets => 0,
        };
        let result = match (self.case.length, self.case.state, self.case.timing) {
            (Length::Mix(_), ..) => {
                let lengths = &self.lengths[..calls as usize];
                in_slots(&mut destination[to..], &source[from..], lengths, call)
            }
            (Length::Bytes(bytes), State::Cold, _) => {
                let bytes = bytes as usize;
                if self.next_slot + calls as usize > self.slots {
                    self.next_slot = 0;
                }
                let first = self.next_slot;
                self.next_slot += calls as usize;
                self.walked = first * self.stride..self.next_slot * self.stride;
                let (to, from) = (to + self.walked.start, from + self.walked.start);
                let walk = Walk { bytes, stride: self.stride, calls };
                walk.run(&mut destination[to..], &source[from..], call)
            }
            (Length::Bytes(bytes), State::JustWritten, _) => {
                let (header, bytes) = (&mut destination[..LINE_BYTES], bytes as usize);
                written(header, bytes, calls, |header, sum| call(&mut [], header, sum))
            }
            (Length::Bytes(bytes), _, Timing::Latency) => {
                let bytes = bytes as usize;
                let source = &source[from..from + bytes];
                dependent(source, calls, |source| call(&mut [], source, 0))
            }
            (Length::Bytes(bytes), ..) => {
                let destination = &mut destination[to..][..bytes as usize];
                let offsets: &[u32] = match self.case.source {
                    Source::MeanOffsets => &MEAN_OFFSETS,
                    Source::None => &[0],
                    Source::At(ref offset) => std::slice::from_ref(offset),
                };
                at_offsets(destination, source, offsets, calls, call)
            }
        };
        black_box(result);
    }
}

impl Contest<'_> {
    /// Calls a routine `calls` times.
    fn run(&mut self, which: usize, calls: u32) {
        // A local copy, so that no callee can change the target of the next call.
        let routine = self.routines[which];
        match self.case.kernel {
            Kernel::Checksum => {
                self.calls_of(calls, |_, source, sum| routine.checksum(source, sum));
            }
            Kernel::Copy => self.calls_of(calls, |destination, source, sum| {
                routine.copy(destination, source);
                sum
            }),
            Kernel::CopyChecksum => self.calls_of(calls, |destination, source, sum| {
                routine.copy_checksum(destination, source, sum)
            }),
            Kernel::Fill => self.calls_of(calls, |destination, _, sum| {
                routine.fill(destination, FILL);
                sum
            }),
        }
    }

    /// Does the untimed work between two windows. A mix gets new lengths. For cold cases, the gaps
    /// between buffers are read too, so that the whole footprint passes through the caches even
    /// with small buffers.
    fn settle(&mut self) {
        if let Some(mix) = &mut self.mix {
            mix.draw(&mut self.lengths);
        }
        if self.case.state == State::Cold {
            let source = self.case.source != Source::None;
            let destination = self.case.dst_offset.is_some();
            self.memory.read_lines(self.walked.clone(), source, destination);
        }
    }
}

/// Makes the same number of calls at each source offset, one offset after the other.
fn at_offsets(
    destination: &mut [u8],
    source: &[u8],
    offsets: &[u32],
    calls: u32,
    call: impl Fn(&mut [u8], &[u8], u32) -> u32,
) -> u32 {
    let mut result = 0;
    for &offset in offsets {
        let source = &source[offset as usize..][..destination.len()];
        for _ in 0..calls / offsets.len() as u32 {
            result ^= call(destination, source, 0);
        }
    }
    result
}

/// Makes dependent calls: each call's address has a data dependency on the previous result.
fn dependent(source: &[u8], calls: u32, call: impl Fn(&[u8]) -> u32) -> u32 {
    let nothing = black_box(0);
    let mut sum = 0_u32;
    for _ in 0..calls {
        sum = call(&source[(sum & nothing) as usize..]);
    }
    sum
}

/// Repeatedly writes a header in eight-byte words and sums it. Each sum is written into the first
/// word of the next header, which makes the calls dependent.
fn written(header: &mut [u8], bytes: usize, calls: u32, call: impl Fn(&[u8], u32) -> u32) -> u32 {
    let mut sum = 0;
    for _ in 0..calls {
        let mut word = u64::from(sum);
        let (places, _) = header[..bytes.next_multiple_of(8)].as_chunks_mut::<8>();
        for place in places {
            *place = word.to_ne_bytes();
            // The compiler must not merge this store and the next into a wider one.
            black_box(&*place);
            word = 0x4500_05dc_4000_4011;
        }
        sum = call(&header[..bytes], 0);
    }
    sum
}

/// Makes calls on packets of these lengths, rotating through a few slots.
fn in_slots(
    destination: &mut [u8],
    source: &[u8],
    lengths: &[u16],
    call: impl Fn(&mut [u8], &[u8], u32) -> u32,
) -> u32 {
    let mut result = 0;
    for (packet, &bytes) in lengths.iter().enumerate() {
        let slot = packet % MIX_SLOTS * SLOT_BYTES;
        let (destination, source) = (&mut destination[slot..], &source[slot..]);
        let bytes = usize::from(bytes);
        result ^= call(&mut destination[..bytes], &source[..bytes], 0);
    }
    result
}

/// Makes calls on equally spaced buffers, one after the other.
struct Walk {
    bytes: usize,
    stride: usize,
    calls: u32,
}

impl Walk {
    fn run(
        &self,
        destination: &mut [u8],
        source: &[u8],
        call: impl Fn(&mut [u8], &[u8], u32) -> u32,
    ) -> u32 {
        let mut result = 0;
        for slot in 0..self.calls as usize {
            let at = slot * self.stride..slot * self.stride + self.bytes;
            result ^= call(&mut destination[at.clone()], &source[at], 0);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[test]
    fn the_mean_is_over_as_many_calls_at_each_offset() {
        let seen = RefCell::new(Vec::new());
        let (mut destination, source) = ([0; 100], (0..=255).collect::<Vec<u8>>());
        let call = |_: &mut [u8], source: &[u8], _| {
            seen.borrow_mut().push(u32::from(source[0]));
            assert_eq!(source.len(), 100);
            0
        };
        at_offsets(&mut destination, &source, &MEAN_OFFSETS, 24, call);
        let seen = seen.into_inner();
        assert_eq!(seen.len(), 24);
        for offset in MEAN_OFFSETS {
            assert_eq!(seen.iter().filter(|&&at| at == offset).count(), 3, "{offset}");
        }
    }

    #[test]
    fn each_call_gets_the_previous_result() {
        let calls = RefCell::new(0);
        let sum = dependent(&[1; 20], 7, |source| {
            assert_eq!(source.len(), 20);
            *calls.borrow_mut() += 1;
            *calls.borrow()
        });
        assert_eq!(sum, 7);
        let mut header = [0xff; 64];
        let seen = RefCell::new(Vec::new());
        written(&mut header, 20, 3, |header, _| {
            seen.borrow_mut().push((header.len(), header[0]));
            seen.borrow().len() as u32
        });
        assert_eq!(seen.into_inner(), [(20, 0), (20, 1), (20, 2)]);
        assert!(header[24..].iter().all(|&byte| byte == 0xff));
    }

    #[test]
    fn packets_of_a_mix_share_few_slots() {
        let mut memory = Memory::new(MIX_SLOTS * SLOT_BYTES, 1);
        let (destination, source) = memory.both();
        let base = source.as_ptr() as usize;
        let seen = RefCell::new(Vec::new());
        in_slots(&mut destination[2..], &source[14..], &[40, 1500, 20, 64, 41], |to, from, _| {
            assert_eq!(to.len(), from.len());
            seen.borrow_mut().push((from.as_ptr() as usize - base, from.len()));
            0
        });
        let expected = [(14, 40), (2062, 1500), (4110, 20), (6158, 64), (14, 41)];
        assert_eq!(seen.into_inner(), expected);
    }

    #[test]
    fn destinations_lie_where_their_case_says() {
        extern "C" fn distance(dst: *mut u8, src: *const u8, _bytes: usize) -> *mut u8 {
            SEEN.store((dst as usize).wrapping_sub(src as usize) % PAGE_BYTES, Relaxed);
            dst
        }
        static SEEN: AtomicUsize = AtomicUsize::new(0);
        let footprint = Footprint { bytes: 1 << 20, cache_bytes: None };
        for case in [
            Case::same_place(Kernel::Copy, 1460),
            Case::aligned(Kernel::Copy, 1460),
            Case::misaligned(Kernel::Copy, 9000, 14, 2),
            Case::cold(Kernel::Copy, 1460),
        ] {
            let mut memory = Memory::new(bytes_needed(&case, footprint), 1);
            let routines = [crate::peers::copy_of(distance)];
            Contest::new(case, &routines, &mut memory, footprint, 1).run(0, 3);
            assert_eq!(Some(SEEN.load(Relaxed) as u32), case.page_distance(), "{case}");
        }
    }

    #[test]
    fn cold_calls_walk_through_the_whole_footprint() {
        let footprint = Footprint { bytes: 1 << 20, cache_bytes: None };
        for (bytes, stride) in [(20, 2048), (1500, 2048), (4096, 10_240), (16_384, 16_448)] {
            assert_eq!(cold_stride(bytes as usize), stride);
            let case = Case::cold(Kernel::Fill, bytes);
            let mut memory = Memory::new(bytes_needed(&case, footprint), 1);
            let routines = [Routine::selected(linerate_kernels::Kernel::Fill)];
            let mut contest = Contest::new(case, &routines, &mut memory, footprint, 1);
            let slots = (1 << 20) / stride;
            assert_eq!(contest.slots, slots);
            let half = slots as u32 / 2;
            for first in [0, half as usize, 0] {
                contest.run(0, half);
                assert_eq!(contest.walked, first * stride..(first + half as usize) * stride);
                contest.settle();
            }
            let (destination, _) = memory.both();
            let filled = destination.iter().filter(|&&byte| byte == FILL).count();
            assert_eq!(filled, half as usize * 2 * bytes as usize);
        }
    }
}
