// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stages for the packet path of an edge router, and stages of known cost for experiments.
//!
//! [`KINDS`] lists all kinds. Each is in its own file, which documents the RFCs it follows and its
//! limitations. Stages do not allocate per packet, never panic on any input (except for `fault`,
//! whose purpose is to panic), and have no clock or timers. They do not originate packets: where a
//! router would respond with ICMP, the packet is dropped with a cause.

#![forbid(unsafe_code)]

mod chase;
mod count;
mod fault;
mod filter;
mod forward;
mod gre_decap;
mod gre_encap;
mod headers;
mod nat44;
mod params;
mod parse;
mod routes;
mod verify;
mod work;

use linerate_stage_api::spec::StageSpec;
use linerate_stage_api::{Extension, StageKind};

/// All stage kinds in this crate, in the order a path would use them.
pub static KINDS: &[StageKind] = &[
    parse::KIND,
    verify::KIND,
    filter::KIND,
    nat44::KIND,
    forward::KIND,
    gre_encap::KIND,
    gre_encap::SEQUENCED,
    gre_decap::KIND,
    count::KIND,
    work::KIND,
    chase::KIND,
    fault::KIND,
];

/// The stage kinds that this crate adds to the program.
pub static EXTENSION: Extension = Extension { stages: KINDS, sources: &[] };

/// Returns the specifications of all kinds, for the path checker.
pub fn specs() -> Vec<StageSpec> {
    KINDS.iter().map(|kind| kind.spec).collect()
}

/// Finds a stage kind by name.
pub fn kind(name: &str) -> Option<&'static StageKind> {
    KINDS.iter().find(|kind| kind.spec.kind == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_stage_api::MAX_CAUSES;
    use linerate_stage_api::spec::{Default, ParamKind};
    use std::collections::BTreeSet;

    #[test]
    fn kinds_have_unique_names_and_can_be_found() {
        let names: BTreeSet<_> = specs().iter().map(|s| s.kind).collect();
        assert_eq!(names.len(), KINDS.len());
        for name in names {
            assert_eq!(kind(name).unwrap().spec.kind, name);
        }
        assert!(kind("").is_none());
    }

    #[test]
    fn specifications_are_valid() {
        for spec in specs() {
            assert!(spec.help.ends_with('.') && !spec.help.contains('\n'), "{}", spec.kind);
            assert!(spec.drop_causes.len() <= MAX_CAUSES, "{}", spec.kind);
            let causes: BTreeSet<_> = spec.drop_causes.iter().collect();
            assert_eq!(causes.len(), spec.drop_causes.len(), "{}", spec.kind);
            let names: BTreeSet<_> = spec.params.iter().map(|p| p.name).collect();
            assert_eq!(names.len(), spec.params.len(), "{}", spec.kind);
            for param in spec.params {
                let fits = match (param.kind, param.default) {
                    (_, Default::Required)
                    | (ParamKind::Bool, Default::Bool(_))
                    | (ParamKind::Text, Default::Text(_))
                    | (ParamKind::Texts, Default::EmptyTexts) => true,
                    (ParamKind::Integer { min, max }, Default::Integer(n)) => {
                        (min..=max).contains(&n)
                    }
                    (ParamKind::Word(words), Default::Text(word)) => words.contains(&word),
                    _ => false,
                };
                assert!(fits, "{}.{}", spec.kind, param.name);
            }
        }
    }
}
