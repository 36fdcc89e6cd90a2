// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that handle requests and sleep while requests wait, but neither for input nor for a CPU.
//!
//! Each pending request is in one of these places: a thread works on it, or waits for a CPU to do
//! so; a thread that has taken it sleeps in the middle of it; or no thread has taken it yet. If
//! fewer threads work than requests are pending, the others wait for something else:
//!
//! ```text
//! held = requests pending - CPU demand of all threads
//! ```

use super::super::facts::Facts;
use super::super::measure::{is_go, is_go_monitor};
use super::super::requests;
use super::super::waits::{Wait, longest, named, time_in, wait_of};
use super::super::words::{label, percent};
use super::Doubt;
use linerate_record::units::three_digits;
use linerate_record::why::{RequestCounts, SleepTime, ThreadActivity, ThreadState};

/// Minimum fraction of readings in which a request is pending.
const PENDING: f64 = 0.5;
/// Minimum number of pending requests on which no thread works.
const HELD: f64 = 0.5;

/// Calls that flush the data written to a file to disk.
const SYNCS: [&str; 4] = ["fdatasync", "fsync", "msync", "sync_file_range"];

/// Returns the counts of requests if a request is pending most of the time.
fn pending<'a>(facts: &Facts<'a>) -> Option<&'a RequestCounts> {
    requests::counts(facts).filter(|counts| counts.pending_share >= PENDING)
}

fn asleep(thread: &ThreadActivity, is_meant: impl Fn(&SleepTime) -> bool) -> f64 {
    thread.asleep_on.iter().filter(|sleep| is_meant(sleep)).map(|sleep| sleep.share).sum()
}

fn is_futex(sleep: &SleepTime) -> bool {
    sleep.on.contains("futex")
}

fn syncs(sleep: &SleepTime) -> bool {
    SYNCS.contains(&sleep.on.as_str())
}

/// Returns the threads that sleep in futexes and go to sleep at least half as often as there are
/// requests per connection, as request-handling threads do.
fn in_futexes<'a>(facts: &Facts<'a>, counts: &RequestCounts) -> Vec<&'a ThreadActivity> {
    /// Minimum fraction of time in futexes.
    const SOME: f64 = 0.1;
    /// Minimum number of sleeps per request on a connection.
    const OFTEN: f64 = 0.5;
    let each = counts.requests as f64 / counts.connections.max(1) as f64;
    let is_one = |thread: &&ThreadActivity| {
        asleep(thread, is_futex) >= SOME
            && thread.voluntary_switches as f64 >= OFTEN * each.max(1.0)
            && !is_go_monitor(facts, thread)
    };
    facts.observation.threads.iter().filter(is_one).collect()
}

/// Detects a group commit: threads or processes that handle requests sleep in futexes, while one of
/// them, or another thread of the program, writes a file to the disk on behalf of all.
pub(in super::super) fn group_commit(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum fraction of time in which a thread is asleep in a call of [`SYNCS`]. The call also
    /// takes CPU time, and the threads that it wakes up wait for a CPU.
    const SYNCING: f64 = 0.05;
    /// Minimum number of threads asleep in futexes, on average.
    const WAITING: f64 = 0.5;
    let counts = pending(facts)?;
    let threads = in_futexes(facts, counts);
    let waiting: f64 = threads.iter().map(|thread| asleep(thread, is_futex)).sum();
    let all = || facts.observation.threads.iter();
    let syncing: f64 = all().map(|thread| asleep(thread, syncs)).sum();
    let call = longest(all().flat_map(|thread| &thread.asleep_on).filter(|sleep| syncs(sleep)))?;
    // Threads that wait for work, and not for a commit, have no requests.
    let is_held = counts.pending_mean >= 0.5 * (waiting + syncing);
    if threads.len() < 2 || waiting < WAITING || syncing < SYNCING || !is_held {
        return None;
    }
    let share = waiting / threads.len() as f64;
    let doubt = Doubt::new(
        format!(
            "Cannot tell how far the wait for storage (waiting_for_storage) limits the rate: on \
             average, {} requests are pending; {} threads that handle requests sleep in futexes {} \
             % of the time; and one thread at a time sleeps in {}, {} % of the time in total. This \
             is what a group commit looks like: one thread syncs for all, and the others wait \
             until it is done.",
            three_digits(counts.pending_mean),
            threads.len(),
            percent(share),
            named(call),
            percent(syncing)
        ),
        "Compare the rate with that of asynchronous commits (synchronous_commit=off in \
         PostgreSQL, innodb_flush_log_at_trx_commit=2 in MySQL, appendfsync everysec in Redis; a \
         crash then loses the last commits), or with that of a log on a faster disk. If it stays \
         the same, look for a lock (user_lock)",
    )?;
    let doubt = doubt.with("request-handling threads asleep in futexes", waiting, "threads");
    Some(doubt.with("time in which a thread sleeps in a sync call", syncing, "ratio"))
}

/// Detects a pool of threads that is smaller than the number of pending requests, while all its
/// threads sleep most of the time, waiting for something other than input.
pub(in super::super) fn small_pool(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum fraction of time that each thread sleeps in the middle of a request.
    const MOST: f64 = 0.5;
    /// Minimum number of I/O calls of the pool per request.
    const CALLS: f64 = 1.0;
    let counts = pending(facts).filter(|counts| counts.requests > 0)?;
    let calls = |thread: &ThreadActivity| thread.io_calls.unwrap_or(0) as f64;
    let does_most =
        facts.observation.threads.iter().max_by(|a, b| calls(a).total_cmp(&calls(b)))?;
    // Threads of a pool share the work, so each has a good part of the calls of the first. Another
    // thread may wait for input on behalf of all.
    let is_one = |thread: &&ThreadActivity| {
        thread.pid == does_most.pid
            && calls(thread) >= 0.5 * calls(does_most)
            && in_request(thread) >= MOST
    };
    let pool: Vec<&ThreadActivity> = facts.observation.threads.iter().filter(is_one).collect();
    let share = pool.iter().map(|one| in_request(one)).fold(1.0, f64::min);
    let of_pool: f64 = pool.iter().map(|one| calls(one)).sum();
    let of_all: f64 = facts.observation.threads.iter().map(calls).sum();
    let does_io = of_pool >= CALLS * counts.requests as f64 && 2.0 * of_pool >= of_all;
    let is_small = counts.pending_mean >= pool.len() as f64 + HELD
        && counts.pending_mean - demand(facts) >= HELD;
    let is_pool = pool.len() > 1 && !is_go(facts, does_most);
    if !is_pool || !does_io || !is_small {
        return None;
    }
    let on = longest(pool.iter().flat_map(|thread| &thread.asleep_on).filter(in_middle))?;
    let doubt = Doubt::new(
        format!(
            "Cannot tell why requests wait: on average, {} are pending, but all {} threads that \
             read and write on the connections ({} and others) sleep at least {} % of the time, \
             {}. Perhaps each request sleeps or waits for something else, so that the pool has too \
             few threads; or the threads wait for one another. (In an asynchronous runtime, a \
             waiting request does not occupy a thread.)",
            three_digits(counts.pending_mean),
            pool.len(),
            label(does_most),
            percent(share),
            match longest(&does_most.asleep_on).filter(|sleep| is_futex(sleep)) {
                Some(_) => "each in a futex (a lock, a condition or a timed wait)".to_owned(),
                None => format!("mostly in {}", named(on)),
            }
        ),
        format!(
            "Give the pool more threads and compare the rates; {} shows what its threads wait for",
            stacks(facts, does_most)
        ),
    )?;
    Some(doubt.with("requests pending, mean", counts.pending_mean, "requests"))
}

/// Returns the command that shows what the threads of a process wait for.
fn stacks(facts: &Facts<'_>, thread: &ThreadActivity) -> String {
    let is_own = |other: &&ThreadActivity| other.pid == thread.pid;
    let own = || facts.observation.threads.iter().filter(is_own);
    let is_java = own().any(|other| ["VM Thread", "GC Thread#0"].contains(&other.name.as_str()));
    match is_java {
        true => format!("jstack {}", thread.pid),
        false => format!("strace -f -T -p {}", thread.tid),
    }
}

/// Returns whether a thread sleeps in the middle of a request, rather than waiting for input.
fn in_middle(sleep: &&SleepTime) -> bool {
    matches!(wait_of(sleep), Wait::Thread | Wait::Timer | Wait::Other)
}

fn in_request(thread: &ThreadActivity) -> f64 {
    thread.asleep_on.iter().filter(in_middle).map(|sleep| sleep.share).sum()
}

/// Returns the CPU demand of all threads of the program, including those that ended, in CPUs.
fn demand(facts: &Facts<'_>) -> f64 {
    let ended = facts.observation.ended_threads_cpus.unwrap_or(0.0);
    let demand = |thread: &ThreadActivity| facts.part_of_window(thread) * thread.demand();
    ended + facts.observation.threads.iter().map(demand).sum::<f64>()
}

/// Detects requests on which no thread works, while the threads that handle requests sleep in
/// futexes: they wait for one another, or for another thread.
pub(super) fn held_by_others(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum fraction of the pending requests on which no thread works.
    const MUCH: f64 = 0.25;
    /// Minimum number of threads asleep in futexes per request on which no thread works.
    const EXPLAINED: f64 = 0.5;
    let counts = pending(facts)?;
    let held = counts.pending_mean - demand(facts);
    let threads = in_futexes(facts, counts);
    let waiting: f64 = threads.iter().map(|thread| asleep(thread, is_futex)).sum();
    let thread = threads.iter().copied().max_by(|a, b| {
        asleep(a, is_futex).total_cmp(&asleep(b, is_futex)).then(b.tid.cmp(&a.tid))
    })?;
    if held < HELD || held < MUCH * counts.pending_mean || waiting < EXPLAINED * held {
        return None;
    }
    let on_cpu = |one: &ThreadActivity| one.share_of(ThreadState::is_on_cpu);
    let works: f64 = threads.iter().map(|one| on_cpu(one)).sum();
    let input: f64 = threads.iter().filter_map(|one| time_in(one, Wait::Input)).sum();
    let doubt = Doubt::new(
        format!(
            "Cannot tell what delays the replies: on average, {} requests are pending, but at most \
             {} of them have a thread that works on them or waits for a CPU to do so. {} threads \
             that handle requests sleep in futexes ({} of them at a time on average; {} wait for \
             input, and {} are on a CPU): they may be waiting for a lock (user_lock), for a disk, \
             or for another thread.",
            three_digits(counts.pending_mean),
            three_digits((counts.pending_mean - held).max(0.0)),
            threads.len(),
            three_digits(waiting),
            three_digits(input),
            three_digits(works)
        ),
        match is_go(facts, thread) {
            true => super::GO_LOCKS.to_owned(),
            false => format!(
                "Find out what these threads wait for: strace -f -k -T -e futex -p {}, or gdb -p \
                 {} -batch -ex \"thread apply all bt\"",
                thread.pid, thread.pid
            ),
        },
    )?;
    Some(doubt.with("requests on which no thread works, mean", held, "requests"))
}
