// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the window with a list of all numbers seen.

use linerate_rlp::window::{MAX_JUMP, Stale, Window};
use proptest::prelude::*;

/// Reference: keeps every number as a 64-bit distance from the first.
#[derive(Default)]
struct Reference {
    seen: Vec<i64>,
    first: u32,
    restart: Option<u32>,
}

impl Reference {
    fn admit(&mut self, sequence: u32) -> Result<u32, Stale> {
        let Some(&highest) = self.seen.iter().max() else {
            return self.begin(sequence);
        };
        let wire = self.first.wrapping_add(highest as u32);
        let number = highest + i64::from(sequence.wrapping_sub(wire).cast_signed());
        if (number - highest).abs() > i64::from(MAX_JUMP) {
            if self.restart == Some(sequence) {
                return self.begin(sequence);
            }
            self.restart = Some(sequence.wrapping_add(1));
            return Err(Stale::Jump);
        }
        if number > highest {
            self.restart = None;
            self.seen.push(number);
            return Ok((number - highest - 1) as u32);
        }
        let is_near = number > highest - 64;
        let stale =
            if is_near && self.seen.contains(&number) { Stale::Duplicate } else { Stale::Late };
        self.seen.push(number);
        Err(stale)
    }

    fn begin(&mut self, sequence: u32) -> Result<u32, Stale> {
        *self = Self { seen: vec![0], first: sequence, restart: None };
        Ok(0)
    }
}

/// Generates mostly the next number, otherwise one nearby or anywhere.
fn steps() -> impl Strategy<Value = Vec<i64>> {
    let step = prop_oneof![
        6 => Just(1_i64),
        3 => -70..70_i64,
        1 => -5_000..5_000_i64,
        1 => any::<i32>().prop_map(i64::from),
        1 => Just(i64::from(MAX_JUMP)),
        1 => Just(i64::from(MAX_JUMP) + 1),
    ];
    prop::collection::vec(step, 0..300)
}

proptest! {
    #[test]
    fn the_window_is_a_list_of_everything_seen(first: u32, steps in steps()) {
        let (mut window, mut reference) = (Window::default(), Reference::default());
        let mut number = first;
        for step in [0].into_iter().chain(steps) {
            number = number.wrapping_add(step as u32);
            prop_assert_eq!(window.admit(number), reference.admit(number), "{}", number);
        }
    }
}

#[test]
fn each_fate_has_its_number() {
    let mut window = Window::default();
    assert_eq!(window.admit(u32::MAX - 1), Ok(0));
    assert_eq!(window.admit(u32::MAX), Ok(0));
    assert_eq!(window.admit(2), Ok(2), "0 and 1 are missing");
    assert_eq!(window.admit(0), Err(Stale::Late));
    assert_eq!(window.admit(0), Err(Stale::Duplicate));
    assert_eq!(window.admit(1_000_000), Err(Stale::Jump));
    assert_eq!(window.admit(3), Ok(0), "one damaged number changes nothing");
    assert_eq!(window.admit(1_000_001), Err(Stale::Jump), "3 came between");
    assert_eq!(window.admit(1_000_002), Ok(0), "the peer has restarted");
    assert_eq!(window.admit(1_000_003), Ok(0));
    assert_eq!(window.admit(1_000_003 - 1_000), Err(Stale::Late));
    assert_eq!(window.admit(1_000_003 - 999), Err(Stale::Late), "not a restarted peer");
}
