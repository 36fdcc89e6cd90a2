// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plan of runs: registers are compared under every kind of preemption, and costs are measured
//! for two loads, varying one setting at a time.

use super::run::{MIXED, Mode, Run, Settings};

/// All schemes: the images of `lab/vector-context/Makefile`.
pub(super) const SCHEMES: [&str; 8] =
    ["scalar", "lazy", "per-task", "note", "note-semaphore", "note-spin", "exclusive", "hooked"];
/// Schemes under which registers must never be corrupted.
pub(super) const RIGHT: [&str; 5] = ["scalar", "lazy", "per-task", "exclusive", "hooked"];
/// Maximum switches and interrupts per register comparison in a run under a correct scheme; with
/// more, the run has checked too little.
pub(super) const MOST_PER_COMPARISON: u64 = 20;
/// Schemes whose costs are compared.
pub(super) const COMPARED: [&str; 6] =
    ["scalar", "lazy", "per-task", "note", "exclusive", "hooked"];

/// Load in which packets arrive with interrupts, and a waiting task handles them. The background
/// runs in the remaining time.
pub(super) const TRAFFIC: Settings = Settings {
    mode: Mode::Load,
    check: false,
    ticks_per_s: 60,
    interrupts_per_s: 5_000,
    tasks: 4,
    busy: 0,
    pattern: MIXED,
    bytes: 0,
    path: 1_500,
    life: 0,
    unflagged: 0,
    duration_ms: 50,
    switches: 0,
};

/// Load in which all tasks but one always have packets, and share the time that interrupts leave.
/// Interrupts wake the other task. The duration is enough for six time slices at 60 ticks/s.
pub(super) const BUSY: Settings = Settings { busy: 3, duration_ms: 100, ..TRAFFIC };

/// A table row: the varied setting, and all settings.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) settings: Settings,
}

fn row(name: impl Into<String>, settings: Settings) -> Row {
    Row { name: name.into(), settings }
}

/// Returns the variations around a load, each with the text for the table's first column.
pub(super) fn sweep(load: Settings) -> Vec<Row> {
    let mut rows = Vec::new();
    let ticks = [60, 100, 1_000].map(|ticks_per_s| Settings { ticks_per_s, ..load });
    rows.extend(ticks.map(|s| row(format!("{} ticks/s", s.ticks_per_s), s)));
    let none = (load.busy > 0).then_some(0);
    for interrupts_per_s in none.into_iter().chain([1_000, 5_000, 20_000]) {
        let settings = Settings { interrupts_per_s, ..load };
        rows.push(row(format!("{interrupts_per_s} interrupts/s"), settings));
    }
    for tasks in [1, 2, 4, 8, 16] {
        // Under the busy load one of the tasks waits for interrupts, unless it is the only one.
        let busy = if load.busy > 0 { (tasks - 1).max(1) } else { 0 };
        rows.push(row(format!("vector tasks: {tasks}"), Settings { tasks, busy, ..load }));
    }
    for bytes in [64, 256, 1_024, 4_096, 16_384, 65_536] {
        let settings = Settings { pattern: 0, bytes, ..load };
        rows.push(row(settings.pattern_name(), settings));
    }
    for pattern in 1..6 {
        let settings = Settings { pattern, ..load };
        rows.push(row(settings.pattern_name(), settings));
    }
    rows.push(row("a new task for each packet", Settings { life: 1, ..load }));
    rows.push(row("no path instructions", Settings { path: 0, ..load }));
    rows
}

/// Returns settings for runs that compare registers: the number of tasks, and how many of them are
/// always busy. Interrupts come every 480 to 2,400 instructions.
pub(super) fn checked(mode: Mode, switches: u32) -> Settings {
    let (tasks, busy) = match mode {
        Mode::Nested => (1, 1),
        Mode::Sliced | Mode::Sleep => (6, 6),
        Mode::Load | Mode::Yield | Mode::Priority => (4, 0),
        Mode::All => (6, 4),
    };
    // With scalar code, longer packets would keep the higher priorities busy forever, and a
    // lower-priority owner of the registers would neither continue nor be compared.
    let (pattern, bytes) = if mode == Mode::Priority { (0, 512) } else { (1, 0) };
    Settings { mode, check: true, tasks, busy, pattern, bytes, path: 100, switches, ..TRAFFIC }
}

/// Returns one run of every scheme in every mode, with `switches` switches for the schemes that
/// must be correct, and `enough` for the others.
pub(super) fn checks(switches: u32, enough: u32) -> Vec<Run> {
    let runs = |mode| {
        SCHEMES.map(|scheme| {
            let switches = if RIGHT.contains(&scheme) { switches } else { enough };
            Run { scheme, settings: checked(mode, switches) }
        })
    };
    Mode::CHECKED.into_iter().flat_map(runs).collect()
}

/// Returns runs with each of these settings under every scheme whose costs are compared,
/// deduplicated.
pub(super) fn costs(rows: &[Row]) -> Vec<Run> {
    let run = |settings| COMPARED.map(|scheme| Run { scheme, settings });
    let mut runs: Vec<Run> = rows.iter().flat_map(|row| run(row.settings)).collect();
    runs.sort();
    runs.dedup();
    runs
}

/// Returns a run in which one of four tasks uses vectors although it is not flagged.
pub(super) const fn unflagged() -> Run {
    Run { scheme: "per-task", settings: Settings { unflagged: 1, ..TRAFFIC } }
}
