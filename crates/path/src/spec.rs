// SPDX-License-Identifier: MIT OR Apache-2.0
//! Specifications of the kinds of stage and source that a path file may use.
//!
//! The stages and sources themselves are implemented elsewhere. Their specifications are passed to
//! this crate, so that one table serves the checker, the published schema and the help.

use crate::params::{Params, Value};

/// Smallest frame without its FCS, in bytes: Ethernet frames have at least 64 bytes with the FCS
/// (IEEE 802.3, 3.2.7), and captures and buffers leave out its 4 bytes.
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
    /// Names of the states in a path file.
    pub const WORDS: [&str; 3] = ["none", "flow", "global"];

    /// All states, in the order of [`State::WORDS`].
    const ALL: [Self; 3] = [Self::None, Self::PerFlow, Self::Global];

    /// Returns the state with this name in a path file (see [`State::WORDS`]); `None` for another
    /// word.
    pub fn of_word(word: &str) -> Option<Self> {
        let found = Self::WORDS.iter().zip(Self::ALL).find(|(name, _)| **name == word);
        found.map(|(_, state)| state)
    }

    /// Returns the state's name in a path file.
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
    /// There is no default: the parameter must be given.
    Required,
    /// The parameter has this boolean value.
    Bool(bool),
    /// The parameter has this integer value.
    Integer(i64),
    /// The parameter has this string value.
    Text(&'static str),
    /// The parameter is an empty list.
    EmptyTexts,
    /// There is no default value: the parameter is absent, and the text says what that means.
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

/// One parameter of a kind of stage or source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParamSpec {
    /// The parameter's key in the file; not `kind` or `name`, which every stage has.
    pub name: &'static str,
    /// Type and range of the parameter.
    pub kind: ParamKind,
    /// Value of the parameter if it is omitted.
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
    /// Parameters of the stage.
    pub params: &'static [ParamSpec],
    /// Whether a `parse` stage must precede the stage in the path.
    pub needs_headers: bool,
    /// State that the stage keeps, which determines whether it can be replicated.
    pub state: State,
    /// Whether the stage keeps packets of different flows in order. Order within a flow is always
    /// kept.
    pub keeps_order: bool,
    /// Causes for which the stage drops packets, as worded in the report.
    pub drop_causes: &'static [&'static str],
}

/// A kind of source that derives its packets from a capture. In addition to its parameters, it has
/// the keys of every source that reads a capture, such as `file` and `buffer_bytes`.
#[derive(Clone, Copy, Debug)]
pub struct SourceSpec {
    /// Value of `kind = "..."`.
    pub kind: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// Parameters of the source.
    pub params: &'static [ParamSpec],
    /// Checks the constraints between parameters that are valid individually. The second argument
    /// is the buffer size in bytes.
    pub check: fn(&Params, u32) -> Vec<Misfit>,
    /// Returns the frame size in bytes, if it does not depend on the capture.
    pub frame_bytes: fn(&Params) -> Option<u32>,
}

/// Error for parameters that are not compatible with each other or with the buffer size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Name of the parameter at which the error is reported.
    pub param: &'static str,
    /// The error message.
    pub message: String,
    /// How to fix the error.
    pub help: String,
}

impl Misfit {
    /// Returns the error for a parameter that makes frames too long for a buffer.
    pub fn too_long(param: &'static str, bytes: u32, buffer_bytes: u32) -> Self {
        Self {
            param,
            message: format!("frames of {bytes} bytes exceed buffer_bytes = {buffer_bytes}"),
            help: format!("raise buffer_bytes (at most {MAX_BUFFER_BYTES}) or use shorter frames"),
        }
    }
}

/// The registered kinds of stage and source. The built-in sources (capture and generator) are
/// available in addition.
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
