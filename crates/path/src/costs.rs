// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stage costs without a measured run: the section `[costs]`.
//!
//! Costs have two forms, and a stage may have both. Nanoseconds per packet suit processors on which
//! a worker's service time does not depend on what neighbouring workers do. Instructions, misses
//! and stalls per packet suit processors whose hardware strands share a pipeline cycle by cycle.
//!
//! A path with costs may contain *foreign* stages, whose kind is missing from this build. Such a
//! path can be planned but not run. Properties of a foreign stage cannot be verified; without
//! `state`, it is assumed to have global state and is never replicated.
//!
//! This module only reads costs. Predicting rates from them is done elsewhere.

use crate::fields::Fields;
use crate::keys::MAX_WORKERS;
use crate::problem::{Mistake, shown};
use crate::spec::{StageSpec, State};
use crate::suggest;
use std::collections::BTreeSet;
use std::ops::Range;

/// Specification of a stage whose kind is missing from this build.
pub const FOREIGN: StageSpec = StageSpec {
    kind: "foreign",
    help: "A stage that this build does not have, described by its costs.",
    params: &[],
    needs_headers: false,
    state: State::Global,
    keeps_order: true,
    drop_causes: &[],
};

/// Names of the two ends of a path in `[costs]`.
pub const ENDS: [&str; 2] = ["source", "sink"];

/// Stage costs, as given in the path file.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenCosts {
    /// Free text that says where the costs come from.
    pub from: String,
    /// Number of flows, at least 1, all with the same rate. Each flow has its own link and, if
    /// segments are replicated, its own share of the replicas.
    pub flows: u32,
    /// Relative error of the costs, in either direction, that is not exceeded in 9 out of 10 cases;
    /// `None` if not given.
    pub spread: Option<f64>,
    /// Cost of handing a packet over through a ring, in nanoseconds on each side.
    pub handover_ns: Option<f64>,
    /// Loads and stores per instruction, for processors whose hardware threads share the load/store
    /// unit.
    pub memory_share: Option<f64>,
    /// Cost of receiving a packet from the source; `None` if the first stage's cost includes it.
    pub source: Option<GivenCost>,
    /// The stages, in path order.
    pub stages: Vec<GivenCost>,
    /// Cost of delivering a packet to the sink; `None` if the last stage's cost includes it.
    pub sink: Option<GivenCost>,
    /// Threads outside the path on the same machine, which handle none of its packets.
    pub neighbours: Vec<Neighbour>,
}

/// Cost of a stage, or of an end of the path.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenCost {
    /// Stage name, or `source` or `sink` for the ends of the path.
    pub name: String,
    /// The stage's state, if given in the file.
    pub state: Option<State>,
    /// Fraction of the path's packets that reach the stage, above 0 and at most 1.
    pub reach: f64,
    /// Fraction of the packets reaching the stage that the stage processes, above 0 and at most 1;
    /// the other packets bypass it.
    pub processed: f64,
    /// Nanoseconds per packet that the stage processes; `None` if not given.
    pub ns: Option<f64>,
    /// Work per packet in instructions and events; `None` if not given.
    pub work: Option<GivenWork>,
    /// Keys of those costs that were fitted to measured results.
    pub fitted: Vec<String>,
    /// Keys of those costs that were assumed rather than measured.
    pub assumed: Vec<String>,
}

/// Work per packet that a stage processes: instructions, cache misses and stalls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GivenWork {
    /// Instructions per packet.
    pub instructions: f64,
    /// L1 data cache misses per packet.
    pub l1_misses: f64,
    /// L2 misses per packet. Each of them is also counted as an L1 miss.
    pub l2_misses: f64,
    /// Stall time on device accesses, in nanoseconds per packet.
    pub io_ns: f64,
    /// Stalls that no hardware counter covers, in cycles per instruction: branches, buffers,
    /// dependencies.
    pub bubble_cycles: f64,
    /// Instructions per poll of the input.
    pub poll_instructions: f64,
    /// Stall time per empty poll, in nanoseconds.
    pub poll_ns: f64,
    /// Instructions per loop iteration spent polling a second input, whether or not it has a
    /// packet.
    pub turn_instructions: f64,
    /// Stall time per loop iteration spent polling the second input, in nanoseconds.
    pub turn_ns: f64,
}

/// What a thread outside the path does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idling {
    /// Polls an input that never has packets.
    Polls,
    /// Runs an empty endless loop: `while(1)`.
    Spins,
}

/// A group of threads outside the path, which handle none of its packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Neighbour {
    /// The threads' name in reports.
    pub name: String,
    /// What each of the threads does.
    pub does: Idling,
    /// CPUs that the threads run on; never empty.
    pub cpus: Vec<u32>,
    /// Instructions per iteration of a thread's loop.
    pub instructions: f64,
    /// Stall time per iteration of a thread's loop, in nanoseconds.
    pub ns: f64,
}

/// Properties of a stage that are needed to check `[costs]`.
pub(crate) struct Named {
    /// Stage name, if it could be read.
    pub(crate) name: Option<String>,
    /// Stage kind, if missing from this build.
    pub(crate) foreign: Option<String>,
    /// Byte range of the key `kind` in the file.
    pub(crate) at: Range<usize>,
}

/// Reads the `[costs]` section. Returns `None` if it is invalid; the error has then already been
/// recorded.
pub(crate) fn costs(
    section: &Fields,
    stages: &[Named],
    kinds: &[StageSpec],
    mistakes: &mut Vec<Mistake>,
) -> Option<GivenCosts> {
    let before = mistakes.len();
    let entries = section.sections("stages")?;
    let read: Vec<Option<GivenCost>> = entries.iter().map(|entry| cost(entry, mistakes)).collect();
    check_names(entries, stages, mistakes);
    check_stages(section, entries, stages, kinds, mistakes);
    let neighbours = neighbours(section, mistakes);
    if mistakes.len() > before {
        return None;
    }
    let all: Vec<GivenCost> = read.into_iter().collect::<Option<_>>()?;
    let of = |name: &str| all.iter().find(|cost| cost.name == name).cloned();
    Some(GivenCosts {
        from: section.text("from")?.to_owned(),
        flows: section.integer("flows")?,
        spread: section.number("spread"),
        handover_ns: section.number("handover_ns"),
        memory_share: section.number("memory_share"),
        source: of(ENDS[0]),
        stages: stages.iter().map(|stage| of(stage.name.as_deref()?)).collect::<Option<_>>()?,
        sink: of(ENDS[1]),
        neighbours: neighbours?,
    })
}

fn cost(entry: &Fields, mistakes: &mut Vec<Mistake>) -> Option<GivenCost> {
    let of = |key: &str| entry.number(key).unwrap_or(0.0);
    let work = entry.is_given("instructions").then(|| GivenWork {
        instructions: of("instructions"),
        l1_misses: of("l1_misses"),
        l2_misses: of("l2_misses"),
        io_ns: of("io_ns"),
        bubble_cycles: of("bubble_cycles"),
        poll_instructions: of("poll_instructions"),
        poll_ns: of("poll_ns"),
        turn_instructions: of("turn_instructions"),
        turn_ns: of("turn_ns"),
    });
    // If a figure could not be read, that mistake has been recorded already, and the figure may be
    // the cost that seems to be missing.
    let is_read = mistakes.is_empty();
    if work.is_none() && !entry.is_given("ns") && is_read {
        let mistake = Mistake::new(
            &entry.at,
            "the cost is missing: neither 'ns' nor \
             'instructions' is set",
        );
        mistakes.push(mistake.help("set one of them, or both"));
    }
    if work.is_none() && is_read {
        check_needs_instructions(entry, mistakes);
    }
    check_more(entry, mistakes);
    if is_read {
        for key in ["fitted", "assumed"] {
            check_keys(entry, key, mistakes);
        }
    }
    Some(GivenCost {
        name: entry.text("name")?.to_owned(),
        state: entry.text("state").and_then(State::of_word),
        reach: entry.number("reach").unwrap_or(1.0),
        processed: entry.number("processed").unwrap_or(1.0),
        ns: entry.number("ns"),
        work,
        fitted: entry.texts("fitted")?.to_vec(),
        assumed: entry.texts("assumed")?.to_vec(),
    })
}

/// Keys of the figures in [`GivenWork`], starting with `instructions`.
pub(crate) const WORK: [&str; 9] = [
    "instructions",
    "l1_misses",
    "l2_misses",
    "io_ns",
    "bubble_cycles",
    "poll_instructions",
    "poll_ns",
    "turn_instructions",
    "turn_ns",
];

fn check_needs_instructions(entry: &Fields, mistakes: &mut Vec<Mistake>) {
    for key in WORK.iter().filter(|key| entry.is_given(key)) {
        let message = format!("'{key}' needs 'instructions'");
        let mistake = Mistake::new(&entry.place(key), message);
        mistakes.push(mistake.help("set 'instructions' (per packet)"));
    }
}

/// Checks that a stage has no more misses than instructions and no more L2 than L1 misses, that L2
/// misses are given only together with L1 misses, and that figures that must be positive are
/// nonzero.
fn check_more(entry: &Fields, mistakes: &mut Vec<Mistake>) {
    let of = |key: &str| entry.number(key);
    for (part, whole) in [("l1_misses", "instructions"), ("l2_misses", "l1_misses")] {
        let (Some(few), Some(many)) = (of(part), of(whole)) else { continue };
        if few > many {
            let message = format!("'{part}' ({few}) exceeds '{whole}' ({many})");
            mistakes.push(Mistake::new(&entry.place(part), message));
        }
    }
    if of("l2_misses").is_some_and(|misses| misses > 0.0) && of("l1_misses").is_none() {
        let mistake = Mistake::new(&entry.place("l2_misses"), "'l2_misses' needs 'l1_misses'");
        mistakes.push(mistake.help("every L2 miss is also an L1 miss"));
    }
    for key in ["instructions", "ns", "reach", "processed"] {
        if of(key) == Some(0.0) {
            mistakes.push(Mistake::new(&entry.place(key), format!("'{key}' must be above 0")));
        }
    }
}

/// Checks that the key `list` (`fitted` or `assumed`) names only figures that the entry sets.
fn check_keys(entry: &Fields, list: &'static str, mistakes: &mut Vec<Mistake>) {
    for (index, key) in entry.texts(list).unwrap_or_default().iter().enumerate() {
        let at = entry.item_place(list, index);
        let known = || WORK.iter().copied().chain(["ns", "reach", "processed"]);
        if !known().any(|name| name == key) {
            let message = format!("unknown cost {}", shown(key));
            mistakes.push(Mistake::new(&at, message).help(suggest::help(key, known())));
        } else if !entry.is_given(key) {
            let message = format!("'{key}' is not set in this entry");
            mistakes.push(Mistake::new(&at, message).help("list only costs that this entry sets"));
        }
    }
}

/// Checks that each entry names a stage or an end of the path, and that no two entries name the
/// same one.
fn check_names(entries: &[Fields], stages: &[Named], mistakes: &mut Vec<Mistake>) {
    // If a stage's name could not be read, an entry with an unknown name may refer to this stage.
    let Some(names) = stages.iter().map(|stage| stage.name.as_deref()).collect::<Option<Vec<_>>>()
    else {
        return;
    };
    for (index, entry) in entries.iter().enumerate() {
        let Some(name) = entry.text("name") else { continue };
        let at = entry.place("name");
        if entries[..index].iter().any(|other| other.text("name") == Some(name)) {
            let message = format!("stage {} already has costs", shown(name));
            mistakes.push(Mistake::new(&at, message).help("keep one of the two"));
        } else if !names.contains(&name) && !ENDS.contains(&name) {
            let message = format!("unknown stage {}", shown(name));
            let help = suggest::help(name, names.iter().copied().chain(ENDS));
            mistakes.push(Mistake::new(&at, message).help(help));
        }
    }
}

/// Checks that the costs have an entry for every stage.
fn check_stages(
    section: &Fields,
    entries: &[Fields],
    stages: &[Named],
    kinds: &[StageSpec],
    mistakes: &mut Vec<Mistake>,
) {
    for stage in stages {
        let Some(name) = stage.name.as_deref() else { continue };
        if entries.iter().any(|entry| entry.text("name") == Some(name)) {
            continue;
        }
        mistakes.push(match &stage.foreign {
            Some(kind) => {
                let message = format!(
                    "'kind' cannot be {}: [costs] has no figures for this stage",
                    shown(kind)
                );
                let help = suggest::help(kind, kinds.iter().map(|spec| spec.kind));
                Mistake::new(&stage.at, message).help(help)
            }
            None => {
                let message = format!("stage {} has no costs", shown(name));
                let help = format!("add [[costs.stages]] with name = \"{name}\"");
                Mistake::new(&section.at, message).help(help)
            }
        });
    }
}

fn neighbours(section: &Fields, mistakes: &mut Vec<Mistake>) -> Option<Vec<Neighbour>> {
    let entries = section.sections("neighbours").unwrap_or_default();
    let mut taken = BTreeSet::new();
    let mut all = Vec::new();
    for entry in entries {
        let cpus: Vec<u32> = entry.integers("cpus")?;
        if cpus.is_empty() {
            mistakes.push(Mistake::new(&entry.place("cpus"), "'cpus' must not be empty"));
        }
        for (index, cpu) in cpus.iter().enumerate() {
            if !taken.insert(*cpu) {
                let message = format!("CPU {cpu} is used twice");
                let at = entry.item_place("cpus", index);
                mistakes.push(Mistake::new(&at, message).help("each neighbour needs its own CPUs"));
            }
        }
        let does = if entry.text("does")? == "spin" { Idling::Spins } else { Idling::Polls };
        let of = |key: &str| entry.number(key).unwrap_or(0.0);
        // If a figure could not be read, that mistake has been recorded already, and the figure may
        // be `instructions`.
        let is_read = mistakes.is_empty() || entry.is_given("instructions");
        if does == Idling::Polls && is_read && of("instructions") < 1.0 {
            let message = "a poll takes at least 1 instruction";
            mistakes.push(Mistake::new(&entry.place("instructions"), message));
        }
        all.push(Neighbour {
            name: entry.text("name")?.to_owned(),
            does,
            cpus,
            instructions: of("instructions"),
            ns: of("ns"),
        });
    }
    if taken.len() > MAX_WORKERS {
        let message = format!("neighbours use {} CPUs; the limit is {MAX_WORKERS}", taken.len());
        mistakes.push(Mistake::new(&section.place("neighbours"), message));
    }
    Some(all)
}
