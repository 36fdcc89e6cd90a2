// SPDX-License-Identifier: MIT OR Apache-2.0
//! The keys of `[[stage]]`.

use super::{Key, Kind, Omitted, REQUIRED, Section, Variants, key, text};
use crate::class::PacketClass;
use crate::spec::ParamKind;

/// The key that restricts a stage to a class of packets.
const ONLY: Key = key(
    "only",
    Kind::Param(ParamKind::Word(&PacketClass::WORDS)),
    text("all"),
    "Packets that the stage processes; all others bypass it. \"other\" is anything that is not IP; \
     \"icmp\" includes ICMPv6.",
    "",
);

pub(super) static STAGE: Section = Section {
    title: "[[stage]]",
    help: "The stages that process the packets, one section each, in order.",
    variants: Variants::Stages,
    keys: &[
        key("kind", Kind::Variant, REQUIRED, "Kind of stage.", "\"parse\""),
        key(
            "name",
            Kind::Name,
            Omitted::Means("the kind"),
            "Name of the stage in reports and the mapping; must be unique.",
            "\"count-in\"",
        ),
        ONLY,
    ],
};
