// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of `work`, `chase` and `fault`.

use crate::frames::*;
use crate::rig::{Fate, Rig};
use linerate_stage_api::params::Value;
use linerate_stage_api::testing::Pool;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn work_does_every_operation() {
    for adds in [0u64, 1, 2, 7, 100] {
        let mut pool = Pool::new(8, 2048);
        let given = [("adds", Value::Integer(adds as i64))];
        let mut rig = Rig::new(&mut pool, &[("work", &given)]);
        let frames = vec![udp(A, 1, B, 2, b""); 3];
        assert_eq!(rig.offer(&frames), frames);
        let mut value = 1u64;
        for _ in 0..3 {
            for i in 0..adds {
                let operand = 0x9e37_79b9_7f4a_7c15u64;
                value = if i % 2 == 0 { value.wrapping_add(operand) } else { value ^ operand };
            }
        }
        assert_eq!(rig.count("result"), Some(value), "{adds}");
    }
}

#[test]
fn chase_passes_everything() {
    let mut pool = Pool::new(8, 2048);
    let given = [("kib", Value::Integer(1)), ("loads", Value::Integer(1000))];
    let mut rig = Rig::new(&mut pool, &[("chase", &given)]);
    let frames = vec![udp(A, 1, B, 2, b""); 3];
    assert_eq!(rig.offer(&frames), frames);
}

#[test]
fn fault_panics_at_its_packet_and_no_other() {
    let mut pool = Pool::new(8, 2048);
    let mut rig = Rig::new(&mut pool, &[("fault", &[("packet", Value::Integer(2))])]);
    let frame = udp(A, 1, B, 2, b"");
    for _ in 0..2 {
        assert_eq!(rig.offer_one(&frame), Fate::Out(frame.clone()));
    }
    let panic = catch_unwind(AssertUnwindSafe(|| rig.offer_one(&frame))).unwrap_err();
    let message = panic.downcast_ref::<String>().expect("a message");
    assert!(message.contains("packet 2"), "{message}");
}
