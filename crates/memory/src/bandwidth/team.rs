// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several threads, each pinned to its own CPU, that work at the same time.
//!
//! [`Member::ready`] is a barrier before each window, at which the threads learn whether to
//! continue; the decision is the same for all. Threads spin while waiting, yielding occasionally,
//! because a sleeping thread would start the window late.

use linerate_linux::{Error, pin_current_thread, yield_now};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Number of spins before a waiting thread yields the CPU.
const SPINS: u32 = 2000;

/// State shared by the threads of a team.
#[derive(Debug)]
pub(super) struct Crew {
    /// Number of members; 0 until all of them are known to have joined.
    size: AtomicUsize,
    /// How many threads are pinned to their CPU.
    pinned: AtomicUsize,
    arrived: AtomicUsize,
    /// Number of barriers that every member has reached.
    met: AtomicUsize,
    /// Index of the barrier after which the threads stop.
    last: AtomicUsize,
}

/// One thread's membership in a team.
#[derive(Debug)]
pub(super) struct Member<'a> {
    crew: &'a Crew,
    /// Member number. Member 0 is the calling thread, which makes the decisions.
    pub(super) number: usize,
    meetings: usize,
}

/// Value of `size` for a team that could not be completed.
const GIVEN_UP: usize = usize::MAX;

impl Crew {
    /// Pins the calling thread to its CPU and waits for the others; `None` if one of them cannot
    /// join.
    fn join(&self, number: usize, cpu: u32) -> Result<Option<Member<'_>>, Error> {
        pin_current_thread(cpu)?;
        self.pinned.fetch_add(1, Ordering::Relaxed);
        spin_until(|| self.size.load(Ordering::Acquire) != 0);
        let is_complete = self.size.load(Ordering::Relaxed) != GIVEN_UP;
        Ok(is_complete.then_some(Member { crew: self, number, meetings: 0 }))
    }
}

/// Ends all meetings if its thread panics, which would otherwise leave the other members waiting.
struct Abandoning<'a>(&'a Crew);

impl Drop for Abandoning<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.last.store(0, Ordering::Relaxed);
            // Pairs with the acquiring load of a waiting member.
            self.0.met.store(usize::MAX, Ordering::Release);
        }
    }
}

/// Runs a closure when dropped, even if a panic unwinds.
pub(super) struct Finally<F: FnMut()>(pub(super) F);

impl<F: FnMut()> Drop for Finally<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl Member<'_> {
    /// Waits until all members have arrived. Member 0's `go_on` decides whether the crew continues;
    /// all members get the same answer. After a panic of one member, no other waits or continues.
    pub(super) fn ready(&mut self, go_on: bool) -> bool {
        self.meetings += 1;
        let crew = self.crew;
        if self.number == 0 && !go_on {
            // The answer is stored before this meeting completes, so that every member sees it by
            // then. Members compare it with the meeting number, so a thread still leaving the
            // previous meeting does not mistake it for that meeting's answer.
            crew.last.fetch_min(self.meetings, Ordering::Relaxed);
        }
        let size = crew.size.load(Ordering::Relaxed);
        if crew.arrived.fetch_add(1, Ordering::AcqRel) + 1 == size {
            crew.arrived.store(0, Ordering::Relaxed);
            // Not a store: the crew may have been abandoned.
            crew.met.fetch_max(self.meetings, Ordering::Release);
        } else {
            spin_until(|| crew.met.load(Ordering::Acquire) >= self.meetings);
        }
        crew.last.load(Ordering::Relaxed) > self.meetings
    }
}

/// Spins until `is_so` returns true, yielding occasionally.
pub(super) fn spin_until(is_so: impl Fn() -> bool) {
    loop {
        for _ in 0..SPINS {
            if is_so() {
                return;
            }
            std::hint::spin_loop();
        }
        yield_now();
    }
}

/// Runs `own` on the calling thread, which is already pinned, while one thread per CPU in `others`
/// runs `theirs` with its element of `parts`. Returns all results.
///
/// # Errors
/// Returns an error, without running anything, if a thread cannot be started or pinned.
///
/// # Panics
/// Panics if the number of parts differs from the number of CPUs, or if a closure panics.
pub(super) fn run<R, P: Send, T: Send>(
    others: &[u32],
    parts: Vec<P>,
    own: impl FnOnce(Member<'_>) -> R,
    theirs: impl Fn(Member<'_>, P) -> T + Sync,
) -> Result<(R, Vec<T>), String> {
    assert_eq!(parts.len(), others.len(), "one part per CPU");
    let zero = || AtomicUsize::new(0);
    let last = AtomicUsize::new(usize::MAX);
    let crew = &Crew { size: zero(), pinned: zero(), arrived: zero(), met: zero(), last };
    let theirs = &theirs;
    thread::scope(|scope| {
        let mut threads = Vec::with_capacity(parts.len());
        let mut refusal = None;
        for (number, (&cpu, part)) in (1..).zip(others.iter().zip(parts)) {
            let work = move || -> Result<Option<T>, Error> {
                let _abandoning = Abandoning(crew);
                let member = crew.join(number, cpu)?;
                Ok(member.map(|member| theirs(member, part)))
            };
            match thread::Builder::new().spawn_scoped(scope, work) {
                Ok(thread) => threads.push(thread),
                Err(error) => refusal = Some(format!("a thread could not be started: {error}")),
            }
        }
        let is_there = || crew.pinned.load(Ordering::Relaxed) == others.len();
        spin_until(|| is_there() || refusal.is_some() || threads.iter().any(|t| t.is_finished()));
        let is_complete = is_there();
        let size = if is_complete { others.len() + 1 } else { GIVEN_UP };
        crew.size.store(size, Ordering::Release);
        let _abandoning = Abandoning(crew);
        let result = is_complete.then(|| own(Member { crew, number: 0, meetings: 0 }));
        let mut results = Vec::with_capacity(others.len());
        for thread in threads {
            match thread.join().expect("a thread of the team panicked") {
                Ok(result) => results.extend(result),
                Err(error) => refusal = refusal.or(Some(error.to_string())),
            }
        }
        let gone = || "a thread exited before it began measuring".to_owned();
        result.map(|result| (result, results)).ok_or_else(|| refusal.unwrap_or_else(gone))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_linux::allowed_cpus;
    use std::sync::atomic::AtomicBool;

    /// Returns CPUs for three additional threads. The threads may share a CPU, which is slow but
    /// must work.
    fn others() -> Vec<u32> {
        let cpus = allowed_cpus().unwrap();
        cpus.iter().cycle().skip(1).take(3).copied().collect()
    }

    /// Between two meetings, all threads are at the same step.
    #[test]
    fn all_are_at_the_same_step() {
        let steps = [const { AtomicUsize::new(0) }; 4];
        let program = |mut member: Member<'_>| {
            let mut apart = 0;
            for step in 1..=50 {
                steps[member.number].store(step, Ordering::Relaxed);
                assert!(member.ready(true));
                apart += steps.iter().filter(|s| s.load(Ordering::Relaxed) != step).count();
                assert!(member.ready(true));
            }
            (member.number, apart)
        };
        let seen = run(&others(), vec![(); 3], program, |member, ()| program(member));
        assert_eq!(seen, Ok(((0, 0), vec![(1, 0), (2, 0), (3, 0)])));
    }

    /// Only the first member decides when to stop.
    #[test]
    fn all_stop_at_the_same_step() {
        let program = |mut member: Member<'_>| {
            let mut steps = 0;
            while member.ready(member.number != 0 || steps < 20) {
                steps += 1;
            }
            steps
        };
        let steps = run(&others(), vec![(); 3], program, |member, ()| program(member));
        assert_eq!(steps, Ok((20, vec![20; 3])));
    }

    #[test]
    fn each_has_its_part() {
        let theirs = |member: Member<'_>, part| (member.number, part);
        let parts = run(&others(), vec![3, 1, 4], |member| member.number, theirs);
        assert_eq!(parts, Ok((0, vec![(1, 3), (2, 1), (3, 4)])));
        assert_eq!(run(&[], vec![], |_| 5, theirs), Ok((5, vec![])));
    }

    /// The others must not wait for a member that is gone.
    #[test]
    fn a_panic_of_one_ends_all() {
        for gone in [0, 2] {
            let program = |mut member: Member<'_>| {
                let mut steps = 0;
                while member.ready(true) {
                    steps += 1;
                    assert!(member.number != gone || steps < 5, "as intended");
                }
            };
            let all = || run(&others(), vec![(); 3], program, |member, ()| program(member));
            assert!(std::panic::catch_unwind(all).is_err(), "{gone}");
        }
    }

    #[test]
    fn a_processor_that_is_not_there_stops_all() {
        let mut cpus = others();
        cpus[1] = 60_000;
        let was_run = AtomicBool::new(false);
        let note = || was_run.store(true, Ordering::Relaxed);
        let error = run(&cpus, vec![(); 3], |_| note(), |_, ()| note());
        assert!(error.as_ref().is_err_and(|error| error.contains("60000")), "{error:?}");
        assert!(!was_run.into_inner());
    }
}
