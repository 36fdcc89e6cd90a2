// SPDX-License-Identifier: MIT OR Apache-2.0
//! Integer sequences with fractional means, in fixed-point arithmetic with 32 integer and 32
//! fractional bits, so that runs are identical on all machines.

use linerate_record::random::Random;

/// Converts `value`, at most 2^31, to fixed point with 32 fractional bits.
pub(super) fn fixed(value: f64) -> u64 {
    (value * 4_294_967_296.0).round() as u64
}

/// A sequence of integers with a given mean. Each integer is the mean rounded down or up, with the
/// remainder carried to the next one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    step: u64,
    rest: u64,
}

impl Share {
    pub(super) fn new(mean: f64) -> Self {
        Self { step: fixed(mean), rest: 0 }
    }

    pub(super) fn next(&mut self) -> u64 {
        let sum = self.rest + self.step;
        self.rest = sum & u64::from(u32::MAX);
        sum >> 32
    }
}

/// Distributes events among instructions at random.
///
/// Distances between events are uniformly distributed from 0 to twice the mean, with remainders
/// carried, so that the event rate is exact even over a long run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gaps {
    twice_mean: u64,
    rest: u64,
    /// Number of instructions left before the instruction that has the next event.
    left: u64,
}

impl Gaps {
    /// Creates a distribution of `events` events per `instructions` instructions, at most one event
    /// per instruction; `None` if there are no events.
    pub(super) fn new(events: f64, instructions: f64, random: &mut Random) -> Option<Self> {
        // Events rarer than one in 2^30 instructions never occur, because no run is that long.
        let mean = instructions / events;
        if events <= 0.0 || mean > f64::from(1u32 << 30) {
            return None;
        }
        let mut gaps = Self { twice_mean: fixed(2.0 * mean), rest: 0, left: 0 };
        gaps.draw(random);
        Some(gaps)
    }

    fn draw(&mut self, random: &mut Random) {
        let share = u128::from(random.next() >> 32);
        let distance = (u128::from(self.twice_mean) * share) >> 32;
        // Both terms are below 2^64 - 2^32: the distance has an integer part of at most twice 2^30,
        // the remainder only a fractional part.
        let sum = self.rest + distance as u64;
        self.rest = sum & u64::from(u32::MAX);
        self.left += sum >> 32;
    }

    /// Returns how many upcoming instructions are certain to have no event.
    pub(super) fn quiet(&self) -> u64 {
        self.left
    }

    /// Advances by `instructions`, which must not exceed [`Self::quiet`].
    pub(super) fn pass(&mut self, instructions: u64) {
        self.left -= instructions;
    }

    /// Consumes the next instruction and returns how many events it has.
    pub(super) fn events(&mut self, random: &mut Random) -> u64 {
        let mut events = 0;
        while self.left == 0 {
            events += 1;
            self.draw(random);
        }
        self.left -= 1;
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_met() {
        for mean in [0.0, 0.25, 1.0, 1.69, 20.0, 985.3] {
            let mut share = Share::new(mean);
            let drawn: Vec<u64> = (0..1000).map(|_| share.next()).collect();
            let sum: u64 = drawn.iter().sum();
            assert!((sum as f64 - 1000.0 * mean).abs() <= 1.0, "{mean}: {sum}");
            assert!(drawn.iter().all(|d| (*d as f64 - mean).abs() <= 1.0), "{mean}");
        }
    }

    #[test]
    fn events_come_at_their_rate() {
        let mut random = Random::new(1);
        for events in [0.5, 7.6, 45.2, 434.0] {
            let mut gaps = Gaps::new(events, 434.0, &mut random).unwrap();
            let mut found = 0;
            for _ in 0..434 * 2000 {
                found += gaps.events(&mut random);
            }
            // Three standard deviations of a renewal process, each sqrt(number / 3).
            let wanted = 2000.0 * events;
            let off = (found as f64 - wanted).abs();
            assert!(off < 3.0 * (wanted / 3.0).sqrt() + 1.0, "{events}: {found}");
        }
        assert!(Gaps::new(0.0, 434.0, &mut random).is_none());
    }
}
