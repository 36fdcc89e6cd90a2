// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a thread polls with system calls and, if so, how much of its time is work.

use super::Facts;
use linerate_record::stats::Estimate;
use linerate_record::why::{ThreadActivity, ThreadState};

impl Facts<'_> {
    /// Returns whether most of a thread's system calls return nothing, judging by its calls per
    /// packet.
    pub(super) fn asks_often(&self, thread: &ThreadActivity) -> bool {
        const CALLS: f64 = 20.0;
        let packets = self.packets_for_calls();
        thread
            .system_calls
            .zip(packets)
            .is_some_and(|(calls, packets)| calls as f64 >= CALLS * packets)
    }

    /// Returns whether a thread spends nearly all its CPU time in the kernel.
    pub(super) fn is_in_kernel(thread: &ThreadActivity) -> bool {
        const MOST: f64 = 0.9;
        let kernel = |state| matches!(state, ThreadState::Kernel | ThreadState::Interrupts);
        let on_cpu = thread.share_of(ThreadState::is_on_cpu);
        on_cpu > 0.0 && thread.share_of(kernel) >= MOST * on_cpu
    }

    /// Returns the busy fraction of a thread that may poll using system calls, which samples cannot
    /// distinguish from work. A thread with few calls per packet does not poll; if the number of
    /// calls is unknown, it may poll.
    pub(super) fn busy_in_calls(
        &self,
        thread: &ThreadActivity,
        fit: Estimate,
        on_cpu: Estimate,
    ) -> Estimate {
        /// Calls per packet above which half of the calls may return nothing.
        const CALLS: f64 = 2.0;
        let packets = self.packets_for_calls();
        match thread.system_calls.zip(packets).map(|(calls, packets)| calls as f64 / packets) {
            Some(calls) if calls <= CALLS => on_cpu,
            Some(_) => fit,
            None => Estimate { high: on_cpu.high.max(fit.high), ..fit },
        }
    }

    /// Returns whether a thread reads its sockets too rarely to be polling them. Each poll of a
    /// socket is a system call, so a polling thread makes many per packet and spends much of its
    /// time in them. A thread that polls memory makes none, but it does not read the sockets.
    /// `kernel` is the kernel fraction of its CPU time.
    pub(super) fn seldom_asks(&self, thread: &ThreadActivity, kernel: f64) -> bool {
        /// Minimum kernel fraction of the CPU time of a thread that polls with system calls; such
        /// threads reach 50 % or more.
        const KERNEL: f64 = 0.2;
        /// Calls per packet above which most return nothing.
        const CALLS: f64 = 20.0;
        let packets = self.packets_for_calls();
        let calls = thread.system_calls.zip(packets).map(|(calls, n)| calls as f64 / n);
        let is_seldom = calls.is_none_or(|calls| calls <= CALLS);
        // The packets of connections that are closed after one request are not counted.
        let passes = packets.is_some() || self.accepts();
        self.uses_stack()
            && passes
            && kernel <= KERNEL
            && is_seldom
            && (self.is_awaited() || self.may_read_sockets(thread, kernel))
    }

    /// Returns the number of packets to which the number of system calls refers; `None` if unknown
    /// or 0.
    fn packets_for_calls(&self) -> Option<f64> {
        self.packets_one_way().filter(|packets| *packets > 0).map(|packets| packets as f64)
    }

    /// Returns whether clients wait for a reply nearly all the time, while the program seldom waits
    /// for another server: a thread that is always on a CPU then works for the clients.
    fn is_awaited(&self) -> bool {
        /// Minimum fraction of readings with a pending request.
        const MOST: f64 = 0.9;
        /// Maximum fraction of readings in which the program waits for another server, too.
        const AWAITING: f64 = 0.3;
        /// Minimum number of readings.
        const READINGS: u64 = 5;
        self.observation.requests.as_ref().is_some_and(|one| {
            one.readings >= READINGS && one.pending_share >= MOST && one.awaiting_share <= AWAITING
        })
    }

    /// Returns whether a thread that never sleeps may be the one that reads the program's sockets,
    /// rather than one that polls memory: a ring that another thread fills, or a port of a NIC next
    /// to a control connection.
    fn may_read_sockets(&self, thread: &ThreadActivity, kernel: f64) -> bool {
        /// Minimum kernel fraction of the CPU time, and minimum number of calls per packet, of a
        /// thread that reads and writes sockets.
        const KERNEL: f64 = 0.005;
        const CALLS: f64 = 0.01;
        /// Maximum CPU time per packet, in seconds. A slower program would keep its clients
        /// waiting.
        const MOST_S: f64 = 0.01;
        /// Maximum CPU time per packet, in seconds, of the only thread of a process, which cannot
        /// poll memory that another thread fills.
        const MOST_ALONE_S: f64 = 0.1;
        let packets = self.packets().filter(|packets| *packets > 0).map(|packets| packets as f64);
        let ran_s = thread.share_of(ThreadState::is_on_cpu) * thread.elapsed_s;
        let calls = thread.system_calls.zip(packets);
        let of_process = self.observation.threads.iter().filter(|one| one.pid == thread.pid);
        let is_alone = self.observation.threads_left_out == 0 && of_process.count() == 1;
        if is_alone && packets.is_none_or(|packets| ran_s <= MOST_ALONE_S * packets) {
            return true;
        }
        kernel >= KERNEL
            && calls.is_none_or(|(calls, packets)| calls as f64 >= CALLS * packets)
            && packets.is_none_or(|packets| ran_s <= MOST_S * packets)
            && !self.others_handle_packets(thread)
    }
}
