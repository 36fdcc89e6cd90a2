// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the session table with the standard library's `HashMap`.

use linerate_rlp::sessions::{Refusal, Sessions};
use proptest::prelude::*;
use std::collections::HashMap;

/// Generates keys that are adjacent, or differ only in their upper bits.
fn key() -> impl Strategy<Value = u32> {
    prop_oneof![0..40_u32, (0..40_u32).prop_map(|n| n << 26), any::<u32>()]
}

proptest! {
    #[test]
    fn the_table_finds_what_was_opened(
        limit in 0..30_usize,
        keys in prop::collection::vec(key(), 0..60),
        others in prop::collection::vec(key(), 0..60),
    ) {
        let (mut sessions, mut reference) = (Sessions::new(limit), HashMap::new());
        for (place, key) in keys.iter().enumerate() {
            let expected = if reference.contains_key(key) {
                Err(Refusal::Taken)
            } else if reference.len() == limit {
                Err(Refusal::Full)
            } else {
                reference.insert(*key, place);
                Ok(place)
            };
            prop_assert_eq!(sessions.open(*key, place).copied(), expected);
        }
        for key in keys.iter().chain(&others) {
            prop_assert_eq!(sessions.find(*key).map(|state| *state), reference.get(key).copied());
        }
        prop_assert_eq!(sessions.states().len(), reference.len());
    }
}

#[test]
fn states_can_be_changed_and_are_listed_in_order() {
    let mut sessions = Sessions::new(3);
    for key in [5, 0, u32::MAX] {
        *sessions.open(key, 0).expect("room for three") += u64::from(key);
    }
    *sessions.find(5).expect("open") += 1;
    assert_eq!(sessions.states(), [6, 0, u64::from(u32::MAX)]);
    assert_eq!(sessions.open(1, 0), Err(Refusal::Full));
    assert_eq!(sessions.open(5, 0), Err(Refusal::Taken));
}
