// SPDX-License-Identifier: MIT OR Apache-2.0
//! Specifications of the kinds of stage, for path files.
//!
//! The kinds themselves are elsewhere; they pass their specifications to the checker, so that one
//! table serves the checker, the published schema and the help.

use crate::params::{Params, Value};

/// Smallest frame without its FCS, in bytes: Ethernet frames have at least 64 bytes with it (IEEE
/// 802.3, 3.2.7), and captures and buffers leave its 4 bytes out.
pub const MIN_FRAME_BYTES: u32 = 60;

/// Largest `buffer_bytes`: offsets in a packet are 16 bits wide, and 128 bytes before the frame are
/// reserved for prepended headers.
pub const MAX_BUFFER_BYTES: u32 = u16::MAX as u32 - 128;

/// Dependence of a stage on earlier packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No state: any replica may take any packet.
    None,
    /// State per flow, or per group of flows that the source keeps on one replica.
    PerFlow,
    /// Global state for all packets, so the stage must not be replicated.
    Global,
}

impl State {
    /// Names in a path file.
    pub const WORDS: [&str; 3] = ["none", "flow", "global"];

    /// In the order of [`State::WORDS`].
    const ALL: [Self; 3] = [Self::None, Self::PerFlow, Self::Global];

    /// The state with this name in [`State::WORDS`].
    pub fn of_word(word: &str) -> Option<Self> {
        let found = Self::WORDS.iter().zip(Self::ALL).find(|(name, _)| **name == word);
        found.map(|(_, state)| state)
    }

    /// Its name in a path file.
    pub fn word(self) -> &'static str {
        Self::WORDS[Self::ALL.iter().position(|state| *state == self).unwrap_or(0)]
    }
}

/// The type and range of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParamKind {
    /// `true` or `false`.
    Bool,
    /// An integer from `min` to `max`, inclusive.
    Integer {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// A string, checked by the stage itself.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list of strings.
    Texts,
    /// A number from 0 to `max`, inclusive.
    Number {
        /// Largest value.
        max: f64,
    },
}

/// Meaning of an omitted parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Default {
    /// It must be given.
    Required,
    /// This boolean.
    Bool(bool),
    /// This number.
    Integer(i64),
    /// This string.
    Text(&'static str),
    /// An empty list.
    EmptyTexts,
    /// No default: the parameter is absent, with this meaning.
    Absent(&'static str),
}

impl Default {
    /// The default value, if any.
    pub fn value(self) -> Option<Value> {
        match self {
            Self::Required | Self::Absent(_) => None,
            Self::Bool(value) => Some(Value::Bool(value)),
            Self::Integer(value) => Some(Value::Integer(value)),
            Self::Text(value) => Some(Value::Text(value.to_owned())),
            Self::EmptyTexts => Some(Value::Texts(Vec::new())),
        }
    }
}

/// One parameter of a kind of stage or source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParamSpec {
    /// Its key; not `kind` or `name`, which every stage has.
    pub name: &'static str,
    /// Its type and range.
    pub kind: ParamKind,
    /// Its value if omitted.
    pub default: Default,
    /// One line of help, unit included.
    pub help: &'static str,
}

/// A kind of stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageSpec {
    /// Value of `kind = "..."`.
    pub kind: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// Its parameters.
    pub params: &'static [ParamSpec],
    /// Whether a `parse` must precede it.
    pub needs_headers: bool,
    /// Its state, which determines whether it can be replicated.
    pub state: State,
    /// Whether packets of different flows keep their order. Order within a flow is always kept.
    pub keeps_order: bool,
    /// Drop causes, as worded in the report.
    pub drop_causes: &'static [&'static str],
}

/// A kind of source that derives its packets from a capture. In addition to its parameters it has
/// the keys `file` and `buffer_bytes` of every such source.
#[derive(Clone, Copy, Debug)]
pub struct SourceSpec {
    /// Value of `kind = "..."`.
    pub kind: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// Its parameters.
    pub params: &'static [ParamSpec],
    /// Checks individually valid parameters together; also gets the buffer size in bytes.
    pub check: fn(&Params, u32) -> Vec<Misfit>,
    /// Frame size in bytes, if independent of the capture.
    pub frame_bytes: fn(&Params) -> Option<u32>,
}

/// Incompatible parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The parameter to report.
    pub param: &'static str,
    /// The error.
    pub message: String,
    /// The fix.
    pub help: String,
}

impl Misfit {
    /// Frames of this size do not fit into a buffer.
    pub fn too_long(param: &'static str, bytes: u32, buffer_bytes: u32) -> Self {
        Self {
            param,
            message: format!("frames of {bytes} bytes exceed buffer_bytes = {buffer_bytes}"),
            help: format!("raise buffer_bytes (at most {MAX_BUFFER_BYTES}) or use shorter frames"),
        }
    }
}

/// The registered kinds of stage and of source, in addition to the sources of every build.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kinds<'k> {
    /// The kinds of stage.
    pub stages: &'k [StageSpec],
    /// The kinds of source.
    pub sources: &'k [SourceSpec],
}

impl<'k> From<&'k [StageSpec]> for Kinds<'k> {
    fn from(stages: &'k [StageSpec]) -> Self {
        Self { stages, sources: &[] }
    }
}

impl<'k, const N: usize> From<&'k [StageSpec; N]> for Kinds<'k> {
    fn from(stages: &'k [StageSpec; N]) -> Self {
        Self::from(stages.as_slice())
    }
}

impl<'k> From<&'k Vec<StageSpec>> for Kinds<'k> {
    fn from(stages: &'k Vec<StageSpec>) -> Self {
        Self::from(stages.as_slice())
    }
}
