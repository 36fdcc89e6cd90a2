// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every section and key of a path file.
//!
//! Checks, defaults, the published schema and the help all derive from this table. Stage parameters
//! are added from the specifications of their kinds. Constraints between keys are checked when the
//! path is built.

mod costs;
mod port;
mod source;
mod stage;

use crate::model::{IdlePolicy, SELECTED};
use crate::spec::{Default, Kinds, ParamKind, ParamSpec, SourceSpec, StageSpec};
pub use crate::spec::{MAX_BUFFER_BYTES, MIN_FRAME_BYTES};

/// Maximum number of stages per path.
pub const MAX_STAGES: usize = 16;

/// Maximum number of workers per path, including replicas.
pub const MAX_WORKERS: usize = 64;

/// Required number of `[[port]]` sections: a forwarder has two ports.
pub const PORTS: usize = 2;

/// Maximum number of sections with the same name that are read. This exceeds the limits of all
/// repeated sections.
pub(crate) const MAX_SECTIONS: usize = 1024;

/// Largest CPU number. Linux on x86 can be built for 8192 CPUs (`NR_CPUS`).
const MAX_CPU: i64 = 8191;

/// Maximum length of a run in seconds: 30 days.
pub(crate) const MAX_SECONDS: f64 = 30.0 * 86_400.0;

/// Frame sizes of the simple Internet mix: IP packets of 40, 576 and 1500 bytes at 7:4:1, the usual
/// proportion in router tests (RFC 6985 standardises a notation for mixes, but no mix). With a
/// 14-byte Ethernet header and padding to the minimum, frames have 60, 590 and 1514 bytes. The
/// sizes are interleaved so that even a few consecutive packets resemble the mix.
pub const IMIX_BYTES: [u32; 12] = [60, 590, 60, 60, 590, 60, 1514, 60, 590, 60, 60, 590];

/// A key of a path file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Key {
    /// The key as spelled in the file.
    pub name: &'static str,
    /// Kind of value.
    pub kind: Kind,
    /// What happens if the key is omitted.
    pub omitted: Omitted,
    /// One line of help, unit included.
    pub help: &'static str,
    /// Example value, as written in a path file; empty if it can be derived from the kind of value
    /// or the default.
    pub example: &'static str,
}

/// Kind of value that a key takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A value of a type that stage parameters can have.
    Param(ParamKind),
    /// A non-empty string without control characters.
    Label,
    /// A name of letters, digits, `-` and `_`, which keeps the short form of a mapping readable:
    /// `a+b | c x2`.
    Name,
    /// The word that selects a [`Variant`] of the section.
    Variant,
    /// A power of two from `min` to `max`, inclusive.
    PowerOfTwo {
        /// Smallest valid value.
        min: i64,
        /// Largest valid value.
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
    /// A non-empty list of stage names.
    StageNames,
    /// A section: `[name]`.
    Table(&'static Section),
    /// A repeatable section: `[[name]]`, or a list of inline tables.
    Tables(&'static Section),
}

/// What happens if a key is omitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Omitted {
    /// The default value applies, or the omission is an error because the key is required.
    Is(Default),
    /// No default value; the string says what happens instead.
    Means(&'static str),
    /// Omitting the section is the same as leaving it empty.
    EmptySection,
}

/// A section of a path file: a group of keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Section {
    /// Section name in error messages; empty for the whole file.
    pub title: &'static str,
    /// One-line description for the help and the schema.
    pub help: &'static str,
    /// Keys common to all variants of the section.
    pub keys: &'static [Key],
    /// Where the keys that depend on `kind` come from.
    pub variants: Variants,
}

/// A built-in variant of a section: the value of `kind`, one line of help, and additional keys.
pub type FixedVariant = (&'static str, &'static str, &'static [Key]);

/// Where a section's variants come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Variants {
    /// There are no variants.
    None,
    /// Built-in variants.
    Fixed(&'static [FixedVariant]),
    /// Built-in variants and the registered source kinds.
    Sources(&'static [FixedVariant]),
    /// The registered stage kinds.
    Stages,
}

/// A variant of a section, selected by `kind`, with additional keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// Value of `kind` that selects this variant.
    pub kind: &'static str,
    /// One-line description for the help and the schema.
    pub help: &'static str,
    /// Keys that the variant adds to the section.
    pub keys: Vec<Key>,
}

impl Section {
    /// Returns where the section's keys are, as worded in messages.
    pub(crate) fn within(&self) -> String {
        match self.title {
            "" => "at the top of the file".to_owned(),
            title => format!("in {title}"),
        }
    }

    /// Returns the section's variants, including those of the registered `kinds`.
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
    pub(crate) fn of_stage(spec: &StageSpec) -> Self {
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
    /// Creates the key of a stage or source parameter.
    fn of_param(param: &ParamSpec) -> Self {
        let omitted = match param.default {
            Default::Absent(meaning) => Omitted::Means(meaning),
            default => Omitted::Is(default),
        };
        let kind = Kind::Param(param.kind);
        Self { name: param.name, kind, omitted, help: param.help, example: "" }
    }

    /// Returns whether omitting the key is an error.
    pub fn is_required(&self) -> bool {
        self.omitted == Omitted::Is(Default::Required)
    }

    /// Returns an example value, as written in a path file; empty for sections.
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

    /// Returns the key as shown in messages: `[name]` or `[[name]]` for sections, otherwise
    /// `'name'`.
    pub(crate) fn shown(&self) -> String {
        match self.kind {
            Kind::Table(_) => format!("[{}]", self.name),
            Kind::Tables(section) if section.title.starts_with('[') => section.title.to_owned(),
            _ => format!("'{}'", self.name),
        }
    }
}

/// Returns a default as spelled in a file; `None` if there is no default value.
pub(crate) fn toml_of(default: Default) -> Option<String> {
    match default {
        Default::Required | Default::Absent(_) => None,
        Default::Bool(value) => Some(value.to_string()),
        Default::Integer(value) => Some(value.to_string()),
        Default::Text(value) => Some(quoted(value)),
        Default::EmptyTexts => Some("[]".to_owned()),
    }
}

/// Returns a string as spelled in a file, with quotation marks.
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

/// The keys of a path file.
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
        key("line", Kind::Table(&LINE), Omitted::Means("no target line rate"), "", ""),
        key(
            "port",
            Kind::Tables(&port::PORT),
            Omitted::Means("[source] and [sink] name the interfaces"),
            "",
            "",
        ),
        key("source", Kind::Table(&source::SOURCE), REQUIRED, "", ""),
        key("stage", Kind::Tables(&stage::STAGE), REQUIRED, "", ""),
        key("sink", Kind::Table(&SINK), Omitted::EmptySection, "", ""),
        key("mapping", Kind::Table(&MAPPING), Omitted::Means("all stages on one worker"), "", ""),
        key("run", Kind::Table(&RUN), Omitted::EmptySection, "", ""),
        key("idle", Kind::Table(&IDLE), Omitted::EmptySection, "", ""),
        key("costs", Kind::Table(&costs::COSTS), Omitted::Means("costs from a run record"), "", ""),
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
            "Bit rate of one port, including preamble, FCS and inter-frame gap.",
            "\"10Gb/s\"",
        ),
        key("ports", integer(1, 1024), number(1), "Number of ports that feed the path.", ""),
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
        ("interface", "A network interface.", &[port::INTERFACE_NAME, port::IO]),
        (
            "ports",
            "The other of the two ports in [[port]]: each packet leaves on the port it did not \
             arrive on.",
            &[],
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
        key(
            "idle",
            Kind::Param(ParamKind::Word(&IdlePolicy::WORDS)),
            Omitted::Means("'policy' of [idle]"),
            "What these workers do while they have no packets.",
            "\"park\"",
        ),
    ],
};

static RUN: Section = Section {
    title: "[run]",
    help: "Options of a run.",
    variants: Variants::None,
    keys: &[
        key("time", Kind::Duration, text("2s"), "How long to offer packets.", ""),
        key(
            "packets",
            integer(1, i64::MAX),
            Omitted::Means("the run lasts for 'time'"),
            "Number of packets to offer; mutually exclusive with 'time'.",
            "100000",
        ),
        key(
            "rate",
            Kind::OfferedRate,
            text("max"),
            "Offered load: \"max\", \"line\", \"capture\" (recorded gaps), or a rate in packets or \
             bits per second.",
            "",
        ),
        key("burst", integer(1, 256), number(32), "Burst size, in packets.", ""),
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

static IDLE: Section = Section {
    title: "[idle]",
    help: "What workers do while they have no packets.",
    variants: Variants::None,
    keys: &[
        key(
            "policy",
            Kind::Param(ParamKind::Word(&IdlePolicy::WORDS)),
            text("pause"),
            "\"spin\" busy-polls, \"pause\" busy-polls with pause instructions, \"slow\" polls \
             about once per microsecond, \"park\" sleeps until packets arrive, \"auto\" sleeps \
             once idle for 'park_after'.",
            "",
        ),
        key(
            "park_after",
            Kind::Duration,
            Omitted::Means("the measured wake-up latency"),
            "Idle time after which \"auto\" sleeps.",
            "\"20us\"",
        ),
    ],
};

impl Kind {
    /// Smallest and largest CPU number.
    pub(crate) const CPU_RANGE: (i64, i64) = (0, MAX_CPU);
}
