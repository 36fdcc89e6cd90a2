// SPDX-License-Identifier: MIT OR Apache-2.0
//! Puts a worker to sleep until a neighbour pushes packets. No wake-up is lost, and while the
//! worker is awake, the cost to the neighbour is next to nothing.
//!
//! ```text
//! worker: S1 state = asleep              neighbour: P1 push: publish the ring's tail
//!         S2 barrier on all CPUs                    P2 compiler barrier
//!         S3 is a ring non-empty? then awake        P3 is state asleep? then set it to awake
//!         S4 wait for the event                            and signal the event
//! ```
//!
//! **No wake-up is lost.** Suppose that the worker waits in S4 although an item is in a ring and no
//! signal is pending. Then S3 did not see P1, and P3 did not see S1. S2 executes a full barrier on
//! the neighbour's CPU (membarrier(2)), at some point of the neighbour's program. If that point is
//! after P1, the item was visible before S2 ended, so S3 saw it. If that point is before P1, P3 is
//! executed after the barrier as well: P2 keeps the compiler from moving P3 before P1, and the
//! barrier keeps the CPU from executing P3 early. S1 was visible by then, so P3 saw it. Both cases
//! contradict the assumption. A neighbour that is not running passes the barrier when it is
//! scheduled. Without membarrier, P2 is a CPU fence, and the argument is Dekker's: of two threads
//! that each write, fence, and read what the other wrote, at least one sees the other's write.
//!
//! When the worker wakes up, it swaps `state` to awake. If a neighbour has already done so, that
//! neighbour has sent or will send a signal. A late signal ends the worker's next wait early, and
//! the worker then finds nothing to do.
//!
//! The module `tests` explores all interleavings of this protocol on a model of a machine with
//! store buffers. It also shows that the protocol fails without S2.

use linerate_linux as linux;
use linerate_linux::{Event, Ready, WaitSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence, fence};
use std::time::Duration;

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

/// Wakes one worker. Has a cache line of its own, which is written only when the worker falls
/// asleep or is woken, so it usually stays in the cache of every neighbour.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Waker {
    state: AtomicU32,
    /// Whether neighbours must execute a CPU fence because the kernel lacks membarrier(2).
    fences: bool,
    event: Event,
}

impl Waker {
    /// Creates the waker of a worker that is awake.
    ///
    /// # Errors
    /// Returns an error if the limit on open files is reached.
    pub(crate) fn new() -> Result<Self, linux::Error> {
        static BARRIER: OnceLock<bool> = OnceLock::new();
        let fences = !*BARRIER.get_or_init(linux::prepare_barrier);
        Ok(Self { state: AtomicU32::new(AWAKE), fences, event: Event::new()? })
    }

    /// Wakes the worker if it is asleep. Call after publishing packets to the worker. While the
    /// worker is awake, a call costs two loads of cached lines and two branches that are never
    /// taken.
    #[inline]
    pub(crate) fn notify(&self) {
        if self.fences {
            fence(Ordering::SeqCst);
        } else {
            compiler_fence(Ordering::SeqCst);
        }
        // Relaxed: this is P3, which the barriers above order.
        if self.state.load(Ordering::Relaxed) == ASLEEP {
            self.wake();
        }
    }

    #[cold]
    #[inline(never)]
    fn wake(&self) {
        // Relaxed: only the winner of the swap signals; the event orders everything else.
        if self.state.swap(AWAKE, Ordering::Relaxed) == ASLEEP {
            self.event.signal();
        }
    }

    /// Executes S1 and S2 (see the module documentation), so every neighbour sees S1 before S3
    /// reads the rings.
    fn fall_asleep(&self) {
        // Relaxed: this is S1, which the barriers below order.
        self.state.store(ASLEEP, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !self.fences {
            linux::barrier_everywhere();
        }
    }

    fn wake_up(&self) {
        // Relaxed: as in `wake`.
        if self.state.swap(AWAKE, Ordering::Relaxed) == AWAKE {
            self.event.clear();
        }
    }
}

/// How a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slept {
    /// The worker did not sleep: packets were available, or the run was ending.
    NotAtAll,
    /// The sleep timed out.
    InFull,
    /// A neighbour, a frame or the end of the run woke the worker.
    Woken,
    /// An interface reports an error.
    Failed,
}

/// What a worker needs to sleep: its waker, and the file descriptors that can wake it.
pub(crate) struct Sleeper {
    pub(crate) waker: Arc<Waker>,
    set: WaitSet,
}

impl Sleeper {
    /// Creates the sleeper of a worker that is woken by `waker`, or by data on one of
    /// `descriptors`.
    pub(crate) fn new<'d>(
        waker: &'d Arc<Waker>,
        descriptors: impl Iterator<Item = BorrowedFd<'d>>,
    ) -> Self {
        let event = waker.event.as_fd();
        let set = WaitSet::new(descriptors.chain([event]));
        Self { waker: Arc::clone(waker), set }
    }

    /// Stops waiting for data on the descriptor at `index`, in the order of [`Self::new`].
    pub(crate) fn leave_out(&mut self, index: usize) {
        self.set.leave_out(index);
    }

    /// Sleeps for at most `timeout`. Does not sleep if `is_ready` returns true; it is called once
    /// other threads can see that the worker is about to sleep.
    pub(crate) fn sleep(&mut self, is_ready: impl FnOnce() -> bool, timeout: Duration) -> Slept {
        self.waker.fall_asleep();
        let slept = if is_ready() {
            Slept::NotAtAll
        } else {
            match self.set.wait(timeout) {
                Ready::Nothing => Slept::InFull,
                Ready::Data => Slept::Woken,
                Ready::Error => Slept::Failed,
            }
        };
        self.waker.wake_up();
        slept
    }
}

#[cfg(test)]
mod tests;
