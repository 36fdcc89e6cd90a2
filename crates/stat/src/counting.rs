// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts with the kernel's perf events, one run after another.
//!
//! A single thread waits for whichever comes first: the end of the target, a signal, the end of a
//! slice or interval, or the next scan for new threads.

use crate::emulation::is_simulated;
use crate::measured::{Ground, Measured};
use crate::requested::RequestedEvent;
use crate::run::{Run, ns};
use crate::runner::{Runner, repeat};
use crate::tallies::Tallies;
use crate::threads::{self, Threads};
use crate::waited::{Waited, Woken};
use crate::{Progress, StatError, What, row, usage};
use linerate_counters::catalog::Catalog;
use linerate_counters::event::{Class, Event};
use linerate_counters::session::{Options, Scope, Session};
use linerate_doctor::refusal::{Explainer, Explanation};
use linerate_linux::child::{self, Ended, ExecError, GLANCE, Stranger};
use linerate_linux::monotonic_ns;
use linerate_linux::signal::TERMINATE;
use linerate_record::Tier;
use linerate_record::stat::{IntervalCounts, ThreadCounts};
use std::time::Duration;

/// Counts with the kernel's perf events, in as many runs as requested.
pub(crate) fn measure(runner: &Runner<'_>, catalog: &Catalog) -> Result<Measured, StatError> {
    let (runs, cut_short) = repeat(runner, |number| {
        let mut run = run(runner, number)?;
        usage::fill(&mut run, &runner.asked.events);
        Ok(run)
    })?;
    let ground = Ground {
        table: catalog.table(),
        is_known_processor: catalog.is_known_processor(),
        caches: None,
    };
    Ok(Measured { asked: runner.asked.clone(), runs, cut_short, ground, warnings: Vec::new() })
}

/// Measures one run; `number` is its index, starting with 0.
fn run(runner: &Runner<'_>, number: u32) -> Result<Run, StatError> {
    match &runner.request.what {
        What::Command { argv } => {
            let forked_ns = monotonic_ns();
            let held = child::fork_held(&argv[0], &argv[1..]).map_err(StatError::System)?;
            let counting = open(runner, &Scope::Held(held.pid()), number)?;
            let mut run = counting.count(|| held.release().map(Waited::Child))?;
            if let Some(Ok(ended)) = run.command {
                run.since_fork_ns = ended.at_ns.saturating_sub(forked_ns);
            }
            Ok(run)
        }
        What::Process(pid) => {
            let stranger = Stranger::find(*pid)
                .map_err(|error| StatError::NoTarget { reason: error.to_string() })?;
            let counting = open(runner, &Scope::Process(*pid), number)?;
            counting.count(|| Ok(Waited::Stranger(stranger)))
        }
        What::Cpus(cpus) => {
            let counting = open(runner, &Scope::Cpus(cpus.clone()), number)?;
            counting.count(|| Ok(Waited::Nothing))
        }
    }
}

fn options(
    runner: &Runner<'_>,
    places: &[Option<usize>],
    events: &[Event],
    number: u32,
) -> Options {
    // Scale counts by the unit of work if it is always counted, otherwise by time.
    let unit = runner.asked.unit.and_then(|unit| places[unit]);
    Options {
        user_only: match runner.request.tier {
            Some(Tier::Hw) => Some(false),
            Some(Tier::User) => Some(true),
            _ => None,
        },
        inherit: true,
        slice: runner.request.slice,
        seed: runner.request.seed.wrapping_add(number.into()),
        scale_by: unit.filter(|unit| events[*unit].class != Class::Hardware),
        // Each thread is counted by its own session and by that of its process.
        sessions: if runner.request.threads { 2 } else { 1 },
    }
}

/// Opens every event that can be opened.
fn open<'a>(runner: &Runner<'a>, scope: &Scope, number: u32) -> Result<Counting<'a>, StatError> {
    let events: Vec<Event> =
        runner.asked.events.iter().filter_map(|asked| asked.event.clone().ok()).collect();
    let mut opened = 0..events.len();
    let place = |asked: &RequestedEvent| asked.event.is_ok().then(|| opened.next()).flatten();
    let places: Vec<Option<usize>> = runner.asked.events.iter().map(place).collect();
    let options = options(runner, &places, &events, number);
    let session = Session::open(runner.opener, runner.around.root(), &events, scope, &options);
    let threads =
        (runner.request.threads).then(|| Threads::new(*runner, events, options, scope)).flatten();
    let mut counting = Counting {
        runner: *runner,
        places,
        explained: vec![None; session.events().len()],
        session,
        threads,
        began_ns: 0,
        interval_began_ns: 0,
        intervals: Vec::new(),
        interrupted: false,
        at_time: None,
    };
    counting.check_and_report(number)?;
    Ok(counting)
}

/// A run in progress.
struct Counting<'a> {
    runner: Runner<'a>,
    /// For each requested event, its index in the session; `None` if it was not opened.
    places: Vec<Option<usize>>,
    session: Session,
    /// For each event of the session, the reason if it was refused.
    explained: Vec<Option<Explanation>>,
    threads: Option<Threads<'a>>,
    began_ns: u64,
    interval_began_ns: u64,
    intervals: Vec<IntervalCounts>,
    interrupted: bool,
    /// Counts at the time limit, if it was reached.
    at_time: Option<Counted>,
}

/// Everything counted until counting ended.
struct Counted {
    elapsed_ns: u64,
    tallies: Tallies,
    threads: Vec<ThreadCounts>,
}

impl Counting<'_> {
    fn check_and_report(&mut self, number: u32) -> Result<(), StatError> {
        let asked = &self.runner.asked.events;
        if self.runner.request.strict {
            self.explain();
            if let Some(reason) = super::refused(asked, &self.refusals()) {
                return Err(StatError::Refused { reason });
            }
        }
        let plan = self.session.plan();
        if plan.is_rotating() && number == 0 {
            let name = |place: &usize| asked[*place].name.clone();
            let sets = self.sets();
            let sets: Vec<Vec<String>> =
                sets.iter().map(|set| set.iter().map(name).collect()).collect();
            let least = plan.shortest_run();
            (self.runner.watch.tell)(Progress::Budget { sets: &sets, slice: plan.slice, least });
        }
        Ok(())
    }

    /// Returns, for each requested event, why it is not counted.
    fn refusals(&self) -> Vec<Option<Explanation>> {
        let asked = self.runner.asked.events.iter().zip(&self.places);
        let refusal = asked.map(|(asked, place)| match place {
            Some(place) => self.explained[*place].as_ref(),
            None => asked.event.as_ref().err(),
        });
        refusal.map(Option::<&Explanation>::cloned).collect()
    }

    /// Determines the reasons for refusals that do not have one yet.
    fn explain(&mut self) {
        let explainer = Explainer::new(self.runner.around, self.runner.is_known_processor);
        let events = self.session.outcomes().iter().zip(self.session.events());
        for ((outcome, event), explained) in events.zip(&mut self.explained) {
            if let (Err(refusal), None) = (outcome, &explained) {
                let explanation = explainer.explain(refusal, event);
                *explained = Some(explanation.for_event(&event.name, is_simulated(&event.name)));
            }
        }
    }

    /// Returns the multiplexed sets, as indices of requested events.
    fn sets(&self) -> Vec<Vec<usize>> {
        let plan = self.session.plan();
        let sets = plan.sets.iter().filter(|_| plan.is_rotating());
        sets.map(|set| set.iter().filter_map(|event| self.place(*event)).collect()).collect()
    }

    /// Returns a session event's index in the list of requested events.
    fn place(&self, event: usize) -> Option<usize> {
        self.places.iter().position(|place| *place == Some(event))
    }

    /// Returns, for each requested event, whether only user mode is counted.
    fn is_user_only(&self) -> Vec<bool> {
        let user_only =
            |place: &Option<usize>| place.is_some_and(|place| self.session.is_user_only(place));
        self.places.iter().map(user_only).collect()
    }

    /// Returns the evidence tier of each requested event.
    fn tiers(&self) -> Vec<Tier> {
        let asked = self.runner.asked.events.iter().zip(self.is_user_only());
        asked.map(|(asked, is_user_only)| row::tier(asked, is_user_only)).collect()
    }

    /// Starts the target, lets it run, and reads the counters.
    fn count(
        mut self,
        let_go: impl FnOnce() -> Result<Waited, ExecError>,
    ) -> Result<Run, StatError> {
        let turn = self.session.start().map_err(|error| StatError::NoTarget {
            reason: format!("cannot start counting: {error}"),
        })?;
        self.began_ns = monotonic_ns();
        self.interval_began_ns = self.began_ns;
        let early = self.runner.watch.signals.take();
        let ended = match let_go() {
            Ok(mut waited) => {
                self.interrupted = early.is_some();
                let shall_end = self.runner.handle_early_signal(early, &waited);
                // The reasons for refusals are determined only now, because that takes longer than
                // opening the events.
                self.explain();
                if shall_end { None } else { self.follow(&mut waited, turn) }
            }
            Err(error) => return Ok(Run::not_begun(error, self.tiers())),
        };
        let is_time_up = self.at_time.is_some();
        let end_ns = ended.map_or_else(monotonic_ns, |ended| ended.at_ns);
        let counted = self.at_time.take().unwrap_or_else(|| self.stop(end_ns));
        Ok(Run {
            is_user_only: self.is_user_only(),
            tier: self.session.tier(),
            sets: self.sets(),
            scaled_by: self.session.scaled_by().and_then(|event| self.place(event)),
            interrupted: self.interrupted,
            is_time_up,
            elapsed_ns: counted.elapsed_ns,
            command: ended.map(Ok),
            threads: counted.threads,
            intervals: std::mem::take(&mut self.intervals),
            ..Run::new(counted.tallies, self.refusals(), self.tiers())
        })
    }

    /// Stops counting at the time `end_ns`, and returns the counts.
    fn stop(&mut self, end_ns: u64) -> Counted {
        self.session.stop();
        if self.runner.request.interval.is_some() {
            self.end_interval(end_ns);
        }
        let tallies = Tallies::counted(self.session.finish(), &self.places);
        self.explain();
        let threads = self.threads.take().map_or_else(Vec::new, |threads| {
            threads.finish(&self.places, &tallies, &self.tiers(), &self.refusals())
        });
        Counted { elapsed_ns: end_ns.saturating_sub(self.began_ns), tallies, threads }
    }

    /// Waits until the target ends, or until counting should end.
    fn follow(&mut self, waited: &mut Waited, turn: Duration) -> Option<Ended> {
        let request = self.runner.request;
        let after = |time: Option<Duration>| {
            time.map_or(u64::MAX, |time| self.began_ns.saturating_add(ns(time)))
        };
        let mut turn_ns = after(Some(turn));
        let mut interval_ns = after(request.interval);
        let mut threads_ns = after(self.threads.as_ref().map(|_| Duration::ZERO));
        let end_ns = after(request.at_most);
        loop {
            let now_ns = monotonic_ns();
            if now_ns >= turn_ns {
                turn_ns = now_ns.saturating_add(ns(self.session.turn()));
            }
            if now_ns >= interval_ns {
                self.end_interval(now_ns);
                interval_ns = next(interval_ns, request.interval.map_or(u64::MAX, ns), now_ns);
            }
            if now_ns >= threads_ns {
                threads_ns = self.look_for_threads(now_ns);
            }
            if now_ns >= end_ns {
                self.at_time = Some(self.stop(now_ns));
                return self.end_late(waited);
            }
            let due_ns = turn_ns.min(interval_ns).min(threads_ns).min(end_ns);
            let at_most = Duration::from_nanos(due_ns.saturating_sub(now_ns)).min(GLANCE);
            if let Woken::Ended(ended) = waited.wait(at_most) {
                self.interrupted |= self.runner.watch.signals.take().is_some();
                return ended;
            }
            if let Some(shall_end) = self.runner.handle_signal(waited) {
                self.interrupted = true;
                if shall_end {
                    return None;
                }
            }
        }
    }

    /// If counting stopped before the command ended, terminates the command and waits for it.
    fn end_late(&mut self, waited: &mut Waited) -> Option<Ended> {
        if waited.request_end(TERMINATE) {
            return None;
        }
        let end = self.runner.wait_for(waited, u64::MAX);
        self.interrupted |= end.interrupted;
        end.ended
    }

    fn look_for_threads(&mut self, now_ns: u64) -> u64 {
        let Some(threads) = &mut self.threads else { return u64::MAX };
        threads.look();
        threads.turn(now_ns).min(now_ns.saturating_add(ns(threads::LOOK)))
    }

    fn end_interval(&mut self, now_ns: u64) {
        let asked = self.runner.asked;
        // The end of a command may be noticed only after the end of the interval it falls into.
        let now_ns = now_ns.max(self.interval_began_ns);
        let tallies = Tallies::counted(self.session.lap(), &self.places);
        let seconds = |ns: u64| (ns - self.began_ns) as f64 / 1e9;
        let counts = IntervalCounts {
            from_s: seconds(self.interval_began_ns),
            to_s: seconds(now_ns),
            counts: row::row(asked, &tallies, &self.tiers(), &self.refusals(), row::UNSCHEDULED),
        };
        let names = asked.names();
        (self.runner.watch.tell)(Progress::Interval { names: &names, counts: &counts });
        self.intervals.push(counts);
        self.interval_began_ns = now_ns;
    }
}

/// Returns the first of the times `due_ns + k * every_ns` after `now_ns`. Intervals whose end was
/// missed are skipped rather than queued.
fn next(due_ns: u64, every_ns: u64, now_ns: u64) -> u64 {
    let missed = (now_ns - due_ns) / every_ns.max(1);
    due_ns.saturating_add(every_ns.saturating_mul(missed + 1))
}

#[cfg(test)]
mod tests {
    use super::next;

    #[test]
    fn the_next_interval_is_the_first_after_now() {
        for every_ns in [1, 7, 1000] {
            for late_ns in 0..3000 {
                let (due_ns, now_ns) = (500, 500 + late_ns);
                let slow = (1..).map(|k| due_ns + k * every_ns).find(|at| *at > now_ns);
                assert_eq!(Some(next(due_ns, every_ns, now_ns)), slow);
            }
        }
        assert_eq!(next(5, u64::MAX, 7), u64::MAX);
    }
}
