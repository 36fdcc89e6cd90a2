// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use crate::Watch;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

fn translate(bytes: u64, is_stopped: bool, within: Duration) -> Translation {
    let stop = AtomicBool::new(is_stopped);
    let watch = Watch::new(&stop, &|_, _| {});
    let bench = Bench::small(&watch, bytes);
    measure(&bench, PageKind::Base, bench.windows.started() + within)
}

#[test]
fn without_time_or_memory_no_values_are_invented() {
    let second = Duration::from_secs(1);
    for found in [
        translate(8 << 20, false, Duration::ZERO),
        translate(8 << 20, true, second),
        translate(0, false, second),
    ] {
        assert!(found.tlb.is_empty() && found.levels.is_empty(), "{found:?}");
        assert_eq!(found.pages.verdict, PagesVerdict::NotOffered);
        assert!(found.pages.time_ratio.reason.is_some());
        assert_eq!(found.page_bytes, found.pages.base_bytes);
    }
}

/// On any machine, the recorded levels are those found, nearest first.
#[test]
fn levels_are_recorded_as_found() {
    let found = translate(16 << 20, false, Duration::from_millis(800));
    assert_eq!(found.tlb.len(), found.levels.len());
    for (place, (record, level)) in found.tlb.iter().zip(&found.levels).enumerate() {
        assert_eq!(record.name, format!("L{} dTLB", place + 1));
        assert_eq!(record.onset.as_number(), Some(level.onset.value));
        assert_eq!(record.entries.as_number().is_some(), level.entries.is_some());
        assert_eq!(record.note.is_none(), level.is_step && level.cost.high.is_finite());
        assert!(record.cost_cycles.reason.is_some());
    }
}

#[test]
fn arenas_fit_the_room_there_is() {
    assert_eq!(fitting(4160 * 10, 4096, 64), 10);
    assert_eq!(fitting(4160 * 10 - 1, 4096, 64), 9);
    assert_eq!(fitting(0, 4096, 64), 0);
}
