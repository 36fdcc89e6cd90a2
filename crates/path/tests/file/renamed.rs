// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests files that use key names from before they were renamed.

use crate::kinds::{KINDS, STEM};
use linerate_path::check::read;

#[test]
fn names_the_new_key_of_an_old_one() {
    let text = "[source]\nkind = 'generator'\nbuffer_octets = 2048\n\
                [[stage]]\nkind = 'parse'\n[mapping]\nstrands = []\n";
    let said = read(text, STEM, KINDS).unwrap_err().to_string();
    for expected in [
        "3:1: unknown key 'buffer_octets' in [source] of kind 'generator'; renamed to \
         'buffer_bytes'",
        "7:1: unknown key 'strands' in [mapping]; renamed to 'workers'",
    ] {
        assert!(said.contains(expected), "{said}");
    }
}
