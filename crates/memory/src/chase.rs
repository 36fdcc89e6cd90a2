// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chains of cache lines, each holding the address of the next, and the walk along them.
//!
//! A chain is a cycle over items 0 to n-1, whose addresses are defined by a [`Layout`]. It is built
//! item by item, so that every prefix is also a chain:
//!
//! ```text
//! to add item i:     j = a random item of the same block, the same one whenever i is added
//!                    next(i) = next(j); next(j) = i
//! to remove item i:  next(j) = next(i)           with the same j; items are removed last to first
//! ```
//!
//! With a single block for all items, every cycle over 0 to i is equally likely: there are i
//! equally likely places to insert item i, and (i-1)! cycles before that. With blocks of a few
//! pages, an item is inserted after another item in its own block, and the first item of a block
//! after the last item of a random earlier block. The result is a random path through each block
//! and a random cycle of blocks. Only the last block may be incomplete.
//!
//! Interpreting the time per load is left to the caller. Walks do not write to the lines.

mod marks;

use crate::arena::Arena;
use linerate_linux::page_bytes;
use linerate_record::memory::Order;
use linerate_record::random::{GOLDEN, finish};
use marks::Marks;
use std::marker::PhantomData;

/// Loads per loop iteration; load counts are multiples of it.
pub const UNROLL: u64 = 16;

/// Small pages per block of a page-local chain: few enough for any first-level TLB, enough for an
/// order that prefetchers cannot predict.
const BOX_PAGES: usize = 32;

/// Number of items added between two clock reads; adding them takes a few ms.
pub(crate) const STRETCH: usize = 1 << 16;

/// Item addresses and walk order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Order in which the walk visits items.
    pub order: Order,
    /// Distance between items in bytes, a multiple of `line`: the line size for a dense chain, the
    /// page size for a chain with one line per page.
    pub stride: usize,
    /// Line size in bytes. If the stride is longer, item i uses line i of its stride (modulo the
    /// lines per stride), so that all cache sets get the same number of lines.
    pub line: usize,
    /// Offset of item 0 in the arena in bytes, a multiple of `stride`. Items wrap around at the end
    /// of the arena.
    pub start: usize,
}

impl Layout {
    /// Places items on consecutive lines of `line` bytes, from the start of the arena.
    pub fn dense(order: Order, line: usize) -> Self {
        Self { order, stride: line, line, start: 0 }
    }

    /// Places one item per page of `page` bytes, from the start of the arena, walked in random
    /// order.
    pub fn one_per_page(page: usize, line: usize) -> Self {
        Self { order: Order::Random, stride: page, line, start: 0 }
    }
}

/// A position in the chain that created the cursor; an arbitrary position in any other chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    item: usize,
}

/// A chain in an arena, which it borrows exclusively.
#[derive(Debug)]
pub struct Chain<'a> {
    start: *mut u8,
    layout: Layout,
    /// Capacity in items.
    capacity: usize,
    /// Log2 of the items per block.
    box_shift: u32,
    /// Log2 of the stride.
    stride_shift: u32,
    /// Lines per stride, minus 1.
    skew_mask: usize,
    /// Position of item 0, in strides from the start of the arena.
    first: usize,
    seed: u64,
    /// Items in the chain.
    len: usize,
    /// For each block, the index of the block visited next.
    after: Vec<u32>,
    /// For each block, the item at which the walk leaves it.
    exits: Vec<usize>,
    /// Known positions along a random cycle; `None` for other orders, for which the blocks suffice.
    marks: Option<Marks>,
    arena: PhantomData<&'a mut Arena>,
}

impl<'a> Chain<'a> {
    /// Creates a chain of one item. `seed` selects one of the random orders.
    ///
    /// # Panics
    /// Panics if the layout does not fit the arena: if not even one item fits, the stride is not a
    /// power-of-two multiple of the line, the start is not a multiple of the stride, or a line is
    /// too short for an address.
    pub fn new(arena: &'a mut Arena, layout: Layout, seed: u64) -> Self {
        let Layout { order, stride, line, start } = layout;
        assert!(line >= size_of::<usize>() && line.is_power_of_two(), "{layout:?}");
        assert!((stride / line).is_power_of_two() && start % stride == 0, "{layout:?}");
        let capacity = arena.bytes() / stride;
        assert!(capacity > 0 && start < capacity * stride, "{layout:?} in {arena:?}");
        let box_items = match order {
            Order::PageLocal => (BOX_PAGES * page_bytes() / stride).max(1),
            Order::Random | Order::Sequential => capacity.next_power_of_two(),
        };
        let mut chain = Self {
            start: arena.start(),
            layout,
            capacity,
            box_shift: box_items.ilog2(),
            stride_shift: stride.ilog2(),
            skew_mask: stride / line - 1,
            first: start / stride,
            seed,
            len: 0,
            after: Vec::new(),
            exits: Vec::new(),
            marks: (order == Order::Random).then(Marks::default),
            arena: PhantomData,
        };
        chain.resize(1);
        chain
    }

    /// Returns the number of items in the chain; at least 1.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Always false: a chain has at least one item.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the maximum number of items.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Grows or shrinks the chain to `len` items, clamped between 1 and the capacity. Takes 3 to 30
    /// ns per item added or removed. Chains of the same length are identical, regardless of their
    /// history.
    pub fn resize(&mut self, len: usize) {
        let len = len.clamp(1, self.capacity);
        // Rebuilding is faster than shrinking to less than half the length.
        if len < self.len / 2 {
            self.clear();
        }
        while self.len > len {
            self.remove();
        }
        while self.len < len {
            self.add();
        }
    }

    /// Grows the chain to `len` items or to its capacity while `goes_on`, which is called every few
    /// ms, returns true. Returns whether the chain reached that length.
    pub fn grow(&mut self, len: usize, goes_on: impl Fn() -> bool) -> bool {
        let len = len.min(self.capacity);
        while self.len < len && goes_on() {
            self.resize(len.min(self.len + STRETCH));
        }
        self.len >= len
    }

    fn clear(&mut self) {
        self.len = 0;
        self.after.clear();
        self.exits.clear();
        if let Some(marks) = &mut self.marks {
            marks.clear();
        }
    }

    /// Performs at least `loads` dependent loads, rounded up to a multiple of [`UNROLL`], and
    /// advances `cursor` accordingly. Returns the number of loads performed.
    pub fn run(&self, cursor: &mut Cursor, loads: u64) -> u64 {
        let turns = loads.div_ceil(UNROLL).max(1);
        // SAFETY: `address` returns an item of the chain, and items hold addresses of items.
        let end = unsafe { walk(self.address(self.valid(*cursor)), turns) };
        cursor.item = self.item_at(end);
        turns * UNROLL
    }

    /// Like [`run`](Self::run), but advances `K` cursors at once by `loads` loads each. Loads of
    /// one cursor depend on each other; loads of different cursors are independent. Returns the
    /// number of loads per cursor.
    pub fn run_side_by_side<const K: usize>(&self, cursors: &mut [Cursor; K], loads: u64) -> u64 {
        let mut at = cursors.map(|cursor| self.address(self.valid(cursor)));
        let turns = loads.div_ceil(UNROLL).max(1);
        for _ in 0..turns {
            for _ in 0..UNROLL {
                for address in &mut at {
                    // SAFETY: items hold addresses of items, and `address` returned an item.
                    *address = unsafe { std::ptr::read_volatile(*address) }.cast();
                }
            }
        }
        for (cursor, address) in cursors.iter_mut().zip(at) {
            cursor.item = self.item_at(address);
        }
        turns * UNROLL
    }

    /// Returns items in walk order that divide the cycle into `n` stretches of about the same
    /// length: to within a block in a page-local chain, to within a few thousandths of the cycle in
    /// a random one.
    pub fn places(&self, n: usize) -> Vec<Cursor> {
        if let Some(marks) = &self.marks {
            return marks.places(n).into_iter().map(|item| Cursor { item }).collect();
        }
        let boxes = self.after.len();
        if boxes == 1 {
            return (0..n).map(|k| Cursor { item: k * self.len / n.max(1) }).collect();
        }
        let mut places = Vec::with_capacity(n);
        let mut at = 0;
        for step in 0..boxes {
            while places.len() < n && places.len() * boxes / n.max(1) == step {
                places.push(Cursor { item: at << self.box_shift });
            }
            at = self.after[at] as usize;
        }
        places
    }

    /// Returns the successor of `cursor`, read from memory.
    pub fn next(&self, cursor: Cursor) -> Cursor {
        // SAFETY: `address` returns an item of the chain.
        let address = unsafe { self.address(self.valid(cursor)).read() };
        Cursor { item: self.item_at(address.cast()) }
    }

    /// Returns the item at a cursor, 0 to [`len`](Self::len) - 1.
    pub fn item(&self, cursor: Cursor) -> usize {
        self.valid(cursor)
    }

    /// Returns the cursor's item, or item 0 if the chain is too short to have that item.
    fn valid(&self, cursor: Cursor) -> usize {
        if cursor.item < self.len { cursor.item } else { 0 }
    }

    /// Returns the address of `item`, which must be below the capacity.
    fn address(&self, item: usize) -> *const *const u8 {
        self.slot(item).cast_const()
    }

    fn slot(&self, item: usize) -> *mut *const u8 {
        let stretch = item + self.first;
        let stretch = if stretch < self.capacity { stretch } else { stretch - self.capacity };
        let skew = (item & self.skew_mask) * self.layout.line;
        self.start.wrapping_add((stretch << self.stride_shift) + skew).cast()
    }

    /// Returns the item at `address`, which must be that of an item in the arena.
    fn item_at(&self, address: *const *const u8) -> usize {
        let stretch = (address as usize - self.start as usize) >> self.stride_shift;
        if stretch < self.first {
            stretch + self.capacity - self.first
        } else {
            stretch - self.first
        }
    }

    /// Returns the index of the block that contains `item`.
    fn box_of(&self, item: usize) -> usize {
        item >> self.box_shift
    }

    /// Returns the index of `item` within its block.
    fn within_box(&self, item: usize) -> usize {
        item & ((1 << self.box_shift) - 1)
    }

    /// Inserts item `len` into the cycle after the item returned by [`before`](Self::before).
    fn add(&mut self) {
        let item = self.len;
        let slot = self.slot(item);
        self.len += 1;
        if item == 0 {
            // SAFETY: `slot` returns places within the arena, which is exclusively borrowed.
            unsafe { slot.write(slot.cast()) };
            self.after.push(0);
            self.exits.push(0);
            if let Some(marks) = &mut self.marks {
                marks.add(None);
            }
            return;
        }
        let before = self.before(item);
        if let Some(marks) = &mut self.marks {
            marks.add(Some(before));
        }
        let place = self.slot(before);
        // SAFETY: as above, and `place` was written when its item was added.
        unsafe {
            slot.write(place.read());
            place.write(slot.cast());
        }
        let (box_of, box_before) = (self.box_of(item), self.box_of(before));
        if box_of == self.after.len() {
            self.after.push(self.after[box_before]);
            self.after[box_before] = box_of as u32;
            self.exits.push(item);
        } else if self.exits[box_of] == before {
            self.exits[box_of] = item;
        }
    }

    /// Undoes [`add`](Self::add). The chain must have more than one item.
    fn remove(&mut self) {
        self.len -= 1;
        let item = self.len;
        let (box_of, is_first) = (self.box_of(item), self.within_box(item) == 0);
        if is_first {
            self.exits.pop();
        }
        let before = self.before(item);
        if let Some(marks) = &mut self.marks {
            marks.remove(before);
        }
        let box_before = self.box_of(before);
        // SAFETY: `slot` returns places within the arena, which is exclusively borrowed; both were
        // written when their items were added.
        unsafe { self.slot(before).write(self.slot(item).read()) };
        if is_first {
            self.after[box_before] = self.after[box_of];
            self.after.pop();
        } else if self.exits[box_of] == item {
            self.exits[box_of] = before;
        }
    }

    /// Returns the item after which to insert `item`, given that all earlier items are present.
    /// `item` must not be 0.
    fn before(&self, item: usize) -> usize {
        let (box_of, within) = (self.box_of(item), self.within_box(item));
        let chosen = |n: usize| below(mix(self.seed ^ item as u64), n);
        match (self.layout.order, within) {
            (Order::Sequential, _) => item - 1,
            (_, 0) => self.exits[chosen(box_of)],
            (_, _) => item - within + chosen(within),
        }
    }
}

/// Hashes `n` to a pseudorandom number.
fn mix(n: u64) -> u64 {
    finish(n.wrapping_mul(GOLDEN))
}

/// Maps `random` to a number below `n`, with a bias below `n` / 2^32. `n` is below 2^32 on all
/// relevant machines.
fn below(random: u64, n: usize) -> usize {
    (((random >> 32) * n as u64) >> 32) as usize
}

/// Defines a loop that executes `$load` [`UNROLL`] times per iteration. `$down` decrements the
/// iteration counter in a `$register` and branches back.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm"))]
macro_rules! walk {
    ($register:ty, $load:literal, $($down:literal),+) => {
        /// Performs `turns` * [`UNROLL`] dependent loads, starting with the address at `at`.
        ///
        /// # Safety
        /// `at` must hold an address that holds an address, and so on indefinitely. `turns` must be
        /// nonzero and fit in a register.
        // A separate function because inlining it on ARM would put the caller's constants out of an
        // instruction's range.
        #[inline(never)]
        unsafe fn walk(mut at: *const *const u8, turns: u64) -> *const *const u8 {
            let mut turns = turns as $register;
            // SAFETY: the caller ensures that every load finds an address; nothing is written.
            unsafe {
                std::arch::asm!(
                    "2:",
                    ".rept {unroll}",
                    $load,
                    ".endr",
                    $($down,)+
                    unroll = const UNROLL,
                    at = inout(reg) at,
                    turns = inout(reg) turns,
                    options(readonly, nostack)
                );
            }
            debug_assert_eq!(turns, 0);
            at
        }
    };
}

#[cfg(target_arch = "x86_64")]
walk!(u64, "mov {at}, [{at}]", "dec {turns}", "jnz 2b");
#[cfg(target_arch = "aarch64")]
walk!(u64, "ldr {at}, [{at}]", "subs {turns}, {turns}, #1", "b.ne 2b");
#[cfg(target_arch = "arm")]
walk!(u32, "ldr {at}, [{at}]", "subs {turns}, {turns}, #1", "bne 2b");

/// Performs `turns` * [`UNROLL`] dependent loads, starting with the address at `at`.
///
/// # Safety
/// `at` must hold an address that holds an address, and so on indefinitely.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm")))]
unsafe fn walk(mut at: *const *const u8, turns: u64) -> *const *const u8 {
    for _ in 0..turns {
        for _ in 0..UNROLL {
            // SAFETY: the caller ensures that every load finds an address.
            at = unsafe { std::ptr::read_volatile(at) }.cast();
        }
    }
    at
}

#[cfg(test)]
mod tests;
