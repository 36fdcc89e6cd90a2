// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bounded, lock-free single-producer, single-consumer (SPSC) ring that connects two workers.
//!
//! This is a Lamport queue with free-running indices into a power-of-two number of slots. `tail`
//! counts all items ever pushed, and `head` all items ever popped, so the ring holds `tail - head`
//! items, and item `i` is in slot `i mod length`. Each end owns one index and caches the other
//! end's index. It refreshes the cached copy only if the copy indicates too little room or too few
//! items:
//!
//! ```text
//! push(items):  room = length - (tail - cached_head)
//!               if room < |items|: cached_head = load head; recompute room
//!               copy min(room, |items|) items behind tail; publish tail
//! pop(n):       avail = cached_tail - head
//!               if avail < n: cached_tail = load tail; recompute avail
//!               copy min(avail, n) items from head; publish head
//! ```
//!
//! Without the cached copies, every call would transfer the cache line with the other end's index.
//! A push publishes the index once, whatever the size of the burst. Only the producer can close the
//! ring; the consumer then drains it.
//!
//! Not supported: blocking (workers poll), multiple producers or consumers, growing.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A value padded to two cache lines, because adjacent-line prefetchers fetch cache lines in pairs.
#[repr(align(128))]
struct Padded<T>(T);

struct Shared<T> {
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    /// Total items popped; written only by the consumer.
    head: Padded<AtomicUsize>,
    /// Total items pushed; written only by the producer.
    tail: Padded<AtomicUsize>,
    closed: AtomicBool,
}

// SAFETY: only one end accesses a slot at a time: the producer while the slot's index is in [tail,
// head + length), the consumer while it is in [head, tail). An end publishes its index with Release
// after its access, and the other end reads it with Acquire before its own access (P1/C1, C2/P2
// below).
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        let (head, tail) = (*self.head.0.get_mut(), *self.tail.0.get_mut());
        let mask = self.slots.len() - 1;
        for i in 0..tail.wrapping_sub(head) {
            let slot = &mut self.slots[head.wrapping_add(i) & mask];
            // SAFETY: slots with indices in [head, tail) hold items; both sides have been dropped.
            unsafe { slot.get_mut().assume_init_drop() }
        }
    }
}

/// Pointer to the slots of a ring, and the mask for indices. Each end of the ring has its own copy,
/// which saves a dependent load.
struct Slots<T> {
    base: *mut T,
    mask: usize,
}

impl<T> Slots<T> {
    /// Returns the `count` slots from `index` on as two contiguous runs, each a pointer and a
    /// length: one up to the end of the array, and one from its start. `count` must not exceed the
    /// ring's length.
    #[inline]
    fn runs(&self, index: usize, count: usize) -> (*mut T, usize, *mut T, usize) {
        let first = index & self.mask;
        let until_end = count.min(self.mask + 1 - first);
        (self.base.wrapping_add(first), until_end, self.base, count - until_end)
    }
}

/// The producer end of a ring. Padded to its own cache lines: when it shared one with the consumer,
/// throughput was lower by half or more.
#[repr(align(128))]
pub struct Producer<T> {
    slots: Slots<T>,
    tail: usize,
    cached_head: usize,
    shared: Arc<Shared<T>>,
}

/// The consumer end of a ring. Padded to its own cache lines, like the producer end.
#[repr(align(128))]
pub struct Consumer<T> {
    slots: Slots<T>,
    head: usize,
    cached_tail: usize,
    shared: Arc<Shared<T>>,
}

// SAFETY: an end accesses slots only as described at `Shared`, whichever thread it is on; the slots
// live as long as `shared`.
unsafe impl<T: Send> Send for Producer<T> {}
// SAFETY: as for the producer.
unsafe impl<T: Send> Send for Consumer<T> {}

/// Creates a ring for `capacity` items.
///
/// # Panics
/// Panics if `capacity` is not a power of two.
pub fn ring<T: Send>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    assert!(capacity.is_power_of_two(), "ring capacity {capacity} is not a power of two");
    let slots = (0..capacity).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
    let shared = Arc::new(Shared {
        slots,
        head: Padded(AtomicUsize::new(0)),
        tail: Padded(AtomicUsize::new(0)),
        closed: AtomicBool::new(false),
    });
    // A slot is an UnsafeCell of a MaybeUninit of T, and both are transparent.
    let base = shared.slots.as_ptr().cast::<T>().cast_mut();
    let slots = || Slots { base, mask: capacity - 1 };
    let (producers, consumers) = (Arc::clone(&shared), shared);
    let producer = Producer { slots: slots(), tail: 0, cached_head: 0, shared: producers };
    (producer, Consumer { slots: slots(), head: 0, cached_tail: 0, shared: consumers })
}

/// Moves `count` items in fixed-size blocks, which compile to plain vector moves. For a short
/// burst, a call of memcpy would cost as much as everything else in a push.
///
/// # Safety
/// `from` must hold `count` items, `to` must have room for them, and the two must not overlap.
#[inline]
unsafe fn move_items<T>(from: *const T, to: *mut T, count: usize) {
    const BLOCK: usize = 8;
    let mut moved = 0;
    // SAFETY: `moved` plus the items moved in one step never exceeds `count`.
    unsafe {
        while count - moved >= BLOCK {
            from.add(moved).copy_to_nonoverlapping(to.add(moved), BLOCK);
            moved += BLOCK;
        }
        while moved < count {
            from.add(moved).copy_to_nonoverlapping(to.add(moved), 1);
            moved += 1;
        }
    }
}

impl<T: Send> Producer<T> {
    /// Returns a lower bound on the number of free slots. It is exact if it is less than `wanted`.
    #[inline]
    fn room(&mut self, wanted: usize) -> usize {
        let length = self.slots.mask + 1;
        let mut room = length - self.tail.wrapping_sub(self.cached_head);
        if room < wanted {
            // C2/P2: pairs with the Release in `pop_into`. The consumer's reads of the slots happen
            // before that Release, and the producer's writes to them after this Acquire.
            self.cached_head = self.shared.head.0.load(Ordering::Acquire);
            room = length - self.tail.wrapping_sub(self.cached_head);
        }
        room
    }

    /// Pushes one item, or returns it as an error if there is no room.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), T> {
        if self.room(1) == 0 {
            return Err(item);
        }
        let (slot, ..) = self.slots.runs(self.tail, 1);
        // SAFETY: there is room, so the slot at `tail` belongs to the producer and holds no item.
        unsafe { slot.write(item) }
        self.publish(1);
        Ok(())
    }

    /// Pushes as many items from the front of `items` as fit, and returns the number pushed.
    #[inline]
    pub fn push_from(&mut self, items: &mut Vec<T>) -> usize {
        let count = self.room(items.len()).min(items.len());
        if count == 0 {
            return 0;
        }
        let (first, until_end, start, rest) = self.slots.runs(self.tail, count);
        let left = items.len() - count;
        let source = items.as_mut_ptr();
        // The first `count` items are moved into the slots, the others to the front of `items`,
        // whose length is set to their number. Each item thus has one owner throughout.
        // SAFETY: the `count` slots from `tail` belong to the producer and hold no items; `source`
        // holds `count + left` items.
        unsafe {
            items.set_len(0);
            move_items(source, first, until_end);
            if rest > 0 {
                move_items(source.add(until_end), start, rest);
            }
            if left > 0 {
                source.add(count).copy_to(source, left);
                items.set_len(left);
            }
        }
        self.publish(count);
        count
    }

    #[inline]
    fn publish(&mut self, count: usize) {
        self.tail = self.tail.wrapping_add(count);
        // P1/C1: pairs with the Acquire in `available`, so items are written before they become
        // visible.
        self.shared.tail.0.store(self.tail, Ordering::Release);
    }

    /// Closes the ring. No items may be pushed after this call.
    pub fn close(&mut self) {
        // P3/C3: pairs with the Acquire in `is_finished`, so all items are published before.
        self.shared.closed.store(true, Ordering::Release);
    }
}

impl<T: Send> Consumer<T> {
    /// Returns a lower bound on the number of available items. It is exact if it is less than
    /// `wanted`.
    #[inline]
    fn available(&mut self, wanted: usize) -> usize {
        let mut available = self.cached_tail.wrapping_sub(self.head);
        if available < wanted {
            // P1/C1: pairs with the Release in `publish`.
            self.cached_tail = self.shared.tail.0.load(Ordering::Acquire);
            available = self.cached_tail.wrapping_sub(self.head);
        }
        available
    }

    /// Pops one item; `None` if the ring is empty.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.available(1) == 0 {
            return None;
        }
        let (slot, ..) = self.slots.runs(self.head, 1);
        // SAFETY: the slot at `head` holds an item that belongs to the consumer.
        let item = unsafe { slot.read() };
        self.publish(1);
        Some(item)
    }

    /// Pops up to `most` items and appends them to `items`, as far as its capacity allows. Returns
    /// the number of items popped.
    #[inline]
    pub fn pop_into(&mut self, items: &mut Vec<T>, most: usize) -> usize {
        let most = most.min(items.capacity() - items.len());
        let count = self.available(most).min(most);
        if count == 0 {
            return 0;
        }
        let (first, until_end, start, rest) = self.slots.runs(self.head, count);
        // SAFETY: the `count` slots from `head` hold items that belong to the consumer; `items` has
        // room for them behind its length. They are moved there, then counted.
        unsafe {
            let end = items.as_mut_ptr().add(items.len());
            move_items(first, end, until_end);
            if rest > 0 {
                move_items(start, end.add(until_end), rest);
            }
            items.set_len(items.len() + count);
        }
        self.publish(count);
        count
    }

    #[inline]
    fn publish(&mut self, count: usize) {
        self.head = self.head.wrapping_add(count);
        // C2/P2: pairs with the Acquire in `room`.
        self.shared.head.0.store(self.head, Ordering::Release);
    }

    /// Returns the current number of items. The producer may be adding more at the same time.
    pub fn len(&self) -> usize {
        self.shared.tail.0.load(Ordering::Acquire).wrapping_sub(self.head)
    }

    /// Returns whether the ring is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the ring is closed and empty.
    pub fn is_finished(&self) -> bool {
        // P3/C3: read `closed` first. If it is set, `len` sees all items that were pushed before.
        self.shared.closed.load(Ordering::Acquire) && self.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_record::random::Random;
    use std::collections::VecDeque;
    use std::sync::atomic::AtomicUsize as Count;

    #[test]
    fn behaves_as_a_bounded_queue() {
        let mut random = Random::new(1);
        let mut below = move |n: u64| random.below(n as usize) as u64;
        for capacity in [1, 2, 4, 64] {
            let (mut producer, mut consumer) = ring::<u64>(capacity);
            let mut model = VecDeque::new();
            let mut next = 0;
            for _ in 0..4_000 {
                if below(2) == 0 {
                    let mut items: Vec<u64> = (next..next + below(2 * capacity as u64)).collect();
                    let offered = items.clone();
                    let pushed = producer.push_from(&mut items);
                    assert_eq!(pushed, offered.len().min(capacity - model.len()));
                    assert_eq!(items, offered[pushed..]);
                    model.extend(&offered[..pushed]);
                    next += pushed as u64;
                } else {
                    let most = below(2 * capacity as u64) as usize;
                    let mut items = Vec::with_capacity(most);
                    let popped = consumer.pop_into(&mut items, most);
                    let expected: Vec<u64> = model.drain(..most.min(model.len())).collect();
                    assert_eq!((popped, items), (expected.len(), expected));
                }
                assert_eq!(consumer.len(), model.len());
            }
        }
    }

    #[test]
    fn one_at_a_time_and_in_bursts_mix() {
        let (mut producer, mut consumer) = ring(4);
        assert_eq!(consumer.pop(), None);
        for i in 0..4 {
            assert_eq!(producer.push(i), Ok(()));
        }
        assert_eq!(producer.push(4), Err(4));
        assert_eq!(consumer.pop(), Some(0));
        let mut items = Vec::with_capacity(8);
        assert_eq!(consumer.pop_into(&mut items, 8), 3);
        assert_eq!(items, [1, 2, 3]);
    }

    #[test]
    fn a_full_vector_is_not_grown() {
        let (mut producer, mut consumer) = ring(4);
        producer.push_from(&mut vec![1, 2, 3]);
        let mut items = Vec::with_capacity(2);
        let room = items.capacity();
        assert_eq!(consumer.pop_into(&mut items, 8), room.min(3));
        assert_eq!(items.capacity(), room);
    }

    #[test]
    fn items_left_inside_are_dropped_once() {
        struct Counted<'a>(&'a Count);
        impl Drop for Counted<'_> {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let drops = Count::new(0);
        let (mut producer, mut consumer) = ring(8);
        producer.push_from(&mut (0..6).map(|_| Counted(&drops)).collect());
        drop(consumer.pop());
        assert_eq!(drops.load(Ordering::Relaxed), 1);
        drop((producer, consumer));
        assert_eq!(drops.load(Ordering::Relaxed), 6);
    }

    #[test]
    fn two_threads_see_every_item_once_and_in_order() {
        let total = if cfg!(miri) { 400 } else { 200_000 };
        for (capacity, burst) in [(1, 1), (2, 3), (64, 7), (1024, 32)] {
            let (mut producer, mut consumer) = ring(capacity);
            let sender = std::thread::spawn(move || {
                let mut next = 0;
                let mut items = Vec::with_capacity(burst);
                while next < total || !items.is_empty() {
                    while items.len() < burst && next < total {
                        items.push(next);
                        next += 1;
                    }
                    if producer.push_from(&mut items) == 0 {
                        std::thread::yield_now();
                    }
                }
                producer.close();
            });
            let mut expected = 0;
            let mut items = Vec::with_capacity(burst);
            while !consumer.is_finished() {
                if consumer.pop_into(&mut items, burst) == 0 {
                    std::thread::yield_now();
                }
                for item in items.drain(..) {
                    assert_eq!(item, expected);
                    expected += 1;
                }
            }
            assert_eq!(expected, total);
            sender.join().expect("the sender does not panic");
        }
    }
}
