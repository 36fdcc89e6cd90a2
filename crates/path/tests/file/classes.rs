// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests errors about stages that are restricted to a class of packets.

use crate::mistakes::{after_good, messages};

#[test]
fn a_class_before_the_parser_that_it_needs() {
    assert_eq!(
        messages(
            "source = { kind = 'generator' }\n[[stage]]\nkind = 'count'\nonly = 'ipv4'\n\
             [[stage]]\nkind = 'parse'\n"
        ),
        "4:8: only = \"ipv4\" needs parsed headers, but no 'parse' stage precedes it; add a \
         [[stage]] with kind = \"parse\" before it"
    );
}

#[test]
fn classes_of_packets() {
    let other = |only: &str| format!("[[stage]]\nkind = 'verify'\nonly = '{only}'\n");
    after_good(&[
        (&other("ip4"), "6:8: 'only' cannot be 'ip4'; did you mean 'ip'?"),
        (
            &other("other"),
            "6:8: a 'verify' stage needs parsed headers, but only = \"other\" selects packets \
             without them; use only = \"ip\", or a class within it such as \"ipv4\"",
        ),
        (&other("ipv6"), "nothing"),
        ("[[stage]]\nkind = 'count'\nonly = 'other'\n", "nothing"),
    ]);
}

#[test]
fn packets_without_headers_behind_a_parser_that_passes_them() {
    let parser = "source = { kind = 'generator' }\n[[stage]]\nkind = 'parse'\nother = 'pass'\n";
    let error = "6:8: a 'verify' stage needs parsed headers, but 'parse' passes packets that are \
                 not IP; add only = \"ip\" (or a class within it) to this stage, or remove other = \
                 \"pass\" from 'parse'";
    for (stages, expected) in [
        ("[[stage]]\nkind = 'verify'\n", error),
        ("[[stage]]\nkind = 'verify'\nonly = 'all'\n", error),
        ("[[stage]]\nkind = 'verify'\nonly = 'tcp'\n[[stage]]\nkind = 'count'\n", "nothing"),
        // A second parser drops non-IP packets, whether it processes all packets or only those.
        ("[[stage]]\nkind = 'parse'\nname = 'again'\n[[stage]]\nkind = 'verify'\n", "nothing"),
        (
            "[[stage]]\nkind = 'parse'\nname = 'again'\nonly = 'other'\n\
             [[stage]]\nkind = 'verify'\n",
            "nothing",
        ),
    ] {
        assert_eq!(messages(&format!("{parser}{stages}")), expected, "{stages}");
    }
    let again = "[[stage]]\nkind = 'parse'\nname = 'again'\nonly = 'ipv4'\n";
    let verify = "[[stage]]\nkind = 'verify'\n";
    let moved = error.replace("6:8", "10:8");
    assert_eq!(messages(&format!("{parser}{again}{verify}")), moved);
}
