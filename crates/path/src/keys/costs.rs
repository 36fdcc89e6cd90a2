// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sections of costs: costs of stages without a measured run.

use super::{
    Key, Kind, MAX_WORKERS, Omitted, REQUIRED, Section, Variants, integer, key, number, text,
};
use crate::spec::{Default, ParamKind, State};

/// Maximum cost of one packet on one stage, in any unit: ten milliseconds, or ten million
/// instructions, are too long for a packet path. All stages on one worker then stay far below the
/// billion instructions or cycles that the simulator of strands accepts.
const MAX_COST: f64 = 1e7;

const fn amount(name: &'static str, omitted: &'static str, help: &'static str) -> Key {
    key(name, Kind::Param(ParamKind::Number { max: MAX_COST }), Omitted::Means(omitted), help, "")
}

const fn share(name: &'static str, omitted: &'static str, help: &'static str) -> Key {
    key(name, Kind::Param(ParamKind::Number { max: 1.0 }), Omitted::Means(omitted), help, "0.5")
}

pub(super) static COSTS: Section = Section {
    title: "[costs]",
    help: "Costs of the stages, for 'linerate plan'; with it, stages may be of kinds that this \
           build does not have.",
    variants: Variants::None,
    keys: &[
        key("from", Kind::Label, REQUIRED, "Where the figures come from.", "\"a profile\""),
        key(
            "flows",
            integer(1, MAX_WORKERS as i64),
            number(1),
            "Flows of equal rate, each on a separate line; rates are per flow.",
            "",
        ),
        share("spread", "0.05", "Share by which costs may be off, either way, 9 times of 10."),
        amount(
            "handover_ns",
            "between the cheapest and the dearest ring seen",
            "Nanoseconds that handing a packet over a ring takes on each side.",
        ),
        share(
            "memory_share",
            "0.3",
            "Loads and stores per instruction, if strands share the load/store unit.",
        ),
        key("stages", Kind::Tables(&COST), REQUIRED, "", ""),
        key("neighbours", Kind::Tables(&NEIGHBOUR), Omitted::Means("none"), "", ""),
    ],
};

static COST: Section = Section {
    title: "[[costs.stages]]",
    help: "Cost of a packet that reaches a stage; one section for each stage.",
    variants: Variants::None,
    keys: &[
        key("name", Kind::Name, REQUIRED, "The stage, or source or sink.", "\"parse\""),
        key(
            "state",
            Kind::Param(ParamKind::Word(&State::WORDS)),
            Omitted::Means("that of the kind; global where this build does not have the kind"),
            "State kept between packets; global state rules out replicas.",
            "",
        ),
        share("reach", "1", "Share of the packets of the path that reach it."),
        amount("ns", "not known", "Nanoseconds of a packet."),
        amount("instructions", "not known", "Instructions of a packet."),
        amount("l1_misses", "0", "Misses of the first data cache, per packet."),
        amount("l2_misses", "0", "Those of them that miss the second cache too."),
        amount("io_ns", "0", "Nanoseconds of a packet that devices let the worker wait."),
        amount("bubble_cycles", "0", "Stall cycles per instruction that no counter covers."),
        amount("poll_instructions", "0", "Instructions of a poll for a packet."),
        amount("poll_ns", "0", "Nanoseconds that an empty poll waits."),
        amount("turn_instructions", "0", "Instructions per iteration for a second input."),
        amount("turn_ns", "0", "Nanoseconds that an iteration waits for a second input."),
        key(
            "fitted",
            Kind::Param(ParamKind::Texts),
            Omitted::Is(Default::EmptyTexts),
            "Which of these figures were fitted to results.",
            "",
        ),
        key(
            "assumed",
            Kind::Param(ParamKind::Texts),
            Omitted::Is(Default::EmptyTexts),
            "Which were assumed.",
            "",
        ),
    ],
};

static NEIGHBOUR: Section = Section {
    title: "[[costs.neighbours]]",
    help: "Threads outside the path that take none of its packets.",
    variants: Variants::None,
    keys: &[
        key("name", Kind::Name, REQUIRED, "Its name in reports.", "\"idle-poll\""),
        key(
            "does",
            Kind::Param(ParamKind::Word(&["poll", "spin"])),
            text("poll"),
            "It polls an input on which nothing comes, or loops without end.",
            "",
        ),
        key("cpus", Kind::Processors, REQUIRED, "The processors it runs on.", "[3]"),
        amount("instructions", "0", "Instructions per iteration."),
        amount("ns", "0", "Nanoseconds of stall per iteration."),
    ],
};
