// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures what kernel events cost on this machine. A system call takes from 0.1 to 1 us, and a
//! page fault from 0.3 to 10 us, depending on processor, mitigations and hypervisor, so constants
//! would make every estimate based on them useless.
//!
//! Events are timed in batches, which are short enough to be rarely interrupted. The median over
//! the batches excludes the interrupted ones. All batches together take about 5 ms.

use linerate_linux::{Mapping, advise_small_pages, page_bytes, thread_cpu_time_ns};
use linerate_record::stats::{CONFIDENCE, median_interval};
use linerate_record::why::EventCosts;
use linerate_record::{Figure, Tier};
use std::fs::OpenOptions;
use std::io::Write;

/// Batches per kind of event.
const BATCHES: usize = 15;

/// System calls per batch.
const CALLS: usize = 200;

/// Pages per batch.
const PAGES: usize = 64;

/// Measures the cost of kernel events, on the calling thread.
pub(crate) fn event_costs() -> EventCosts {
    let null = OpenOptions::new().write(true).open("/dev/null");
    let system_call = null.ok().and_then(|mut null| {
        time_per_event(CALLS, || (0..CALLS).all(|_| null.write(&[0]).is_ok()))
    });
    let page = page_bytes();
    let page_fault = time_per_event(PAGES, || touch(PAGES * page, PageSize::Small));
    let one = || touch(page, PageSize::Any);
    let page_mapping = time_per_event(PAGES, || (0..PAGES).all(|_| one()));
    EventCosts {
        system_call: figure(system_call.as_deref(), "median CPU time of a write to /dev/null"),
        page_fault: figure(
            page_fault.as_deref(),
            "median CPU time per page for the first write to each page of a 64-page mapping",
        ),
        page_mapping: figure(
            page_mapping.as_deref(),
            "median CPU time to map a page, write to it, and unmap it",
        ),
        sample: None,
    }
}

/// Page size to request from the kernel.
enum PageSize {
    Any,
    Small,
}

/// Maps `bytes` bytes, writes to each page, and unmaps them. Returns `false` if the memory cannot
/// be mapped.
fn touch(bytes: usize, size: PageSize) -> bool {
    let Ok(mut mapping) = Mapping::new(bytes) else { return false };
    if matches!(size, PageSize::Small) {
        // Fails only on kernels without huge pages.
        advise_small_pages(mapping.start(), bytes).ok();
    }
    mapping.touch();
    true
}

/// Returns the CPU time per event in nanoseconds, one value per batch; `None` if an event fails.
fn time_per_event(events: usize, mut batch: impl FnMut() -> bool) -> Option<Vec<f64>> {
    let timed = |_| {
        let start = thread_cpu_time_ns();
        batch().then(|| thread_cpu_time_ns().saturating_sub(start) as f64 / events as f64)
    };
    (0..BATCHES).map(timed).collect()
}

fn figure(times: Option<&[f64]>, method: &str) -> Figure {
    match times {
        Some(times) => Figure::number("ns", median_interval(times, CONFIDENCE), Tier::Sw, method),
        None => Figure::absent("ns", Tier::Sw, method, "one of the timed operations failed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_ordered_as_the_work_that_they_include() {
        let costs = event_costs();
        let value = |figure: &Figure| figure.as_number().unwrap();
        let (call, fault) = (value(&costs.system_call), value(&costs.page_fault));
        let mapping = value(&costs.page_mapping);
        assert!(call > 0.0 && fault > 0.0, "{costs:?}");
        // Mapping a page takes two system calls in addition to the fault. Other programs may slow
        // one of the figures down.
        assert!(mapping > 0.5 * (fault + 2.0 * call), "{costs:?}");
    }

    #[test]
    fn what_fails_has_no_cost() {
        let mut left = 3;
        let times = time_per_event(1, || {
            left -= 1;
            left > 0
        });
        assert_eq!(times, None);
        assert_eq!(figure(None, "median").as_number(), None);
    }
}
