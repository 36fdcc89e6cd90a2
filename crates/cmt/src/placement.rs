// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ranks all placements of an application's strands. Placements that differ only by symmetry count
//! as one.
//!
//! A chip's pipes are interchangeable, as are the places on a pipe, and the flows. A pipe is
//! therefore described by its *kind*, the number of strands per role on it. A placement is a
//! multiset of kinds that contains each role once per flow.
//!
//! There are many placements but few kinds, and strands on different pipes interact only through
//! queues. Each kind is therefore simulated separately, with every strand fed by its own links. Its
//! *capacity* is the highest rate at which all of its strands keep up, found by bisection. The rate
//! of a placement's slowest flow is the lowest capacity among its pipes:
//!
//! ```text
//! for each kind:       capacity = highest rate, up to line rate, at which all strands keep up
//! for each placement:  rate = lowest capacity of its kinds, at most the bound
//! bound:               lowest rate of any role when alone on a pipe and offered line rate
//! ```
//!
//! No placement exceeds the bound. A strand that runs alone and always has a packet available
//! issues the instructions for a packet and for the poll before it, each as soon as the previous
//! instruction's stalls are over. In a placement it issues the same instructions plus empty polls,
//! and neighbours can only delay it. The best placement in the ranking, simulated as a whole, is
//! therefore within a known gap of the optimum.
//!
//! The ranking does not model units shared between pipes, or flows faster than the slowest flow. A
//! simulation of the whole placement includes both.

mod best;

pub use best::{Alike, Best, Wanted, best};

use super::application::{Application, BadApplication};
use super::chip::Chip;
use super::engine::simulate;
use super::outcome::Run;
use super::system::{Fault, Input, Runs, Source, Strand, System};
use std::fmt;

/// All placements of an application, ranked by rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranking {
    /// The roles to place, each of them once per flow.
    pub roles: Vec<String>,
    /// Kinds of pipes that occur in the placements, with their capacities.
    pub kinds: Vec<Kind>,
    /// All placements, fastest first; at equal rates, those with fewer pipes first.
    pub placements: Vec<Placement>,
    /// Upper bound on the rate of any placement, in kpps per flow.
    pub bound_kpps: f64,
    /// Simulation effort: the number of simulated cycles times the number of cores.
    pub core_cycles: u64,
}

/// A kind of pipe, defined by how many strands of each role are on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    /// Number of strands per role, in the order of [`Ranking::roles`].
    pub strands: Vec<u32>,
    /// Capacity in kpps: the highest rate per strand at which all strands keep up; at most the line
    /// rate.
    pub kpps: f64,
}

/// A placement of all strands, up to symmetry.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// For each pipe in use, the index of its kind in [`Ranking::kinds`].
    pub pipes: Vec<usize>,
    /// Rate of the slowest flow in kpps.
    pub kpps: f64,
}

/// Why placements cannot be ranked.
#[derive(Clone, Debug, PartialEq)]
pub enum CannotRank {
    /// A name in the application is undefined, or the chip is too small.
    Application(BadApplication),
    /// A kind of pipe cannot be simulated.
    System(Fault),
    /// There are more strands to place than the chip has.
    Full {
        /// Number of strands to place.
        strands: u32,
        /// Number of strands that the chip has.
        has: u32,
    },
}

impl fmt::Display for CannotRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Application(error) => error.fmt(f),
            Self::System(error) => error.fmt(f),
            Self::Full { strands, has } => {
                write!(f, "there are {strands} strands to place, but the chip has only {has}")
            }
        }
    }
}

impl std::error::Error for CannotRank {}

/// Bisection steps per capacity. For the most compute-intensive strands, the initial interval is a
/// fifth of the line rate, and the final one less than 1 % of their rate.
const HALVINGS: u32 = 5;

/// Fraction of its link's packets that a strand must process to count as keeping up. Below 1
/// because the number of packets in the ring at the start and end of counting varies.
const KEEPS_UP: f64 = 0.995;

/// Ranks all placements of `roles`, each of which occurs once per flow. `run` holds the settings
/// for simulating one kind at one rate.
///
/// # Errors
/// Returns an error if a role is unknown, the strands do not fit on the chip, or they cannot be
/// simulated.
pub fn rank(
    application: &Application,
    chip: &Chip,
    roles: &[&str],
    run: &Run,
) -> Result<Ranking, CannotRank> {
    let strands = application.flows.saturating_mul(roles.len() as u32);
    if strands > chip.strands() {
        return Err(CannotRank::Full { strands, has: chip.strands() });
    }
    let wanted = vec![application.flows; roles.len()];
    let line = application.value(&application.line.packets_per_s);
    let line = line.map_err(CannotRank::Application)?;
    let (mut core_cycles, mut bound) = (0, line);
    let mut kinds = Vec::new();
    for strands in kinds_of(&wanted, chip.strands_per_pipe) {
        let system = application.on(chip, &[words(roles, &strands, &mut vec![0; roles.len()])]);
        let system = system.map_err(CannotRank::Application)?;
        let mut probe = Probe::new(system, application.line.ring, run);
        if strands.iter().sum::<u32>() == 1 {
            // One more packet, since one may be missed when counting starts or ends.
            let alone = probe.at(line).map_err(CannotRank::System)?.0;
            bound = bound.min(alone + chip.clock_hz / run.cycles as f64);
        }
        let capacity = probe.capacity(line).map_err(CannotRank::System)?;
        kinds.push(Kind { strands, kpps: capacity / 1e3 });
        core_cycles += probe.core_cycles;
    }
    let bound_kpps = bound / 1e3;
    let strands: Vec<Vec<u32>> = kinds.iter().map(|kind| kind.strands.clone()).collect();
    let mut placements = Vec::new();
    for pipes in multisets(&strands, &wanted, chip.pipes()) {
        let kpps = pipes.iter().map(|kind| kinds[*kind].kpps).fold(bound_kpps, f64::min);
        placements.push(Placement { pipes, kpps });
    }
    placements.sort_by(|a, b| b.kpps.total_cmp(&a.kpps).then(a.pipes.len().cmp(&b.pipes.len())));
    let roles = roles.iter().map(|role| (*role).to_owned()).collect();
    Ok(Ranking { roles, kinds, placements, bound_kpps, core_cycles })
}

impl Ranking {
    /// Returns what each pipe's strands do, as input for [`Application::on`]. A role's strands are
    /// assigned to the flows in order.
    pub fn pipes(&self, placement: &Placement) -> Vec<Vec<String>> {
        let mut flows = vec![0; self.roles.len()];
        let strands = placement.pipes.iter().map(|kind| &self.kinds[*kind].strands);
        strands.map(|strands| words(&self.roles, strands, &mut flows)).collect()
    }

    /// Returns the rank of the placement with these kinds; `None` if it is not in this ranking.
    pub fn place_of(&self, kinds: &[Vec<u32>]) -> Option<usize> {
        let index =
            |strands: &Vec<u32>| self.kinds.iter().position(|kind| kind.strands == *strands);
        let mut pipes: Vec<usize> = kinds.iter().map(index).collect::<Option<_>>()?;
        pipes.sort_unstable();
        let same = |placement: &Placement| {
            let mut other = placement.pipes.clone();
            other.sort_unstable();
            other == pipes
        };
        self.placements.iter().position(same)
    }
}

/// Returns what the strands do on a pipe with `strands` strands per role. `flows` counts the flows
/// assigned to each role so far.
fn words(roles: &[impl fmt::Display], strands: &[u32], flows: &mut [u32]) -> Vec<String> {
    let mut words = Vec::new();
    for ((role, times), flow) in roles.iter().zip(strands).zip(flows) {
        words.extend((*flow..*flow + times).map(|flow| format!("{role} {flow}")));
        *flow += times;
    }
    words
}

/// Returns all kinds of pipes with at most `wanted` strands per role, and 1 to `room` strands in
/// total.
fn kinds_of(wanted: &[u32], room: u32) -> Vec<Vec<u32>> {
    let mut kinds = vec![Vec::new()];
    for &most in wanted {
        let longer = |kind: &Vec<u32>| {
            let left = room - kind.iter().sum::<u32>();
            let kind = kind.clone();
            (0..=most.min(left)).map(move |times| [kind.as_slice(), &[times]].concat())
        };
        kinds = kinds.iter().flat_map(longer).collect();
    }
    kinds.retain(|kind| kind.iter().any(|times| *times > 0));
    kinds
}

/// Returns all multisets of at most `pipes` kinds that together have `wanted` strands per role, as
/// ascending indices into `kinds`.
fn multisets(kinds: &[Vec<u32>], wanted: &[u32], pipes: u32) -> Vec<Vec<usize>> {
    let most = kinds.iter().map(|kind| kind.iter().sum::<u32>()).max().unwrap_or(0);
    let mut found = Vec::new();
    let mut search = Search { kinds, most, chosen: Vec::new(), found: &mut found };
    search.go_on(0, wanted.to_vec(), pipes);
    found
}

struct Search<'s> {
    kinds: &'s [Vec<u32>],
    /// Number of strands in the largest kind, for skipping branches that cannot succeed.
    most: u32,
    chosen: Vec<usize>,
    found: &'s mut Vec<Vec<usize>>,
}

impl Search<'_> {
    /// Adds kinds, starting at index `first`, until no strand is left to place; tries all
    /// possibilities by backtracking.
    fn go_on(&mut self, first: usize, left: Vec<u32>, pipes: u32) {
        let strands: u32 = left.iter().sum();
        if strands == 0 {
            self.found.push(self.chosen.clone());
            return;
        }
        if strands > self.most * pipes {
            return;
        }
        for kind in first..self.kinds.len() {
            let rest =
                left.iter().zip(&self.kinds[kind]).map(|(left, times)| left.checked_sub(*times));
            if let Some(rest) = rest.collect::<Option<Vec<u32>>>() {
                self.chosen.push(kind);
                self.go_on(kind, rest, pipes - 1);
                self.chosen.pop();
            }
        }
    }
}

/// A test system with a single pipe of one kind, in which each strand input has its own link.
struct Probe<'p> {
    system: System,
    /// For each link, how many packets it delivers per packet of a flow.
    shares: Vec<f64>,
    run: &'p Run,
    core_cycles: u64,
}

impl<'p> Probe<'p> {
    fn new(mut system: System, ring: u32, run: &'p Run) -> Self {
        system.queues.clear();
        system.sources.clear();
        for strand in &mut system.strands {
            let Runs::Packets { tasks, .. } = &mut strand.runs else { continue };
            for task in tasks {
                task.outputs.clear();
                if task.input != Input::Nothing {
                    task.input = Input::Source(system.sources.len());
                    system.sources.push(Source { packets_per_s: 0.0, ring });
                }
            }
        }
        let shares = vec![1.0; system.sources.len()];
        Self { system, shares, run, core_cycles: 0 }
    }

    /// Sets how many packets each strand receives per packet of a flow; `strands` has one value per
    /// strand.
    fn with_shares(mut self, strands: Vec<f64>) -> Self {
        let takes = |strand: &Strand| match &strand.runs {
            Runs::Packets { tasks, .. } => {
                tasks.iter().filter(|task| task.input != Input::Nothing).count()
            }
            Runs::Busy | Runs::Parked => 0,
        };
        let lines = self.system.strands.iter().zip(strands);
        self.shares = lines.flat_map(|(strand, share)| vec![share; takes(strand)]).collect();
        self
    }

    /// Simulates the pipe with every strand offered its share of `rate`. Returns the slowest
    /// strand's rate in packets per second, and whether all strands keep up. A pipe without work
    /// always keeps up.
    fn at(&mut self, rate: f64) -> Result<(f64, bool), Fault> {
        for (source, share) in self.system.sources.iter_mut().zip(&self.shares) {
            source.packets_per_s = rate * share;
        }
        let outcome = simulate(&self.system, self.run)?;
        self.core_cycles += outcome.core_cycles;
        let tasks = |strand: &Strand| match &strand.runs {
            Runs::Packets { tasks, .. } => tasks.clone(),
            Runs::Busy | Runs::Parked => Vec::new(),
        };
        let asked = self.system.strands.iter().flat_map(tasks);
        let counts = outcome.strands.iter().flat_map(|strand| &strand.tasks);
        let pairs = asked.zip(counts).filter(|(task, _)| task.input != Input::Nothing);
        // Allow for one packet: whether it is counted depends on when counting begins.
        let per_packet = self.system.chip.clock_hz / outcome.cycles as f64;
        let (mut least, mut keeps_up) = (rate, true);
        for ((_, counts), share) in pairs.zip(&self.shares) {
            let served = counts.packets as f64 * per_packet;
            least = least.min(served / share);
            keeps_up &= served + per_packet >= KEEPS_UP * rate * share;
        }
        Ok((least, keeps_up))
    }

    /// Returns the highest rate, at most `line`, at which all strands keep up.
    fn capacity(&mut self, line: f64) -> Result<f64, Fault> {
        let (mut low, keeps_up) = self.at(line)?;
        if keeps_up {
            return Ok(line);
        }
        // At a lower rate, neighbours have more empty polls, which may slow a strand down so that
        // it cannot keep up even with the rate that it handled before.
        let mut high = line;
        loop {
            // A strand finished no packet: one packet takes longer than the entire run.
            if low <= 0.0 {
                return Ok(0.0);
            }
            let (served, keeps_up) = self.at(low)?;
            if keeps_up {
                break;
            }
            (low, high) = (served, low);
        }
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            match self.at(middle)?.1 {
                true => low = middle,
                false => high = middle,
            }
        }
        Ok(low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processor::Processor;
    use std::collections::BTreeSet;

    fn t1() -> Chip {
        Chip::new(&Processor::named("t1").unwrap()).unwrap()
    }

    /// Compares the placements of two roles and three flows, on three pipes with two strands each,
    /// with an enumeration of all assignments.
    #[test]
    fn every_placement_is_there_once() {
        let wanted = [3, 3];
        let kinds = kinds_of(&wanted, 2);
        let mut slow = BTreeSet::new();
        for assignment in 0..3u32.pow(6) {
            let mut pipes = vec![vec![0u32; 2]; 3];
            for strand in 0..6 {
                let pipe = assignment / 3u32.pow(strand) % 3;
                pipes[pipe as usize][strand as usize % 2] += 1;
            }
            if pipes.iter().all(|pipe| pipe.iter().sum::<u32>() <= 2) {
                pipes.retain(|pipe| pipe.iter().any(|times| *times > 0));
                pipes.sort();
                slow.insert(pipes);
            }
        }
        let found: Vec<Vec<Vec<u32>>> = multisets(&kinds, &wanted, 3)
            .iter()
            .map(|pipes| pipes.iter().map(|kind| kinds[*kind].clone()).collect())
            .collect();
        assert_eq!(found.iter().cloned().collect::<BTreeSet<_>>(), slow);
        assert_eq!(found.len(), slow.len());
    }

    #[test]
    fn a_ranking_is_in_order_and_says_where() {
        let mut application = Application::named("rlp").unwrap();
        application.flows = 2;
        let run = Run { warm_up_cycles: 50_000, cycles: 150_000, seed: 1 };
        let roles = ["PDSN_RX", "RLP", "ATIF_TX"];
        let ranking = rank(&application, &t1(), &roles, &run).unwrap();
        assert!(ranking.placements.is_sorted_by(|a, b| a.kpps >= b.kpps));
        assert!(ranking.placements.iter().all(|p| p.kpps <= ranking.bound_kpps));
        let first = &ranking.placements[0];
        let kinds: Vec<Vec<u32>> =
            first.pipes.iter().map(|kind| ranking.kinds[*kind].strands.clone()).collect();
        assert_eq!(ranking.place_of(&kinds), Some(0));
        assert_eq!(ranking.place_of(&[vec![9, 9, 9]]), None);
        let words = ranking.pipes(first).concat();
        assert_eq!(words.iter().collect::<BTreeSet<_>>().len(), 6);
        assert_eq!(application.on(&t1(), &ranking.pipes(first)).unwrap().check(), Ok(()));
        application.flows = 11;
        let error = rank(&application, &t1(), &roles, &run).unwrap_err();
        assert!(error.to_string().contains("33 strands"), "{error}");
    }
}
