// SPDX-License-Identifier: MIT OR Apache-2.0
//! The keys of `[costs]`: costs of stages without a measured run.

use super::{
    Key, Kind, MAX_WORKERS, Omitted, REQUIRED, Section, Variants, integer, key, number, text,
};
use crate::spec::{Default, ParamKind, State};

/// Maximum per-packet cost of a stage, in any unit. Ten milliseconds or ten million instructions
/// are far more than a packet path can afford. The limit keeps a worker's total far below the
/// billion instructions or cycles that the simulator of hardware strands accepts.
const MAX_COST: f64 = 1e7;

const fn amount(name: &'static str, omitted: &'static str, help: &'static str) -> Key {
    key(name, Kind::Param(ParamKind::Number { max: MAX_COST }), Omitted::Means(omitted), help, "")
}

const fn share(name: &'static str, omitted: &'static str, help: &'static str) -> Key {
    key(name, Kind::Param(ParamKind::Number { max: 1.0 }), Omitted::Means(omitted), help, "0.5")
}

pub(super) static COSTS: Section = Section {
    title: "[costs]",
    help: "Stage costs for 'linerate plan'; the stage kinds need not be in this build.",
    variants: Variants::None,
    keys: &[
        key("from", Kind::Label, REQUIRED, "Source of the figures.", "\"a profile\""),
        key(
            "flows",
            integer(1, MAX_WORKERS as i64),
            number(1),
            "Number of equal-rate flows, each on its own link; rates are per flow.",
            "",
        ),
        share("spread", "0.05", "Relative half-width of the costs' 90 % interval."),
        amount(
            "handover_ns",
            "the range from the cheapest to the most expensive ring measured",
            "Nanoseconds per packet on each side of a ring handoff.",
        ),
        share(
            "memory_share",
            "0.3",
            "Loads and stores per instruction; used if strands share a load/store unit.",
        ),
        key("stages", Kind::Tables(&COST), REQUIRED, "", ""),
        key("neighbours", Kind::Tables(&NEIGHBOUR), Omitted::Means("none"), "", ""),
    ],
};

static COST: Section = Section {
    title: "[[costs.stages]]",
    help: "Per-packet cost of a stage; one section per stage.",
    variants: Variants::None,
    keys: &[
        key(
            "name",
            Kind::Name,
            REQUIRED,
            "Name of the stage, or \"source\" or \"sink\".",
            "\"parse\"",
        ),
        key(
            "state",
            Kind::Param(ParamKind::Word(&State::WORDS)),
            Omitted::Means("the kind's default; 'global' for kinds that are not compiled in"),
            "State kept between packets; global state rules out replicas.",
            "",
        ),
        share("reach", "1", "Share of the path's packets that reach the stage."),
        share(
            "processed",
            "1",
            "Of the packets that reach the stage, the share that it processes; below 1 if the \
             stage has 'only'.",
        ),
        amount("ns", "not known", "Nanoseconds per packet."),
        amount("instructions", "not known", "Instructions per packet."),
        amount("l1_misses", "0", "L1 data cache misses per packet."),
        amount("l2_misses", "0", "L2 misses per packet; included in the L1 misses."),
        amount("io_ns", "0", "Stall time on device accesses, in nanoseconds per packet."),
        amount("bubble_cycles", "0", "Stall cycles per instruction that no counter accounts for."),
        amount("poll_instructions", "0", "Instructions per poll."),
        amount("poll_ns", "0", "Stall time per empty poll, in nanoseconds."),
        amount(
            "turn_instructions",
            "0",
            "Instructions per loop iteration for polling a second input.",
        ),
        amount(
            "turn_ns",
            "0",
            "Stall time per loop iteration for polling a second input, in nanoseconds.",
        ),
        key(
            "fitted",
            Kind::Param(ParamKind::Texts),
            Omitted::Is(Default::EmptyTexts),
            "Names of the figures that were fitted to measurements.",
            "",
        ),
        key(
            "assumed",
            Kind::Param(ParamKind::Texts),
            Omitted::Is(Default::EmptyTexts),
            "Names of the figures that were assumed.",
            "",
        ),
    ],
};

static NEIGHBOUR: Section = Section {
    title: "[[costs.neighbours]]",
    help: "Threads that run alongside the path and handle none of its packets.",
    variants: Variants::None,
    keys: &[
        key("name", Kind::Name, REQUIRED, "Name of the threads in reports.", "\"idle-poll\""),
        key(
            "does",
            Kind::Param(ParamKind::Word(&["poll", "spin"])),
            text("poll"),
            "What each thread does: \"poll\" an idle input, or \"spin\" in an endless loop.",
            "",
        ),
        key(
            "cpus",
            Kind::Processors,
            REQUIRED,
            "CPUs that the threads run on, one thread per CPU.",
            "[3]",
        ),
        amount("instructions", "0", "Instructions per iteration."),
        amount("ns", "0", "Stall time per iteration, in nanoseconds."),
    ],
};
