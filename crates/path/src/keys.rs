// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every section and key of a path file.
//!
//! The check, the defaults, the published schema and the help all come from this one table. The
//! parameters of stages are added from the specifications of their kinds. Constraints between keys
//! are checked when the path is built from the whole file.

mod costs;
mod source;

use crate::model::SELECTED;
use crate::spec::{Default, Kinds, ParamKind, ParamSpec, SourceSpec, StageSpec};
pub use crate::spec::{MAX_BUFFER_BYTES, MIN_FRAME_BYTES};

/// Maximum number of stages per path.
pub const MAX_STAGES: usize = 16;

/// Maximum number of workers per path, including replicas.
pub const MAX_WORKERS: usize = 64;

/// Maximum number of repeated sections of one name that are read. It is higher than the limit for
/// any section.
pub(crate) const MAX_SECTIONS: usize = 1024;

/// Largest CPU number: Linux on x86 can be built for 8192 CPUs (`NR_CPUS`).
const MAX_CPU: i64 = 8191;

/// Maximum length of a run, 30 days in seconds.
pub(crate) const MAX_SECONDS: f64 = 30.0 * 86_400.0;

/// Frame sizes of the simple Internet mix: IP packets of 40, 576 and 1500 bytes at 7:4:1, the usual
/// proportion in router tests (RFC 6985 standardises a notation for mixes, not a mix). With the
/// 14-byte Ethernet header, and the smallest frame padded, frames have 60, 590 and 1514 bytes. The
/// order spreads the sizes, so that any few consecutive packets resemble the mix.
pub const IMIX_BYTES: [u32; 12] = [60, 590, 60, 60, 590, 60, 1514, 60, 590, 60, 60, 590];

/// One key of a path file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Key {
    /// The key as written in the file.
    pub name: &'static str,
    /// Kind of value that the key requires.
    pub kind: Kind,
    /// Behaviour if the key is omitted.
    pub omitted: Omitted,
    /// One line of help, unit included.
    pub help: &'static str,
    /// An example value as written in the file; empty if the kind of value or the default serves as
    /// the example.
    pub example: &'static str,
}

/// Kind of value that a key requires.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A value of one of the types that parameters of stages have.
    Param(ParamKind),
    /// A non-empty string without control characters.
    Label,
    /// A name of letters, digits, `-` and `_`, which stays readable in the short form of a mapping:
    /// `a+b | c x2`.
    Name,
    /// The word that chooses a [`Variant`] of the section.
    Variant,
    /// A power of two from `min` to `max`, both included.
    PowerOfTwo {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// Bits per second, as a string with a unit.
    BitRate,
    /// A time, as a string with a unit.
    Duration,
    /// Offered rate: a word, a packet rate or a bit rate.
    OfferedRate,
    /// Frame sizes in bytes: a number, a list of numbers, or `"imix"`.
    Sizes,
    /// A list of CPU numbers.
    Processors,
    /// A list of at least one stage name.
    StageNames,
    /// A section: `[name]`.
    Table(&'static Section),
    /// A section that may be repeated: `[[name]]`, or a list of inline tables.
    Tables(&'static Section),
}

/// Behaviour if a key is omitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Omitted {
    /// The key has this default value; if the key is required, the file is rejected.
    Is(Default),
    /// The key has no value, with the meaning described in words.
    Means(&'static str),
    /// The key, which is a section, is treated as if it were present but empty.
    EmptySection,
}

/// A section of a path file: a group of keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Section {
    /// Spelling of the section in messages; empty for the whole file.
    pub title: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// Keys that every variant of the section has.
    pub keys: &'static [Key],
    /// Source of the keys that depend on the section's `kind`.
    pub variants: Variants,
}

/// A built-in variant of a section: the value of `kind`, one line of help, and the keys that it
/// adds.
pub type FixedVariant = (&'static str, &'static str, &'static [Key]);

/// Source of the variants of a section.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Variants {
    /// The section has no variants.
    None,
    /// These built-in variants.
    Fixed(&'static [FixedVariant]),
    /// These built-in variants, and the registered kinds of source.
    Sources(&'static [FixedVariant]),
    /// The registered kinds of stage.
    Stages,
}

/// A variant of a section, selected by its key `kind`, which adds keys to the section.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// The value of `kind`.
    pub kind: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// The keys that the variant adds to the section.
    pub keys: Vec<Key>,
}

impl Section {
    /// Returns the location of the section's keys in words, as shown in messages.
    pub(crate) fn within(&self) -> String {
        match self.title {
            "" => "at the top of the file".to_owned(),
            title => format!("in {title}"),
        }
    }

    /// Returns the variants of the section, including those of the registered `kinds`.
    pub fn variants(&self, kinds: Kinds<'_>) -> Vec<Variant> {
        let fixed = |all: &'static [FixedVariant]| {
            all.iter().map(|&(kind, help, keys)| Variant { kind, help, keys: keys.to_vec() })
        };
        match self.variants {
            Variants::None => Vec::new(),
            Variants::Fixed(all) => fixed(all).collect(),
            Variants::Sources(all) => {
                fixed(all).chain(kinds.sources.iter().map(Variant::of_source)).collect()
            }
            Variants::Stages => kinds.stages.iter().map(Variant::of_stage).collect(),
        }
    }
}

impl Variant {
    fn of_stage(spec: &StageSpec) -> Self {
        let keys = spec.params.iter().map(Key::of_param).collect();
        Self { kind: spec.kind, help: spec.help, keys }
    }

    fn of_source(spec: &SourceSpec) -> Self {
        let params = spec.params.iter().map(Key::of_param);
        let keys = std::iter::once(source::CAPTURE_FILE).chain(params);
        let keys = keys.chain(source::CAPTURE_RULES.iter().copied()).collect();
        Self { kind: spec.kind, help: spec.help, keys }
    }
}

impl Key {
    /// Returns the key for a parameter of a stage or source.
    fn of_param(param: &ParamSpec) -> Self {
        let omitted = match param.default {
            Default::Absent(meaning) => Omitted::Means(meaning),
            default => Omitted::Is(default),
        };
        let kind = Kind::Param(param.kind);
        Self { name: param.name, kind, omitted, help: param.help, example: "" }
    }

    /// Returns whether a file without the key is rejected.
    pub fn is_required(&self) -> bool {
        self.omitted == Omitted::Is(Default::Required)
    }

    /// Returns an example of a valid value as written in the file; empty for sections.
    pub fn example(&self) -> String {
        if !self.example.is_empty() {
            return self.example.to_owned();
        }
        if let Omitted::Is(default) = self.omitted
            && default != Default::EmptyTexts
            && let Some(text) = toml_of(default)
        {
            return text;
        }
        match self.kind {
            Kind::Param(ParamKind::Bool) => "true".to_owned(),
            Kind::Param(ParamKind::Integer { min, .. }) => min.to_string(),
            Kind::Param(ParamKind::Word(words)) => quoted(words.first().unwrap_or(&"")),
            Kind::Param(ParamKind::Texts) => "[\"...\"]".to_owned(),
            Kind::Param(ParamKind::Number { max }) => max.min(1.0).to_string(),
            Kind::Table(_) | Kind::Tables(_) => String::new(),
            _ => "\"...\"".to_owned(),
        }
    }

    /// Returns the key as written in messages: `[name]` or `[[name]]` for sections, otherwise
    /// `'name'`.
    pub(crate) fn shown(&self) -> String {
        match self.kind {
            Kind::Table(_) => format!("[{}]", self.name),
            Kind::Tables(section) if section.title.starts_with('[') => section.title.to_owned(),
            _ => format!("'{}'", self.name),
        }
    }
}

/// Returns a default as it would be written in the file; `None` if there is no default value.
pub(crate) fn toml_of(default: Default) -> Option<String> {
    match default {
        Default::Required | Default::Absent(_) => None,
        Default::Bool(value) => Some(value.to_string()),
        Default::Integer(value) => Some(value.to_string()),
        Default::Text(value) => Some(quoted(value)),
        Default::EmptyTexts => Some("[]".to_owned()),
    }
}

/// Returns a string as it is written in the file, with quotation marks.
pub(crate) fn quoted(text: &str) -> String {
    toml_edit::Value::from(text).to_string()
}

const fn key(
    name: &'static str,
    kind: Kind,
    omitted: Omitted,
    help: &'static str,
    example: &'static str,
) -> Key {
    Key { name, kind, omitted, help, example }
}

const fn integer(min: i64, max: i64) -> Kind {
    Kind::Param(ParamKind::Integer { min, max })
}

const REQUIRED: Omitted = Omitted::Is(Default::Required);

const fn number(value: i64) -> Omitted {
    Omitted::Is(Default::Integer(value))
}

const fn text(value: &'static str) -> Omitted {
    Omitted::Is(Default::Text(value))
}

/// The keys of an entire path file.
pub static FILE: Section = Section {
    title: "",
    help: "A packet path.",
    variants: Variants::None,
    keys: &[
        key(
            "name",
            Kind::Label,
            Omitted::Means("the file name without its extension"),
            "Name of the path in reports.",
            "\"edge\"",
        ),
        key(
            "kernels",
            Kind::Name,
            text(SELECTED),
            "Checksum and copy variant to use, such as \"avx2\"; \"selected\" picks the best \
             variant of each kernel.",
            "",
        ),
        key("line", Kind::Table(&LINE), Omitted::Means("no line rate to reach"), "", ""),
        key("source", Kind::Table(&source::SOURCE), REQUIRED, "", ""),
        key("stage", Kind::Tables(&STAGE), REQUIRED, "", ""),
        key("sink", Kind::Table(&SINK), Omitted::EmptySection, "", ""),
        key("mapping", Kind::Table(&MAPPING), Omitted::Means("all stages on one worker"), "", ""),
        key("run", Kind::Table(&RUN), Omitted::EmptySection, "", ""),
        key("costs", Kind::Table(&costs::COSTS), Omitted::Means("must come from a run"), "", ""),
    ],
};

static LINE: Section = Section {
    title: "[line]",
    help: "The line rate that the path should reach.",
    variants: Variants::None,
    keys: &[
        key(
            "rate",
            Kind::BitRate,
            REQUIRED,
            "Bits per second of one port, including preamble, FCS and inter-frame gap.",
            "\"10Gb/s\"",
        ),
        key("ports", integer(1, 1024), number(1), "Number of ports that feed the path.", ""),
    ],
};

static STAGE: Section = Section {
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
    ],
};

static SINK: Section = Section {
    title: "[sink]",
    help: "The destination of the packets.",
    variants: Variants::Fixed(&[
        ("null", "Nowhere; packets are only counted.", &[]),
        (
            "capture",
            "A pcap file.",
            &[
                key(
                    "file",
                    Kind::Label,
                    REQUIRED,
                    "The file to write, relative to the working directory.",
                    "\"out.pcap\"",
                ),
                key(
                    "packets",
                    integer(1, i64::MAX),
                    number(100_000),
                    "Maximum number of packets to write; later ones are only counted.",
                    "",
                ),
            ],
        ),
    ]),
    keys: &[key("kind", Kind::Variant, text("null"), "Kind of sink.", "")],
};

static MAPPING: Section = Section {
    title: "[mapping]",
    help: "Assignment of stages to workers.",
    variants: Variants::None,
    keys: &[key(
        "workers",
        Kind::Tables(&WORKER),
        REQUIRED,
        "",
        "[{ stages = [\"parse\", \"verify\"] }]",
    )],
};

static WORKER: Section = Section {
    title: "workers of [mapping]",
    help: "One inline table per group of consecutive stages; together they list every stage, in \
           order.",
    variants: Variants::None,
    keys: &[
        key(
            "stages",
            Kind::StageNames,
            REQUIRED,
            "Names of the stages on this worker.",
            "[\"parse\", \"verify\"]",
        ),
        key(
            "replicas",
            integer(1, MAX_WORKERS as i64),
            number(1),
            "Number of workers that run these stages, each on its own flows.",
            "",
        ),
        key(
            "cpus",
            Kind::Processors,
            Omitted::Means("chosen by linerate"),
            "CPUs to pin the replicas to, one per replica.",
            "[0]",
        ),
    ],
};

static RUN: Section = Section {
    title: "[run]",
    help: "Options of a run.",
    variants: Variants::None,
    keys: &[
        key("time", Kind::Duration, text("2s"), "How long packets are offered.", ""),
        key(
            "packets",
            integer(1, i64::MAX),
            Omitted::Means("'time' ends the run"),
            "Number of packets to offer; mutually exclusive with 'time'.",
            "100000",
        ),
        key(
            "rate",
            Kind::OfferedRate,
            text("max"),
            "Offered load: \"max\", \"line\", \"capture\" (recorded gaps), packets or bits per \
             second.",
            "",
        ),
        key("burst", integer(1, 256), number(32), "Burst size: packets handed over at once.", ""),
        key(
            "ring",
            Kind::PowerOfTwo { min: 2, max: 65_536 },
            number(256),
            "Capacity of the rings between workers, in packets.",
            "",
        ),
        key(
            "full_ring",
            Kind::Param(ParamKind::Word(&["wait", "drop"])),
            text("wait"),
            "What a worker does when the next ring is full.",
            "",
        ),
    ],
};

impl Kind {
    /// Smallest and largest CPU number.
    pub(crate) const CPU_RANGE: (i64, i64) = (0, MAX_CPU);
}
