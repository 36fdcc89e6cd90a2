// SPDX-License-Identifier: MIT OR Apache-2.0
//! Costs of the stages of a path without a measured run: the section `[costs]`.
//!
//! Costs have two forms, and a stage may have both: nanoseconds per packet, for processors on which
//! the duration of a worker's work does not depend on its neighbours; and instructions, misses and
//! stalls per packet, for processors whose strands share a pipeline cycle by cycle.
//!
//! With costs, a path may name *foreign* stages: of a kind that this build does not have. Such a
//! path can be planned, but not run. The properties of a foreign stage are not verified; without
//! `state` it is assumed to have global state, so that it is never replicated.
//!
//! This module does not determine what the costs mean for a mapping.

use crate::fields::Fields;
use crate::keys::MAX_WORKERS;
use crate::problem::{Mistake, shown};
use crate::spec::{StageSpec, State};
use crate::suggest;
use std::collections::BTreeSet;
use std::ops::Range;

/// Specification of a stage that this build does not have.
pub const FOREIGN: StageSpec = StageSpec {
    kind: "foreign",
    help: "A stage that this build does not have, described by its costs.",
    params: &[],
    needs_headers: false,
    state: State::Global,
    keeps_order: true,
    drop_causes: &[],
};

/// Names by which `[costs]` refers to the two ends of a path.
pub const ENDS: [&str; 2] = ["source", "sink"];

/// Costs of the stages of a path, from its file.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenCosts {
    /// Source of the figures, in words.
    pub from: String,
    /// Number of flows of equal rate, at least 1. Each has its own line and, if segments are
    /// replicated, its own share of the replicas.
    pub flows: u32,
    /// Relative error of the costs, in both directions, that 9 of 10 costs should not exceed;
    /// `None` if not given.
    pub spread: Option<f64>,
    /// Cost of a ring hand-over in nanoseconds per packet and side.
    pub handover_ns: Option<f64>,
    /// Loads and stores per instruction, for processors whose hardware strands share the load/store
    /// unit.
    pub memory_share: Option<f64>,
    /// Cost of receiving a packet from the source; `None` if it is included in the first stage.
    pub source: Option<GivenCost>,
    /// The stages, in path order.
    pub stages: Vec<GivenCost>,
    /// Cost of delivering a packet to the sink; `None` if it is included in the last stage.
    pub sink: Option<GivenCost>,
    /// Threads outside the path that share the machine but handle none of the path's packets.
    pub neighbours: Vec<Neighbour>,
}

/// Cost of one stage.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenCost {
    /// Name of the stage; `source` or `sink` for the ends of the path.
    pub name: String,
    /// The stage's state, if given in the file.
    pub state: Option<State>,
    /// Share of the path's packets that reach the stage, above 0, at most 1.
    pub reach: f64,
    /// Nanoseconds per packet that reaches the stage; `None` if not given.
    pub ns: Option<f64>,
    /// The stage's work per packet in instructions and events; `None` if not given.
    pub work: Option<GivenWork>,
    /// Keys of the figures that were fitted to measured results.
    pub fitted: Vec<String>,
    /// Keys of the figures that were assumed rather than measured.
    pub assumed: Vec<String>,
}

/// Work of a stage per packet that reaches it: instructions, cache misses and stalls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GivenWork {
    /// Instructions per packet.
    pub instructions: f64,
    /// L1 data cache misses per packet.
    pub l1_misses: f64,
    /// L2 misses per packet, a subset of the L1 misses.
    pub l2_misses: f64,
    /// Nanoseconds per packet that the worker stalls on device accesses.
    pub io_ns: f64,
    /// Stall cycles per instruction that no hardware counter covers: branches, buffers,
    /// dependencies.
    pub bubble_cycles: f64,
    /// Instructions per poll of the input.
    pub poll_instructions: f64,
    /// Nanoseconds of stall per empty poll.
    pub poll_ns: f64,
    /// Instructions per iteration, with or without a packet, for polling a second input.
    pub turn_instructions: f64,
    /// Nanoseconds of stall per iteration for polling the second input.
    pub turn_ns: f64,
}

/// What a thread outside the path does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idling {
    /// The thread polls an input that has no packets.
    Polls,
    /// The thread runs an empty endless loop: `while(1)`.
    Spins,
}

/// A group of threads outside the path, which handle none of the path's packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Neighbour {
    /// The threads' name in reports.
    pub name: String,
    /// What each of the threads does.
    pub does: Idling,
    /// The processors that the threads run on. Never empty.
    pub cpus: Vec<u32>,
    /// Instructions per iteration of a thread's loop.
    pub instructions: f64,
    /// Nanoseconds of stall per iteration of a thread's loop.
    pub ns: f64,
}

/// The properties of a stage that the check of its costs needs.
pub(crate) struct Named {
    /// The stage's name, if it could be read.
    pub(crate) name: Option<String>,
    /// The stage's kind, if this build does not have it.
    pub(crate) foreign: Option<String>,
    /// Position of the key `kind` in the file, in bytes.
    pub(crate) at: Range<usize>,
}

/// Reads the costs in the section `[costs]`; returns `None` if a mistake was recorded, here or
/// earlier for one of its keys.
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
    // A figure that could not be read has already been recorded as a mistake, and may be the
    // missing cost.
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
        ns: entry.number("ns"),
        work,
        fitted: entry.texts("fitted")?.to_vec(),
        assumed: entry.texts("assumed")?.to_vec(),
    })
}

/// Keys of the figures in [`GivenWork`], with `instructions` first.
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

/// Checks figures that must not exceed another figure, that need another figure, or that must not
/// be zero.
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
    for key in ["instructions", "ns", "reach"] {
        if of(key) == Some(0.0) {
            mistakes.push(Mistake::new(&entry.place(key), format!("'{key}' must be above 0")));
        }
    }
}

/// Checks that the list of keys named `list` contains only keys of figures that the entry sets.
fn check_keys(entry: &Fields, list: &'static str, mistakes: &mut Vec<Mistake>) {
    for (index, key) in entry.texts(list).unwrap_or_default().iter().enumerate() {
        let at = entry.item_place(list, index);
        let known = || WORK.iter().copied().chain(["ns", "reach"]);
        if !known().any(|name| name == key) {
            let message = format!("unknown cost {}", shown(key));
            mistakes.push(Mistake::new(&at, message).help(suggest::help(key, known())));
        } else if !entry.is_given(key) {
            let message = format!("'{key}' is not set in this entry");
            mistakes.push(Mistake::new(&at, message).help("list only costs that this entry sets"));
        }
    }
}

/// Checks that every entry names a stage or an end of the path, and that no two entries name the
/// same one.
fn check_names(entries: &[Fields], stages: &[Named], mistakes: &mut Vec<Mistake>) {
    // A stage whose name could not be read may be the one that an entry means.
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

/// Checks that every stage has an entry in the costs.
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
                let message =
                    format!("'kind' cannot be {}: [costs] has no figures for it", shown(kind));
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
        // A figure that could not be read has already been recorded as a mistake, and may be
        // `instructions`.
        let is_read = mistakes.is_empty() || entry.is_given("instructions");
        if does == Idling::Polls && is_read && of("instructions") < 1.0 {
            let message = "a poll has at least 1 instruction";
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
        let message = format!("{} neighbours; the limit is {MAX_WORKERS}", taken.len());
        mistakes.push(Mistake::new(&section.place("neighbours"), message));
    }
    Some(all)
}
