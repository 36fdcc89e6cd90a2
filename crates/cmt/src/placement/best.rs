// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the best placement from the kinds' capacities, without enumerating all placements.
//!
//! A placement is as fast as its slowest kind. The best placement therefore corresponds to the
//! greatest capacity `t` at which all strands fit on the available pipes using only kinds of at
//! least that capacity. Fewer kinds qualify as `t` grows, so `t` is found by bisection:
//!
//! ```text
//! pipes(nothing)  = 0
//! pipes(strands)  = 1 + minimum of pipes(strands without kind) over kinds with capacity >= t
//! best t          = greatest t for which pipes(all) <= available pipes
//! ```
//!
//! A flow's packets are divided among a role's strands: with twice as many strands as flows, each
//! strand handles half of the rate.

use super::super::chip::Chip;
use super::super::outcome::Run;
use super::super::system::{Fault, Runs, Strand, System};
use super::{Kind, Probe, kinds_of};

/// A group of strands with identical work.
#[derive(Clone, Debug, PartialEq)]
pub struct Alike {
    /// Work of each strand in the group. Each task with an input gets its own link.
    pub runs: Runs,
    /// Number of strands in the group.
    pub count: u32,
    /// Packets that one strand receives per packet of a flow; greater than 0.
    pub share: f64,
}

/// Strands to place, and the chip to place them on.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'w> {
    /// Chip to place the strands on.
    pub chip: &'w Chip,
    /// Number of pipes on which strands may be placed.
    pub pipes: u32,
    /// Groups of strands to place.
    pub alike: &'w [Alike],
    /// Whether all other strands on each pipe run endless loops.
    pub spins: bool,
    /// Upper bound on a flow's rate, in packets per second.
    pub most_per_s: f64,
    /// Capacity of an interface's receive ring in packets.
    pub ring: u32,
}

/// The placement with the highest rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Best {
    /// For each pipe in use, its number of strands from each group in [`Wanted::alike`]. The
    /// placement uses as few pipes as possible.
    pub pipes: Vec<Vec<u32>>,
    /// Rate of the slowest flow in kpps: the lowest capacity of the kinds in use.
    pub kpps: f64,
    /// Number of kinds that were simulated.
    pub kinds: usize,
}

/// Maximum number of kinds to simulate: enough for five roles on pipes with four strands.
/// Simulating them takes a few seconds.
const KINDS_MAX: usize = 125;

/// Maximum number of strand sets to examine: enough for 64 strands in up to four groups.
const SETS_MAX: usize = 100_000;

/// Finds the best placement; `None` if there are too many kinds or strand sets, or if the strands
/// do not fit.
///
/// # Errors
/// Returns an error if a kind cannot be simulated.
pub fn best(wanted: &Wanted<'_>, run: &Run) -> Result<Option<Best>, Fault> {
    let counts: Vec<u32> = wanted.alike.iter().map(|alike| alike.count).collect();
    let sets = counts.iter().map(|count| *count as usize + 1);
    let sets = sets.fold(1, usize::saturating_mul);
    // The number of kinds is checked first, because everything below is built from them.
    if sets > SETS_MAX || number_of_kinds(counts.len(), wanted.chip.strands_per_pipe) > KINDS_MAX {
        return Ok(None);
    }
    let mut kinds = Vec::new();
    for strands in kinds_of(&counts, wanted.chip.strands_per_pipe) {
        let (system, shares) = system_of(wanted, &strands);
        let mut probe = Probe::new(system, wanted.ring, run).with_shares(shares);
        let kpps = probe.capacity(wanted.most_per_s)? / 1e3;
        kinds.push(Kind { strands, kpps });
    }
    kinds.sort_by(|a, b| b.kpps.total_cmp(&a.kpps));
    // Bisect for the smallest number of the fastest kinds that can hold all strands.
    let (mut few, mut enough) = (0, kinds.len());
    if packed(&kinds, &counts, wanted.pipes).is_none() {
        return Ok(None);
    }
    while few + 1 < enough {
        let middle = usize::midpoint(few, enough);
        match packed(&kinds[..middle], &counts, wanted.pipes) {
            Some(_) => enough = middle,
            None => few = middle,
        }
    }
    let pipes =
        packed(&kinds[..enough], &counts, wanted.pipes).expect("the search found a packing");
    let kpps = pipes.iter().map(|kind| kinds[*kind].kpps).fold(f64::INFINITY, f64::min);
    let pipes = pipes.into_iter().map(|kind| kinds[kind].strands.clone()).collect();
    Ok(Some(Best { pipes, kpps, kinds: kinds.len() }))
}

/// Returns an upper bound on the number of kinds: the number of multisets of 1 to `room` strands
/// with `roles` different roles.
fn number_of_kinds(roles: usize, room: u32) -> usize {
    // Each division is exact: the result is a binomial coefficient.
    let ways =
        (1..=room as usize).try_fold(1usize, |ways, n| Some(ways.checked_mul(roles + n)? / n));
    ways.map_or(usize::MAX, |ways| ways - 1)
}

/// Returns a pipe with `strands` strands per group, and how many packets each strand receives per
/// packet of a flow.
fn system_of(wanted: &Wanted<'_>, strands: &[u32]) -> (System, Vec<f64>) {
    let mut system = System {
        chip: wanted.chip.clone(),
        strands: Vec::new(),
        queues: Vec::new(),
        sources: Vec::new(),
    };
    let mut shares = Vec::new();
    let mut cpu = 0;
    let mut add = |name: String, runs: Runs| {
        system.strands.push(Strand { name, cpu, runs });
        cpu += 1;
    };
    for (index, (alike, times)) in wanted.alike.iter().zip(strands).enumerate() {
        for number in 0..*times {
            add(format!("{index}.{number}"), alike.runs.clone());
            shares.push(alike.share);
        }
    }
    if wanted.spins {
        let taken: u32 = strands.iter().sum();
        for number in taken..wanted.chip.strands_per_pipe {
            add(format!("spins {number}"), Runs::Busy);
            shares.push(1.0);
        }
    }
    (system, shares)
}

/// Returns the indices of at most `pipes` kinds, one per pipe, that together have `wanted` strands
/// per group, with as few pipes as possible; `None` if `pipes` pipes do not suffice.
fn packed(kinds: &[Kind], wanted: &[u32], pipes: u32) -> Option<Vec<usize>> {
    let mut steps = Vec::with_capacity(wanted.len());
    let mut sets = 1;
    for count in wanted {
        steps.push(sets);
        sets *= *count as usize + 1;
    }
    // A set is encoded as a number whose digits are its strand counts by group.
    let digit = |set: usize, role: usize| (set / steps[role]) as u32 % (wanted[role] + 1);
    let size = |kind: &Kind| -> usize {
        kind.strands.iter().zip(&steps).map(|(times, step)| *times as usize * step).sum()
    };
    let sizes: Vec<usize> = kinds.iter().map(size).collect();
    let mut least: Vec<Option<(u32, usize)>> = vec![None; sets];
    for set in 1..sets {
        for (index, kind) in kinds.iter().enumerate() {
            let holds = |(role, times): (usize, &u32)| digit(set, role) >= *times;
            if !kind.strands.iter().enumerate().all(holds) {
                continue;
            }
            let before = match set - sizes[index] {
                0 => Some(0),
                rest => least[rest].map(|(pipes, _)| pipes),
            };
            let Some(before) = before.filter(|before| *before < pipes) else { continue };
            if least[set].is_none_or(|(found, _)| before + 1 < found) {
                least[set] = Some((before + 1, index));
            }
        }
    }
    let (mut set, mut found) = (sets - 1, Vec::new());
    while set > 0 {
        let (_, kind) = least[set]?;
        found.push(kind);
        set -= sizes[kind];
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::super::super::application::Application;
    use super::super::{multisets, rank};
    use super::*;
    use crate::processor::Processor;
    use linerate_record::random::Random;

    fn t1() -> Chip {
        Chip::new(&Processor::named("t1").unwrap()).unwrap()
    }

    /// Compares the result for synthetic capacities with the best of all enumerated multisets.
    #[test]
    fn none_of_all_placements_is_better() {
        let wanted = [3, 2, 2];
        let strands = kinds_of(&wanted, 4);
        let mut random = Random::new(7);
        for pipes in [2, 3, 4] {
            let mut capacity = || (random.next() % 100) as f64;
            let kinds: Vec<Kind> =
                strands.iter().map(|s| Kind { strands: s.clone(), kpps: capacity() }).collect();
            let slowest = |chosen: &[usize]| {
                chosen.iter().map(|kind| kinds[*kind].kpps).fold(f64::INFINITY, f64::min)
            };
            let all = multisets(&strands, &wanted, pipes);
            let slow = all.iter().map(|chosen| slowest(chosen)).fold(0.0, f64::max);
            let at_least = |t: f64| -> Vec<Kind> {
                kinds.iter().filter(|kind| kind.kpps >= t).cloned().collect()
            };
            let found = packed(&at_least(slow), &wanted, pipes).expect("it is possible");
            let fewest = all.iter().filter(|chosen| slowest(chosen) >= slow).map(Vec::len).min();
            assert_eq!(Some(found.len()), fewest);
            assert!(packed(&at_least(slow + 0.5), &wanted, pipes).is_none(), "{pipes} pipes");
        }
    }

    #[test]
    fn kinds_are_as_many_as_counted() {
        for (roles, room) in [(1, 4), (3, 4), (4, 4), (5, 4), (2, 8)] {
            let all = kinds_of(&vec![room; roles], room).len();
            assert_eq!(number_of_kinds(roles, room), all, "{roles} roles, {room} strands");
        }
    }

    /// The first placement in the ranking has the same rate as the best one found without a
    /// ranking.
    #[test]
    fn the_best_is_the_first_of_the_ranking() {
        let mut application = Application::named("rlp").unwrap();
        application.flows = 2;
        let run = Run { warm_up_cycles: 50_000, cycles: 150_000, seed: 1 };
        let roles = ["PDSN_RX", "RLP", "ATIF_TX"];
        let ranking = rank(&application, &t1(), &roles, &run).unwrap();
        let alike = roles.map(|role| {
            let system = application.on(&t1(), &[vec![format!("{role} 0")]]).unwrap();
            Alike { runs: system.strands[0].runs.clone(), count: 2, share: 1.0 }
        });
        let chip = t1();
        let wanted = Wanted {
            chip: &chip,
            pipes: chip.pipes(),
            alike: &alike,
            spins: false,
            most_per_s: application.value("line_packets_per_s").unwrap(),
            ring: application.line.ring,
        };
        let found = best(&wanted, &run).unwrap().unwrap();
        let first = ranking.placements[0].kpps;
        assert!((found.kpps / first - 1.0).abs() < 0.02, "{} and {first}", found.kpps);
        let placed: u32 = found.pipes.iter().flatten().sum();
        assert_eq!(placed, 6);
        // A strand that handles half of the packets keeps up with twice the rate.
        let mut half = alike.clone();
        half.iter_mut().for_each(|alike| (alike.share, alike.count) = (0.5, 4));
        let found = best(&Wanted { alike: &half, ..wanted }, &run).unwrap().unwrap();
        assert!(found.kpps > first, "{} and {first}", found.kpps);
        let many = vec![alike[0].clone(); 6];
        assert_eq!(best(&Wanted { alike: &many, ..wanted }, &run), Ok(None), "too many kinds");
        assert_eq!(best(&Wanted { pipes: 1, ..wanted }, &run), Ok(None), "6 strands on one pipe");
    }
}
