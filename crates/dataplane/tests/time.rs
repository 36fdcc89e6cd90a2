// SPDX-License-Identifier: MIT OR Apache-2.0
//! The profile of time against what is known: the wall clock, the scheduler, a given rate, work of
//! a given size.
//!
//! These measure, so they need a processor for themselves for a moment: see `common/tries.rs`.

mod common;
#[path = "common/tries.rs"]
mod tries;

use common::{OPTIONS, mapping, path, run_on_one, stage};
use linerate_path::model::{Rate, RunLength, RunOptions, Sink};
use linerate_record::run::{RunReport, StrandReport};
use std::sync::atomic::{AtomicBool, Ordering};
use tries::some_try;

fn timed(seconds: f64, rate: Rate, turns: i64) -> RunReport {
    let mut path = path(vec![stage("spin", "turns", turns)]);
    path.sink = Sink::Null;
    let options = RunOptions { length: RunLength::Seconds(seconds), rate, ..OPTIONS };
    run_on_one(&path, &mapping(&[(1, 1)]), options).expect("runs").report
}

fn within(what: &str, value: f64, expected: f64, tolerance: f64) -> Result<(), String> {
    let holds = (value - expected).abs() <= tolerance;
    holds
        .then_some(())
        .ok_or_else(|| format!("{what}: {value}, expected {expected} +- {tolerance}"))
}

#[test]
fn the_parts_of_the_time_add_up_to_the_wall_clock() {
    for rate in [Rate::Max, Rate::PacketsPerSecond(200_000.0)] {
        some_try(|| {
            let time = timed(0.3, rate, 10).strands[0].time_or_zero();
            within("unaccounted", time.unaccounted, 0.0, 0.01)
        });
    }
}

#[test]
fn a_paced_source_keeps_its_rate_and_the_strand_starves_meanwhile() {
    some_try(|| {
        let report = timed(0.3, Rate::PacketsPerSecond(100_000.0), 10);
        let kpps = report.processed_kpps.as_number().ok_or("no clean window")?;
        within("kpps", kpps, 100.0, 2.0)?;
        let time = report.strands[0].time_or_zero();
        within("busy + starved", time.busy + time.starved + time.lost, 1.0, 0.01)?;
        (time.starved > 0.5).then_some(()).ok_or_else(|| format!("{time:?}"))
    });
}

#[test]
fn at_full_rate_service_time_is_the_inverse_of_the_rate() {
    some_try(|| {
        let report = timed(0.3, Rate::Max, 100);
        let kpps = report.processed_kpps.as_number().ok_or("no clean window")?;
        let ticks = report.strands[0].ticks_per_packet.as_number().ok_or("no ticks")?;
        let inverse = report.ticks_per_second / ticks / 1e3;
        within("rate from service time", inverse, kpps, 0.02 * kpps)
    });
}

#[test]
fn the_parts_of_a_strand_sum_to_the_strand() {
    some_try(|| {
        let strand = &timed(0.4, Rate::Max, 100).strands[0];
        let whole = strand.ticks_per_packet.as_number().ok_or("no ticks")?;
        let parts: Option<f64> = strand.stages.iter().map(|s| s.ticks_per_packet.as_number()).sum();
        within("sum of the parts", parts.ok_or("a part has no ticks")?, whole, 0.05 * whole)
    });
}

#[test]
fn twice_the_work_costs_the_work_more() {
    let spin = |turns| {
        let stage = timed(0.2, Rate::Max, turns).strands[0].stages[1].clone();
        stage.ticks_per_packet.as_number().ok_or("no ticks")
    };
    some_try(|| {
        let (once, twice, thrice) = (spin(500)?, spin(1_000)?, spin(1_500)?);
        within("second difference", (thrice - twice) / (twice - once), 1.0, 0.05)
    });
}

#[test]
fn rates_are_right_however_long_a_turn_or_rare_a_packet() {
    // Turns of about a third of a window.
    some_try(|| {
        let mut path = path(vec![stage("spin", "turns", 400)]);
        path.sink = Sink::Null;
        let options = RunOptions { length: RunLength::Seconds(0.4), burst: 256, ..OPTIONS };
        let report = run_on_one(&path, &mapping(&[(1, 1)]), options).expect("runs").report;
        let windows = report.strands[0].windows;
        if 2 * windows.lost_to_preemption > windows.total {
            return Err(format!("{windows:?}"));
        }
        let kpps = report.processed_kpps.as_number().ok_or("no clean window")?;
        let ticks = report.strands[0].ticks_per_packet.as_number().ok_or("no ticks")?;
        let inverse = report.ticks_per_second / ticks / 1e3;
        within("rate from service time", inverse, kpps, 0.02 * kpps)
    });
    // Fewer packets than windows.
    some_try(|| {
        let report = timed(0.6, Rate::PacketsPerSecond(400.0), 10);
        let kpps = report.throughput_kpps.as_number().ok_or("no clean window")?;
        within("kpps", kpps, 0.4, 0.02)
    });
}

#[test]
fn work_that_grows_for_good_is_work_and_not_lost_time() {
    some_try(|| {
        let mut path = path(vec![stage("grow", "after", 10_000)]);
        path.sink = Sink::Null;
        let options = RunOptions { length: RunLength::Seconds(0.3), ..OPTIONS };
        let report = run_on_one(&path, &mapping(&[(1, 1)]), options).expect("runs").report;
        let time = report.strands[0].time_or_zero();
        if report.strands[0].stages[1].packets < 11_000 {
            return Err("never came to the dear part".to_owned());
        }
        within("busy", time.busy, 1.0, 0.5)
    });
}

/// Runs `work` while another thread keeps processor 0 busy.
fn beside_a_hog<T>(work: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            linerate_linux::pin_current_thread(0).expect("processor 0 is there");
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let result = work();
        stop.store(true, Ordering::Relaxed);
        result
    })
}

#[test]
fn time_lost_to_another_thread_is_what_the_scheduler_says() {
    let check = |strand: &StrandReport| {
        let delay = strand.run_delay_ns.ok_or("the kernel keeps no run delay")? as f64;
        if strand.time_or_zero().lost < 0.2 {
            return Err(format!("the other thread took only {:.3}", strand.time_or_zero().lost));
        }
        if strand.windows.lost_to_preemption == 0 {
            return Err("no window was dropped".to_owned());
        }
        within("lost, ns", strand.lost_ns as f64, delay, 0.05 * delay)
    };
    for rate in [Rate::Max, Rate::PacketsPerSecond(100_000.0)] {
        some_try(|| check(&beside_a_hog(|| timed(0.6, rate, 10)).strands[0]));
    }
}
