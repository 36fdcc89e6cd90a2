// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels (checksum, copy and fill routines) called by one stage, with a log of the calls.
//!
//! Calls cannot be timed during the run: a call takes 10 to 100 ticks, about as long as two reads
//! of the timestamp counter. Instead, calls are logged in one of 64 iterations, picked at random,
//! and replayed after the run (see `replay`). Iterations in which stages are timed are never
//! logged, so logging does not affect service times.
//!
//! Header checksums are inlined (`linerate_kernels::checksum::header`), so they are not calls and
//! are not logged.

use linerate_kernels::checksum::Buffer;
use linerate_kernels::{Kernel, Kernels, Sum};

/// Log capacity in calls (192 KiB): more calls than a short capture has packets, so branches are as
/// hard to predict in the replay as in the run.
const LOGGED: usize = 1 << 14;

/// A logged kernel call on one buffer. A call that processes several buffers has one entry per
/// buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) bytes: u32,
    pub(crate) kernel: Kernel,
    /// Source address modulo 64; 0 if the kernel has no source.
    pub(crate) src: u8,
    /// Destination address modulo 64; 0 if the kernel has no destination.
    pub(crate) dst: u8,
    /// Whether this buffer was summed in the same call as the previous entry.
    pub(crate) is_same_call: bool,
    /// Whether this buffer was summed by [`StageKernels::checksum_burst`].
    pub(crate) is_burst: bool,
}

impl Call {
    fn new(kernel: Kernel, bytes: usize, src: *const u8, dst: *const u8) -> Self {
        let offset = |pointer: *const u8| (pointer.addr() % 64) as u8;
        Self {
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            kernel,
            src: offset(src),
            dst: offset(dst),
            is_same_call: false,
            is_burst: false,
        }
    }
}

/// Totals of one kernel's calls over all logged iterations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallTotal {
    pub(crate) calls: u64,
    pub(crate) bytes: u64,
}

/// The kernels (checksum, copy and fill routines) of one stage on one worker.
///
/// Logs the calls if the run requests it.
#[derive(Clone, Debug)]
pub struct StageKernels {
    kernels: Kernels,
    is_logging: bool,
    /// Log of the calls; `None` unless the run requests it.
    log: Option<Box<Log>>,
}

impl Default for StageKernels {
    /// Selects the best variant of each kernel for this CPU.
    fn default() -> Self {
        Self::new(Kernels::selected())
    }
}

impl StageKernels {
    /// Creates an instance with the given kernels and no log.
    pub fn new(kernels: Kernels) -> Self {
        Self { kernels, is_logging: false, log: None }
    }

    /// Creates an instance with the given kernels and a newly allocated log.
    pub(crate) fn logging(kernels: Kernels) -> Self {
        Self { kernels, is_logging: false, log: Some(Box::new(Log::new())) }
    }

    /// Adds `bytes` to the partial checksum `sum`.
    #[inline]
    pub fn checksum(&mut self, bytes: &[u8], sum: Sum) -> Sum {
        if self.is_logging {
            self.note(Kernel::Checksum, bytes.len(), bytes.as_ptr(), std::ptr::null());
        }
        self.kernels.checksum(bytes, sum)
    }

    /// Adds the checksum of each buffer to the sum with the same index. For short buffers, this is
    /// faster than one call to `checksum` per buffer.
    ///
    /// # Panics
    /// Panics if the numbers of buffers and sums differ.
    #[inline]
    pub fn checksum_burst(&mut self, buffers: &[Buffer<'_>], sums: &mut [Sum]) {
        if self.is_logging {
            self.note_burst(buffers);
        }
        self.kernels.checksum_burst(buffers, sums);
    }

    /// Copies `src` to `dst`.
    ///
    /// # Panics
    /// Panics if `dst` and `src` differ in length.
    #[inline]
    pub fn copy(&mut self, dst: &mut [u8], src: &[u8]) {
        if self.is_logging {
            self.note(Kernel::Copy, src.len(), src.as_ptr(), dst.as_ptr());
        }
        self.kernels.copy(dst, src);
    }

    /// Copies `src` to `dst` and adds the bytes to the partial checksum `sum`.
    ///
    /// # Panics
    /// Panics if `dst` and `src` differ in length.
    #[inline]
    pub fn copy_checksum(&mut self, dst: &mut [u8], src: &[u8], sum: Sum) -> Sum {
        if self.is_logging {
            self.note(Kernel::CopyChecksum, src.len(), src.as_ptr(), dst.as_ptr());
        }
        self.kernels.copy_checksum(dst, src, sum)
    }

    /// Sets all of `dst` to `value`.
    #[inline]
    pub fn fill(&mut self, dst: &mut [u8], value: u8) {
        if self.is_logging {
            self.note(Kernel::Fill, dst.len(), std::ptr::null(), dst.as_ptr());
        }
        self.kernels.fill(dst, value);
    }

    #[cold]
    #[inline(never)]
    fn note(&mut self, kernel: Kernel, bytes: usize, src: *const u8, dst: *const u8) {
        if let Some(log) = &mut self.log {
            log.note(Call::new(kernel, bytes, src, dst));
        }
    }

    #[cold]
    #[inline(never)]
    fn note_burst(&mut self, buffers: &[Buffer<'_>]) {
        let Some(log) = &mut self.log else { return };
        for (i, bytes) in buffers.iter().map(Buffer::bytes).enumerate() {
            let call = Call::new(Kernel::Checksum, bytes.len(), bytes.as_ptr(), std::ptr::null());
            log.note(Call { is_burst: true, is_same_call: i > 0, ..call });
        }
    }

    /// Begins a logged iteration, which lasts until [`StageKernels::end_turn`]. `given` is the
    /// number of packets passed to the stage so far.
    pub(crate) fn begin_turn(&mut self, given: u64) {
        if let Some(log) = &mut self.log {
            log.begin_turn(given);
            self.is_logging = true;
        }
    }

    /// Ends the logged iteration. `given` is the number of packets passed to the stage so far.
    pub(crate) fn end_turn(&mut self, given: u64) {
        self.is_logging = false;
        if let Some(log) = &mut self.log {
            log.packets += given - log.given;
        }
    }

    /// Returns the kernels without the log: calls through the result are not logged.
    pub(crate) fn kernels(&self) -> &Kernels {
        &self.kernels
    }

    /// Returns the number of packets passed to the stage in logged iterations.
    pub(crate) fn logged_packets(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| log.packets)
    }

    /// Returns the totals of all logged calls to `kernel`.
    pub(crate) fn total(&self, kernel: Kernel) -> CallTotal {
        self.log.as_ref().map_or_else(CallTotal::default, |log| log.totals[kernel as usize])
    }

    /// Returns the logged calls to `kernel`, in the order of the log.
    pub(crate) fn calls(&self, kernel: Kernel) -> Vec<Call> {
        let all = self.log.iter().flat_map(|log| &log.calls);
        all.filter(|call| call.kernel == kernel).copied().collect()
    }
}

/// A stage's log: totals over all logged iterations, and a random sample of their calls.
///
/// ```text
/// an iteration begins: keep it with probability LOGGED / calls so far (always, for the first
///                      LOGGED calls); its calls are written to the end of the log or, once the
///                      log is full, to consecutive entries from a random one on
/// a call:              count it; if its iteration is kept, write it to the next entry
/// ```
///
/// All calls of a kept iteration are written, but those of later iterations may overwrite some of
/// them.
#[derive(Clone, Debug)]
struct Log {
    calls: Vec<Call>,
    place: usize,
    is_kept: bool,
    /// Totals by kernel, indexed as in [`Kernel::ALL`].
    totals: [CallTotal; Kernel::ALL.len()],
    packets: u64,
    /// Number of packets passed to the stage before the current iteration.
    given: u64,
    random: fastrand::Rng,
}

impl Log {
    /// Creates an empty, fully allocated log. All logs use the same random sequence.
    fn new() -> Self {
        Self {
            calls: Vec::with_capacity(LOGGED),
            place: 0,
            is_kept: false,
            totals: Default::default(),
            packets: 0,
            given: 0,
            random: fastrand::Rng::with_seed(0),
        }
    }

    fn begin_turn(&mut self, given: u64) {
        self.given = given;
        let seen: u64 = self.totals.iter().map(|total| total.calls).sum();
        self.is_kept = self.random.u64(..seen.max(1)) < LOGGED as u64;
        let is_full = self.calls.len() == LOGGED;
        self.place = if is_full { self.random.usize(..LOGGED) } else { self.calls.len() };
    }

    fn note(&mut self, call: Call) {
        let total = &mut self.totals[call.kernel as usize];
        total.calls += 1;
        total.bytes += u64::from(call.bytes);
        if !self.is_kept {
            return;
        }
        self.place %= LOGGED;
        match self.calls.get_mut(self.place) {
            Some(old) => *old = call,
            None => self.calls.push(call),
        }
        self.place += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logs an iteration of `calls` calls, whose lengths encode the iteration and the call.
    fn turn(kernels: &mut StageKernels, turn: usize, calls: usize, bytes: &[u8]) {
        kernels.begin_turn(7 * turn as u64);
        for call in 0..calls {
            kernels.checksum(&bytes[..turn * calls + call], Sum::ZERO);
        }
        kernels.end_turn(7 * (turn as u64 + 1));
    }

    #[test]
    fn nothing_is_logged_outside_of_turns() {
        let mut kernels = StageKernels::logging(Kernels::selected());
        kernels.checksum(&[1; 40], Sum::ZERO);
        assert_eq!((kernels.total(Kernel::Checksum), kernels.logged_packets()), Default::default());
        assert!(kernels.calls(Kernel::Checksum).is_empty());
    }

    #[test]
    fn calls_are_kept_as_they_came_with_their_offsets() {
        let mut kernels = StageKernels::logging(Kernels::selected());
        let line = Vec::from([0_u8; 256]);
        let first = line.as_ptr().align_offset(64);
        let mut to = [0; 60];
        kernels.begin_turn(40);
        kernels.checksum(&line[first + 3..first + 43], Sum::ZERO);
        kernels.copy(&mut to[..20], &line[first + 1..first + 21]);
        kernels.fill(&mut to, 9);
        kernels.copy_checksum(&mut to[..10], &line[first..first + 10], Sum::ZERO);
        kernels.end_turn(42);
        let at = (to.as_ptr().addr() % 64) as u8;
        let expected = [
            (Kernel::Checksum, 40, 3, 0),
            (Kernel::Copy, 20, 1, at),
            (Kernel::CopyChecksum, 10, 0, at),
            (Kernel::Fill, 60, 0, at),
        ];
        for (kernel, bytes, src, dst) in expected {
            let call = Call { bytes, kernel, src, dst, is_same_call: false, is_burst: false };
            assert_eq!(kernels.calls(kernel), [call]);
            assert_eq!(kernels.total(kernel), CallTotal { calls: 1, bytes: bytes.into() });
        }
        assert_eq!(kernels.logged_packets(), 2);
    }

    #[test]
    fn buffers_of_a_burst_are_logged_as_calls_that_belong_together() {
        let mut kernels = StageKernels::logging(Kernels::selected());
        let bytes = [7; 90];
        let buffers = [20, 0, 90].map(|length| Buffer::new(&bytes[..length]));
        kernels.begin_turn(0);
        kernels.checksum_burst(&buffers, &mut [Sum::ZERO; 3]);
        kernels.checksum_burst(&buffers[..1], &mut [Sum::ZERO]);
        kernels.checksum(&bytes[..30], Sum::ZERO);
        kernels.end_turn(5);
        let calls = kernels.calls(Kernel::Checksum);
        let logged = calls.iter().map(|call| (call.bytes, call.is_burst, call.is_same_call));
        let expected = [
            (20, true, false),
            (0, true, true),
            (90, true, true),
            (20, true, false),
            (30, false, false),
        ];
        assert!(logged.eq(expected), "{calls:?}");
        assert_eq!(kernels.total(Kernel::Checksum), CallTotal { calls: 5, bytes: 160 });
    }

    #[test]
    fn a_full_log_samples_the_whole_run_evenly() {
        const TURNS: usize = 4_000;
        const CALLS: usize = 16;
        let bytes = vec![0; TURNS * CALLS];
        let mut kernels =
            StageKernels::logging(Kernels::by_name("portable").expect("always there"));
        (0..TURNS).for_each(|n| turn(&mut kernels, n, CALLS, &bytes));
        let calls = kernels.calls(Kernel::Checksum);
        assert_eq!(calls.len(), LOGGED);
        assert_eq!(kernels.total(Kernel::Checksum).calls, (TURNS * CALLS) as u64);
        assert_eq!(kernels.logged_packets(), 7 * TURNS as u64);
        // The calls of an iteration that have not been overwritten are consecutive.
        let follows = |pair: &&[Call]| pair[1].bytes == pair[0].bytes + 1;
        let breaks = calls.windows(2).filter(|pair| !follows(pair)).count();
        assert!(breaks < 2 * LOGGED / CALLS, "{breaks}");
        let early = calls.iter().filter(|call| (call.bytes as usize) < TURNS * CALLS / 2).count();
        let share = early as f64 / LOGGED as f64;
        // Overwritten calls are drawn with replacement, which slightly favours later iterations.
        assert!((0.4..0.6).contains(&share), "{share}");
    }
}
