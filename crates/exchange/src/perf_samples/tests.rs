// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use proptest::prelude::*;
use std::fmt::Write;

fn class_of(name: &str, _: &str) -> CostClass {
    if name == "memcpy" { CostClass::Copy } else { CostClass::Program }
}

/// Returns `n` samples of two threads, 1 ms apart, of which every fourth is in `memcpy`.
fn text(n: u32) -> String {
    let mut text = "# ========\n# captured on: today\n".to_owned();
    for at in 0..n {
        let (tid, function) = (7 + at % 2, if at % 4 == 0 { "memcpy" } else { "parse" });
        let (seconds, us) = (100 + at / 1000, at % 1000 * 1000);
        let _ = writeln!(
            text,
            "worker 7/{tid} [00{}] {seconds}.{us:06}:    1000000 cpu-clock:pppH: \n\
             \t          40{at:02x} {function}+0x10 (/opt/bin/router)\n\
             \t          500010 run+0x1f (/opt/bin/router)\n",
            at % 2
        );
    }
    text
}

#[test]
fn samples_become_functions_with_intervals() {
    let report = read(&text(400), class_of).unwrap();
    assert_eq!((report.samples, report.sampling.slices), (400, 40));
    let names: Vec<_> =
        report.functions.iter().map(|one| (one.name.as_str(), one.samples)).collect();
    assert_eq!(names, [("parse", 300), ("memcpy", 100), ("run", 0)]);
    assert_eq!(report.functions[2].samples_with_callees, 400);
    let share = &report.functions[1].share;
    assert_eq!(share.as_number(), Some(0.25));
    let (low, high) = (share.low.unwrap(), share.high.unwrap());
    assert!((0.18..0.25).contains(&low) && (0.25..0.32).contains(&high), "{share:?}");
    assert_eq!(report.functions[0].module, "router");
    assert_eq!((report.classes[1].class, report.classes[1].samples), (CostClass::Copy, 100));
    assert_eq!((report.sampled.name.as_str(), &report.sampled.pids), ("worker", &vec![7]));
    let threads: Vec<_> = report.threads.iter().map(|one| (one.tid, one.samples)).collect();
    assert_eq!(threads, [(7, 200), (8, 200)]);
    assert!((report.cpu_s - 0.4).abs() < 1e-9 && (report.elapsed_s - 0.4).abs() < 1e-9);
    assert_eq!(report.sampling.rate_hz, 1000.0);
    assert_eq!(report.calls.iter().map(|node| node.samples).sum::<u64>(), 400);
    assert_eq!(report.path(1).iter().map(|one| one.name.as_str()).collect::<Vec<_>>()[0], "run");
    assert!(report.unread.is_empty(), "{:?}", report.unread);
}

#[test]
fn shares_are_weighted_by_period() {
    let mut text = String::new();
    for at in 0..200 {
        // perf begins with short periods.
        let (function, period) = if at < 100 { ("start", 1000) } else { ("steady", 9000) };
        let _ = writeln!(text, "a 5 3.{at:03}000: {period} cycles:  4000 {function}+0x1 (/bin/a)");
    }
    let report = read(&text, class_of).unwrap();
    assert_eq!(report.functions[0].samples, 100);
    let of = |name: &str| {
        let found = report.functions.iter().find(|one| one.name == name).unwrap();
        found.share.as_number().unwrap()
    };
    assert!((of("start") - 0.1).abs() < 1e-9 && (of("steady") - 0.9).abs() < 1e-9);
    let unread: Vec<&str> = report.unread.iter().map(|one| one.what.as_str()).collect();
    assert_eq!(unread, ["cpu_time", "equal_periods"]);
    // The clock is unknown, so the CPU time follows from the time between two samples.
    assert!((report.cpu_s - 0.2).abs() < 1e-6, "{}", report.cpu_s);
    assert_eq!(report.tier(), linerate_record::Tier::Hw);
}

/// `perf record -a` samples the idle task too, with the same thread ID on all CPUs.
#[test]
fn idle_cpus_are_no_program() {
    let mut all = text(100);
    for at in 0..400 {
        let (seconds, us) = (100 + at / 1000, at % 1000 * 1000 + 7);
        let _ = writeln!(
            all,
            "swapper 0/0 [002] {seconds}.{us:06}:    1000000 cpu-clock:pppH: \n\
             \t          600010 pv_native_safe_halt+0x10 ([kernel.kallsyms])\n"
        );
    }
    let report = read(&all, class_of).unwrap();
    assert_eq!((report.samples, report.sampled.name.as_str()), (100, "worker"));
    assert!((report.cpu_s - 0.1).abs() < 1e-9, "{}", report.cpu_s);
    assert!(report.unread.iter().any(|one| one.reason.contains("400 samples")));
}

#[test]
fn samples_without_a_period_count_once() {
    let text: String = (0..100)
        .map(|at| format!("a 5 3.{at:03}000: 0 cycles:  4000 start+0x1 (/bin/a)\n"))
        .collect();
    let report = read(&text, class_of).unwrap();
    assert_eq!(report.functions[0].share.as_number(), Some(1.0));
}

#[test]
fn the_event_with_the_most_samples_is_used() {
    let text = "a 5 3.000001: 7 instructions: \n\t40 x (/a)\n\n\
                a 5 3.000002: 7 cycles:u: \n\t40 y (/a)\n\n\
                a 5 3.001002: 7 cycles:u: \n\t40 y (/a)\nnoise\n";
    let report = read(text, class_of).unwrap();
    assert_eq!((report.sampling.event.as_str(), report.sampling.has_kernel), ("cycles", false));
    assert_eq!((report.samples, report.functions.len()), (2, 1));
    let reasons: Vec<&str> = report.unread.iter().map(|one| one.reason.as_str()).collect();
    assert!(reasons[0].starts_with("skipped 1 line, neither"), "{reasons:?}");
    assert!(reasons[0].contains("line 9"), "{reasons:?}");
    assert_eq!(reasons[1], "not used: 1 sample of instructions");
}

#[test]
fn a_text_without_samples_is_an_error() {
    let error = |text| read(text, class_of).unwrap_err().to_string();
    assert!(error("PERFILE2h\u{fffd}").contains("perf script -i FILE | linerate import -"));
    assert_eq!(error(""), "no usable data: no `perf script` samples found");
    let tracepoint = "# x\ndd 12 [000] 5.123456: sched:sched_switch: prev_comm=dd\n";
    assert_eq!(error(tracepoint), "no usable data; line 2: no `perf script` samples found");
}

#[test]
fn a_sample_without_frames_counts_as_unknown() {
    let report = read("a 5 3.000001: 7 cpu-clock: \n\n\t40 inner (inlined)\n", class_of).unwrap();
    assert_eq!(report.functions[0].name, UNKNOWN);
    let inlined = "a 5 3.000001: 7 cpu-clock: \n\t40 inner (inlined)\n\t40 outer+0x1 (/a)\n";
    let report = read(inlined, class_of).unwrap();
    assert_eq!(report.functions.iter().map(|one| &one.name).collect::<Vec<_>>(), ["outer"]);
}

#[test]
fn what_linerate_exports_is_read_back() {
    let before = read(&text(100), class_of).unwrap();
    let provenance = linerate_record::fixtures::record("profile").provenance;
    let body = linerate_record::Body::Profile(Box::new(before.clone()));
    let record = linerate_record::Record { provenance, body };
    let exported = crate::perf_script::text(&record).unwrap();
    let after = read(&exported, class_of).unwrap();
    let counts = |report: &ProfileReport| {
        let functions = report.functions.iter();
        let mut counts: Vec<_> = functions
            .map(|one| (one.name.clone(), one.samples, one.samples_with_callees))
            .collect();
        counts.sort();
        counts
    };
    assert_eq!(counts(&after), counts(&before));
}

proptest! {
    #[test]
    fn any_text_is_read(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<char>()), 1..40),
        removed in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let mut characters: Vec<char> = text(20).chars().collect();
        for (at, character) in damage {
            let at = at.index(characters.len());
            characters[at] = character;
        }
        for at in removed {
            characters.remove(at.index(characters.len()));
        }
        let text: String = characters.into_iter().collect();
        if let Ok(report) = read(&text, class_of) {
            let of_threads: u64 = report.threads.iter().map(|one| one.samples).sum();
            let of_functions: u64 = report.functions.iter().map(|one| one.samples).sum();
            prop_assert_eq!([of_threads, of_functions], [report.samples; 2]);
        }
    }

    #[test]
    fn any_line_is_read(line in ".*", start in "[ \t]{0,2}[a-z0-9/ .:\\[\\]()+-]*") {
        let _ = (header(&line), frame(&line), header(&start), frame(&start));
    }
}
