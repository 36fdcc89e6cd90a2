// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kinds of stage and source for the tests, covering every parameter type and every state.

use linerate_path::model::{Params, Value};
use linerate_path::spec::{
    Default, Kinds, Misfit, ParamKind, ParamSpec, SourceSpec, StageSpec, State,
};

const fn param(name: &'static str, kind: ParamKind, default: Default) -> ParamSpec {
    ParamSpec { name, kind, default, help: "A parameter." }
}

const fn stage(
    kind: &'static str,
    params: &'static [ParamSpec],
    needs_headers: bool,
    state: State,
) -> StageSpec {
    StageSpec {
        kind,
        help: "A stage.",
        params,
        needs_headers,
        state,
        keeps_order: true,
        drop_causes: &[],
    }
}

pub(crate) const STAGES: &[StageSpec] = &[
    stage(
        "parse",
        &[param("other", ParamKind::Word(&["drop", "pass"]), Default::Text("drop"))],
        false,
        State::None,
    ),
    stage("verify", &[param("l4", ParamKind::Bool, Default::Bool(true))], true, State::None),
    stage(
        "filter",
        &[
            param("rules", ParamKind::Texts, Default::EmptyTexts),
            param("otherwise", ParamKind::Word(&["pass", "drop"]), Default::Text("pass")),
        ],
        true,
        State::None,
    ),
    stage(
        "nat44",
        &[
            param("outside", ParamKind::Text, Default::Required),
            param("flows", ParamKind::Integer { min: 1, max: 65_536 }, Default::Integer(4096)),
        ],
        true,
        State::PerFlow,
    ),
    stage("count", &[], false, State::Global),
];

/// A kind of source that segments packets into cells.
const SOURCES: &[SourceSpec] = &[SourceSpec {
    kind: "cells",
    help: "A source.",
    params: &[
        param("way", ParamKind::Word(&["in", "out"]), Default::Text("in")),
        param("bytes", ParamKind::Integer { min: 60, max: 9000 }, Default::Absent("as they are")),
        param("lost", ParamKind::Number { max: 0.5 }, Default::Absent("0")),
    ],
    check: cells,
    frame_bytes: |_| None,
}];

/// Checks the source's parameters: frames must fit in the buffers, and `lost` must not be set if
/// `way` is `out`.
fn cells(params: &Params, buffer_bytes: u32) -> Vec<Misfit> {
    let mut misfits = Vec::new();
    if let Some(Value::Integer(bytes)) = params.get("bytes")
        && *bytes > i64::from(buffer_bytes)
    {
        misfits.push(Misfit::too_long("bytes", *bytes as u32, buffer_bytes));
    }
    if params.contains_key("lost") && params["way"] == Value::Text("out".to_owned()) {
        let (message, help) =
            ("nothing is lost on the way out".to_owned(), "leave it out".to_owned());
        misfits.push(Misfit { param: "lost", message, help });
    }
    misfits
}

pub(crate) const KINDS: Kinds<'_> = Kinds { stages: STAGES, sources: SOURCES, plugins: &[] };

/// Name of the path if the file does not set `name`.
pub(crate) const STEM: &str = "stem";
