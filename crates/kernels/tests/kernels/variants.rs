// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests variant names, the list of variants that can run, and the error for those that cannot.

use linerate_kernels::{Kernel, Kernels, Variant, VariantError, variants};

#[test]
fn every_variant_is_found_by_its_name() {
    assert!(variants().len() > 0);
    for v in variants() {
        assert_eq!(Variant::find(v.name()).map(Variant::name), Ok(v.name()));
        assert!(!v.isa().is_empty());
        assert!(v.is_compiled() || !v.is_supported(), "{}", v.name());
    }
}

#[test]
fn variants_run_or_say_why_not() {
    for v in variants() {
        let (name, isa) = (v.name(), v.isa());
        match Kernels::by_name(name) {
            Ok(kernels) => {
                assert!(v.is_supported());
                assert_eq!(kernels.name(), name);
            }
            Err(error) => {
                assert!(!v.is_supported());
                let wanted = if v.is_compiled() {
                    VariantError::NotSupported { name, isa }
                } else {
                    VariantError::NotCompiled { name, isa }
                };
                assert_eq!(error, wanted);
                let text = error.to_string();
                assert!(text.contains(name) && text.contains(isa), "{text}");
            }
        }
    }
}

#[test]
fn an_unknown_name_is_refused_with_those_that_can_run() {
    let error = Kernels::by_name("fast").unwrap_err();
    assert_eq!(error, VariantError::Unknown { name: "fast" });
    let runnable: Vec<&str> = variants().filter(|v| v.is_supported()).map(Variant::name).collect();
    let wanted = format!("unknown kernel variant `fast`; choose one of {}", runnable.join(", "));
    assert_eq!(error.to_string(), wanted);
    for name in ["", "portable\0", "Portable", "portable "] {
        assert_eq!(Kernels::by_name(name).unwrap_err(), VariantError::Unknown { name });
    }
}

#[test]
fn what_is_selected_comes_from_variants_that_can_run() {
    let selected = Kernels::selected();
    assert_eq!(selected.name(), "selected");
    for kernel in Kernel::ALL {
        let origin = Variant::find(selected.origin(kernel)).expect("a variant");
        assert!(origin.is_supported(), "{kernel}");
    }
}

#[test]
fn kernels_say_where_they_come_from() {
    let portable = Kernels::by_name("portable").expect("runs everywhere");
    for kernel in Kernel::ALL {
        assert_eq!(portable.origin(kernel), "portable");
    }
    let text = format!("{portable:?}");
    assert!(text.contains("copy_checksum: \"portable\""), "{text}");
}

#[test]
fn kernels_are_named_in_one_word() {
    let names = Kernel::ALL.map(Kernel::name);
    assert_eq!(names, ["checksum", "copy", "copy_checksum", "fill"]);
    assert_eq!(format!("{:>9}|", Kernel::Fill), "     fill|");
}
