// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a sketch contains the measured figures and can be parsed as a path file.

use super::*;
use linerate_path::check::read_to_plan;
use linerate_path::mapping::describe;
use linerate_path::spec::State;
use linerate_record::regions::{RegionReport, RegionsReport};
use linerate_record::strands::{ForeignFormat, NodeCounts, StrandCounts, StrandEvent};
use linerate_record::why::{PacketCount, ThreadActivity, ThreadState, WhyReport};
use linerate_record::{Figure, Provenance, Tier};

const GHZ: f64 = 2.0;

/// Returns a region of thread `tid` with `own` ticks.
fn region(name: &str, tid: u32, visits: u64, units: u64, own: f64) -> RegionReport {
    let ticks = |ticks| Figure::exact("ticks", ticks, Tier::Sw, "a test");
    RegionReport {
        name: name.to_owned(),
        tid,
        visits,
        units,
        ticks: ticks(own),
        own_ticks: ticks(own),
        events: Vec::new(),
        is_sampled: false,
        verdict: String::new(),
    }
}

fn record(regions: Vec<RegionReport>) -> Record {
    let report = RegionsReport {
        tier: Tier::Sw,
        reading: "a test".to_owned(),
        own_ticks: Figure::exact("ticks", 20.0, Tier::Sw, "a test"),
        regions,
    };
    let provenance = Provenance { ticks_per_s: Some(GHZ * 1e9), ..Provenance::default() };
    Record { provenance, body: Body::Regions(Box::new(report)) }
}

fn drawn(regions: Vec<RegionReport>) -> Sketch {
    sketch(&record(regions), "r.json", Known::default()).expect("it has times")
}

/// Returns the mapping and costs from a sketch's path file, as read by `plan`.
fn read(sketch: &Sketch, state: Option<State>) -> (String, Vec<(String, f64, f64)>) {
    let text = text(sketch, "r", state, Some(1e10), None);
    let described = read_to_plan(&text, "r", &[][..]).unwrap_or_else(|why| {
        panic!("{}\n{text}", why.display("r.toml"));
    });
    let costs = described.costs.expect("it has costs");
    let each = costs.stages.iter().map(|one| (one.name.clone(), one.ns.unwrap_or(0.0), one.reach));
    (describe(&described.path.mapping, &described.path.stages), each.collect())
}

#[test]
fn regions_of_a_pipeline_are_its_stages_and_threads_its_workers() {
    let sketch = drawn(vec![
        region("rx", 1, 100, 3200, 320_000.0),
        region("rx/parse", 1, 100, 3200, 640_000.0),
        region("tx", 2, 100, 1600, 320_000.0),
    ]);
    let (mapping, costs) = read(&sketch, None);
    assert_eq!(mapping, "rx+parse | tx");
    let wanted = [("rx", 50.0, 1.0), ("parse", 100.0, 1.0), ("tx", 100.0, 0.5)];
    for ((name, ns, reach), (known, known_ns, known_reach)) in costs.iter().zip(wanted) {
        assert_eq!((name.as_str(), *reach), (known, known_reach));
        assert!((ns - known_ns).abs() < 1e-9, "{name}: {ns}");
    }
    // The first worker spends 150 ns on a packet, the second 50.
    assert!((sketch.capacity_per_s() - 1e9 / 150.0).abs() < 1e-3);
    assert!(sketch.notes.is_empty(), "{:?}", sketch.notes);
}

#[test]
fn threads_that_run_the_same_are_replicas_and_keep_no_state_for_all() {
    let of = |tid| [region("rx", tid, 10, 320, 64_000.0), region("work", tid, 10, 320, 64_000.0)];
    let sketch = drawn([of(1), of(2)].concat());
    assert_eq!(read(&sketch, None).0, "rx+work x2");
    let text = text(&sketch, "r", None, None, None);
    assert!(text.contains("state = \"flow\"") && !text.contains("global"), "{text}");
    // 640 packets take 256,000 ticks of 0.5 ns each: 200 ns per packet.
    assert!((sketch.ns_per_packet() - 200.0).abs() < 1e-9);
}

#[test]
fn what_nothing_says_is_assumed_and_said() {
    let sketch = drawn(vec![region("loop", 7, 500, 0, 1e6)]);
    assert!((sketch.ns_per_packet() - 1000.0).abs() < 1e-9);
    assert!(sketch.notes[0].contains("lr_region_add_units"), "{:?}", sketch.notes);
    let said = text(&sketch, "r", None, None, None);
    assert!(said.contains("state = \"global\"  # assumed"), "{said}");
    assert!(said.contains("64 bytes with FCS are assumed"), "{said}");
    let assumed = assumptions(&sketch, None, None).join("; ");
    let expected = "`loop` has global state, so it has one replica (otherwise pass --state flow or \
                    --state none); frames have 64 bytes with FCS (--frame)";
    assert_eq!(assumed, expected);
    assert!(assumptions(&sketch, Some(State::None), Some(1518)).is_empty());
    let given = text(&sketch, "r", Some(State::None), None, Some(1518));
    assert!(given.contains("state = \"none\"\n") && given.contains("sizes = [1514]"), "{given}");
    let packets = Known { packets: Some(1e6), ..Known::default() };
    let counted = sketch_of(vec![region("loop", 7, 500, 0, 1e6)], packets);
    assert!((counted.ns_per_packet() - 0.5).abs() < 1e-9);
}

fn sketch_of(regions: Vec<RegionReport>, known: Known) -> Sketch {
    sketch(&record(regions), "r.json", known).expect("it has times")
}

#[test]
fn any_names_and_any_number_of_regions_make_a_path_that_can_be_read() {
    let names = ["source", "a b", "", "\u{1b}[31m\"red\\", "x/y", "z/y", "[costs]"];
    let many = (0..40).map(|n| region(&format!("r{n}/part"), 1, 10, 10, 1e3 * f64::from(n + 1)));
    let odd = names.iter().map(|name| region(name, 1, 10, 10, 5e5));
    let sketch = drawn(odd.chain(many).collect());
    let (_, costs) = read(&sketch, None);
    assert_eq!(costs.len(), STAGES_MAX);
    assert_eq!(costs.last().map(|(name, ..)| name.as_str()), Some(REST));
    let all: f64 = sketch.ns_per_packet();
    let whole = names.len() as f64 * 5e5 + (1..=40).map(|n| f64::from(n) * 1e3).sum::<f64>();
    assert!((all / (whole / 10.0 / GHZ) - 1.0).abs() < 1e-9, "{all}");
}

#[test]
fn stages_of_equal_cost_beyond_the_limit_are_combined_not_dropped() {
    let count = STAGES_MAX + 5;
    let equal = (0..count).map(|n| region(&format!("r{n}"), 1, 10, 10, 1e4));
    let sketch = drawn(equal.collect());
    let (_, costs) = read(&sketch, None);
    assert_eq!(costs.len(), STAGES_MAX);
    let whole = count as f64 * 1e4 / 10.0 / GHZ;
    assert!((sketch.ns_per_packet() / whole - 1.0).abs() < 1e-9, "{}", sketch.ns_per_packet());
}

#[test]
fn what_is_no_measurement_of_packets_is_refused() {
    let none = sketch(&record(Vec::new()), "r", Known::default()).expect_err("no region");
    assert!(none.to_string().contains("no region"), "{none}");
    let mut bare = record(vec![region("loop", 1, 1, 1, 1.0)]);
    bare.provenance.ticks_per_s = None;
    assert_eq!(sketch(&bare, "r", Known::default()), Err(NoSketch::Clock));
    let clock = Known { clock_ghz: Some(1.0), ..Known::default() };
    assert!(sketch(&bare, "r", clock).is_ok());
}

/// Sets a thread's shares of time, in user mode, in the kernel, and asleep. It does not poll.
fn spend(thread: &mut ThreadActivity, user: f64, kernel: f64, asleep: f64) {
    thread.elapsed_s = 1.0;
    thread.cost_ns = Figure::absent("ns", Tier::Sw, "by hand", "no poll loop was found");
    for time in &mut thread.time {
        let share = match time.state {
            ThreadState::User => user,
            ThreadState::Kernel => kernel,
            ThreadState::Asleep => asleep,
            _ => 0.0,
        };
        time.share = Figure::exact("ratio", share, Tier::Sw, "by hand");
    }
}

/// Returns a `why` report on 100,000 packets whose threads have these names and shares of time.
fn threads(of: &[(&str, f64, f64, f64)]) -> WhyReport {
    let mut seen = linerate_record::fixtures::why();
    seen.observation.packets = Some(PacketCount {
        packets: 100_000,
        bytes: Some(2_000_000),
        counter: PacketCount::CONNECTIONS.to_owned(),
    });
    let any = seen.observation.threads[0].clone();
    let each = of.iter().map(|(name, user, kernel, asleep)| {
        let mut thread = ThreadActivity { name: (*name).to_owned(), ..any.clone() };
        spend(&mut thread, *user, *kernel, *asleep);
        thread
    });
    seen.observation.threads = each.collect();
    seen
}

#[test]
fn a_thread_that_sleeps_costs_its_cpu_time_per_packet() {
    let mut seen = threads(&[("redis-server", 0.3, 0.1, 0.6), ("helper", 0.005, 0.0, 0.995)]);
    let found = read::why(&seen, "r", Known::default()).expect("a sketch");
    let stages: Vec<(&str, f64)> =
        found.stages.iter().map(|stage| (stage.name.as_str(), stage.ns)).collect();
    assert_eq!(stages, [("redis-server", 4000.0)]);
    // 20 bytes of payload, 66 of headers, and the FCS.
    assert_eq!(found.frame_bytes, Some(90.0));
    let path = text(&found, "r", None, Some(1e10), None);
    assert!(path.contains("sizes = [86]\n"), "{path}");
    // A count on the command line replaces that of the record, and one that is missing.
    let packets = seen.observation.packets.take().expect("a count").packets as f64;
    let twice = Known { packets: Some(2.0 * packets), ..Known::default() };
    assert_eq!(read::why(&seen, "r", twice).expect("a sketch").stages[0].ns, 2000.0);
    let error = read::why(&seen, "r", Known::default()).expect_err("no packets are known");
    assert!(error.to_string().contains("--packets N"), "{error}");
    // The helper thread alone processes no packets.
    seen.observation.threads.remove(0);
    let error = read::why(&seen, "r", twice).expect_err("nothing runs");
    assert!(error.to_string().contains("no thread was on a CPU"), "{error}");
}

#[test]
fn a_saturated_thread_is_not_left_out_of_the_path() {
    let seen = threads(&[("rx", 0.5, 0.2, 0.3), ("worker-0", 0.9, 0.09, 0.01)]);
    let error = read::why(&seen, "r", Known::default()).expect_err("the worker is unknown");
    let expected = "thread `worker-0` is on a CPU for 99 % of the time and asleep for 1 %, so its \
                    work cannot be separated from polling: no poll loop was found; watch it \
                    at a load low enough";
    assert!(error.to_string().contains(expected), "{error}");
    // A busy thread is known if its polling was separated, also if it only polls.
    let mut polls = seen;
    polls.observation.threads[1].cost_ns = Figure::exact("ns", 500.0, Tier::Sw, "by hand");
    let stages = read::why(&polls, "r", Known::default()).expect("a sketch").stages;
    assert_eq!((stages.len(), stages[1].ns), (2, 500.0));
    polls.observation.threads[1].cost_ns = Figure::exact("ns", 0.0, Tier::Sw, "by hand");
    assert_eq!(read::why(&polls, "r", Known::default()).expect("a sketch").stages.len(), 1);
}

/// Returns an import of `perf stat` with these counts of each strand.
fn perf(strands: &[&[(&str, f64)]], packets: Option<u64>) -> Record {
    let Body::Strands(mut report) = linerate_record::fixtures::record("strands").body else {
        panic!("strands")
    };
    report.format = ForeignFormat::PerfStat;
    let (strand, event) = (report.strands[0].clone(), report.strands[0].events[0].clone());
    let count = |(name, count): &(&str, f64)| StrandEvent {
        name: (*name).to_owned(),
        count: Figure::exact("events", *count, Tier::Hw, "a test"),
        ..event.clone()
    };
    let strands = strands.iter().map(|counts| StrandCounts {
        packets,
        cpu: None,
        events: counts.iter().map(count).collect(),
        ..strand.clone()
    });
    report.strands = strands.collect();
    Record { provenance: Provenance::default(), body: Body::Strands(report) }
}

#[test]
fn core_cycles_are_not_divided_by_the_rate_of_the_tsc() {
    let record = perf(&[&[("cycles", 7e9), ("duration_time_ns", 2e9)]], Some(1_000_000));
    let Body::Strands(report) = &record.body else { panic!("strands") };
    assert!(report.machine.is_some(), "its ticks have a rate");
    let error = sketch(&record, "p", Known::default()).expect_err("the core clock is unknown");
    assert!(error.to_string().contains("task-clock"), "{error}");
    let clock = Known { clock_ghz: Some(3.5), ..Known::default() };
    assert_eq!(sketch(&record, "p", clock).expect("it is given").ns_per_packet(), 2000.0);
    let timed = [("cycles", 7e9), ("task_clock_ns", 1e9), ("duration_time_ns", 2e9)];
    let found = sketch(&perf(&[&timed], Some(1_000_000)), "p", clock).expect("CPU time");
    assert_eq!((found.ns_per_packet(), found.segments), (1000.0, vec![(1, 1)]));
}

#[test]
fn a_program_on_several_cpus_is_planned_with_as_many() {
    // 7.6 CPUs for 2 seconds, without strands and as 8 strands of which the busiest took 2 seconds.
    let whole = [("task_clock_ns", 15.2e9), ("duration_time_ns", 2e9)];
    let one = sketch(&perf(&[&whole], Some(1_000_000)), "p", Known::default()).expect("times");
    let [busiest, other] = [[("task_clock_ns", 2e9)], [("task_clock_ns", 13.2e9 / 7.0)]];
    let each = [&busiest[..], &other, &other, &other, &other, &other, &other, &other];
    let given = Known { packets: Some(1e6), ..Known::default() };
    let many = sketch(&perf(&each, None), "p", given).expect("times");
    for sketch in [&one, &many] {
        assert_eq!(sketch.segments, [(1, 8)]);
        // 15,200 ns per packet on 8 workers: somewhat more than the 500 kpps that were measured.
        assert!((sketch.capacity_per_s() - 8e9 / 15_200.0).abs() < 1e-3);
        assert!(sketch.notes[1].contains("7.6 CPUs: 8 workers"), "{:?}", sketch.notes);
    }
    assert_eq!((one.packets_per_s, many.packets_per_s), (Some(5e5), None));
    let error = sketch(&perf(&each, None), "p", Known::default()).expect_err("no packets");
    assert!(error.to_string().contains("--packets N"), "{error}");
    // A second thread that hardly runs is no second worker.
    let main = [("task_clock_ns", 2.04e9), ("duration_time_ns", 2e9)];
    let main = sketch(&perf(&[&main], Some(1_000_000)), "p", Known::default()).expect("times");
    assert_eq!((main.segments, main.notes.len()), (vec![(1, 1)], 1));
}

/// A machine at any load counts as many seconds of CPU clock as it has CPUs.
#[test]
fn the_clock_of_idle_cpus_is_not_time_of_the_program() {
    let known = Known { packets: Some(1e6), ..Known::default() };
    let counts = [("task_clock_ns", 32e9), ("cycles", 6e9), ("duration_time_ns", 2e9)];
    let clock = [("cpu_clock_ns", 32e9), ("duration_time_ns", 2e9)];
    let refused = |record: &Record, known| {
        let error = sketch(record, "p", known).expect_err("the CPUs may have been idle");
        assert!(error.to_string().contains("of whole CPUs also count"), "{error}");
    };
    refused(&perf(&[&clock], None), known);
    for name in ["S0-D0-C0", "S1", "N0", "S0-D0-L3-ID8", "system wide"] {
        let mut record = perf(&[&counts], None);
        let Body::Strands(report) = &mut record.body else { panic!("strands") };
        report.strands[0].name = Some(name.to_owned());
        refused(&record, known);
        // Cycles are not counted while a CPU is halted.
        let found = sketch(&record, "p", Known { clock_ghz: Some(3.0), ..known }).expect("cycles");
        assert_eq!((found.ns_per_packet(), found.segments), (2000.0, vec![(1, 1)]), "{name}");
    }
    let mut record = perf(&[&counts], None);
    let Body::Strands(report) = &mut record.body else { panic!("strands") };
    report.strands[0].name = Some("S0-4711".to_owned());
    assert_eq!(sketch(&record, "p", known).expect("a thread").ns_per_packet(), 32_000.0);
    let Body::Strands(report) = &mut record.body else { panic!("strands") };
    report.strands[0].cpu = Some(3);
    refused(&record, known);
}

#[test]
fn control_groups_that_may_contain_each_other_are_not_added_up() {
    let known = Known { packets: Some(1e6), ..Known::default() };
    let counts = [("task_clock_ns", 1e9)];
    let mut record = perf(&[&counts, &counts], None);
    let Body::Strands(report) = &mut record.body else { panic!("strands") };
    report.strands[0].name = Some("cgroup a".to_owned());
    report.strands[1].name = Some("cgroup a/b".to_owned());
    let error = sketch(&record, "p", known).expect_err("b belongs to a");
    assert!(error.to_string().contains("control groups"), "{error}");
    let Body::Strands(report) = &mut record.body else { panic!("strands") };
    report.strands.truncate(1);
    assert_eq!(sketch(&record, "p", known).expect("one group").ns_per_packet(), 1000.0);
}

/// perf counts control groups on whole CPUs, by default with their `cpu-clock`.
#[test]
fn the_clock_of_a_control_group_is_its_cpu_time() {
    let known = Known { packets: Some(1e6), ..Known::default() };
    let counts = [("cpu_clock_ns", 1e9), ("duration_time_ns", 2e9)];
    let mut record = perf(&[&counts, &counts], None);
    let name = |record: &mut Record, names: [&str; 2]| {
        let Body::Strands(report) = &mut record.body else { panic!("strands") };
        for (strand, name) in report.strands.iter_mut().zip(names) {
            strand.name = Some(name.to_owned());
        }
    };
    name(&mut record, ["cgroup a CPU0", "cgroup a CPU1"]);
    assert_eq!(sketch(&record, "p", known).expect("one group").ns_per_packet(), 2000.0);
    name(&mut record, ["cgroup / CPU0", "cgroup / CPU1"]);
    let error = sketch(&record, "p", known).expect_err("idle CPUs belong to the root group");
    assert!(error.to_string().contains("also count idle time"), "{error}");
    name(&mut record, ["cgroup a CPU0", "cgroup b CPU0"]);
    let error = sketch(&record, "p", known).expect_err("two groups");
    assert!(error.to_string().contains("several control groups"), "{error}");
}

/// Names, states and packets of nodes.
type Nodes<'a> = &'a [(&'a str, &'a str, u64)];

/// Returns an import of VPP in which each thread has these nodes, at 100 ticks per packet.
fn vpp(threads: &[(&str, Nodes<'_>)]) -> Record {
    let mut record = perf(&[&[]], None);
    let Body::Strands(report) = &mut record.body else { panic!("strands") };
    report.format = ForeignFormat::Vpp;
    let any = report.strands[0].clone();
    let node = |(name, state, packets): &(&str, &str, u64)| NodeCounts {
        name: (*name).to_owned(),
        state: (*state).to_owned(),
        calls: packets / 256 + 1,
        packets: *packets,
        ticks_per_packet: Figure::exact("ticks", 100.0, Tier::Sw, "a test"),
        packets_per_call: Figure::exact("packets", 256.0, Tier::Sw, "a test"),
    };
    let strands = threads.iter().map(|(name, nodes)| StrandCounts {
        name: Some((*name).to_owned()),
        nodes: nodes.iter().map(node).collect(),
        ..any.clone()
    });
    report.strands = strands.collect();
    record
}

#[test]
fn a_thread_with_a_handful_of_packets_is_not_a_worker() {
    let known = Known { clock_ghz: Some(GHZ), ..Known::default() };
    let worker: Nodes<'_> =
        &[("dpdk-input", "polling", 1_000_000), ("eth0-tx", "active", 1_000_000)];
    let main: Nodes<'_> = &[("eth0-tx", "active", 10), ("bfd-output", "active", 10)];
    let found = sketch(&vpp(&[("vpp_main", main), ("vpp_wk_0", worker)]), "v", known);
    let found = found.expect("a sketch");
    assert_eq!((found.stages.len(), &found.segments), (2, &vec![(2, 1)]));
    assert!((found.capacity_per_s() - 1e7).abs() < 1.0, "{}", found.capacity_per_s());
    assert!(found.notes[0].contains("vpp_main"), "{:?}", found.notes);
    let two = sketch(&vpp(&[("vpp_wk_1", worker), ("vpp_wk_0", worker)]), "v", known);
    assert_eq!(two.expect("a sketch").segments, [(2, 2)]);
    // The same packets are polled for again when they are encrypted.
    let again = [worker, &[("crypto-dispatch", "polling", 1_000_000)]].concat();
    let found = sketch(&vpp(&[("vpp_wk_0", &again)]), "v", known).expect("a sketch");
    assert!((found.ns_per_packet() - 150.0).abs() < 1e-9, "{}", found.ns_per_packet());
    // Nor does a main thread count that tests a region once.
    let regions = [region("rx", 1, 1, 32, 640.0), region("rx", 2, 100_000, 3_200_000, 3.2e8)];
    assert_eq!(drawn(regions.to_vec()).segments, [(1, 1)]);
}
