// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the checks of foreign code, which is simulated by closures that access the raw burst as C
//! code would.

use super::*;
use crate::pool::Pool;

/// What foreign code does to the packet with a given index. Returns the verdict.
type Act = fn(usize, &mut Line) -> u8;

/// What remains after a burst: the result, the context, the position and length of each packet
/// still in the burst, and the position of the packet at the cursor.
type Passed = (Result<(), String>, StageContext, Vec<(u64, usize)>, Option<u64>);

/// Passes eight frames of 60 bytes to foreign code with two drop causes.
fn pass(act: Act) -> Passed {
    pass_some(0..8, act)
}

/// Like [`pass`], but calls `act` only for the packets at `indices`.
fn pass_some(indices: std::ops::Range<usize>, act: Act) -> Passed {
    let mut pool = Pool::new(8, 100);
    let mut burst = Burst::new();
    for (position, mut packet) in (0..).zip(pool.packets(3)) {
        assert!(packet.fill(&[7; 60]));
        packet.meta_mut().position = position;
        burst.push(packet);
    }
    let mut context = StageContext::default();
    let result = Foreign::new(2).process(&mut burst, &mut context, |seen| {
        assert_eq!(seen.count, 8);
        for index in indices {
            seen.at = index as u32;
            // SAFETY: `process` passes `count` packets and verdicts.
            unsafe {
                let line = &mut **seen.packets.add(index);
                *seen.verdicts.add(index) = act(index, line);
            }
        }
        Ok(())
    });
    let left = burst.iter().map(|packet| (packet.meta().position, packet.length())).collect();
    let cursor = burst.at_cursor().map(|packet| packet.meta().position);
    (result, context, left, cursor)
}

#[test]
fn verdicts_are_applied_in_order_and_counted() {
    let verdicts: Act = |index, _| [PASS, DROP, DROP + 1, PASS, CONSUME, PASS, DROP, PASS][index];
    let (result, context, left, _) = pass(verdicts);
    assert_eq!(result, Ok(()));
    assert_eq!(left, [(0, 60), (3, 60), (5, 60), (7, 60)]);
    let drops = &context.account.drops;
    assert_eq!([drops[0].packets, drops[1].packets], [2, 1]);
    assert_eq!((drops[0].bytes, context.account.consumed.packets), (120, 1));
}

#[test]
fn both_ends_of_a_frame_are_accounted_for() {
    let (result, context, left, _) = pass(|index, line| {
        match index {
            0 => (line.start, line.bytes) = (line.start - 20, line.bytes + 20),
            1 => (line.start, line.bytes) = (line.start + 14, line.bytes - 14),
            2 => line.bytes = 10,
            3 => line.bytes = 100,
            // Extends the frame at the front and shortens it at the end.
            4 => line.start -= 8,
            _ => {}
        }
        PASS
    });
    assert_eq!(result, Ok(()));
    let lengths: Vec<_> = left.iter().map(|packet| packet.1).collect();
    assert_eq!(lengths, [80, 46, 10, 100, 60, 60, 60, 60]);
    let account = &context.account;
    assert_eq!((account.created.bytes, account.consumed.bytes), (20 + 40 + 8, 14 + 50 + 8));
    let after: usize = lengths.iter().sum();
    assert_eq!(8 * 60 + account.created.bytes - account.consumed.bytes, after as u64);
}

#[test]
fn nonsense_is_named_with_its_packet_and_undone() {
    let cases: [(Act, &str); 8] = [
        (|_, _| 2, "invalid verdict 2: use"),
        (|_, _| DROP + 2, "drop cause 2 is out of range; causes declared by the stage: 2"),
        (|_, _| 255, "invalid verdict 255"),
        (
            |_, line| {
                line.bytes = 101;
                PASS
            },
            "a frame of 101 bytes at offset 128",
        ),
        (
            |_, line| {
                line.start = 200;
                PASS
            },
            "at offset 200 exceeds",
        ),
        (
            |_, line| {
                line.room = 4000;
                PASS
            },
            "`room`",
        ),
        (
            |_, line| {
                line.home = 0;
                PASS
            },
            "`home`",
        ),
        (
            |_, line| {
                line.meta.layers.ip_version = 4;
                line.meta.layers.l3_end = 61;
                PASS
            },
            "header offsets 0, 0, 61",
        ),
    ];
    for (act, expected) in cases {
        let (result, context, left, cursor) = pass_some(5..6, act);
        let fault = result.expect_err(expected);
        assert!(fault.contains(expected), "{fault}");
        assert_eq!(cursor, Some(5), "{expected}");
        assert!(left.iter().all(|packet| packet.1 == 60) && left.len() == 8, "{left:?}");
        assert_eq!(context.account, Account::default());
    }
}

#[test]
fn a_change_of_any_packet_is_noticed_and_equal_changes_do_not_cancel() {
    for (first, last) in [(0, 0), (7, 7), (0, 7), (3, 4)] {
        let (result, _, left, cursor) = pass_some(first..last + 1, |_, line| {
            line.home ^= 0x0101;
            PASS
        });
        assert!(result.expect_err("a change of home").contains("`home`"));
        assert_eq!(cursor, Some(first as u64), "{first} to {last}");
        assert_eq!(left.len(), 8);
    }
}

#[test]
fn each_kept_byte_takes_part_in_the_comparison() {
    let mut pool = Pool::new(2, 100);
    let mut packets = pool.packets(3);
    let kept: Vec<Words> = packets.iter().map(words).collect();
    assert!(is_unchanged(&kept, &packets));
    for (index, at) in (0..2).flat_map(|index| (0..32).map(move |at| (index, at))) {
        let mut damaged = kept[index];
        damaged[at / 8] ^= 1 << (8 * (at % 8));
        restore(&mut packets[index], &damaged);
        assert!(!is_unchanged(&kept, &packets), "byte {} of packet {index}", KEPT + at);
        restore(&mut packets[index], &kept[index]);
    }
    assert!(is_unchanged(&kept, &packets));
}

#[test]
fn an_invalid_fragment_never_becomes_a_value() {
    let (result, _, left, _) = pass(|index, line| {
        if index == 1 {
            // SAFETY: the field has two bytes; `process` checks its value before anything reads it.
            unsafe { ptr::from_mut(&mut line.meta.layers.fragment).cast::<u16>().write(9) };
        }
        PASS
    });
    assert_eq!(result, Err("the stage set `fragment` to an invalid value".to_owned()));
    assert_eq!(left.len(), 8);
}

#[test]
fn a_failed_call_leaves_the_packets_as_they_were() {
    let mut pool = Pool::new(2, 100);
    let mut burst = Burst::new();
    for mut packet in pool.packets(0) {
        assert!(packet.fill(&[7; 60]));
        burst.push(packet);
    }
    let mut context = StageContext::default();
    let failed = Foreign::new(0).process(&mut burst, &mut context, |seen| {
        seen.at = 1;
        // SAFETY: `process` passes two packets.
        unsafe { (**seen.packets).bytes = 0 };
        Err("SIGSEGV".to_owned())
    });
    assert_eq!(failed, Err("SIGSEGV".to_owned()));
    assert!(burst.iter().all(|packet| packet.length() == 60));
    assert_eq!(burst.remaining().count(), 2);
    assert!(burst.at_cursor().is_some());
}
