// SPDX-License-Identifier: MIT OR Apache-2.0
//! What kinds of stage exist, as far as a description of a path must know.
//!
//! The kinds themselves live elsewhere; they hand their specifications to the checker, so that one
//! table serves the checker, the published schema and the help.

/// How a stage depends on packets that went before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// None: any replica may take any packet.
    None,
    /// Per flow or per group of flows that the source keeps on one replica.
    PerFlow,
    /// One state for all packets: the stage must not be replicated.
    Global,
}

/// The type and range of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParamKind {
    /// `true` or `false`.
    Bool,
    /// A whole number from `min` to `max`, both included.
    Integer {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// A text; the stage itself says whether it makes sense.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list of texts.
    Texts,
}

/// What an omitted parameter means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Default {
    /// It must be given.
    Required,
    /// This boolean.
    Bool(bool),
    /// This number.
    Integer(i64),
    /// This text.
    Text(&'static str),
    /// An empty list.
    EmptyTexts,
}

/// One parameter of a kind of stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParamSpec {
    /// Its key; not `kind` or `name`, which every stage has.
    pub name: &'static str,
    /// Its type and range.
    pub kind: ParamKind,
    /// What it is when omitted.
    pub default: Default,
    /// One line of help, unit included.
    pub help: &'static str,
}

/// A kind of stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageSpec {
    /// The word for `kind = "..."`.
    pub kind: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// Its parameters.
    pub params: &'static [ParamSpec],
    /// Whether a `parse` must stand somewhere before it.
    pub needs_headers: bool,
    /// Its state, and with it whether it can be replicated.
    pub state: State,
    /// Whether packets of different flows may leave in another order than they came. Order within a
    /// flow is always kept.
    pub keeps_order: bool,
    /// Why packets are dropped here, in the words of the report.
    pub drop_causes: &'static [&'static str],
}
