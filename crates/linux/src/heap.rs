// SPDX-License-Identifier: MIT OR Apache-2.0
//! A heap allocator that prints an error and exits if memory is refused.
//!
//! Rust aborts on a failed allocation, but on Linux allocations rarely fail: instead, the kernel
//! kills the process that touches more memory than is available. A program can therefore have the
//! heap check for room before each large allocation. If there is no room, or the kernel fails the
//! allocation, an error is printed to stderr and the program exits at once, because nothing that
//! needs memory could still run.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Minimum size, in bytes, of an allocation that is checked individually.
const LARGE_BYTES: usize = 1 << 20;

/// Minimum size, in bytes, of an allocation that is counted. Counted allocations are summed until
/// the next check, so that many small ones are checked like a large one.
const COUNTED_BYTES: usize = 16 << 10;

/// Total size, in bytes, of the allocations of at least [`COUNTED_BYTES`] since the last check.
static COUNTED: AtomicUsize = AtomicUsize::new(0);

/// A function that returns why there is no room for `bytes` more bytes in addition to the `held`
/// bytes already allocated, touched or not; `None` if there is room. It may allocate less than 1
/// MiB itself.
pub type Room = fn(bytes: usize, held: usize) -> Option<String>;

/// Total size, in bytes, of the allocations of at least [`COUNTED_BYTES`] that have not been freed.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// The function that decides on large allocations, and the exit status if it refuses one.
struct Guard {
    room: Room,
    status: i32,
}

static GUARD: OnceLock<Guard> = OnceLock::new();

/// The system allocator, except that a refused allocation exits with a message. For use as
/// `#[global_allocator]`.
pub struct Heap;

/// Lets `room` decide on large allocations from now on; a refusal exits with `status`. Before this
/// call, a refusal aborts the program. Only the first call has an effect.
pub fn guard(room: Room, status: u8) {
    // A guard that is already set is kept.
    let _ = GUARD.set(Guard { room, status: status.into() });
}

impl Heap {
    /// Counts an allocation of `bytes` bytes. Once the allocations since the last check add up to
    /// [`LARGE_BYTES`], checks whether there is room for `bytes` more, and exits if not.
    fn ask(bytes: usize) {
        if bytes < COUNTED_BYTES {
            return;
        }
        // Relaxed: nothing else depends on this sum.
        let counted = COUNTED.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if counted < LARGE_BYTES {
            return;
        }
        COUNTED.store(0, Ordering::Relaxed);
        // The room must also suffice for the allocations until the next check.
        let bytes = bytes.max(LARGE_BYTES);
        let Some(guard) = GUARD.get() else { return };
        if let Some(why) = (guard.room)(bytes, HELD.load(Ordering::Relaxed)) {
            end(guard, bytes, &why);
        }
    }

    /// Subtracts `bytes`, which are about to be freed, from the bytes held.
    fn back(bytes: usize) {
        if bytes >= COUNTED_BYTES {
            HELD.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Returns `start`, the system allocator's result for a request of `bytes` bytes. Exits if it
    /// is null.
    fn given(start: *mut u8, bytes: usize) -> *mut u8 {
        if bytes >= COUNTED_BYTES {
            HELD.fetch_add(bytes, Ordering::Relaxed);
        }
        match GUARD.get() {
            Some(guard) if start.is_null() => {
                end(guard, bytes, "the system refused the allocation")
            }
            _ => start,
        }
    }
}

// SAFETY: every call is passed unchanged to the system's heap, which upholds the contract; the
// additional code only reads, or ends the program.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::ask(layout.size());
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        Self::given(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::ask(layout.size());
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        Self::given(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        Self::back(layout.size());
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.dealloc(start, layout) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        Self::ask(bytes.saturating_sub(layout.size()));
        Self::back(layout.size());
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        Self::given(unsafe { System.realloc(start, layout, bytes) }, bytes)
    }
}

static ENDING: AtomicBool = AtomicBool::new(false);

/// Reports on stderr that an allocation of `bytes` was refused, and exits.
fn end(guard: &Guard, bytes: usize, why: &str) -> ! {
    // If another thread is already reporting a refusal, that thread exits the program.
    while ENDING.swap(true, Ordering::SeqCst) {
        std::thread::yield_now();
    }
    crate::terminal_modes::restore();
    let mut line = Line { bytes: [0; 512], length: 0 };
    // An overlong message is truncated.
    let _ = writeln!(
        line,
        "linerate: out of memory: cannot allocate {bytes} bytes: {why}; free memory, raise the \
         limit, or use fewer workers or smaller sizes"
    );
    // SAFETY: the bytes up to the length are in the array. If some bytes cannot be written, they
    // are lost.
    unsafe { libc::write(libc::STDERR_FILENO, line.bytes.as_ptr().cast(), line.length) };
    // SAFETY: takes a number and does not return.
    unsafe { libc::_exit(guard.status) }
}

/// A line of text on the stack, because the heap is unavailable.
struct Line {
    bytes: [u8; 512],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.len() - self.length;
        let taken = &text.as_bytes()[..text.len().min(room)];
        self.bytes[self.length..self.length + taken.len()].copy_from_slice(taken);
        self.length += taken.len();
        if taken.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_takes_what_fits() {
        let mut line = Line { bytes: [0; 512], length: 0 };
        assert!(write!(line, "{:600}", 1).is_err());
        assert_eq!(line.length, 512);
    }
}
