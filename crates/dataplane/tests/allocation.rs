// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a run may allocate memory before it starts and after it ends, but not per packet.

mod common;

use common::{OPTIONS, mapping, path, run_on_one, stage};
use linerate_path::model::{RunLength, RunOptions, Sink};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: every call is forwarded unchanged to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `alloc`, which is that of the system
        // allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `dealloc`, and the pointer came from `alloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations(segments: &[(usize, u32)], packets: u64) -> u64 {
    let stages = ["drop", "number", "trim"].map(|kind| stage(kind, "", 0));
    let mut path = path(stages.to_vec());
    path.sink = Sink::Null;
    let options = RunOptions { length: RunLength::Packets(packets), ..OPTIONS };
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    run_on_one(&path, &mapping(segments), options).expect("runs");
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

#[test]
fn forty_times_the_packets_take_no_more_allocations() {
    for segments in [&[(3, 1)][..], &[(1, 2), (1, 1), (1, 2)]] {
        let few = allocations(segments, 10_000);
        let many = allocations(segments, 400_000);
        // The report has one more line for each drop cause and each clean window. Allocations per
        // packet would number hundreds of thousands.
        assert!(many < few + 200, "{segments:?}: {few} allocations, then {many}");
    }
}
