// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel's generic events count on each kind of processor.

use linerate_machine::identity::Identity;

/// Returns the portable name of the event that the kernel chooses on this kind of processor for its
/// generic event `cache-misses`; `None` if it has no portable name or is unknown.
pub fn cache_misses(identity: &Identity) -> Option<&'static str> {
    match identity {
        Identity::X86 { vendor, .. } if vendor == "GenuineIntel" => Some("ll_misses"),
        // Zen: data that was requested from L2 and found beyond it.
        Identity::X86 { vendor, family, .. } if vendor == "AuthenticAMD" && *family >= 0x17 => {
            Some("l2_misses")
        }
        Identity::Arm { .. } => Some("l1d_misses"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;
    use std::path::Path;

    #[test]
    fn cache_misses_are_those_of_the_level_that_the_processor_counts() {
        let x86 = |vendor: &str, family| Identity::X86 { vendor: vendor.into(), family, model: 1 };
        assert_eq!(cache_misses(&x86("GenuineIntel", 6)), Some("ll_misses"));
        assert_eq!(cache_misses(&x86("AuthenticAMD", 0x19)), Some("l2_misses"));
        assert_eq!(cache_misses(&x86("AuthenticAMD", 0x10)), None);
        assert_eq!(cache_misses(&Identity::Arm { cores: Vec::new() }), Some("l1d_misses"));
        assert_eq!(cache_misses(&Identity::Other { architecture: "riscv64" }), None);
    }

    /// The names are portable ones of the catalog.
    #[test]
    fn names_are_in_the_catalog() {
        for family in [6, 0x19] {
            for vendor in ["GenuineIntel", "AuthenticAMD"] {
                let identity = Identity::X86 { vendor: vendor.into(), family, model: 1 };
                let Some(name) = cache_misses(&identity) else { continue };
                let catalog = Catalog::for_processor(&identity, Path::new("/nonexistent"));
                assert!(catalog.list().iter().any(|event| event.name == name), "{name}");
            }
        }
    }
}
