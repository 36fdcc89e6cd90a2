// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two simulators behind one interface: which one simulates a command, its command line, and
//! its counts.

use crate::emulation::{self, Counts, Emulation, Emulator, NoEmulator};
use crate::sim::{self, Geometry, Remark, Sim, SimCounts, SimError, Simulation};
use crate::{Request, Simulator, StatError};
use linerate_doctor::host_facts::HostFacts;
use linerate_doctor::refusal::Explanation;
use linerate_linux::child::{Ended, ExecError};
use linerate_record::stat::{CodeCounts, SimulatedCaches};
use std::ffi::{OsStr, OsString};

/// A simulator for one command.
pub(crate) enum Engine {
    Valgrind(Sim),
    Qemu(Box<Emulator>),
    /// No simulator is needed, because the command cannot be started.
    None(ExecError),
}

/// A command to be simulated.
pub(crate) enum Prepared {
    Valgrind(Box<Simulation>),
    Qemu(Box<Emulation>),
}

/// Counts of a simulated command.
pub(crate) enum Collected {
    Valgrind(Box<SimCounts>),
    Qemu(Box<Counts>),
}

impl Engine {
    /// Chooses the simulator for a command: the requested one or, if none was requested, QEMU if it
    /// loads the plug-in, otherwise Valgrind. Valgrind cannot replace QEMU for programs of another
    /// architecture or for counts per instruction.
    pub(crate) fn choose(
        request: &Request,
        argv: &[OsString],
        around: &HostFacts,
    ) -> Result<Self, StatError> {
        let Some(plugin) =
            request.plugin.filter(|_| request.simulator != Some(Simulator::Valgrind))
        else {
            return valgrind(around, None);
        };
        let may_be_valgrind = request.simulator.is_none() && request.hot.is_none();
        let no_simulator = |reason| StatError::NoSimulator { reason };
        match Emulator::find(argv, plugin) {
            Ok(emulator) => Ok(Self::Qemu(Box::new(emulator))),
            Err(NoEmulator::Command(error)) => Ok(Self::None(error)),
            Err(NoEmulator::Native(reason)) if may_be_valgrind => valgrind(around, Some(&reason)),
            Err(NoEmulator::Native(reason) | NoEmulator::Foreign(reason)) => {
                let fix = match around.facts().installer {
                    Some(installer) => format!("; try: {} qemu-user", installer.command),
                    None => String::new(),
                };
                Err(no_simulator(format!("--tier sim: {reason}{fix}")))
            }
        }
    }

    /// Returns the simulator's counters for an event.
    pub(crate) fn native(
        &self,
        name: &str,
        geometry: &Geometry,
    ) -> Result<&'static str, Explanation> {
        match self {
            Self::Valgrind(_) => sim::native(name, geometry),
            Self::Qemu(_) | Self::None(_) => emulation::native(name, geometry.model()),
        }
    }

    /// Returns the name of the simulator's event table.
    pub(crate) fn table(&self) -> &'static str {
        match self {
            Self::Valgrind(_) => "callgrind",
            Self::Qemu(_) | Self::None(_) => "cachesim",
        }
    }

    /// Returns the caches as this simulator models them.
    pub(crate) fn caches(&self, geometry: &Geometry) -> SimulatedCaches {
        match self {
            Self::Valgrind(_) | Self::None(_) => geometry.caches().clone(),
            Self::Qemu(emulator) => geometry.model().caches(emulator.name),
        }
    }

    /// Prepares to simulate a command. With `has_spots`, QEMU also counts per instruction.
    pub(crate) fn prepare(
        &self,
        argv: &[OsString],
        geometry: &Geometry,
        has_spots: bool,
    ) -> Result<Prepared, SimError> {
        match self {
            Self::Valgrind(sim) => {
                sim.prepare(argv, geometry).map(|one| Prepared::Valgrind(Box::new(one)))
            }
            Self::Qemu(emulator) => {
                let prepared = emulator.prepare(geometry.model(), has_spots);
                prepared.map(|one| Prepared::Qemu(Box::new(one)))
            }
            Self::None(error) => Err(SimError::Command(*error)),
        }
    }
}

/// Finds Valgrind; `reason` states why QEMU cannot be used.
fn valgrind(around: &HostFacts, reason: Option<&str>) -> Result<Engine, StatError> {
    let refused = |refusal: Explanation| {
        let line = super::line("--tier sim", &refusal);
        let reason = reason.map_or(line.clone(), |reason| format!("{line}; {reason}"));
        StatError::NoSimulator { reason }
    };
    Sim::find(around).map(Engine::Valgrind).map_err(refused)
}

impl Prepared {
    /// Returns the command line to start instead of the command.
    pub(crate) fn command(&self) -> (&OsStr, &[OsString]) {
        match self {
            Self::Valgrind(simulation) => simulation.command(),
            Self::Qemu(emulation) => emulation.command(),
        }
    }

    /// Reads the counts after process `pid` has ended.
    pub(crate) fn collect(&self, pid: u32, ended: Option<Ended>) -> Result<Collected, SimError> {
        match self {
            Self::Valgrind(simulation) => {
                simulation.collect(pid).map(|counts| Collected::Valgrind(Box::new(counts)))
            }
            Self::Qemu(emulation) => {
                emulation.collect(pid, ended).map(|counts| Collected::Qemu(Box::new(counts)))
            }
        }
    }
}

impl Prepared {
    /// Reads the counts per instruction after the command has ended; `None` if there are none.
    pub(crate) fn code(
        &self,
        by: &str,
        events: &[(String, &'static str)],
    ) -> Result<Option<CodeCounts>, SimError> {
        match self {
            Self::Valgrind(_) => Ok(None),
            Self::Qemu(emulation) => emulation.code(by, events).map(Some),
        }
    }
}

impl Collected {
    /// Returns the count of an event.
    pub(crate) fn get(&self, name: &str) -> Result<u64, Explanation> {
        match self {
            Self::Valgrind(counts) => counts.get(name),
            Self::Qemu(counts) => counts.get(name),
        }
    }

    /// Returns the limitations that must be reported.
    pub(crate) fn remarks(self) -> Vec<Remark> {
        match self {
            Self::Valgrind(counts) => counts.remarks,
            Self::Qemu(counts) => counts.remarks,
        }
    }
}
