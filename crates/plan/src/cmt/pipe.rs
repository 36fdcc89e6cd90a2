// SPDX-License-Identifier: MIT OR Apache-2.0
//! A pipe: of the strands that are ready, the one that issued longest ago issues.
//!
//! ```text
//! the next cycle in which anything is issued: the later of
//!     the one after the last issue, and the first in which any strand is ready
//! who issues: of the strands ready by then, the one of the least last issue
//! ```
//!
//! Cycles in which nobody can issue are thereby skipped, and nothing else is.

use super::link::Links;
use super::outcome::{Stalls, StrandOutcome};
use super::share::fixed;
use super::thread::{NEVER, Thread};

/// Bits of a place at the pipe.
const PLACE_BITS: u32 = 3;

/// A pipe with room for `N` strands.
#[derive(Clone, Debug)]
pub(super) struct Pipe<const N: usize> {
    /// The cycle after the last issue.
    free_from: u64,
    /// From which cycle each strand can issue; [`NEVER`] for places without one.
    ready: [u64; N],
    /// Last issues, the place in the low bits: all differ, and at first they stand in order.
    last: [u64; N],
    /// Bubbles per instruction, and of all so far; 32 bits behind the point.
    bubble: [u64; N],
    bubbles: [u64; N],
    /// Instructions until one for the thread, as they were after the last for it, and as they are.
    span: [u64; N],
    quiet: [u64; N],
    threads: [Option<Thread>; N],
}

impl<const N: usize> Pipe<N> {
    /// A pipe with all places empty.
    pub(super) fn new() -> Self {
        Self {
            free_from: 0,
            ready: [NEVER; N],
            last: std::array::from_fn(|place| place as u64),
            bubble: [0; N],
            bubbles: [0; N],
            span: [NEVER; N],
            quiet: [NEVER; N],
            threads: [const { None }; N],
        }
    }

    /// Puts a strand that handles packets at a place.
    pub(super) fn put(&mut self, place: usize, bubble: f64, (thread, quiet): (Thread, u64)) {
        self.ready[place] = 0;
        self.bubble[place] = fixed(bubble);
        self.span[place] = quiet;
        self.quiet[place] = quiet;
        self.threads[place] = Some(thread);
    }

    /// Puts a strand there that has only quiet instructions, and no end of them.
    pub(super) fn put_busy(&mut self, place: usize) {
        self.ready[place] = 0;
    }

    /// The next cycle in which a strand issues.
    pub(super) fn next_issue(&self) -> u64 {
        self.ready.iter().fold(NEVER, |first, ready| first.min(*ready)).max(self.free_from)
    }

    /// Issues in all cycles before `end`.
    pub(super) fn run_until(&mut self, end: u64, links: &mut Links) {
        loop {
            let cycle = self.next_issue();
            if cycle >= end {
                return;
            }
            self.issue(cycle, links);
        }
    }

    /// Issues an instruction at `cycle`, which is that of [`Self::next_issue`].
    #[inline]
    pub(super) fn issue(&mut self, cycle: u64, links: &mut Links) {
        let mut least = NEVER;
        for place in 0..N {
            let last = if self.ready[place] <= cycle { self.last[place] } else { NEVER };
            least = least.min(last);
        }
        let place = least as usize & ((1 << PLACE_BITS) - 1) & (N - 1);
        let before = self.bubbles[place];
        let after = before + self.bubble[place];
        self.bubbles[place] = after;
        self.ready[place] = cycle + 1 + ((after >> 32) - (before >> 32));
        // Later than all that stand in order at first.
        self.last[place] = ((cycle + 1) << PLACE_BITS) | place as u64;
        self.free_from = cycle + 1;
        match self.quiet[place] {
            0 => self.issue_for_thread(place, cycle, links),
            quiet => self.quiet[place] = quiet - 1,
        }
    }

    fn issue_for_thread(&mut self, place: usize, cycle: u64, links: &mut Links) {
        let thread = self.threads[place].as_mut().expect("others have quiet instructions only");
        let (stall, quiet) = thread.issue(self.span[place], cycle, links);
        self.ready[place] += stall;
        self.span[place] = quiet;
        self.quiet[place] = quiet;
    }

    /// Counts of the strand at a place before cycle `end`, up to which all has been issued.
    pub(super) fn counts(&self, place: usize, end: u64) -> StrandOutcome {
        let quiet = self.span[place] - self.quiet[place];
        let bubbles = self.bubbles[place] >> 32;
        let Some(thread) = &self.threads[place] else {
            let waited = if self.ready[place] == NEVER { 0 } else { end - quiet };
            return StrandOutcome { instructions: quiet, waited, ..StrandOutcome::default() };
        };
        let mut stalls = Stalls { bubbles, ..thread.stalls };
        // Of the last instruction; if it was a quiet one, all it has are bubbles.
        let last = if quiet == 0 { thread.last } else { Stalls::default() };
        stalls.cut(self.ready[place].saturating_sub(end), &last);
        let instructions = thread.instructions + quiet;
        let waited = end - instructions - stalls.sum();
        StrandOutcome { instructions, stalls, waited, tasks: thread.tasks(), ..Default::default() }
    }
}
