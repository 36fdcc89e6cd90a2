// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;

#[test]
fn tokens_are_compared_whole() {
    assert!(is_same(None, None));
    assert!(is_same(None, Some("any")));
    assert!(is_same(Some("ab"), Some("ab")));
    for wrong in [None, Some(""), Some("a"), Some("abc"), Some("ax")] {
        assert!(!is_same(Some("ab"), wrong), "{wrong:?}");
    }
}
