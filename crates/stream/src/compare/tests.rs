// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::account::{Account, Thread};

/// Returns a test in which `bytes` were received in 1,000 ns.
fn visit(bytes: u64) -> Option<Visit> {
    let thread = Thread { bytes, elapsed_ns: 1000, ..Thread::default() };
    let receiver = Account { threads: vec![thread], ..Account::default() };
    Some(Visit { receiver, ..Visit::default() })
}

/// The machine is twice as fast in every other round; the method is always 10 % faster.
#[test]
fn a_failed_test_leaves_the_other_rounds_paired() {
    let machine = [100, 200, 100, 200, 100, 200, 100, 200];
    let base: Rounds = machine.map(visit).into();
    let mut faster: Rounds = machine.map(|bytes| visit(bytes * 11 / 10)).into();
    faster[0] = None;
    let ratio = compare(&base, &faster, Visit::rate, "rate", "");
    let is_ten_percent = |end: Option<f64>| end.is_some_and(|end| (end - 1.1).abs() < 1e-9);
    assert!(ratio.n == 7 && is_ten_percent(ratio.low) && is_ten_percent(ratio.high), "{ratio:?}");
    let none = compare(&base, &[None, None], Visit::rate, "rate", "not supported");
    assert_eq!(none.reason.as_deref(), Some("not supported"));
}
