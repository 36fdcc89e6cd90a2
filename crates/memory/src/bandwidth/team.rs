// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several threads, each pinned to its own CPU, that do the same work at the same time.
//!
//! All threads run the same code. They meet at [`Crew::ready`] before each window to decide whether
//! to continue; the answer is the same for all. They wait by spinning, yielding the processor
//! occasionally: a thread that is asleep when the window begins would be late.
//!
//! Left out: the work that they do.

use linerate_linux::{Error, pin_current_thread, yield_now};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Number of spins before a thread yields the CPU.
const SPINS: u32 = 2000;

/// State shared by the threads of a team.
#[derive(Debug)]
pub(super) struct Crew {
    /// Number of members; 0 until it is known that all of them can take part.
    size: AtomicUsize,
    /// Number of threads that are pinned to their CPU.
    pinned: AtomicUsize,
    arrived: AtomicUsize,
    /// Number of meetings that every member has reached.
    met: AtomicUsize,
    /// Number of the meeting after which there is nothing more to do.
    last: AtomicUsize,
}

/// A thread's place in a crew.
#[derive(Debug)]
pub(super) struct Member<'a> {
    crew: &'a Crew,
    /// Member number; 0 for the calling thread, which decides.
    pub(super) number: usize,
    meetings: usize,
}

/// Value of `size` that marks a crew that was never complete.
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

impl Member<'_> {
    /// Waits until all members have arrived. The `go_on` of member 0 decides whether the crew
    /// continues; all members get the same answer.
    pub(super) fn ready(&mut self, go_on: bool) -> bool {
        self.meetings += 1;
        let crew = self.crew;
        if self.number == 0 && !go_on {
            // The answer is stored before this meeting is complete, so that all members see it when
            // the meeting is complete. Members compare it with the number of the meeting, so a
            // thread that is still leaving the previous meeting does not mistake it for the answer
            // of that meeting.
            crew.last.store(self.meetings, Ordering::Relaxed);
        }
        let size = crew.size.load(Ordering::Relaxed);
        if crew.arrived.fetch_add(1, Ordering::AcqRel) + 1 == size {
            crew.arrived.store(0, Ordering::Relaxed);
            crew.met.store(self.meetings, Ordering::Release);
        } else {
            spin_until(|| crew.met.load(Ordering::Acquire) >= self.meetings);
        }
        crew.last.load(Ordering::Relaxed) > self.meetings
    }
}

/// Spins, yielding from time to time.
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

/// Runs `own` on the calling thread, which is already pinned, and at the same time `theirs` on one
/// thread per CPU in `others`, each with its part of `parts`. Returns all results.
///
/// # Errors
/// A thread could not be started or pinned; nothing was run.
///
/// # Panics
/// The number of parts differs from the number of processors, or one of the two closures panics.
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
        let result = is_complete.then(|| own(Member { crew, number: 0, meetings: 0 }));
        let mut results = Vec::with_capacity(others.len());
        for thread in threads {
            match thread.join().expect("a thread of the team panicked") {
                Ok(result) => results.extend(result),
                Err(error) => refusal = refusal.or(Some(error.to_string())),
            }
        }
        let gone = || "a thread ended before it began measuring".to_owned();
        result.map(|result| (result, results)).ok_or_else(|| refusal.unwrap_or_else(gone))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_linux::allowed_cpus;
    use std::sync::atomic::AtomicBool;

    /// CPUs for three threads in addition to the calling one. Some threads may share a CPU, which
    /// is slow but must work.
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
