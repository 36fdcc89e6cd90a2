// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run in the simulator.

use crate::measured::{Ground, Measured};
use crate::requested::Requested;
use crate::run::{Run, ns};
use crate::runner::{Runner, repeat};
use crate::sim::{Geometry, Remark, Sim, SimError, native};
use crate::tallies::Tallies;
use crate::waited::{End, Waited};
use crate::{StatError, What, refused};
use linerate_doctor::host_facts::HostFacts;
use linerate_doctor::refusal::{Cause, Explanation};
use linerate_linux::child::fork_held;
use linerate_linux::monotonic_ns;
use linerate_machine::{Root, free_memory};
use linerate_record::units::memory_size;
use linerate_record::{Tier, Warning};
use std::ffi::OsString;
use std::path::Path;

/// Counts in the simulator, as often as requested.
pub(crate) fn measure(runner: &Runner<'_>) -> Result<Measured, StatError> {
    let simulator = Simulator::new(runner.request.caches.as_ref(), runner.around)?;
    let asked = simulator.asked(runner.asked);
    if runner.request.strict {
        if let Some(reason) = refused(&asked.events, &simulator.refusals(&asked)) {
            return Err(StatError::Refused { reason });
        }
    }
    let mut warnings = Vec::new();
    let (runs, cut_short) = repeat(runner, |_| {
        let (run, remarks) = simulator.run(&Runner { asked: &asked, ..*runner })?;
        warnings = remarks;
        Ok(run)
    })?;
    let caches = Some(simulator.geometry.caches().clone());
    let ground = Ground { table: "callgrind", is_known_processor: true, caches };
    Ok(Measured { asked, runs, cut_short, ground, warnings })
}

/// The simulator, with the requested caches.
struct Simulator<'a> {
    sim: Sim,
    around: &'a HostFacts,
    /// The caches.
    geometry: Geometry,
}

impl<'a> Simulator<'a> {
    /// Finds the simulator and determines the requested caches.
    fn new(caches: Option<&Geometry>, around: &'a HostFacts) -> Result<Self, StatError> {
        let geometry = caches.cloned().map_or_else(Geometry::this_machine, Ok);
        let geometry =
            geometry.map_err(|error| StatError::BadRequest { reason: error.to_string() })?;
        check_room()?;
        let sim = Sim::find(around).map_err(|refusal| StatError::NoSimulator {
            reason: super::line("--tier sim", &refusal),
        })?;
        Ok(Self { sim, around, geometry })
    }

    /// The request, with the simulator's names.
    fn asked(&self, asked: &Requested) -> Requested {
        let mut asked = asked.clone();
        for event in &mut asked.events {
            event.native = native(&event.name, &self.geometry).ok().map(str::to_owned);
        }
        asked
    }

    /// For each event, the reason if the simulator does not have it.
    fn refusals(&self, asked: &Requested) -> Vec<Option<Explanation>> {
        let refusal = |name: &str| native(name, &self.geometry).err();
        asked.events.iter().map(|event| Some(self.located(refusal(&event.name)?))).collect()
    }

    /// Adds a fix that works where there are hardware counters.
    fn located(&self, refusal: Explanation) -> Explanation {
        refusal.elsewhere(self.around.facts())
    }

    /// Simulates the command once.
    fn run(&self, runner: &Runner<'_>) -> Result<(Run, Vec<Warning>), StatError> {
        let What::Command { argv } = &runner.request.what else {
            let reason = "only a command can be simulated".to_owned();
            return Err(StatError::BadRequest { reason });
        };
        match self.simulate(runner, argv) {
            Ok(simulated) => Ok(simulated),
            Err(SimError::Command(error)) => {
                let run = Run::not_begun(error, vec![Tier::Sim; runner.asked.events.len()]);
                Ok((run, Vec::new()))
            }
            Err(SimError::System(error)) => Err(StatError::System(error)),
            Err(error) => Err(StatError::NoSimulator { reason: error.to_string() }),
        }
    }

    fn simulate(
        &self,
        runner: &Runner<'_>,
        argv: &[OsString],
    ) -> Result<(Run, Vec<Warning>), SimError> {
        let simulation = self.sim.prepare(argv, &self.geometry)?;
        let (program, arguments) = simulation.command();
        let held = fork_held(program, arguments).map_err(SimError::System)?;
        let began_ns = monotonic_ns();
        let early = runner.watch.signals.take();
        let child = held.release().map_err(SimError::Command)?;
        let pid = child.pid();
        let mut waited = Waited::Child(child);
        runner.handle_early_signal(early, &waited);
        let at_most = runner.request.at_most.map_or(u64::MAX, ns);
        let End { ended, interrupted, is_time_up } =
            runner.wait_for(&mut waited, began_ns.saturating_add(at_most));
        let interrupted = interrupted || early.is_some();
        let elapsed_ns = monotonic_ns() - began_ns;
        let is_killed = ended.is_some_and(|ended| ended.signal.is_some());
        let counts = match simulation.collect(pid) {
            Err(SimError::NoCounts { .. }) if is_killed => None,
            counts => Some(counts?),
        };
        let (mut exact, mut refusals) = (Vec::new(), Vec::new());
        for asked in &runner.asked.events {
            let count = match &counts {
                Some(counts) => counts.get(&asked.name),
                None => native(&asked.name, &self.geometry).and_then(|_| Err(killed())),
            };
            exact.push(count.as_ref().ok().copied());
            refusals.push(count.err().map(|refusal| self.located(refusal)));
        }
        let tiers = vec![Tier::Sim; exact.len()];
        let run = Run {
            tier: Some(Tier::Sim),
            elapsed_ns,
            command: ended.map(Ok),
            interrupted,
            is_time_up,
            ..Run::new(Tallies::exact(exact), refusals, tiers)
        };
        let remarks = counts.map_or_else(Vec::new, |counts| counts.remarks);
        Ok((run, remarks.into_iter().map(warning).collect()))
    }
}

/// Bytes that Valgrind needs even for the smallest command.
const VALGRIND_BYTES: u64 = 48 << 20;

/// Fails if there is too little memory: the kernel would kill the simulator or this program.
fn check_room() -> Result<(), StatError> {
    let free = free_memory::free(&Root::new(Path::new("/")));
    match free.filter(|free| free.bytes < VALGRIND_BYTES) {
        None => Ok(()),
        Some(free) => Err(StatError::NoSimulator {
            reason: format!(
                "--tier sim: Valgrind needs {} or more of memory, but only {} is free: {}",
                memory_size(VALGRIND_BYTES as f64),
                memory_size(free.bytes as f64),
                free.reason
            ),
        }),
    }
}

/// The reason why there are no counts although the command ran.
fn killed() -> Explanation {
    let sentence = "the simulator was killed before it wrote its counts".to_owned();
    Explanation { cause: Cause::TargetGone, sentence, fix: None }
}

/// Converts a remark of the simulator into a warning.
fn warning(remark: Remark) -> Warning {
    match remark {
        Remark::UnknownInstruction { bytes } => Warning::UnknownInstruction { bytes },
        Remark::Unfinished { processes } => Warning::UnfinishedProcesses { processes },
        Remark::Inseparable { processes } => Warning::UncountedProcesses { processes },
        Remark::Overwritten { processes } => Warning::OverwrittenCounts { processes },
        Remark::OtherRights { program } => Warning::UnfollowedProgram { program },
    }
}
