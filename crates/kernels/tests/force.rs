// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests forcing a variant. The choice is global to the process, so this is a separate program with
//! a single test.

use linerate_kernels::{
    Kernel, Kernels, Sum, VariantError, checksum, copy, copy_checksum, fill, force, variants,
};

#[test]
fn a_forced_variant_is_used_until_another_is() {
    let before = Kernels::selected();
    for v in variants() {
        let forced = force(Some(v.name()));
        match v.kernels() {
            Ok(own) => {
                assert_eq!(forced, Ok(()));
                let now = Kernels::selected();
                assert_eq!(now.name(), v.name());
                for kernel in Kernel::ALL {
                    assert_eq!(now.origin(kernel), own.origin(kernel));
                }
                works();
            }
            Err(error) => {
                let unchanged = Kernels::selected().name();
                assert_eq!(forced, Err(error));
                assert_eq!(Kernels::selected().name(), unchanged);
            }
        }
    }

    assert_eq!(force(Some("none")), Err(VariantError::Unknown { name: "none" }));
    assert_eq!(before.name(), "selected", "kernels obtained earlier do not change");

    assert_eq!(force(None), Ok(()));
    assert_eq!(Kernels::selected().name(), "selected");
    for kernel in Kernel::ALL {
        assert_eq!(Kernels::selected().origin(kernel), before.origin(kernel));
    }
    works();
}

/// Checks the dispatch functions, which look up the selected variant.
fn works() {
    let bytes = *b"\x00\x01\xf2\x03\xf4\xf5\xf6\xf7";
    let mut to = [0; 8];
    assert_eq!(checksum::partial(&bytes, Sum::ZERO).fold(), 0xddf2);
    copy(&mut to, &bytes);
    assert_eq!(to, bytes);
    fill(&mut to, 7);
    assert_eq!(to, [7; 8]);
    assert_eq!(copy_checksum(&mut to, &bytes, Sum::ZERO).fold(), 0xddf2);
    assert_eq!(to, bytes);
}
