// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of counting on whole CPUs.

use super::*;

#[test]
fn counts_cpus_or_reports_the_reason() {
    let processor = crate::rig::a_processor();
    let record = counted(0, &["--cpu", &processor, "--time", "50ms"]);
    let report = report_of(&record);
    let cpus = vec![processor.parse().expect("a number")];
    assert_eq!(report.target, StatTarget::Cpus { cpus });
    let switches = &event(report, "context_switches").count;
    assert!(switches.as_number().is_some() || switches.reason.is_some(), "{switches:?}");
}

/// `task_clock_ns` also runs while a CPU is idle, so no CPU time or rate follows from it.
#[test]
fn no_cpu_time_is_counted_on_whole_cpus() {
    let processor = crate::rig::a_processor();
    let record = counted(0, &["--cpu", &processor, "--time", "50ms"]);
    let report = report_of(&record);
    for name in ["clock_ghz", "switches_per_s", "faults_per_s"] {
        let metric = report.metrics.iter().find(|metric| metric.name == name).expect(name);
        assert_eq!(metric.figure.as_number(), None, "{name}");
        let reason = metric.figure.reason.as_ref().expect("it is absent");
        let needed = "needs task_clock_ns: when whole CPUs are counted, this clock also runs while \
                      they are idle";
        assert!(name == "clock_ghz" || reason == needed, "{name}: {reason}");
    }
    assert!(report.events.iter().all(|event| event.name != "task_clock_ns"), "{report:?}");
    assert!(report.events.iter().any(|event| event.name == "cpu_clock_ns"), "{report:?}");

    let asked = ["--cpu", &processor, "--time", "50ms", "-e", "task-clock,context_switches"];
    let record = counted(0, &asked);
    let clock = event(report_of(&record), "task_clock_ns");
    assert_eq!((clock.count.as_number(), clock.fix.as_deref()), (None, Some("-e cpu_clock_ns")));
}
