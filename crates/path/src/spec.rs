// SPDX-License-Identifier: MIT OR Apache-2.0
//! Specifications of the stage and source kinds available to path files.
//!
//! The stages and sources are implemented elsewhere. Their specifications are passed to this crate,
//! so that a single table serves the checker, the published schema and the help.

use crate::params::{Params, Value};

/// Minimum frame size in bytes, FCS excluded. Ethernet frames have at least 64 bytes including the
/// FCS (IEEE 802.3, 3.2.7), which captures and buffers omit.
pub const MIN_FRAME_BYTES: u32 = 60;

/// Maximum `buffer_bytes`. Packet offsets are 16 bits wide, and 128 bytes before the frame are
/// reserved for prepending headers.
pub const MAX_BUFFER_BYTES: u32 = u16::MAX as u32 - 128;

/// State that a stage keeps between packets, which determines whether it may be replicated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No state; any replica may process any packet.
    None,
    /// State per flow, or per group of flows that the source keeps on the same replica.
    PerFlow,
    /// Global state; the stage must not be replicated.
    Global,
}

impl State {
    /// State names in path files.
    pub const WORDS: [&str; 3] = ["none", "flow", "global"];

    /// All states, in the order of [`State::WORDS`].
    const ALL: [Self; 3] = [Self::None, Self::PerFlow, Self::Global];

    /// Returns the state with this name in path files (see [`State::WORDS`]); `None` if there is
    /// none.
    pub fn of_word(word: &str) -> Option<Self> {
        let found = Self::WORDS.iter().zip(Self::ALL).find(|(name, _)| **name == word);
        found.map(|(_, state)| state)
    }

    /// Returns the state's name in path files.
    pub fn word(self) -> &'static str {
        Self::WORDS[Self::ALL.iter().position(|state| *state == self).unwrap_or(0)]
    }
}

/// Type and range of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParamKind {
    /// `true` or `false`.
    Bool,
    /// An integer from `min` to `max`, inclusive.
    Integer {
        /// Smallest valid value.
        min: i64,
        /// Largest valid value.
        max: i64,
    },
    /// A string, validated by the stage itself.
    Text,
    /// One of the given words.
    Word(&'static [&'static str]),
    /// A list of strings.
    Texts,
    /// A number from 0 to `max`, inclusive.
    Number {
        /// Largest valid value.
        max: f64,
    },
}

/// What applies if the file omits a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Default {
    /// No default; the parameter must be given.
    Required,
    /// A boolean default.
    Bool(bool),
    /// An integer default.
    Integer(i64),
    /// A string default.
    Text(&'static str),
    /// An empty list.
    EmptyTexts,
    /// No default value. The string describes what happens without the parameter.
    Absent(&'static str),
}

impl Default {
    /// Returns the default value, if there is one.
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

/// Keys that every stage has, whatever its kind.
pub const STAGE_KEYS: [&str; 3] = ["kind", "name", "only"];

/// A parameter of a stage or source kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParamSpec {
    /// The parameter's key in the file. Not one of [`STAGE_KEYS`], which every stage has.
    pub name: &'static str,
    /// Type and range.
    pub kind: ParamKind,
    /// Value if omitted.
    pub default: Default,
    /// One line of help, unit included.
    pub help: &'static str,
}

/// Specification of a stage kind, for the checker, the schema and the help.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageSpec {
    /// Value of `kind = "..."`.
    pub kind: &'static str,
    /// One-line description for the help and the schema.
    pub help: &'static str,
    /// Keys of the stage's section other than [`STAGE_KEYS`].
    pub params: &'static [ParamSpec],
    /// Whether a `parse` stage must precede the stage in the path.
    pub needs_headers: bool,
    /// State that the stage keeps between packets.
    pub state: State,
    /// Whether the stage preserves the order of packets across flows. Order within a flow is always
    /// preserved.
    pub keeps_order: bool,
    /// Drop causes, as worded in the report.
    pub drop_causes: &'static [&'static str],
}

/// A source kind, which derives its packets from a capture. In addition to its parameters, it has
/// the keys of all sources that read a capture, such as `file` and `buffer_bytes`.
#[derive(Clone, Copy, Debug)]
pub struct SourceSpec {
    /// Value of `kind = "..."`.
    pub kind: &'static str,
    /// One-line description for the help and the schema.
    pub help: &'static str,
    /// Keys of the source section, except those common to all sources that read a capture.
    pub params: &'static [ParamSpec],
    /// Checks constraints between parameters that are individually valid. The second argument is
    /// the buffer size in bytes.
    pub check: fn(&Params, u32) -> Vec<Misfit>,
    /// Returns the frame size in bytes, FCS excluded; `None` if it depends on the capture.
    pub frame_bytes: fn(&Params) -> Option<u32>,
}

/// Error for parameters that conflict with each other or with the buffer size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Parameter at which to report the error.
    pub param: &'static str,
    /// Description of the conflict.
    pub message: String,
    /// How to fix it.
    pub help: String,
}

impl Misfit {
    /// Creates the error for a parameter that makes frames too long for a buffer.
    pub fn too_long(param: &'static str, bytes: u32, buffer_bytes: u32) -> Self {
        Self {
            param,
            message: format!("frames of {bytes} bytes exceed buffer_bytes = {buffer_bytes}"),
            help: format!("raise buffer_bytes (at most {MAX_BUFFER_BYTES}) or use shorter frames"),
        }
    }
}

/// Value of `kind` in a path file for stages from shared objects. Such a stage has the parameters
/// that its object declares. [`StageUse`](crate::model::StageUse) has a more specific kind: that of
/// the [`Plugin`]'s specification.
pub const PLUGIN: &str = "plugin";

/// A stage from a shared object that a path names.
#[derive(Clone, Debug, PartialEq)]
pub struct Plugin {
    /// The object's file name, as written in the path file.
    pub file: String,
    /// The stage's name unless the path file gives it another.
    pub name: &'static str,
    /// The stage's specification. Its parameters include `file`, and its kind is [`PLUGIN`], a
    /// space and the file name.
    pub spec: StageSpec,
}

/// The stage and source kinds that a path file may use, in addition to the built-in sources
/// (capture, generator, network interfaces).
#[derive(Clone, Copy, Debug, Default)]
pub struct Kinds<'k> {
    /// Registered kinds of stage.
    pub stages: &'k [StageSpec],
    /// Registered kinds of source.
    pub sources: &'k [SourceSpec],
    /// The stages from shared objects that the path file names, which the caller has loaded.
    pub plugins: &'k [Plugin],
}

impl<'k> Kinds<'k> {
    /// Returns the loaded stage whose object is written as `file` in the path file.
    pub(crate) fn plugin(&self, file: &str) -> Option<&'k Plugin> {
        self.plugins.iter().find(|plugin| plugin.file == file)
    }
}

impl<'k> From<&'k [StageSpec]> for Kinds<'k> {
    fn from(stages: &'k [StageSpec]) -> Self {
        Self { stages, ..Self::default() }
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
