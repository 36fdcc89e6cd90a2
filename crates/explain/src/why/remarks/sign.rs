// SPDX-License-Identifier: MIT OR Apache-2.0
//! Signs: the quantities that conditions of remarks refer to.

use super::super::facts::{Facts, Subject, counted, sampled, share};
use super::super::functions::{file_name, is_nameless, is_of_kernel};
use super::super::measure::Measure;
use linerate_record::stats::Estimate;
use linerate_record::why::{
    CpuCounts, FunctionTime, PacketCount, SocketCounts, ThreadActivity, ThreadState, WrittenFile,
};

/// A quantity. Shares range from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// A measure of the rules for causes.
    Of(Measure),
    /// 1 if the name of the program's process is that of a tool of Valgrind, otherwise 0.
    Valgrind,
    /// Mean number of connections in an accept queue.
    AcceptQueue,
    /// Time that the busiest thread sleeps.
    BusiestAsleep,
    /// Timer interrupts per second on the CPU that handles the fewest.
    TimerInterrupts,
    /// Timer interrupts on the CPU that handles the most, relative to the one that handles the
    /// fewest.
    TimersUnlike,
    /// Number of CPUs.
    Cpus,
    /// Packets that a CPU took from its backlog or from an interface, per second.
    PacketsPerSecond,
    /// Time that a CPU spends in interrupts per packet, in microseconds.
    InterruptUs,
    /// TCP segments received in the program's network namespace, relative to the packets of all
    /// CPUs; not known unless the program's packets are counted as UDP datagrams.
    Segments,
    /// Bytes per second that the program writes to the log to which it writes most.
    LogBytes,
    /// The same bytes per packet.
    LogBytesPerPacket,
    /// Calls of write and similar functions per second.
    WriteCalls,
    /// Fraction of the busiest thread's samples in the hottest function that belongs neither to the
    /// kernel nor to the C library.
    OwnFunction,
    /// Fraction of the busiest thread's samples in the hottest function of the C library.
    LibcFunction,
    /// Number of samples of the busiest thread.
    Samples,
}

impl Sign {
    /// Returns the value for a subject; `None` if it could not be read.
    pub(in super::super) fn of<'a>(
        self,
        facts: &Facts<'a>,
        subject: Subject<'a>,
    ) -> Option<Estimate> {
        let observation = facts.observation;
        match (self, subject) {
            (Self::Of(measure), _) => measure.of(facts, subject),
            (Self::Valgrind, _) => {
                Some(Estimate::exactly(f64::from(is_of_valgrind(&observation.watched.name))))
            }
            (Self::AcceptQueue, Subject::Socket(socket)) => Some(queue(socket)),
            (Self::BusiestAsleep, _) => {
                Facts::time(facts.busiest()?, |state| state == ThreadState::Asleep)
            }
            (Self::TimerInterrupts, _) => counted(timers(facts).min()?, facts.elapsed()),
            (Self::TimersUnlike, _) => {
                let least = timers(facts).min().filter(|least| *least > 0)? as f64;
                Some(Estimate::exactly(timers(facts).max()? as f64 / least))
            }
            (Self::Cpus, _) => Some(Estimate::exactly(facts.cpus() as f64)),
            (Self::PacketsPerSecond, Subject::Cpu(cpu)) => {
                counted(cpu.backlog_processed, facts.elapsed())
            }
            (Self::InterruptUs, Subject::Cpu(cpu)) => {
                let us = 1e6 * facts.elapsed();
                let packets = Some(cpu.backlog_processed).filter(|packets| *packets > 0)?;
                Some(share(cpu.interrupts).scale(us / packets as f64))
            }
            (Self::Segments, _) => {
                let count = observation.packets.as_ref()?;
                let handled: u64 = observation.cpus.iter().map(|cpu| cpu.backlog_processed).sum();
                let segments = facts.protocol("Tcp.InSegs")? as f64;
                let are_datagrams = count.counter == PacketCount::DATAGRAMS && handled > 0;
                are_datagrams.then(|| Estimate::exactly(segments / handled as f64))
            }
            (Self::LogBytes, _) => counted(most_written(facts)?.bytes, facts.elapsed()),
            (Self::LogBytesPerPacket, _) => {
                let packets = facts.packets().filter(|packets| *packets > 0)?;
                Some(Estimate::exactly(most_written(facts)?.bytes as f64 / packets as f64))
            }
            (Self::WriteCalls, _) => {
                // The kernel adds the calls of a child that ended to those of its parent.
                let is_own = observation.ended_children_cpus.is_none_or(|cpus| cpus == 0.0);
                let writes = observation.file_writes.as_ref().filter(|_| is_own)?;
                counted(writes.calls?, facts.elapsed())
            }
            (Self::OwnFunction, _) => {
                let thread = facts.busiest()?;
                let hottest = own_function(facts, thread)?;
                Some(sampled(hottest.share.min(1.0), thread.samples))
            }
            (Self::LibcFunction, _) => {
                let thread = facts.busiest()?;
                let hottest = libc_function(facts, thread)?;
                Some(sampled(hottest.share.min(1.0), thread.samples))
            }
            (Self::Samples, _) => Some(Estimate::exactly(facts.busiest()?.samples as f64)),
            _ => None,
        }
    }

    /// Returns the title and unit under which the value is listed as evidence.
    pub fn title(self) -> (&'static str, &'static str) {
        match self {
            Self::Of(measure) => measure.title(),
            Self::Valgrind => ("named as a tool of Valgrind", "1 = yes"),
            Self::AcceptQueue => ("connections in the accept queue", "connections"),
            Self::BusiestAsleep => ("time that the busiest thread sleeps", "ratio"),
            Self::TimerInterrupts => ("timer interrupts on every CPU", "1/s"),
            Self::TimersUnlike => ("timer interrupts, most / fewest on a CPU", "ratio"),
            Self::Cpus => ("CPUs", "CPUs"),
            Self::PacketsPerSecond => ("packets handled by the CPU", "1/s"),
            Self::InterruptUs => ("time in interrupts per packet", "us"),
            Self::Segments => {
                ("TCP segments / packets on all CPUs, for a program that uses UDP", "ratio")
            }
            Self::LogBytes => ("bytes written to a log", "B/s"),
            Self::LogBytesPerPacket => ("bytes written to the log per packet", "B"),
            Self::WriteCalls => ("calls to write and similar functions", "1/s"),
            Self::OwnFunction => ("samples in one function of the program", "ratio"),
            Self::LibcFunction => ("samples in one function of the C library", "ratio"),
            Self::Samples => ("samples of the busiest thread", "samples"),
        }
    }
}

/// Returns whether a process has the name of a tool of Valgrind, such as `memcheck-amd64-`.
fn is_of_valgrind(name: &str) -> bool {
    const TOOLS: [&str; 7] =
        ["memcheck-", "callgrind-", "cachegrind-", "helgrind-", "massif-", "drd-", "dhat-"];
    TOOLS.iter().any(|tool| name.starts_with(tool))
}

/// Returns the mean length of a listening socket's accept queue. The spread between readings is not
/// recorded.
fn queue(socket: &SocketCounts) -> Estimate {
    Estimate::exactly(socket.receive_queue_mean)
}

/// Iterates over the number of local timer interrupts on each CPU.
fn timers(facts: &Facts<'_>) -> impl Iterator<Item = u64> {
    let count = |cpu: &CpuCounts| cpu.hardware_interrupts.get("LOC").copied().unwrap_or(0);
    facts.observation.cpus.iter().map(count)
}

/// Returns the log to which the program writes most bytes, judged by its path.
pub(super) fn most_written<'a>(facts: &Facts<'a>) -> Option<&'a WrittenFile> {
    facts.observation.file_writes.as_ref()?.files.iter().find(|file| is_log(&file.path))
}

/// Returns whether a path is that of a log: a file in a folder for logs, or one named as a log.
fn is_log(path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let is_log = |word: &str| word == "log" || word == "logs";
    folder.split('/').any(is_log)
        || name.split(|c: char| !c.is_ascii_alphanumeric()).any(is_log)
        || name == "nohup.out"
}

/// Returns the function of the C library that has the most samples of a thread; `None` if it has
/// none, or if there are too few samples for shares. The variants that glibc selects at run time,
/// such as those of strlen, have no symbol in a stripped library.
pub(super) fn libc_function<'a>(
    facts: &Facts<'_>,
    thread: &'a ThreadActivity,
) -> Option<&'a FunctionTime> {
    hottest(facts, thread, |function| is_libc(file_name(function)))
}

/// Like [`libc_function`], for functions with a name that belong neither to the kernel nor to the C
/// library.
pub(super) fn own_function<'a>(
    facts: &Facts<'_>,
    thread: &'a ThreadActivity,
) -> Option<&'a FunctionTime> {
    let is_elsewhere = |one: &FunctionTime| is_of_kernel(one) || is_libc(file_name(one));
    hottest(facts, thread, |function| !is_elsewhere(function) && !is_nameless(function))
}

fn hottest<'a>(
    facts: &Facts<'_>,
    thread: &'a ThreadActivity,
    is_wanted: impl Fn(&FunctionTime) -> bool,
) -> Option<&'a FunctionTime> {
    let is_work = |one: &&FunctionTime| is_wanted(one) && one.is_polling != Some(true);
    let functions = thread.functions.iter().filter(is_work);
    let functions = functions.filter(|_| facts.has_enough_samples(thread));
    functions.max_by(|a, b| a.share.total_cmp(&b.share))
}

/// Returns whether a file is a part of glibc or musl, or an allocator that replaces theirs.
fn is_libc(file: &str) -> bool {
    const LIBRARIES: [&str; 10] = [
        "libc.so",
        "libc-2",
        "libc.musl-",
        "ld-musl-",
        "libm.so",
        "libm-2",
        "libpthread",
        "libjemalloc",
        "libtcmalloc",
        "libmimalloc",
    ];
    LIBRARIES.iter().any(|library| file.starts_with(library))
}

#[cfg(test)]
mod tests {
    use super::{is_libc, is_log, is_of_valgrind};

    #[test]
    fn the_c_library_is_known_by_its_file() {
        let glibc = ["libc.so.6", "libc-2.31.so", "libm.so.6", "libpthread-2.31.so"];
        let musl = ["libc.musl-x86_64.so.1", "ld-musl-aarch64.so.1"];
        let allocators = ["libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2.0"];
        for file in glibc.into_iter().chain(musl).chain(allocators) {
            assert!(is_libc(file), "{file}");
        }
        for file in ["kernel", "server", "libcrypto.so.3", "libc++.so.1", "libmnl.so.0", "[vdso]"] {
            assert!(!is_libc(file), "{file}");
        }
    }

    #[test]
    fn logs_are_known_by_their_path() {
        let logs =
            ["/var/log/nginx/access", "/srv/app.log", "/srv/app.log.1", "/x/log-2026", "nohup.out"];
        assert!(logs.into_iter().all(is_log));
        let others =
            ["/var/lib/redis/appendonly.aof", "/srv/blog/post", "/tmp/x.pcap", "/logo.svg"];
        assert!(!others.into_iter().any(is_log));
    }

    #[test]
    fn tools_of_valgrind_are_known_by_their_process() {
        assert!(is_of_valgrind("memcheck-amd64-") && is_of_valgrind("callgrind-amd64"));
        assert!(!is_of_valgrind("memcached") && !is_of_valgrind("valgrind-report"));
    }
}
