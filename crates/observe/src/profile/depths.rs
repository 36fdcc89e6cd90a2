// SPDX-License-Identifier: MIT OR Apache-2.0
//! Determines how much of the stack must be copied to find complete call chains, and chooses the
//! size of the copies.

/// Sizes of stack copies to choose from, in bytes. The last one is the largest that a sample can
/// hold.
pub(super) const COPIES: [u32; 4] = [super::STACK_BYTES, 16 << 10, 32 << 10, 63 << 10];
/// Minimum number of call chains; with fewer, the default size of copies is kept.
const LEAST: u64 = 15;
/// Minimum number of call chains that copies of the chosen size must complete, as a fraction of
/// those that the largest copies complete.
const MOST: f64 = 0.9;

/// Number of call chains by the smallest copy that completes them, and number of call chains that
/// no copy completes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Depths {
    pub(super) complete: [u64; 4],
    pub(super) incomplete: u64,
}

impl Depths {
    /// Adds a call chain that needs `bytes` of the stack; `None` for an incomplete chain.
    pub(super) fn add(&mut self, bytes: Option<usize>) {
        let place = bytes.and_then(|bytes| COPIES.iter().position(|copy| bytes <= *copy as usize));
        match place {
            Some(place) => self.complete[place] += 1,
            None => self.incomplete += 1,
        }
    }

    /// Returns the index in [`COPIES`] of the size to use. This is the default unless most of the
    /// chains that can be completed need larger copies.
    pub(super) fn choice(&self) -> usize {
        let complete: u64 = self.complete.iter().sum();
        let is_known = complete + self.incomplete >= LEAST && complete >= self.incomplete;
        if !is_known || 2 * self.complete[0] >= complete {
            return 0;
        }
        let up_to = |place: usize| self.complete[..=place].iter().sum::<u64>() as f64;
        (0..COPIES.len()).find(|place| up_to(*place) >= MOST * complete as f64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(complete: [u64; 4], incomplete: u64) -> u32 {
        COPIES[Depths { complete, incomplete }.choice()]
    }

    #[test]
    fn the_smallest_copy_that_completes_most_chains_is_chosen() {
        assert_eq!(choice([2, 3, 35, 0], 0), 32 << 10);
        assert_eq!(choice([0, 38, 1, 1], 0), 16 << 10);
        assert_eq!(choice([0, 0, 0, 40], 3), 63 << 10);
    }

    #[test]
    fn without_a_reason_the_default_is_kept() {
        // Most chains are complete; too few samples; no copy completes them.
        assert_eq!(choice([25, 0, 15, 0], 0), 8192);
        assert_eq!(choice([0, 0, 9, 0], 0), 8192);
        assert_eq!(choice([0, 0, 19, 0], 21), 8192);
        assert_eq!(choice([0; 4], 0), 8192);
    }

    #[test]
    fn chains_are_counted_by_the_copy_that_they_need() {
        let mut depths = Depths::default();
        for bytes in [Some(8), Some(8192), Some(8193), Some(20_000), Some(64_512), None] {
            depths.add(bytes);
        }
        assert_eq!(depths, Depths { complete: [2, 1, 1, 1], incomplete: 1 });
    }
}
