// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that wait for a lock whose holder sleeps: in a request to another server, in a disk
//! write or on a timer. No CPU is busy then, and each thread looks idle. (Threads that contend for
//! a lock around CPU work sleep briefly and often; another rule covers them.)
//!
//! Some calls wait for nothing but a lock (flock, semop). A futex may also be a condition variable
//! on which an idle thread waits for work. The two are distinguished by the number of unanswered
//! requests: an idle thread has none, but each thread that waits for a lock holds up one:
//!
//! ```text
//! group    = threads that wait in lock calls, or in futexes, and handle requests: they share the
//!            futex, or also block on sockets, and sleep about once per request
//! waiting  = sum of their shares of time in these calls
//! holding  = sum of their other time, except waiting for requests
//! a lock   if requests pending >= max(holding, requests at other servers) + waiting / 2
//!          and holding >= 0.4, because one of the threads holds the lock
//! ```
//!
//! If the waiting threads are idle, only the requests being handled are pending, and their number
//! is `holding`. Without TCP, requests are not counted. A lock is then inferred from a datagram
//! socket whose queue is never empty while its readers sleep on the same futex, or from lock calls,
//! unless the holder waits for requests (as with a lock around accept).
//!
//! A futex that is known to be a mutex ([`waits::is_at_mutex`]) is a lock in any case, and its
//! holder is known unless the holder changes. The mutex is a bottleneck unless its holder waits for
//! requests, or the number of pending requests is below half the number of waiting threads:
//!
//! ```text
//! a lock   if requests pending >= waiting / 2, or if they are unknown
//! ```

use super::facts::{Facts, Subject, share};
use super::requests;
use super::roles::on_servers;
use super::waits::{self, Wait, is_at_mutex, named, wait_of};
use linerate_record::stats::Estimate;
use linerate_record::why::{SleepTime, SocketCounts, SocketKind, ThreadActivity};
use std::collections::BTreeMap;

/// Minimum fraction of time in a call for a thread to belong to the group.
const MEMBER: f64 = 0.1;
/// Minimum value of `waiting`; below it, the effect is small.
const WAITING: f64 = 0.5;
/// Minimum fraction of time in waits for mutexes, for a thread that never gets the mutex.
const NEVER_RELEASED: f64 = 0.9;
/// Minimum value of `holding`: one of the threads holds the lock, except while it is handed over.
const HOLDING: f64 = 0.4;

/// A queue of threads behind a lock.
pub(super) struct Queue<'a> {
    /// Mean number of threads that wait for the lock.
    pub(super) waiting: f64,
    /// Mean number of threads that hold the lock; a semaphore can have more than one holder.
    pub(super) holding: f64,
    /// The call in which a thread waits longest, with its object.
    pub(super) call: String,
    /// What the holder sleeps in most of the time; `None` if it mostly runs.
    pub(super) holder: Option<String>,
    /// The thread that holds the mutex, if it is always the same.
    pub(super) owner: Option<Owner<'a>>,
}

/// The thread that holds a mutex or, if that thread waits for another mutex, the thread at the end
/// of the chain.
#[derive(Clone, Copy)]
pub(super) struct Owner<'a> {
    pub(super) thread: &'a ThreadActivity,
    /// Whether the thread waits for a mutex whose holder, directly or indirectly, waits for this
    /// thread.
    pub(super) is_in_deadlock: bool,
}

impl<'a> Owner<'a> {
    /// Follows the chain of mutexes, starting at the thread that holds the first one.
    fn behind(facts: &Facts<'a>, first: &'a ThreadActivity) -> Self {
        let (mut seen, mut thread) = (vec![first.tid], first);
        while let Some(next) = waits_for(facts, thread) {
            if seen.contains(&next.tid) {
                return Self { thread: first, is_in_deadlock: true };
            }
            seen.push(next.tid);
            thread = next;
        }
        Self { thread, is_in_deadlock: false }
    }
}

/// Returns the thread that holds the mutex for which a thread waits all the time; `None` if it does
/// not wait for one.
fn waits_for<'a>(facts: &Facts<'a>, thread: &'a ThreadActivity) -> Option<&'a ThreadActivity> {
    let mutex = waits::longest(thread.asleep_on.iter().filter(|sleep| is_at_mutex(sleep)))?;
    let tid = mutex.holder.filter(|_| mutex.share >= NEVER_RELEASED)?;
    facts.observation.threads.iter().find(|other| (other.pid, other.tid) == (thread.pid, tid))
}

/// Returns the threads that wait for a lock; `None` if there are none, or if they may be idle.
pub(super) fn queue<'a>(facts: &Facts<'a>) -> Option<Queue<'a>> {
    let group = group(facts);
    let (waiting, holding) = (group.waiting(), group.holding(facts));
    if waiting >= WAITING && group.is_behind_mutex(facts) {
        return Some(group.queue(facts, waiting));
    }
    if group.threads.len() < 2 || waiting < WAITING || holding < HOLDING {
        return None;
    }
    let is_locked = match requests::counts(facts) {
        Some(counts) => {
            let active = holding.max(counts.awaiting_mean);
            group.handles(facts) && counts.pending_mean >= active + 0.5 * waiting
        }
        None => group.leaves_input(facts) || group.is_of_lock_calls(facts),
    };
    is_locked.then(|| group.queue(facts, waiting))
}

/// Returns the threads of a group if all but one of them sleep on the same futex at any time, and
/// it is unknown whether they handle requests.
pub(super) fn one_at_a_time<'a>(facts: &Facts<'a>) -> Option<Queue<'a>> {
    /// Range of the mean number of threads that are not waiting.
    const ONE: std::ops::RangeInclusive<f64> = 0.8..=1.25;
    /// Minimum number of threads.
    const THREADS: usize = 3;
    /// Minimum number of sleeps per second of all threads of the group together.
    const SLEEPS: f64 = 100.0;
    let group = group(facts);
    let not_waiting = group.threads.len() as f64 - group.waiting();
    let sleeps: u64 = group.threads.iter().map(|one| one.thread.voluntary_switches).sum();
    let is_it = requests::counts(facts).is_none()
        && group.threads.len() >= THREADS
        && group.shares_futex()
        && ONE.contains(&not_waiting)
        && group.holding(facts) >= HOLDING
        && sleeps as f64 >= SLEEPS * facts.elapsed();
    is_it.then(|| group.queue(facts, group.waiting()))
}

/// A thread that may wait for a lock.
struct Member<'a> {
    thread: &'a ThreadActivity,
    /// The longest of the sleeps that may be waits for a lock.
    longest: &'a SleepTime,
    /// Fraction of time in calls that may be waits for a lock.
    waits: f64,
}

struct Group<'a> {
    threads: Vec<Member<'a>>,
}

fn may_be_lock(sleep: &&SleepTime) -> bool {
    wait_of(sleep) == Wait::Lock || sleep.on.contains("futex")
}

fn group<'a>(facts: &Facts<'a>) -> Group<'a> {
    let member = |thread: &'a ThreadActivity| {
        let sleeps = || thread.asleep_on.iter().filter(may_be_lock);
        let longest = waits::longest(sleeps())?;
        let waits = sleeps().map(|sleep| sleep.share).sum();
        (waits >= MEMBER).then_some(Member { thread, longest, waits })
    };
    let mut threads: Vec<Member<'a>> =
        facts.observation.threads.iter().filter_map(member).collect();
    threads.retain(|one| !follows(facts, one));
    let least = sleeps_of_handlers(facts, threads.len());
    threads.retain(|one| {
        one.thread.voluntary_switches as f64 >= least || mutex_share(one.thread) >= NEVER_RELEASED
    });
    let mut users = BTreeMap::<(u32, &str), usize>::new();
    for one in &threads {
        *users.entry((one.thread.pid, object(one.longest))).or_default() += 1;
    }
    let is_shared = |one: &Member<'_>| users.get(&(one.thread.pid, object(one.longest))) > Some(&1);
    let handles =
        |one: &Member<'_>| wait_of(one.longest) == Wait::Lock || blocks_on_socket(one.thread);
    let chosen: Vec<bool> = threads.iter().map(|one| is_shared(one) || handles(one)).collect();
    let chosen = threads.into_iter().zip(chosen);
    Group { threads: chosen.filter_map(|(one, is_chosen)| is_chosen.then_some(one)).collect() }
}

/// Returns the minimum number of sleeps of a thread that handles requests: half of its share of the
/// requests. Background threads sleep less often.
fn sleeps_of_handlers(facts: &Facts<'_>, threads: usize) -> f64 {
    const OF_REQUESTS: f64 = 0.5;
    let counts = requests::counts(facts).map_or((0, 1), |one| (one.requests, one.connections));
    OF_REQUESTS * counts.0 as f64 / counts.1.max(threads as u64).max(1) as f64
}

/// Returns the fraction of time that a thread waits for mutexes.
fn mutex_share(thread: &ThreadActivity) -> f64 {
    thread.asleep_on.iter().filter(|sleep| is_at_mutex(sleep)).map(|sleep| sleep.share).sum()
}

/// Returns the thread that holds the mutex for which a thread waits; `None` if it is unknown.
fn owner<'a>(facts: &Facts<'a>, one: &Member<'a>) -> Option<&'a ThreadActivity> {
    let tid = one.longest.holder?;
    facts.observation.threads.iter().find(|other| (other.pid, other.tid) == (one.thread.pid, tid))
}

/// Returns whether a thread waits for a mutex whose holder waits for requests on behalf of all
/// threads, and passes the mutex on when one arrives.
fn follows<'a>(facts: &Facts<'a>, one: &Member<'a>) -> bool {
    /// Minimum fraction of the holder's time spent waiting for requests.
    const MOST: f64 = 0.5;
    owner(facts, one).is_some_and(|leader| {
        let input = waits::time_in(leader, Wait::Input).unwrap_or(0.0);
        input - on_servers(facts, leader) >= MOST
    })
}

fn object(sleep: &SleepTime) -> &str {
    sleep.object.as_deref().unwrap_or_default()
}

/// Returns whether a thread waits for data from a single socket, as threads do that serve one
/// connection at a time.
fn blocks_on_socket(thread: &ThreadActivity) -> bool {
    let is_socket = |sleep: &SleepTime| {
        ["tcp ", "unix", "udp "].iter().any(|kind| object(sleep).starts_with(kind))
    };
    thread.asleep_on.iter().any(is_socket)
}

impl<'a> Group<'a> {
    /// Returns whether the threads wait mostly for mutexes that are held throughout, while enough
    /// requests are pending.
    fn is_behind_mutex(&self, facts: &Facts<'a>) -> bool {
        let waiting = self.waiting();
        let known: f64 = self.threads.iter().map(|one| mutex_share(one.thread)).sum();
        let is_held = self.owner(facts).is_some() || self.holding(facts) >= HOLDING;
        let pending = requests::counts(facts)
            .map_or(f64::INFINITY, |counts| counts.pending_mean + counts.silent as f64);
        known >= 0.5 * waiting && is_held && pending >= 0.5 * waiting
    }

    /// Returns the thread that holds the mutexes for which the group waits most of the time; `None`
    /// if it is unknown, or if there is no such thread.
    fn owner(&self, facts: &Facts<'a>) -> Option<&'a ThreadActivity> {
        let mut owners = BTreeMap::<u32, (f64, &ThreadActivity)>::new();
        for one in &self.threads {
            if let Some(thread) = owner(facts, one) {
                owners.entry(thread.tid).or_insert((0.0, thread)).0 += one.longest.share;
            }
        }
        let (share, thread) = owners.into_values().max_by(|a, b| a.0.total_cmp(&b.0))?;
        (share >= 0.5 * self.waiting()).then_some(thread)
    }

    fn waiting(&self) -> f64 {
        self.threads.iter().map(|one| one.waits).sum()
    }

    /// Returns the mean number of threads that neither wait for a lock nor are idle.
    fn holding(&self, facts: &Facts<'a>) -> f64 {
        let of = |one: &Member<'_>| {
            let input = waits::time_in(one.thread, Wait::Input).unwrap_or(0.0);
            (1.0 - one.waits - (input - on_servers(facts, one.thread)).max(0.0)).max(0.0)
        };
        self.threads.iter().map(of).sum()
    }

    /// Returns whether the threads sleep often enough to be the ones that handle the requests.
    fn handles(&self, facts: &Facts<'a>) -> bool {
        /// Minimum number of sleeps per request.
        const SLEEPS: f64 = 0.5;
        let requests = requests::counts(facts).map_or(0, |counts| counts.requests);
        let sleeps: u64 = self.threads.iter().map(|one| one.thread.voluntary_switches).sum();
        requests > 0 && sleeps as f64 >= SLEEPS * requests as f64
    }

    /// Returns whether a datagram socket is left unread while its readers wait for the lock.
    fn leaves_input(&self, facts: &Facts<'a>) -> bool {
        /// Minimum fraction of readings with unread data.
        const UNREAD: f64 = 0.9;
        let is_unread = |socket: &&SocketCounts| {
            Facts::readings(socket).is_some()
                && socket.receive_queue_share.is_some_and(|share| share >= UNREAD)
        };
        let sockets = facts.observation.sockets.iter();
        let mut unread = sockets
            .filter(|s| matches!(s.kind, SocketKind::Udp | SocketKind::Unix))
            .filter(is_unread);
        self.shares_futex()
            && unread.any(|socket| {
                let reader = facts.thread(Subject::Socket(socket));
                reader.is_some_and(|reader| {
                    self.threads.iter().any(|one| one.thread.tid == reader.tid && one.waits >= 0.5)
                })
            })
    }

    /// Returns whether most of the waiting time is in calls that wait for nothing but a lock, and
    /// the holder does not wait for requests.
    fn is_of_lock_calls(&self, facts: &Facts<'a>) -> bool {
        let calls = self.threads.iter().filter_map(|one| waits::time_in(one.thread, Wait::Lock));
        let rest = self.threads.len() as f64 - self.waiting();
        calls.sum::<f64>() >= 0.5 * self.waiting() && self.holding(facts) >= 0.5 * rest
    }

    /// Returns whether all threads of the group wait on the same futex most of the time.
    fn shares_futex(&self) -> bool {
        let Some(first) = self.threads.first() else { return false };
        let is_same = |one: &Member<'_>| {
            !object(one.longest).is_empty()
                && object(one.longest) == object(first.longest)
                && one.longest.share >= MEMBER
        };
        self.threads.iter().all(is_same)
    }

    fn queue(&self, facts: &Facts<'a>, waiting: f64) -> Queue<'a> {
        let longest = waits::longest(self.threads.iter().map(|one| one.longest));
        Queue {
            waiting,
            holding: self.holding(facts),
            call: longest.map_or_else(String::new, named),
            holder: self.holder(facts),
            owner: self.owner(facts).map(|thread| Owner::behind(facts, thread)),
        }
    }

    /// Returns the call in which the threads sleep longest, apart from waits for the lock or for
    /// requests; `None` if the threads spend more time running than sleeping in this call.
    fn holder(&self, facts: &Facts<'a>) -> Option<String> {
        let mut sleeps = BTreeMap::<String, f64>::new();
        for one in &self.threads {
            let on_server = on_servers(facts, one.thread) > 0.0;
            let others = one.thread.asleep_on.iter().filter(|sleep| !may_be_lock(sleep));
            for sleep in others.filter(|sleep| wait_of(sleep) != Wait::Input || on_server) {
                *sleeps.entry(named(sleep)).or_default() += sleep.share;
            }
        }
        let runs: f64 = self.threads.iter().map(|one| one.thread.demand()).sum();
        let (call, share) = sleeps.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        (share > runs).then_some(call)
    }
}

/// Returns the mean number of threads that wait for a lock, with the error of sampled shares.
pub(super) fn waiting(facts: &Facts<'_>) -> Option<Estimate> {
    queue(facts).map(|queue| share(queue.waiting))
}
