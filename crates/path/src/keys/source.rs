// SPDX-License-Identifier: MIT OR Apache-2.0
//! The keys of `[source]`.

use super::{
    Key, Kind, MAX_BUFFER_BYTES, MIN_FRAME_BYTES, Omitted, REQUIRED, Section, Variants, integer,
    key, number, text,
};
use crate::spec::{Default, ParamKind};

const BUFFER_BYTES: Key = key(
    "buffer_bytes",
    integer(MIN_FRAME_BYTES as i64, MAX_BUFFER_BYTES as i64),
    number(2048),
    "Bytes of the longest frame a buffer holds; longer ones are rejected and counted.",
    "",
);

/// The key of every source that reads a capture, before its own.
pub(super) const CAPTURE_FILE: Key =
    key("file", Kind::Label, REQUIRED, "The capture, relative to this file.", "\"edge.pcapng\"");

const SEGMENT: Key = key(
    "segment",
    Kind::Param(ParamKind::Word(&["cut", "keep"])),
    text("cut"),
    "TCP segments that offload joined: cut to wire size again, or keep them as they are.",
    "",
);

const PAD: Key = key(
    "pad",
    Kind::Param(ParamKind::Bool),
    Omitted::Is(Default::Bool(false)),
    "Fill frames that the capture cut with zeros to their length, checksums made right.",
    "",
);

const ALLOW_LEFT_OUT: Key = key(
    "allow_left_out",
    Kind::Param(ParamKind::Bool),
    Omitted::Is(Default::Bool(false)),
    "Replay the rest even if more than half of the bytes are left out.",
    "",
);

const SKIP: Key = key(
    "skip",
    integer(0, i64::MAX),
    number(0),
    "Packets at the start of the capture that are passed over.",
    "",
);

const FIRST: Key = key(
    "first",
    integer(1, i64::MAX),
    Omitted::Means("all packets behind those skipped"),
    "Maximum number of packets to read; the rest of the file is not read.",
    "1000000",
);

const SAMPLE: Key = key(
    "sample",
    integer(1, 1 << 20),
    number(1),
    "Sample one of this number of address pairs, with all its packets.",
    "",
);

/// The keys of every source that reads a capture, behind its own.
pub(super) const CAPTURE_RULES: [Key; 7] =
    [BUFFER_BYTES, SEGMENT, PAD, ALLOW_LEFT_OUT, SKIP, FIRST, SAMPLE];

pub(super) static SOURCE: Section = Section {
    title: "[source]",
    help: "The source of the packets.",
    variants: Variants::Sources(&[
        (
            "capture",
            "A pcap or pcapng file, of which the packets replayed are in memory.",
            &[CAPTURE_FILE, BUFFER_BYTES, SEGMENT, PAD, ALLOW_LEFT_OUT, SKIP, FIRST, SAMPLE],
        ),
        (
            "generator",
            "UDP packets made to measure.",
            &[
                key(
                    "sizes",
                    Kind::Sizes,
                    text("imix"),
                    "Bytes of the frames without check sequence, used in turn. \
                     \"imix\" is 60, 590 and 1514 at 7:4:1.",
                    "",
                ),
                key("flows", integer(1, 1 << 20), number(1024), "Number of distinct flows.", ""),
                key(
                    "seed",
                    integer(0, i64::MAX),
                    number(1),
                    "Start of the random addresses and ports.",
                    "",
                ),
                BUFFER_BYTES,
            ],
        ),
    ]),
    keys: &[key("kind", Kind::Variant, REQUIRED, "Which kind of source.", "\"capture\"")],
};
