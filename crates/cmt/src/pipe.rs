// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulates one pipe: of the ready strands, the one that issued least recently issues next.
//!
//! The state that determines which strand issues is kept in a few machine words. Strands that will
//! be ready within [`SLOTS`] cycles are in a calendar, which has one bit per strand and cycle and
//! advances one cycle at a time. The others sleep until a given cycle.
//!
//! ```text
//! each cycle:
//!     place, order = NEXT[order][ready]       the place that issues, and the new order
//!     remove place from ready
//!     enter place in the calendar, as many slots ahead as its instruction has bubbles
//!     ready |= the first slot of the calendar, which is then shifted out
//!     ready |= the places whose sleep ends
//! while no place is ready and the calendar is empty:
//!     skip to the cycle in which the first sleep ends
//! ```
//!
//! The bubbles of a strand's next instruction are known before it issues, so finding the next ready
//! strand needs no arithmetic. In a cycle without a ready strand, a dummy place that is not in the
//! calendar issues ([`NO_PLACE`]).

use super::chip::STRANDS_PER_PIPE_MAX;
use super::link::Links;
use super::outcome::{Stalls, StrandOutcome};
use super::share::fixed;
use super::system::BUBBLE_CYCLES_MAX;
use super::thread::{NEVER, Thread};

/// Number of places per pipe. A place is the position of a strand on the pipe.
const PLACES: usize = STRANDS_PER_PIPE_MAX as usize;

/// Number of cycles covered by the calendar, a 64-bit word with one group of bits per cycle.
const SLOTS: u64 = u64::BITS as u64 / PLACES as u64;

const _: () = assert!((BUBBLE_CYCLES_MAX as u64) < SLOTS - 1);

/// Dummy place that issues if no strand is ready.
const NO_PLACE: usize = PLACES;

/// Bit mask of all places in a slot.
const ALL: u64 = (1 << PLACES) - 1;

/// Number of possible orders of the four places by the cycle in which they last issued.
const ORDERS: usize = 24;

/// Transition table, by current order and set of ready places: which place issues, and the new
/// order.
static NEXT: [[(u8, u8); 1 << PLACES]; ORDERS] = next();

/// Returns all orders. An order is a permutation of the places, starting with the place that issued
/// least recently.
const fn orders() -> [[u8; PLACES]; ORDERS] {
    let mut orders = [[0; PLACES]; ORDERS];
    let (mut found, mut number) = (0, 0);
    while number < PLACES.pow(PLACES as u32) {
        let (mut digits, mut rest, mut seen, mut at) = ([0; PLACES], number, 0, PLACES);
        while at > 0 {
            at -= 1;
            digits[at] = (rest % PLACES) as u8;
            seen |= 1 << (rest % PLACES);
            rest /= PLACES;
        }
        if seen == ALL {
            orders[found] = digits;
            found += 1;
        }
        number += 1;
    }
    orders
}

const fn next() -> [[(u8, u8); 1 << PLACES]; ORDERS] {
    let orders = orders();
    let mut table = [[(NO_PLACE as u8, 0); 1 << PLACES]; ORDERS];
    let mut order = 0;
    while order < ORDERS {
        let mut ready = 0;
        while ready < 1 << PLACES {
            table[order][ready] = choice(&orders, order, ready);
            ready += 1;
        }
        order += 1;
    }
    table
}

const fn choice(orders: &[[u8; PLACES]; ORDERS], order: usize, ready: usize) -> (u8, u8) {
    let digits = orders[order];
    let mut first = 0;
    while first < PLACES && ready & (1 << digits[first]) == 0 {
        first += 1;
    }
    if first == PLACES {
        return (NO_PLACE as u8, order as u8);
    }
    // The chosen place moves to the end of the order.
    let mut moved = digits;
    let mut at = first;
    while at + 1 < PLACES {
        moved[at] = digits[at + 1];
        at += 1;
    }
    moved[PLACES - 1] = digits[first];
    let mut after = 0;
    while !same(&orders[after], &moved) {
        after += 1;
    }
    (digits[first], after as u8)
}

const fn same(a: &[u8; PLACES], b: &[u8; PLACES]) -> bool {
    let mut at = 0;
    while at < PLACES && a[at] == b[at] {
        at += 1;
    }
    at == PLACES
}

/// A pipe with its strands.
#[derive(Clone, Debug)]
pub(super) struct Pipe {
    /// Next cycle to simulate; all earlier cycles are complete.
    now: u64,
    /// Bit mask of the places that are ready at `now`.
    ready: u64,
    /// Current order, as a row of [`NEXT`].
    order: usize,
    /// The calendar. The lowest slot holds the places that become ready in the cycle after `now`.
    near: u64,
    /// Cycle in which the next sleeping place wakes up.
    far: u64,
    sleeping: u64,
    /// For each place, including [`NO_PLACE`], the first cycle in which it can issue again.
    ready_from: [u64; PLACES + 1],
    /// Each place's bubbles per instruction, with 32 fractional bits.
    bubble: [u64; PLACES + 1],
    /// Each place's accumulated bubbles, with 32 fractional bits.
    bubbles: [u64; PLACES + 1],
    /// Each place's calendar entry for its next instruction.
    entry: [u64; PLACES + 1],
    /// For each place, the length of the current run of quiet instructions, which ends at the next
    /// instruction that the thread must handle.
    span: [u64; PLACES + 1],
    /// For each place, the number of instructions left in the current quiet run.
    quiet: [u64; PLACES + 1],
    threads: [Option<Thread>; PLACES],
}

/// State that changes every cycle, kept in registers while the pipe runs.
#[derive(Clone, Copy)]
struct State {
    ready: u64,
    order: usize,
    near: u64,
}

impl Pipe {
    /// Creates a pipe with all places empty.
    pub(super) fn new() -> Self {
        Self {
            now: 0,
            ready: 0,
            order: 0,
            near: 0,
            far: NEVER,
            sleeping: 0,
            ready_from: [NEVER; PLACES + 1],
            bubble: [0; PLACES + 1],
            bubbles: [0; PLACES + 1],
            entry: [0; PLACES + 1],
            span: [NEVER; PLACES + 1],
            quiet: [NEVER; PLACES + 1],
            threads: [const { None }; PLACES],
        }
    }

    /// Adds a strand that handles packets and begins with `quiet` quiet instructions, which have no
    /// stalls other than bubbles.
    pub(super) fn put(&mut self, place: usize, bubble: f64, (thread, quiet): (Thread, u64)) {
        self.put_busy(place);
        self.bubble[place] = fixed(bubble);
        self.entry[place] = entry(place, self.bubble[place] >> 32);
        self.span[place] = quiet;
        self.quiet[place] = quiet;
        self.threads[place] = Some(thread);
    }

    /// Adds a strand that runs `while(1)`: all of its instructions are quiet.
    pub(super) fn put_busy(&mut self, place: usize) {
        self.ready |= 1 << place;
        self.ready_from[place] = 0;
        self.entry[place] = entry(place, 0);
    }

    /// Returns the next cycle in which a strand issues.
    pub(super) fn next_issue(&self) -> u64 {
        if self.ready != 0 {
            return self.now;
        }
        let near = match self.near {
            0 => NEVER,
            near => self.now + 1 + u64::from(near.trailing_zeros()) / PLACES as u64,
        };
        near.min(self.far)
    }

    /// Issues instructions in all cycles before `end`.
    pub(super) fn run_until(&mut self, end: u64, links: &mut Links) {
        let mut state = State { ready: self.ready, order: self.order, near: self.near };
        while self.now < end {
            if state.ready | state.near == 0 {
                if self.far >= end {
                    self.now = end;
                    break;
                }
                self.now = self.far;
                state.ready = self.wake();
            }
            self.cycle(&mut state, links);
        }
        State { ready: self.ready, order: self.order, near: self.near } = state;
    }

    /// Simulates cycle `now`: selects the strand that issues, and advances by one cycle.
    #[inline]
    fn cycle(&mut self, state: &mut State, links: &mut Links) {
        let (place, order) = NEXT[state.order][state.ready as usize];
        let place = usize::from(place);
        state.order = usize::from(order);
        state.ready &= !(1 << place);
        let before = self.bubbles[place];
        let after = before + self.bubble[place];
        self.bubbles[place] = after;
        self.ready_from[place] = self.now + 1 + (after >> 32) - (before >> 32);
        match self.quiet[place] {
            0 => state.near |= self.issue_for_thread(place, links),
            quiet => {
                self.quiet[place] = quiet - 1;
                state.near |= self.entry[place];
            }
        }
        self.entry[place] = entry(place, ((after + self.bubble[place]) >> 32) - (after >> 32));
        self.now += 1;
        state.ready |= state.near & ALL;
        state.near >>= PLACES;
        if self.now == self.far {
            state.ready |= self.wake();
        }
    }

    /// Issues an instruction that the thread has to handle. Returns the calendar entry for the
    /// cycle in which the strand is ready again, or 0 if it sleeps.
    fn issue_for_thread(&mut self, place: usize, links: &mut Links) -> u64 {
        let thread =
            self.threads[place].as_mut().expect("only a strand with a thread needs handling");
        let (stall, quiet) = thread.issue(self.span[place], self.now, links);
        self.span[place] = quiet;
        self.quiet[place] = quiet;
        let ready_from = self.ready_from[place] + stall;
        self.ready_from[place] = ready_from;
        let away = ready_from - self.now - 1;
        if away < SLOTS {
            return entry(place, away);
        }
        self.sleeping |= 1 << place;
        self.far = self.far.min(ready_from);
        0
    }

    /// Wakes the places whose sleep ends now, and returns them as a bit mask.
    fn wake(&mut self) -> u64 {
        let mut woken = 0;
        self.far = NEVER;
        for place in 0..PLACES {
            if self.sleeping & (1 << place) == 0 {
                continue;
            }
            if self.ready_from[place] <= self.now {
                woken |= 1 << place;
            } else {
                self.far = self.far.min(self.ready_from[place]);
            }
        }
        self.sleeping &= !woken;
        woken
    }

    /// Returns the counts for the strand at a place for all cycles before `end`. All instructions
    /// in these cycles must have been issued.
    pub(super) fn counts(&self, place: usize, end: u64) -> StrandOutcome {
        let quiet = self.span[place] - self.quiet[place];
        let bubbles = self.bubbles[place] >> 32;
        let Some(thread) = &self.threads[place] else {
            let waited = if self.ready_from[place] == NEVER { 0 } else { end - quiet };
            return StrandOutcome { instructions: quiet, waited, ..StrandOutcome::default() };
        };
        let mut stalls = Stalls { bubbles, ..thread.stalls };
        // Stalls of the last instruction; a quiet one has only bubbles.
        let last = if quiet == 0 { thread.last } else { Stalls::default() };
        stalls.cut(self.ready_from[place].saturating_sub(end), &last);
        let instructions = thread.instructions + quiet;
        let waited = end - instructions - stalls.sum();
        StrandOutcome { instructions, stalls, waited, tasks: thread.tasks(), ..Default::default() }
    }
}

/// Returns a place's calendar bit `away` slots ahead; zero for [`NO_PLACE`].
fn entry(place: usize, away: u64) -> u64 {
    ((1 << place) & ALL) << (away * PLACES as u64)
}
