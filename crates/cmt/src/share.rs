// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fractional means, realized by integers: arithmetic in 32 bits before the point and 32 after it,
//! so that a run is the same on every machine.

use linerate_record::random::Random;

/// `value` with 32 fractional bits. Values are at most 2^31 here, so that nothing overflows.
pub(super) fn fixed(value: f64) -> u64 {
    (value * 4_294_967_296.0).round() as u64
}

/// Integers with a given mean, each as close to it as the carried remainder allows.
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

/// Events among instructions: the instruction at which each falls.
///
/// Distances are uniform from nothing to twice the mean, rests carried along, so that events come
/// at their rate however long the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gaps {
    twice_mean: u64,
    rest: u64,
    /// Instructions before that of the next event.
    left: u64,
}

impl Gaps {
    /// `events` among `instructions`, at most one each; `None` if there are none.
    pub(super) fn new(events: f64, instructions: f64, random: &mut Random) -> Option<Self> {
        // Rarer than one in 2^30 instructions is never: no run is as long.
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
        // Both terms are below 2^64 - 2^32: twice 2^30 before the point, and a rest behind it.
        let sum = self.rest + distance as u64;
        self.rest = sum & u64::from(u32::MAX);
        self.left += sum >> 32;
    }

    /// Number of instructions that are guaranteed to be without an event.
    pub(super) fn quiet(&self) -> u64 {
        self.left
    }

    /// Skips `instructions` of the quiet ones.
    pub(super) fn pass(&mut self, instructions: u64) {
        self.left -= instructions;
    }

    /// Events of the next instruction, which is consumed.
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
            // Standard deviation of a renewal process: sqrt(number / 3), three of them.
            let wanted = 2000.0 * events;
            let off = (found as f64 - wanted).abs();
            assert!(off < 3.0 * (wanted / 3.0).sqrt() + 1.0, "{events}: {found}");
        }
        assert!(Gaps::new(0.0, 434.0, &mut random).is_none());
    }
}
