// SPDX-License-Identifier: MIT OR Apache-2.0
//! The keys of `[source]`.

use super::port::{INTERFACE_NAME, IO, PROMISCUOUS};
use super::{
    Key, Kind, MAX_BUFFER_BYTES, MIN_FRAME_BYTES, Omitted, REQUIRED, Section, Variants, integer,
    key, number, text,
};
use crate::spec::{Default, ParamKind};

const BUFFER_BYTES: Key = key(
    "buffer_bytes",
    integer(MIN_FRAME_BYTES as i64, MAX_BUFFER_BYTES as i64),
    number(2048),
    "Buffer size in bytes; longer frames are rejected and counted.",
    "",
);

/// The first key of every source that reads a capture.
pub(super) const CAPTURE_FILE: Key = key(
    "file",
    Kind::Label,
    REQUIRED,
    "Path of the capture, relative to this file.",
    "\"edge.pcapng\"",
);

const SEGMENT: Key = key(
    "segment",
    Kind::Param(ParamKind::Word(&["cut", "keep"])),
    text("cut"),
    "Handling of oversized TCP segments (GRO, TSO): split them to wire size, or keep them.",
    "",
);

const PAD: Key = key(
    "pad",
    Kind::Param(ParamKind::Bool),
    Omitted::Is(Default::Bool(false)),
    "Pad truncated frames with zeros to their original length and fix their checksums.",
    "",
);

const ALLOW_LEFT_OUT: Key = key(
    "allow_left_out",
    Kind::Param(ParamKind::Bool),
    Omitted::Is(Default::Bool(false)),
    "Replay the remaining packets even if more than half of the bytes are skipped.",
    "",
);

const SKIP: Key = key(
    "skip",
    integer(0, i64::MAX),
    number(0),
    "Number of packets to skip at the start of the capture.",
    "",
);

const FIRST: Key = key(
    "first",
    integer(1, i64::MAX),
    Omitted::Means("all packets after the skipped ones"),
    "Maximum number of packets to read; the rest of the file is not read.",
    "1000000",
);

const SAMPLE: Key = key(
    "sample",
    integer(1, 1 << 20),
    number(1),
    "Keep all packets of one in N address pairs.",
    "",
);

/// The last keys of every source that reads a capture. They follow the source's own parameters.
pub(super) const CAPTURE_RULES: [Key; 7] =
    [BUFFER_BYTES, SEGMENT, PAD, ALLOW_LEFT_OUT, SKIP, FIRST, SAMPLE];

pub(super) static SOURCE: Section = Section {
    title: "[source]",
    help: "The source of the packets.",
    variants: Variants::Sources(&[
        (
            "capture",
            "A pcap or pcapng file, replayed from memory.",
            &[CAPTURE_FILE, BUFFER_BYTES, SEGMENT, PAD, ALLOW_LEFT_OUT, SKIP, FIRST, SAMPLE],
        ),
        (
            "generator",
            "Generated UDP packets.",
            &[
                key(
                    "sizes",
                    Kind::Sizes,
                    text("imix"),
                    "Frame sizes in bytes without FCS, used in rotation. \"imix\" is 60, 590 and \
                     1514 at 7:4:1.",
                    "",
                ),
                key("flows", integer(1, 1 << 20), number(1024), "Number of distinct flows.", ""),
                key(
                    "seed",
                    integer(0, i64::MAX),
                    number(1),
                    "Random seed for addresses and ports.",
                    "",
                ),
                BUFFER_BYTES,
            ],
        ),
        (
            "interface",
            "Packets that arrive on a network interface.",
            &[INTERFACE_NAME, IO, PROMISCUOUS, BUFFER_BYTES, SEGMENT],
        ),
        ("ports", "Packets that arrive on the two ports in [[port]].", &[BUFFER_BYTES, SEGMENT]),
    ]),
    keys: &[key("kind", Kind::Variant, REQUIRED, "Kind of source.", "\"capture\"")],
};
