// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts the events of a command in the simulator.

use crate::engine::{Collected, Engine, Prepared};
use crate::measured::{Ground, Measured};
use crate::requested::Requested;
use crate::run::{Run, ns};
use crate::runner::{Runner, repeat};
use crate::sim::{Geometry, Remark, SimError};
use crate::tallies::Tallies;
use crate::waited::{End, Waited};
use crate::{Request, StatError, What, refused};
use linerate_doctor::host_facts::HostFacts;
use linerate_doctor::refusal::{Cause, Explanation};
use linerate_linux::child::fork_held;
use linerate_linux::monotonic_ns;
use linerate_machine::{Root, free_memory};
use linerate_record::stat::CodeCounts;
use linerate_record::units::memory_size;
use linerate_record::{Tier, Warning};
use std::ffi::OsString;
use std::path::Path;

/// Runs the command in the simulator as many times as requested, and returns the counts.
pub(crate) fn measure(runner: &Runner<'_>) -> Result<Measured, StatError> {
    let simulator = Simulator::new(runner.request, runner.around)?;
    let asked = simulator.asked(runner.asked);
    if let Some(by) = &runner.request.hot {
        if let Err(refusal) = simulator.engine.native(by, &simulator.geometry) {
            let reason = format!("--hot: {}", crate::line(by, &simulator.located(refusal)));
            return Err(StatError::BadRequest { reason });
        }
    }
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
    let caches = Some(simulator.engine.caches(&simulator.geometry));
    let ground = Ground { table: simulator.engine.table(), is_known_processor: true, caches };
    Ok(Measured { asked, runs, cut_short, ground, warnings })
}

/// The simulator, with the requested caches.
struct Simulator<'a> {
    engine: Engine,
    around: &'a HostFacts,
    argv: &'a [OsString],
    /// The caches to simulate.
    geometry: Geometry,
}

impl<'a> Simulator<'a> {
    /// Finds the simulator and determines the requested caches.
    fn new(request: &'a Request, around: &'a HostFacts) -> Result<Self, StatError> {
        let What::Command { argv } = &request.what else {
            let reason = "only a command can be simulated".to_owned();
            return Err(StatError::BadRequest { reason });
        };
        let geometry = request.caches.clone().map_or_else(Geometry::this_machine, Ok);
        let geometry =
            geometry.map_err(|error| StatError::BadRequest { reason: error.to_string() })?;
        check_room()?;
        let engine = Engine::choose(request, argv, around)?;
        Ok(Self { engine, around, argv, geometry })
    }

    /// Returns the requested events, with the simulator's names for them as native names.
    fn asked(&self, asked: &Requested) -> Requested {
        let mut asked = asked.clone();
        for event in &mut asked.events {
            event.native = self.engine.native(&event.name, &self.geometry).ok().map(str::to_owned);
        }
        asked
    }

    /// Returns for each event why the simulator cannot count it, or `None` if it can.
    fn refusals(&self, asked: &Requested) -> Vec<Option<Explanation>> {
        let refusal = |name: &str| self.engine.native(name, &self.geometry).err();
        asked.events.iter().map(|event| Some(self.located(refusal(&event.name)?))).collect()
    }

    /// If this machine has no hardware counters, marks a fix that requires them as a fix for
    /// another machine.
    fn located(&self, refusal: Explanation) -> Explanation {
        refusal.elsewhere(self.around.facts())
    }

    /// Simulates the command once.
    fn run(&self, runner: &Runner<'_>) -> Result<(Run, Vec<Warning>), StatError> {
        match self.simulate(runner) {
            Ok(simulated) => Ok(simulated),
            Err(SimError::Command(error)) => {
                let run = Run::not_begun(error, vec![Tier::Sim; runner.asked.events.len()]);
                Ok((run, Vec::new()))
            }
            Err(SimError::System(error)) => Err(StatError::System(error)),
            Err(error) => Err(StatError::NoSimulator { reason: error.to_string() }),
        }
    }

    fn simulate(&self, runner: &Runner<'_>) -> Result<(Run, Vec<Warning>), SimError> {
        let has_spots = runner.request.hot.is_some();
        let simulation = self.engine.prepare(self.argv, &self.geometry, has_spots)?;
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
        let counts = match simulation.collect(pid, ended) {
            Err(SimError::NoCounts { .. } | SimError::NotEmulated) if is_killed => None,
            counts => Some(counts?),
        };
        let code = self.code(runner, &simulation, counts.as_ref())?;
        let (mut exact, mut refusals) = (Vec::new(), Vec::new());
        for asked in &runner.asked.events {
            let count = match &counts {
                Some(counts) => counts.get(&asked.name),
                None => {
                    let native = self.engine.native(&asked.name, &self.geometry);
                    native.and_then(|_| Err(killed()))
                }
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
            code,
            ..Run::new(Tallies::exact(exact), refusals, tiers)
        };
        let remarks = counts.map_or_else(Vec::new, Collected::remarks);
        Ok((run, remarks.into_iter().map(warning).collect()))
    }

    /// Reads the counts per instruction for all counted events. Returns `None` if no counts per
    /// instruction were requested, or if their main event ([`Request::hot`]) was not counted.
    fn code(
        &self,
        runner: &Runner<'_>,
        simulation: &Prepared,
        counts: Option<&Collected>,
    ) -> Result<Option<CodeCounts>, SimError> {
        let (Some(by), Some(counts)) = (&runner.request.hot, counts) else { return Ok(None) };
        let of_event = |name: &String| {
            counts.get(name).ok()?;
            Some((name.clone(), self.engine.native(name, &self.geometry).ok()?))
        };
        let names = runner.asked.events.iter().map(|event| &event.name);
        let events: Vec<(String, &'static str)> = names.filter_map(of_event).collect();
        match events.iter().any(|(name, _)| name == by) {
            true => simulation.code(by, &events),
            false => Ok(None),
        }
    }
}

/// Memory in bytes that a simulator needs even for the smallest command.
const SIMULATOR_BYTES: u64 = 48 << 20;

/// Fails if there is too little free memory, in which case the kernel would kill the simulator or
/// this program.
fn check_room() -> Result<(), StatError> {
    let free = free_memory::free(&Root::new(Path::new("/")));
    match free.filter(|free| free.bytes < SIMULATOR_BYTES) {
        None => Ok(()),
        Some(free) => Err(StatError::NoSimulator {
            reason: format!(
                "--tier sim: the simulator needs at least {} of memory, but only {} is free ({})",
                memory_size(SIMULATOR_BYTES as f64),
                memory_size(free.bytes as f64),
                free.reason
            ),
        }),
    }
}

/// Explains missing counts if the simulator was killed.
fn killed() -> Explanation {
    let sentence = "the simulator was killed before it wrote its counts".to_owned();
    Explanation { cause: Cause::TargetGone, sentence, fix: None }
}

/// Converts a simulator remark into a warning.
fn warning(remark: Remark) -> Warning {
    match remark {
        Remark::UnknownInstruction { bytes } => Warning::UnknownInstruction { bytes },
        Remark::Unfinished { processes } => Warning::UnfinishedProcesses { processes },
        Remark::Inseparable { processes } => Warning::UncountedProcesses { processes },
        Remark::Overwritten { processes } => Warning::OverwrittenCounts { processes },
        Remark::NotFollowed { programs } => Warning::UnsimulatedPrograms { programs },
        Remark::OtherRights { program } => Warning::UnfollowedProgram { program },
    }
}
