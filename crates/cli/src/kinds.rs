// SPDX-License-Identifier: MIT OR Apache-2.0
//! All kinds of stage and source in this program. It takes one line to add the kinds of a crate.

use linerate_path::spec::{Kinds, SourceSpec, StageSpec};
use linerate_stage_api::source::SourceKind;
use linerate_stage_api::{Extension, StageKind};
use std::sync::LazyLock;

/// The crates that add kinds, in the order in which their kinds are listed.
static EXTENSIONS: [&Extension; 2] = [
    &linerate_stages::EXTENSION,   // an edge router
    &linerate_rlp::app::EXTENSION, // the Radio Link Protocol, examples/rlp
];

static STAGES: LazyLock<Vec<StageKind>> =
    LazyLock::new(|| EXTENSIONS.iter().flat_map(|extension| extension.stages).copied().collect());

static STAGE_SPECS: LazyLock<Vec<StageSpec>> =
    LazyLock::new(|| STAGES.iter().map(|kind| kind.spec).collect());

static SOURCE_SPECS: LazyLock<Vec<SourceSpec>> =
    LazyLock::new(|| sources().map(|kind| kind.spec).collect());

/// The kinds of stage.
pub(crate) fn kinds() -> &'static [StageKind] {
    &STAGES
}

/// The kind of stage with this name.
pub(crate) fn kind(name: &str) -> Option<&'static StageKind> {
    STAGES.iter().find(|kind| kind.spec.kind == name)
}

fn sources() -> impl Iterator<Item = &'static SourceKind> {
    EXTENSIONS.iter().flat_map(|extension| extension.sources)
}

/// The registered source kind with this name.
pub(crate) fn source(name: &str) -> Option<&'static SourceKind> {
    sources().find(|kind| kind.spec.kind == name)
}

/// The specifications of all kinds, for checking paths.
pub(crate) fn specs() -> Kinds<'static> {
    Kinds { stages: &STAGE_SPECS, sources: &SOURCE_SPECS }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_stage_api::MAX_CAUSES;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_across_crates_and_can_be_found() {
        let names: BTreeSet<&str> = kinds().iter().map(|kind| kind.spec.kind).collect();
        assert_eq!(names.len(), kinds().len());
        for name in names {
            assert_eq!(kind(name).map(|kind| kind.spec.kind), Some(name));
        }
        assert!(kind("").is_none());
        assert!(kinds().iter().all(|kind| kind.spec.drop_causes.len() <= MAX_CAUSES));
        let sources: Vec<&str> = specs().sources.iter().map(|spec| spec.kind).collect();
        assert_eq!(sources, ["a10"]);
        assert_eq!(source("a10").map(|kind| kind.spec.kind), Some("a10"));
        assert!(source("capture").is_none(), "it is built in");
    }
}
