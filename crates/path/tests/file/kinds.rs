// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kinds of stage for the tests: one parameter of every sort, every sort of state.

use linerate_path::spec::{Default, ParamKind, ParamSpec, StageSpec, State};

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

pub(crate) const KINDS: &[StageSpec] = &[
    stage("parse", &[], false, State::None),
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

/// The name a file without `name` gets.
pub(crate) const STEM: &str = "stem";
