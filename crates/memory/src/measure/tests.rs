// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests machine-independent properties of a measurement. Times are not checked.

use super::*;
use linerate_record::Derive;
use linerate_record::Figure;
use std::cell::RefCell;
use std::fs;
use std::sync::atomic::AtomicBool;
use std::thread;

fn request() -> Request {
    Request { effort: Effort::Quick, cpu: None, max_bytes: Some(600 << 10), pages: None, seed: 1 }
}

/// Measures on a separate thread because the measuring thread stays pinned.
fn measured(request: Request, is_stopped: bool) -> Result<(MemoryReport, Vec<f64>), MemoryError> {
    let run = move || {
        let (stop, shares) = (AtomicBool::new(is_stopped), RefCell::new(Vec::new()));
        let progress = |_: &str, share| shares.borrow_mut().push(share);
        let report = measure(&request, &Watch::new(&stop, &progress))?;
        Ok((report, shares.into_inner()))
    };
    thread::spawn(run).join().unwrap()
}

/// The memory is on the node of the first CPU, as the kernel reports it for this one.
#[test]
fn threads_that_use_memory_together_are_on_one_node() {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let file = folder.path().join("sys/devices/system").join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    let root = Root::new(folder.path());
    assert_eq!(team(&root, 5, &[0, 1, 4, 5]), [5, 0, 1, 4]);
    write("cpu/cpu5/node1/cpulist", "4-7\n");
    write("node/node1/cpulist", "4-7\n");
    assert_eq!(team(&root, 5, &[0, 1, 4, 5]), [5, 4]);
}

fn holds(figure: &Figure) -> bool {
    match figure.as_number() {
        Some(value) => {
            let is_below = figure.low.is_none_or(|low| low <= value);
            is_below && figure.high.is_none_or(|high| value <= high)
        }
        None => figure.reason.is_some(),
    }
}

#[test]
fn a_report_is_whole_however_little_memory_there_is() {
    let (report, shares) = measured(request(), false).unwrap();
    let conditions = &report.conditions;
    assert_eq!((conditions.max_bytes, conditions.effort), (600 << 10, Effort::Quick));
    assert!(conditions.max_reason.contains("--max"), "{conditions:?}");
    assert!(!conditions.interrupted && conditions.windows > conditions.windows_dropped);
    assert!(shares.is_sorted() && shares.iter().all(|share| (0.0..=1.0).contains(share)));

    let orders: Vec<Order> = report.curves.iter().map(|curve| curve.order).collect();
    assert_eq!(orders, [Order::PageLocal, Order::Random, Order::Sequential]);
    for point in report.curves.iter().flat_map(|curve| &curve.points) {
        assert!(point.bytes <= conditions.max_bytes && holds(&point.latency_ns), "{point:?}");
    }
    for level in &report.levels {
        assert!(holds(&level.size_bytes) && holds(&level.latency_ns), "{level:?}");
    }
    let figures = report.figures();
    assert!(figures.values().all(holds), "{figures:?}");
    assert!(figures.contains_key("timer_step_ns") && figures.contains_key("noise_lost"));
    assert!(report.events.is_empty() && report.events_reason.is_some());
    assert!(report.bandwidth.is_empty() && report.loaded.is_empty());
    serde_json::to_string(&report).unwrap();
}

#[test]
fn a_stop_at_once_leaves_nothing() {
    assert_eq!(measured(request(), true).unwrap_err(), MemoryError::Stopped);
}

#[test]
fn rejects_unavailable_resources() {
    let small = Request { max_bytes: Some(0), ..request() };
    assert!(matches!(measured(small, false), Err(MemoryError::TooLittle { .. })));
    let elsewhere = Request { cpu: Some(60_000), ..request() };
    let error = measured(elsewhere, false).unwrap_err();
    assert!(error.to_string().contains("60000"), "{error}");
}
