// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every kind of stage this program has, in one table.

use linerate_dataplane::StageKind;
use linerate_path::spec::StageSpec;
use std::sync::LazyLock;

static ALL: LazyLock<Vec<StageKind>> = LazyLock::new(|| {
    linerate_stages::KINDS.iter().chain(linerate_rlp::app::KINDS).copied().collect()
});

/// The kinds: those of an edge router, then those of the Radio Link Protocol.
pub(crate) fn kinds() -> &'static [StageKind] {
    &ALL
}

/// The kind with this name.
pub(crate) fn kind(name: &str) -> Option<&'static StageKind> {
    ALL.iter().find(|kind| kind.spec.kind == name)
}

/// The specifications of all kinds, for the checker of a path.
pub(crate) fn specs() -> Vec<StageSpec> {
    ALL.iter().map(|kind| kind.spec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_dataplane::context::MAX_CAUSES;
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
    }
}
