// SPDX-License-Identifier: MIT OR Apache-2.0
//! Known positions along a random cycle, without walking it.
//!
//! ```text
//! the first MARKS items begin one segment each; a later item belongs to the segment of the item
//! after which it is inserted
//! position of item i < MARKS = sum of the lengths of the segments before its own, from item 0
//! ```
//!
//! An item is inserted after a uniformly random earlier one, so a segment grows in proportion to
//! its length, and its share of the cycle is about exponentially distributed with mean 1/MARKS.

/// Number of segments. With 1024, the segment start nearest to any point of the cycle is 0.05 % of
/// the cycle away on average: 1/128 of the distance between two of 16 cursors.
const MARKS: usize = 1024;

/// The segments of a cycle, maintained while items are added and removed at the end.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// Segment of each item.
    segment: Vec<u16>,
    /// Items in each segment.
    lengths: Vec<u32>,
    /// For each segment, the next one in walk order.
    after: Vec<u16>,
}

impl Marks {
    /// Records the next item, inserted after item `before`; the first item has no predecessor.
    pub(super) fn add(&mut self, before: Option<usize>) {
        let item = self.segment.len();
        if item >= MARKS {
            let segment = self.segment[before.expect("only item 0 has no predecessor")];
            self.segment.push(segment);
            self.lengths[usize::from(segment)] += 1;
            return;
        }
        let own = item as u16;
        self.segment.push(own);
        self.lengths.push(1);
        self.after.push(own);
        if let Some(before) = before {
            self.after.swap(before, item);
        }
    }

    /// Undoes [`add`](Self::add) of the last item, which was inserted after item `before`.
    pub(super) fn remove(&mut self, before: usize) {
        let Some(segment) = self.segment.pop() else { return };
        let item = self.segment.len();
        if item >= MARKS {
            self.lengths[usize::from(segment)] -= 1;
            return;
        }
        self.after.swap(before, item);
        self.after.pop();
        self.lengths.pop();
    }

    /// Returns `n` items in walk order, beginning with item 0, that divide the cycle into stretches
    /// of about the same length: for each boundary the nearest start of a segment.
    pub(super) fn places(&self, n: usize) -> Vec<usize> {
        let len = self.segment.len();
        let mut places = Vec::with_capacity(n);
        let (mut segment, mut start) = (0, 0);
        while places.len() < n {
            let wanted = places.len() * len / n;
            let length = self.lengths[segment] as usize;
            if start + length / 2 >= wanted || start + length >= len {
                places.push(segment);
            } else {
                start += length;
                segment = usize::from(self.after[segment]);
            }
        }
        places
    }

    /// Forgets all items.
    pub(super) fn clear(&mut self) {
        self.segment.clear();
        self.lengths.clear();
        self.after.clear();
    }
}
