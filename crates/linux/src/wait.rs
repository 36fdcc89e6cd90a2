// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lets a thread sleep until another thread signals an event or a descriptor has data, and provides
//! a barrier that makes it cheap for the other thread to check whether a signal is needed.

use crate::Error;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

const DESCRIPTORS: &str = "raise the open-file limit (ulimit -n)";

/// Commands of membarrier(2), from linux/membarrier.h.
mod membarrier {
    pub(super) const PRIVATE_EXPEDITED: i32 = 1 << 3;
    pub(super) const REGISTER_PRIVATE_EXPEDITED: i32 = 1 << 4;
}

/// An event that any thread can signal and one thread waits for (eventfd(2)).
#[derive(Debug)]
pub struct Event(OwnedFd);

impl Event {
    /// Creates an event that is not signalled.
    ///
    /// # Errors
    /// Returns an error if the open-file limit is reached.
    pub fn new() -> Result<Self, Error> {
        // SAFETY: the call takes only numbers.
        let number = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if number < 0 {
            return Err(Error::last("eventfd", String::new(), DESCRIPTORS));
        }
        // SAFETY: the kernel has just opened it, and nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(number) }))
    }

    /// Signals the event, which wakes a thread that waits for it. Costs a system call.
    pub fn signal(&self) {
        let one = 1u64.to_ne_bytes();
        // A write fails only if the counter is at its maximum; the event is signalled then.
        // SAFETY: `one` is readable for its length during the call.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Clears the signal, if there is one. Costs a system call.
    pub fn clear(&self) {
        let mut count = [0u8; 8];
        // A read fails only if the event is not signalled, in which case there is nothing to clear.
        // SAFETY: `count` is writable for its length during the call.
        unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// The timeout expired, or a signal handler ran.
    Nothing,
    /// A descriptor has data, or the event is signalled.
    Data,
    /// A descriptor reports an error: its interface went down, or is gone.
    Error,
}

/// Descriptors to wait for, prepared once so that waiting does not allocate.
#[derive(Debug)]
pub struct WaitSet(Vec<libc::pollfd>);

impl WaitSet {
    /// Creates the set. The descriptors should outlive the set: the kernel reports a closed
    /// descriptor as [`Ready::Error`].
    pub fn new<'d>(descriptors: impl Iterator<Item = BorrowedFd<'d>>) -> Self {
        let entry = |descriptor: BorrowedFd<'_>| libc::pollfd {
            fd: descriptor.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        Self(descriptors.map(entry).collect())
    }

    /// Stops waiting for the descriptor at `index`, in the order of [`Self::new`].
    ///
    /// # Panics
    /// Panics if there is no such descriptor.
    pub fn leave_out(&mut self, index: usize) {
        // poll(2) ignores entries with negative descriptors.
        self.0[index].fd = -1;
    }

    /// Sleeps until a descriptor is ready, for at most `timeout` (ppoll(2)).
    pub fn wait(&mut self, timeout: Duration) -> Ready {
        let timeout = libc::timespec {
            tv_sec: timeout.as_secs() as _,
            tv_nsec: timeout.subsec_nanos() as libc::c_long,
        };
        let (entries, count) = (self.0.as_mut_ptr(), self.0.len() as libc::nfds_t);
        // SAFETY: `entries` is `count` entries, valid for reads and writes during the call.
        let ready = unsafe { libc::ppoll(entries, count, &raw const timeout, std::ptr::null()) };
        let failed = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
        match ready {
            ..=0 => Ready::Nothing,
            _ if self.0.iter().any(|entry| entry.revents & failed != 0) => Ready::Error,
            _ => Ready::Data,
        }
    }
}

/// Prepares the process for [`barrier_everywhere`]; returns whether the kernel supports it.
pub fn prepare_barrier() -> bool {
    membarrier(membarrier::REGISTER_PRIVATE_EXPEDITED)
}

/// Executes a full memory barrier on every CPU that is running a thread of this process, including
/// the calling thread (membarrier(2)). For threads that are not running, the context switch is the
/// barrier. Other threads then need only a compiler fence. Returns `false` if [`prepare_barrier`]
/// did not succeed. Costs a system call and an inter-processor interrupt per CPU.
pub fn barrier_everywhere() -> bool {
    membarrier(membarrier::PRIVATE_EXPEDITED)
}

fn membarrier(command: i32) -> bool {
    // SAFETY: the call takes only numbers.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Sets the calling thread's timer slack to 1 ns. By default, the kernel may delay timers by up to
/// 50 us to save wake-ups (prctl(2)).
pub fn use_precise_timers() {
    // SAFETY: the call takes only numbers. If it is refused, the timers keep their slack.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    const SHORT: Duration = Duration::from_millis(1);

    #[test]
    fn a_signal_stays_until_it_is_taken_back() {
        let event = Event::new().unwrap();
        let mut set = WaitSet::new([event.as_fd()].into_iter());
        assert_eq!(set.wait(SHORT), Ready::Nothing);
        event.signal();
        event.signal();
        assert_eq!([set.wait(SHORT), set.wait(SHORT)], [Ready::Data; 2]);
        event.clear();
        assert_eq!(set.wait(SHORT), Ready::Nothing);
    }

    #[test]
    fn data_and_the_end_of_a_peer_end_a_wait() {
        let event = Event::new().unwrap();
        let (near, far) = UnixStream::pair().unwrap();
        let mut set = WaitSet::new([event.as_fd(), near.as_fd()].into_iter());
        assert_eq!(set.wait(SHORT), Ready::Nothing);
        std::io::Write::write_all(&mut &far, b"x").unwrap();
        assert_eq!(set.wait(SHORT), Ready::Data);
        drop(far);
        assert_eq!(set.wait(SHORT), Ready::Error);
        set.leave_out(1);
        assert_eq!(set.wait(SHORT), Ready::Nothing, "only the event is left");
        event.signal();
        assert_eq!(set.wait(SHORT), Ready::Data);
    }

    #[test]
    fn the_barrier_is_there_once_it_is_prepared() {
        assert_eq!(prepare_barrier(), barrier_everywhere());
    }
}
