// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests which windows contribute to a rate.

use super::*;
use crate::meter::Window;

const TICKS_PER_SECOND: f64 = 1e6;

/// Returns the readings of a worker that receives a packet in every second window, and is
/// interrupted in exactly those windows.
fn in_step(windows: u64, starved: u64) -> Readings {
    let window = |index: u64| {
        let packets = index % 2;
        Window {
            index,
            cells: 1,
            ticks: 990,
            crossing: 10,
            clean: packets == 0,
            taken: packets,
            delivered: packets,
            packets,
            ..Window::default()
        }
    };
    let mut burst_sizes = [0; crate::meter::BURST_BUCKETS];
    burst_sizes[0] = windows / 2;
    Readings {
        starved,
        lost: 100,
        packets: windows / 2,
        burst_sizes,
        windows: (0..windows).map(window).collect(),
        stride: 1,
        ..Readings::default()
    }
}

fn kpps(starved: u64, tells_lost: bool) -> Option<f64> {
    let readings = in_step(1_000, starved);
    let rates = Rates::from_readings(&[&readings], TICKS_PER_SECOND, tells_lost, false);
    rates.figure(&rates.delivered, "packets").as_number()
}

#[test]
fn a_path_with_time_to_spare_counts_what_came_while_it_was_interrupted() {
    assert_eq!(kpps(200, true), Some(0.5));
}

#[test]
fn a_path_at_its_limit_counts_clean_windows() {
    assert_eq!(kpps(199, true), Some(0.0));
}

#[test]
fn workers_that_take_turns_on_a_processor_never_count_as_having_caught_up() {
    assert_eq!(kpps(u64::MAX, false), Some(0.0));
}

#[test]
fn windows_of_one_worker_in_a_long_window_of_another_are_not_lost() {
    let mut one = in_step(1_000, 200);
    let mut other = in_step(1_000, 200);
    // The first worker is off its CPU for three windows, and then gets two packets at once.
    one.windows.drain(501..503);
    one.windows[500].ticks = 2_970 + 20;
    one.windows[500].cells = 3;
    one.windows[501].delivered += 1;
    other.windows.iter_mut().for_each(|window| window.delivered = 0);
    let rates = Rates::from_readings(&[&one, &other], TICKS_PER_SECOND, true, false);
    assert_eq!(rates.delivered.len(), 1_000);
    let packets: f64 = rates.delivered.iter().sum();
    assert!((packets - 500.0).abs() < 1e-9, "{packets}");
}

/// Returns the readings of a worker whose clean windows cover `cells` cells each. It receives and
/// delivers `packets` packets per cell.
fn of_long_windows(cells: u64, packets: u64, stride: u64) -> Readings {
    let window = |index: u64| Window {
        index,
        cells,
        ticks: 1_000 * cells,
        clean: true,
        taken: packets * cells,
        delivered: packets * cells,
        packets: packets * cells,
        ..Window::default()
    };
    let mut burst_sizes = [0; crate::meter::BURST_BUCKETS];
    burst_sizes[0] = 1_000;
    let windows = (0..1_000).step_by(cells as usize).map(window);
    Readings {
        starved: 1,
        packets: 1_000,
        burst_sizes,
        windows: windows.filter(|window| window.kept_cells(stride).next().is_some()).collect(),
        stride,
        ..Readings::default()
    }
}

/// One worker polls. The other sleeps through 80 windows at a time, and handles few packets.
#[test]
fn a_sleeping_worker_changes_no_rate() {
    for tells_lost in [true, false] {
        for stride in [1, 4] {
            let (busy, asleep) = (of_long_windows(1, 4_000, stride), of_long_windows(80, 1, 1));
            let rates =
                Rates::from_readings(&[&busy, &asleep], TICKS_PER_SECOND, tells_lost, false);
            let kpps = rates.figure(&rates.delivered, "packets").as_number();
            assert_eq!(kpps, Some(4_001.0), "{tells_lost} {stride}");
        }
    }
}

/// Returns the readings of a worker that is off its CPU in five of six windows, for the fraction
/// `lost` of the time. In the sixth window, it handles the 22 packets that have queued up.
fn of_backlog(lost: f64) -> Readings {
    let window = |index: u64| {
        let packets = if index % 6 == 5 { 22 } else { 0 };
        Window {
            index,
            cells: 1,
            ticks: 1_000,
            clean: packets > 0,
            taken: packets,
            delivered: packets,
            packets,
            ..Window::default()
        }
    };
    let lost = (1e6 * lost) as u64;
    Readings {
        busy: 1_000_000 - lost,
        lost,
        packets: 3_652,
        burst_sizes: [166; crate::meter::BURST_BUCKETS],
        windows: (0..1_000).map(window).collect(),
        stride: 1,
        ..Readings::default()
    }
}

#[test]
fn a_backlog_is_not_the_rate_at_which_packets_arrive() {
    let of = |lost, tells_lost, has_rate| {
        let readings = of_backlog(lost);
        let rates = Rates::from_readings(&[&readings], TICKS_PER_SECOND, tells_lost, has_rate);
        rates.mean()
    };
    let whole = 166.0 * 22.0 / 1_000.0;
    assert_eq!(of(0.3, true, true), whole);
    // Clean windows are used if the path takes packets as fast as it can, or if the workers were
    // off their CPUs for all of the time outside the clean windows: then there is no backlog.
    assert_eq!(of(0.3, true, false), 22.0);
    assert_eq!(of(0.8, true, true), 22.0);
    assert_eq!(of(0.3, false, true), 22.0);
}

/// Returns the readings of a worker that polls for 1000 windows, and receives 1000 packets in each
/// of the first `active` of every 60 windows.
fn of_pauses(active: u64) -> Readings {
    let mut readings = of_long_windows(1, 1_000, 1);
    for window in readings.windows.iter_mut().filter(|window| window.index % 60 >= active) {
        (window.taken, window.delivered, window.packets) = (0, 0, 0);
    }
    readings.starved = 1_000_000;
    readings
}

#[test]
fn pauses_count_towards_the_rate_of_packets_that_pause() {
    for (active, share) in [(20, 1.0 / 3.0), (33, 0.55), (60, 1.0)] {
        let readings = of_pauses(active);
        let rates = Rates::from_readings(&[&readings], TICKS_PER_SECOND, true, true);
        let figure = rates.figure(&rates.delivered, "packets");
        let kpps = figure.as_number().expect("enough windows");
        assert!((kpps / 1_000.0 - share).abs() < 0.02, "{active}: {figure:?}");
        let ends = figure.low.zip(figure.high);
        assert!(ends.is_none_or(|(low, high)| low <= kpps && kpps <= high), "{figure:?}");
    }
}

/// The sleeping worker's windows are 1.5 cells long, so every second one covers two cells.
#[test]
fn windows_of_a_fraction_of_a_cell_do_not_change_the_rate() {
    let busy = of_long_windows(1, 4_000, 1);
    let mut asleep = of_long_windows(1, 0, 1);
    asleep.windows.retain(|window| window.index % 3 != 2);
    for window in &mut asleep.windows {
        (window.cells, window.ticks) = (1 + window.index % 3, 1_500);
    }
    for tells_lost in [true, false] {
        let rates = Rates::from_readings(&[&busy, &asleep], TICKS_PER_SECOND, tells_lost, false);
        assert_eq!(rates.figure(&rates.delivered, "packets").as_number(), Some(4_000.0));
    }
}
