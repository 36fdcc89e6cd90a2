// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rendering of a profile of polling threads.

use linerate_record::profile::ProfileReport;
use linerate_record::profile_diff::{ChangeVerdict, CostChange, CostUnit};
use linerate_record::stats::Estimate;
use linerate_record::why::PacketCount;
use linerate_record::{Body, Figure, Tier, fixtures};
use linerate_report::{Detail, Glyphs, Layout, Options, Style, text};

fn figure(unit: &str, value: f64, part: f64) -> Figure {
    let (low, high) = (value * (1.0 - part), value * (1.0 + part));
    let estimate = Estimate { value, low, high, confidence: 0.9, n: 99 };
    Figure::number(unit, estimate, Tier::Sw, "by hand")
}

/// Returns the report of the stored profile after `change`, joined into one line.
fn screen(change: impl Fn(&mut ProfileReport)) -> String {
    let mut record = fixtures::record("profile");
    let Body::Profile(report) = &mut record.body else { panic!("a profile") };
    report.packets =
        Some(PacketCount { packets: 100_000, bytes: None, counter: "eth0 rx_packets".to_owned() });
    change(report);
    let (style, detail) = (Style::plain(100), Detail::Screen);
    let options =
        Options { style, detail, glyphs: Glyphs::Ascii, layout: Layout::Table, is_written: false };
    text(&record, &options).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_polling_thread_has_its_load_and_its_room() {
    let text = screen(|report| {
        let thread = &mut report.threads[0];
        (thread.name, thread.tid) = ("poll".to_owned(), 7);
        thread.busy = figure("ratio", 0.4, 0.1);
        thread.ns_per_packet = figure("ns/packet", 250.0, 0.1);
        thread.capacity = figure("packets/s", 4e6, 0.1);
    });
    let line = "polling poll (7): busy 40.0 % (36.0 to 44.0) of its CPU time, 250 (225 to 275) \
                ns/packet; capacity 4000 (3600 to 4400) kpps";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_thread_that_cannot_be_determined_has_the_reason() {
    let text = screen(|report| {
        let thread = &mut report.threads[0];
        (thread.name, thread.tid) = ("poll".to_owned(), 7);
        thread.busy = Figure::absent("ratio", Tier::Sw, "by hand", "the load is constant");
    });
    let line = "polling poll (7): cannot tell work from polling (the load is constant); \
                costs include both";
    assert!(text.contains(line), "{text}");
}

#[test]
fn too_few_samples_rank_no_function() {
    let text = screen(|report| {
        report.samples = 3;
        report.cpu_s = 0.003;
        report.sampled.ended = Some("exit status 2".to_owned());
    });
    let line = "Cannot tell what is hottest: only 3 samples in 3 ms of CPU time; it ended: exit \
                status 2";
    assert!(text.starts_with(line), "{text}");
}

#[test]
fn many_incomplete_chains_come_with_the_option_that_copies_more_stack() {
    let chains = |incomplete, bytes| {
        screen(|report| {
            report.samples = 100;
            report.sampling.incomplete_chains = Some(incomplete);
            report.sampling.stack_bytes = Some(bytes);
        })
    };
    assert!(chains(85, 8192).contains("incomplete (--call-graph dwarf,64512 copies more)"));
    for text in [chains(10, 8192), chains(85, 64512)] {
        assert!(!text.contains("copies more"), "{text}");
    }
}

/// The first function takes 12 ns per packet more than before, and all functions together 20 ns
/// more.
#[test]
fn a_comparison_begins_with_the_function_that_changed_most() {
    let (style, detail) = (Style::plain(100), Detail::Screen);
    let options =
        Options { style, detail, glyphs: Glyphs::Ascii, layout: Layout::Table, is_written: false };
    let mut record = fixtures::record("profile_diff");
    let same = text(&record, &options);
    assert!(same.starts_with("No function's cost changed"), "{same}");
    let ns = |value, low, high| {
        Figure::number("ns", Estimate { low, high, ..Estimate::exactly(value) }, Tier::Sw, "test")
    };
    let Body::ProfileDiff(report) = &mut record.body else { panic!("a comparison") };
    report.unit = CostUnit::NsPerPacket;
    report.total.change = ns(20.0, 20.0, 20.0);
    report.functions[0].name = "memcpy".to_owned();
    report.functions[0].cost = CostChange {
        old: ns(30.0, 29.0, 31.0),
        new: ns(42.0, 41.0, 43.0),
        change: ns(12.0, 8.1, 16.0),
        verdict: ChangeVerdict::More,
    };
    let changed = text(&record, &options);
    assert!(changed.starts_with("`memcpy`: +12 (8.1 to 16) ns/packet; in all +20"), "{changed}");
    assert!(changed.lines().any(|line| line.contains("8.1 to 16  more")), "{changed}");
}
