// SPDX-License-Identifier: MIT OR Apache-2.0
//! Extracts stages and costs from each kind of record.

use super::{FCS_BYTES, Known, NoSketch, Part, Sketch};
use linerate_path::costs::ENDS;
use linerate_path::keys::MAX_WORKERS;
use linerate_record::Figure;
use linerate_record::regions::{RegionEvent, RegionTotal, RegionsReport};
use linerate_record::strands::{ForeignFormat, NodeCounts, StrandCounts, StrandsReport};
use linerate_record::why::{PacketCount, ThreadActivity, ThreadState, WhyReport};
use std::collections::{BTreeMap, BTreeSet};

/// Derives a sketch from regions. Each region is a stage, excluding nested regions. Threads that
/// entered the same regions are replicas.
pub(super) fn regions(
    report: &RegionsReport,
    file: &str,
    known: Known,
) -> Result<Sketch, NoSketch> {
    let clock_ghz = known.clock_ghz.ok_or(NoSketch::Clock)?;
    let mut report = report.clone();
    // A sampler counts everything its thread does, so the thread's other regions would be counted
    // twice.
    if !report.regions.iter().all(|region| region.is_sampled) {
        report.regions.retain(|region| !region.is_sampled);
    }
    let totals = report.totals();
    let mut notes = Vec::new();
    let most_units = totals.iter().map(|one| one.units).max().unwrap_or(0);
    let packets = match (known.packets, most_units) {
        (Some(packets), _) => packets,
        (None, 1..) => most_units as f64,
        (None, 0) => {
            let most = totals.iter().max_by_key(|one| one.visits);
            let most = most
                .filter(|one| one.visits > 0)
                .ok_or(NoSketch::Packets { remedy: "no region was entered" })?;
            notes.push(format!(
                "no region reports units of work (lr_region_add_units): one visit to `{}` counts \
                 as one packet",
                most.name
            ));
            most.visits as f64
        }
    };
    let mut names = Names::default();
    let mut threads: Vec<BTreeSet<u32>> = Vec::new();
    let mut stages = Vec::new();
    let mut reason = "no region was entered".to_owned();
    for total in &totals {
        let Some(ticks) = total.own_ticks.as_number() else {
            reason = format!("{}: {}", total.name, reason_of(&total.own_ticks));
            notes.push(format!("omitted: {reason}"));
            continue;
        };
        if ticks <= 0.0 {
            continue;
        }
        let reach = reach(total.units as f64, packets);
        let tids = workers_of(&report, total.name);
        stages.push(Part {
            name: names.of(total.name),
            ns: ticks / clock_ghz / packets / reach,
            reach,
            instructions: own_instructions(total, &totals).map(|n| n / packets / reach),
            threads: tids.len() as u32,
        });
        threads.push(tids);
    }
    if stages.is_empty() {
        return Err(NoSketch::Times { reason });
    }
    let segments = segments(&threads);
    Ok(Sketch {
        from: format!("regions of {file}"),
        stages,
        segments,
        packets_per_s: None,
        frame_bytes: None,
        notes,
    })
}

/// Returns the threads that run a region, without those that hardly ever entered it.
fn workers_of(report: &RegionsReport, name: &str) -> BTreeSet<u32> {
    let mut visits = BTreeMap::<u32, u64>::new();
    for region in report.regions.iter().filter(|region| region.name == name) {
        *visits.entry(region.tid).or_default() += region.visits;
    }
    let most = visits.values().copied().max().unwrap_or(0) as f64;
    let of_workers = visits.into_iter().filter(|(_, own)| *own as f64 >= WORKER_LEAST * most);
    of_workers.map(|(tid, _)| tid).collect()
}

/// Returns the fraction of `packets` that a region or stage processed, given its `units` of work; 1
/// if it reports none.
fn reach(units: f64, packets: f64) -> f64 {
    if units > 0.0 { (units / packets).min(1.0) } else { 1.0 }
}

/// Returns a region's instructions, excluding nested regions; `None` if not counted.
fn own_instructions(total: &RegionTotal<'_>, all: &[RegionTotal<'_>]) -> Option<f64> {
    let counted = |one: &RegionTotal<'_>| {
        let of = |event: &&RegionEvent| event.name == "instructions";
        one.events.iter().find(of)?.count.as_number()
    };
    let is_inside = |one: &&RegionTotal<'_>| {
        let rest = one.name.strip_prefix(total.name).and_then(|rest| rest.strip_prefix('/'));
        rest.is_some_and(|rest| !rest.contains('/'))
    };
    let inside: f64 = all.iter().filter(is_inside).map(counted).sum::<Option<f64>>()?;
    Some((counted(total)? - inside).max(0.0)).filter(|own| *own > 0.0)
}

/// Groups consecutive stages that are executed by the same threads into segments. Returns the
/// number of stages and the number of threads of each segment. `threads` holds the threads of each
/// stage. If two of these sets overlap without being equal, all stages form a single segment.
fn segments(threads: &[BTreeSet<u32>]) -> Vec<(usize, u32)> {
    let mut found: Vec<(usize, &BTreeSet<u32>)> = Vec::new();
    for tids in threads {
        match found.last_mut() {
            Some((stages, last)) if *last == tids => *stages += 1,
            _ => found.push((1, tids)),
        }
    }
    let all: BTreeSet<u32> = threads.iter().flatten().copied().collect();
    let workers: usize = found.iter().map(|(_, tids)| tids.len()).sum();
    match workers == all.len() {
        true => found.iter().map(|(stages, tids)| (*stages, tids.len() as u32)).collect(),
        false => vec![(threads.len(), all.len().max(1) as u32)],
    }
}

pub(super) fn strands(
    report: &StrandsReport,
    file: &str,
    known: Known,
) -> Result<Sketch, NoSketch> {
    match report.format {
        ForeignFormat::Vpp => vpp(report, file, known),
        ForeignFormat::PerfStat => perf(report, file, known),
        ForeignFormat::Regions => Err(NoSketch::OtherKind),
        ForeignFormat::ProfileDump => {
            Err(NoSketch::Times { reason: "PROFILE_DUMP counts waiting as work".to_owned() })
        }
    }
}

/// Counts of a VPP graph node, over all threads.
#[derive(Default)]
struct Node {
    packets: f64,
    ticks: f64,
    threads: u32,
    is_polling: bool,
    /// Whether the node polls for packets that enter the graph.
    is_input: bool,
}

/// Polling nodes that do not count as inputs, because the packets that they poll for were already
/// received by other nodes or are to be sent.
const NO_INPUTS: [&str; 2] = ["crypto-dispatch", "session-queue"];

/// Fraction of the busiest thread's packets below which a thread is not considered a worker. VPP's
/// main thread sends a few packets of its own, such as router advertisements, and a program's main
/// thread may test its stages once.
const WORKER_LEAST: f64 = 0.01;

/// Returns VPP's threads without those that handled hardly any packets, and a note on these.
fn vpp_workers(report: &StrandsReport) -> (Vec<&StrandCounts>, Vec<String>) {
    let most = |strand: &&StrandCounts| strand.nodes.iter().map(|node| node.packets).max();
    let busiest = report.strands.iter().filter_map(|strand| most(&strand)).max().unwrap_or(0);
    let is_worker = |strand: &&StrandCounts| {
        let packets = most(strand).unwrap_or(0);
        packets > 0 && packets as f64 >= WORKER_LEAST * busiest as f64
    };
    let (workers, others): (Vec<_>, Vec<_>) = report.strands.iter().partition(is_worker);
    let with_packets = others.iter().filter(|strand| most(strand).is_some_and(|n| n > 0));
    let names: Vec<String> = with_packets.map(|strand| strand.label()).collect();
    let note = format!("threads omitted for handling hardly any packets: {}", names.join(", "));
    (workers, if names.is_empty() { Vec::new() } else { vec![note] })
}

/// Derives a sketch from VPP. Each graph node that received packets is a stage. Every thread runs
/// the whole graph, so threads are replicas.
fn vpp(report: &StrandsReport, file: &str, known: Known) -> Result<Sketch, NoSketch> {
    let of_machine = report.machine.as_ref().map(|machine| machine.clock_ghz);
    let clock_ghz = known.clock_ghz.or(of_machine).ok_or(NoSketch::Clock)?;
    let (strands, mut notes) = vpp_workers(report);
    if let Some(reason) = strands.iter().find_map(|strand| strand.hidden_by_empty_polls()) {
        return Err(NoSketch::Times { reason });
    }
    let mut order: Vec<&str> = Vec::new();
    let mut nodes: BTreeMap<&str, Node> = BTreeMap::new();
    let works =
        |node: &&NodeCounts| node.packets > 0 && node.ticks_per_packet.as_number().is_some();
    let mut workers = 0;
    for strand in &strands {
        workers += u32::from(strand.nodes.iter().any(|node| works(&node)));
        for counts in strand.nodes.iter().filter(works) {
            let node = nodes.entry(&counts.name).or_default();
            if node.threads == 0 {
                order.push(&counts.name);
            }
            let packets = counts.packets as f64;
            node.packets += packets;
            node.ticks += counts.ticks_per_packet.as_number().unwrap_or(0.0) * packets;
            node.threads += 1;
            node.is_polling |= counts.is_polling();
            node.is_input |= counts.is_polling() && !NO_INPUTS.contains(&&*counts.name);
        }
    }
    let polled: f64 = nodes.values().filter(|node| node.is_input).map(|node| node.packets).sum();
    let most = nodes.values().map(|node| node.packets).fold(0.0, f64::max);
    let packets = if polled > 0.0 { polled } else { most };
    if packets <= 0.0 {
        return Err(NoSketch::Packets { remedy: "no node processed packets" });
    }
    // VPP sorts nodes by name, so their order in the graph is inferred: polling input nodes come
    // first, and nodes that send or drop packets last.
    let place = |name: &&str| {
        let is_end = ["-tx", "-output", "-drop", "-punt"].iter().any(|end| name.ends_with(end));
        if nodes[*name].is_input { 0 } else { 1 + u8::from(is_end) }
    };
    order.sort_by_key(place);
    let mut names = Names::default();
    let stages = order.iter().map(|name| {
        let node = &nodes[*name];
        let reach = reach(node.packets, packets);
        Part {
            name: names.of(name),
            ns: node.ticks / clock_ghz / packets / reach,
            reach,
            instructions: None,
            threads: node.threads,
        }
    });
    let stages: Vec<Part> = stages.collect();
    let kpps: f64 = strands.iter().filter_map(|strand| strand.kpps.as_number()).sum();
    notes.push("VPP lists nodes by name: put them in graph order before splitting".to_owned());
    if let Some(name) = order.iter().find(|name| nodes[**name].is_polling) {
        notes.push(format!("the time of polling nodes such as `{name}` includes empty polls"));
    }
    Ok(Sketch {
        from: format!("VPP show runtime, {file}"),
        segments: vec![(stages.len(), workers.max(1))],
        stages,
        packets_per_s: (kpps > 0.0).then_some(kpps * 1e3),
        frame_bytes: None,
        notes,
    })
}

/// Derives a sketch with the whole program as a single stage. If it used several CPUs, as many
/// threads are assumed to share the packets.
fn perf(report: &StrandsReport, file: &str, known: Known) -> Result<Sketch, NoSketch> {
    const REMEDY: &str = "pass the number of packets with --packets N";
    let counted = report.strands.iter().find_map(|strand| strand.packets);
    let packets = known.packets.or(counted.map(|packets| packets as f64));
    let packets = packets.filter(|n| *n > 0.0).ok_or(NoSketch::Packets { remedy: REMEDY })?;
    let group = report.strands.first().and_then(cgroup);
    if report.strands.iter().any(|strand| cgroup(strand) != group) {
        let reason = "perf counted several control groups, and one may contain another: import \
                      the counts of a single group"
            .to_owned();
        return Err(NoSketch::Times { reason });
    }
    let counts = |event: &str| -> Vec<f64> {
        let counts = report.strands.iter().filter_map(|strand| strand.event(event));
        counts.filter_map(|event| event.count.as_number()).filter(|count| *count > 0.0).collect()
    };
    // The clocks of whole CPUs also run while these idle. On whole CPUs, perf counts `cpu-clock` by
    // default.
    let are_cpus = report.strands.iter().any(is_cpu);
    let times = Some(counts("task_clock_ns")).filter(|times| !times.is_empty() && !are_cpus);
    // The clock of a control group runs while its tasks do. Idle CPUs belong to the root group.
    let is_group = group.as_deref().is_some_and(|group| group != "/");
    let clocks = || Some(counts("cpu_clock_ns")).filter(|times| !times.is_empty() && is_group);
    let times = times.or_else(clocks);
    // The clock of the record is that of its ticks, such as those of the TSC. A core may run faster
    // or more slowly, so that only the user knows how long its cycles were.
    let cycles = || known.clock_ghz.map(|ghz| counts("cycles").iter().map(|n| n / ghz).collect());
    let times: Vec<f64> = times.or_else(cycles).unwrap_or_default();
    let ns: f64 = times.iter().sum();
    if ns <= 0.0 && (are_cpus || !counts("cpu_clock_ns").is_empty()) {
        let reason =
            "task-clock and cpu-clock of whole CPUs also count idle time: count the process \
                      (perf stat -p PID -e task-clock,...), or also count cycles and pass the core \
                      frequency with --clock"
                .to_owned();
        return Err(NoSketch::Times { reason });
    }
    if ns <= 0.0 {
        let reason = "task-clock was not counted: count it as well (perf stat -e task-clock,...) \
                      or, if cycles were counted, pass the core clock with --clock"
            .to_owned();
        return Err(NoSketch::Times { reason });
    }
    // The wall time; each CPU or thread that was counted separately has the same.
    let elapsed_ns = counts("duration_time_ns").into_iter().reduce(f64::max);
    let longest_ns = elapsed_ns.or(times.iter().copied().reduce(f64::max)).unwrap_or(ns);
    let cpus = ns / longest_ns;
    let threads = (cpus - CPUS_ERROR).ceil().clamp(1.0, MAX_WORKERS as f64) as u32;
    let mut notes = vec![
        "the time per packet covers everything that perf counted, including start-up and polling; \
         use regions to separate the stages"
            .to_owned(),
    ];
    if threads > 1 {
        notes.push(format!(
            "the program used {cpus:.1} CPUs: {threads} workers that share the packets evenly are \
             assumed"
        ));
    }
    let instructions: f64 = counts("instructions").iter().sum();
    Ok(Sketch {
        from: format!("perf stat, {file}"),
        stages: vec![Part {
            name: "program".to_owned(),
            ns: ns / packets,
            reach: 1.0,
            instructions: Some(instructions / packets).filter(|n| *n > 0.0),
            threads,
        }],
        segments: vec![(1, threads)],
        packets_per_s: elapsed_ns.map(|ns| packets * 1e9 / ns),
        frame_bytes: None,
        notes,
    })
}

/// Returns the control group of a strand of `perf stat`, without the CPU that may follow.
fn cgroup(strand: &StrandCounts) -> Option<String> {
    let label = strand.label();
    let group = label.strip_prefix("cgroup ")?;
    Some(group.split(' ').next().unwrap_or(group).to_owned())
}

/// Returns whether a strand of `perf stat` is a CPU, a core or a larger part of the machine, as in
/// `S0-D0-C1` (socket, die, core) or `N0` (node), rather than a program or a thread.
fn is_cpu(strand: &StrandCounts) -> bool {
    let is_part = |part: &str| {
        let number = part.trim_start_matches(|c: char| c.is_ascii_uppercase());
        let is_number = !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit());
        is_number && number.len() < part.len()
    };
    let name = strand.name.as_deref().unwrap_or("");
    let is_place = name.starts_with(['S', 'N']) && name.split('-').all(is_part);
    strand.cpu.is_some() || name == "system wide" || is_place
}

/// Allowance for errors in CPU time and wall time, in CPUs. It is subtracted before rounding the
/// number of CPUs up to a number of threads.
const CPUS_ERROR: f64 = 0.05;

/// Derives a sketch with one stage per group of threads whose names differ only in a trailing
/// number.
pub(super) fn why(report: &WhyReport, file: &str, known: Known) -> Result<Sketch, NoSketch> {
    const REMEDY: &str = "pass the number of packets in the window with --packets N; `linerate \
                          why` counts packets only if the program has its own network namespace, \
                          or if root reads its sockets";
    let observed = &report.observation;
    let counted = observed.packets.as_ref().map(|count| count.packets as f64);
    let packets = known.packets.or(counted).filter(|packets| *packets > 0.0);
    let packets = packets.ok_or(NoSketch::Packets { remedy: REMEDY })?;
    // Costs are separated with the record's own packet count.
    let scale = counted.map_or(1.0, |counted| counted / packets);
    let mut groups: Vec<(String, f64, u32)> = Vec::new();
    for thread in &observed.threads {
        let ns = match cost(thread, packets, scale) {
            Cost::PerPacket(ns) => ns,
            Cost::None => continue,
            Cost::Unknown => return Err(NoSketch::Times { reason: inseparable(thread) }),
        };
        let name = base(&thread.name);
        match groups.iter_mut().find(|(known, ..)| *known == name) {
            Some((_, sum, threads)) => (*sum, *threads) = (*sum + ns, *threads + 1),
            None => groups.push((name.to_owned(), ns, 1)),
        }
    }
    if groups.is_empty() {
        let reason = "no thread was on a CPU for 1 % of the time or more".to_owned();
        return Err(NoSketch::Times { reason });
    }
    let mut names = Names::default();
    let stages = groups.iter().map(|(name, ns, threads)| Part {
        name: names.of(name),
        ns: *ns,
        reach: 1.0,
        instructions: None,
        threads: *threads,
    });
    let bytes = observed.packets.as_ref().and_then(PacketCount::frame_bytes);
    let bytes = bytes.map(|bytes| bytes + f64::from(FCS_BYTES));
    let rate = packets / observed.elapsed_s;
    Ok(Sketch {
        from: format!("why, {file}"),
        stages: stages.collect(),
        segments: groups.iter().map(|(_, _, threads)| (1, *threads)).collect(),
        packets_per_s: Some(rate).filter(|rate| rate.is_finite() && *rate > 0.0),
        frame_bytes: bytes,
        notes: vec![
            "each group of threads is one stage; add regions to the program to separate its stages"
                .to_owned(),
        ],
    })
}

/// Returns a thread's name without its trailing number, or the whole name if it is all number.
fn base(name: &str) -> &str {
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit() || "-_:/".contains(c));
    if base.is_empty() { name } else { base }
}

/// What a thread spends on the packets of its program.
enum Cost {
    /// CPU time per packet, in ns.
    PerPacket(f64),
    /// No significant cost: the thread hardly runs, or only polls.
    None,
    /// Unknown: the thread runs, but its work cannot be separated from polling.
    Unknown,
}

/// Returns what a thread spends per packet of the program. If the thread was seen polling, this is
/// the cost from the record, multiplied by `scale`; otherwise it is all of its CPU time, provided
/// that it sleeps when it has no work.
fn cost(thread: &ThreadActivity, packets: f64, scale: f64) -> Cost {
    /// Minimum fraction of time on a CPU; a thread below it has no cost.
    const RUNS: f64 = 0.01;
    /// Minimum fraction of time asleep, above the error of kernel accounting; a thread below it may
    /// be polling, so its cost is unknown.
    const SLEEPS: f64 = 0.05;
    if let Some(ns) = thread.cost_ns.as_number() {
        return if ns > 0.0 { Cost::PerPacket(ns * scale) } else { Cost::None };
    }
    let (runs, sleeps) = shares(thread);
    if runs < RUNS {
        return Cost::None;
    }
    match sleeps >= SLEEPS {
        true => Cost::PerPacket(runs * thread.elapsed_s * 1e9 / packets),
        false => Cost::Unknown,
    }
}

/// Returns the fractions of time (0 to 1) that a thread was on a CPU and asleep.
fn shares(thread: &ThreadActivity) -> (f64, f64) {
    let asleep = thread.share_of(|state| state == ThreadState::Asleep);
    (thread.share_of(ThreadState::is_on_cpu), asleep)
}

/// Says why the work of a thread is unknown, and how to find it.
fn inseparable(thread: &ThreadActivity) -> String {
    let (runs, sleeps) = shares(thread);
    let why = thread.cost_ns.reason.as_ref().map_or_else(String::new, |why| format!(": {why}"));
    format!(
        "thread `{}` is on a CPU for {:.0} % of the time and asleep for {:.0} %, so its work \
         cannot be separated from polling{why}; watch it at a load low enough for it to sleep, or \
         mark the stages as regions",
        thread.name.escape_debug(),
        100.0 * runs,
        100.0 * sleeps
    )
}

fn reason_of(figure: &Figure) -> &str {
    figure.reason.as_deref().unwrap_or("not a number")
}

/// Stage names in use, all unique.
#[derive(Default)]
struct Names(BTreeSet<String>);

impl Names {
    /// Returns a unique stage name that is valid in a path file: the last component of `name` or,
    /// if that is in use, the whole name or else the last component with a number.
    fn of(&mut self, name: &str) -> String {
        let plain = |text: &str| -> String {
            let allowed = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
            let text = text.chars().map(|c| if allowed(c) { c } else { '_' });
            let text: String = text.take(NAME_MAX).collect();
            if text.is_empty() { "stage".to_owned() } else { text }
        };
        let last = plain(name.rsplit('/').next().unwrap_or(name));
        let is_free = |name: &String| !self.0.contains(name) && !ENDS.contains(&name.as_str());
        let numbered = (2..).map(|number| format!("{last}_{number}"));
        let all = [last.clone(), plain(&name.replace('/', "-"))].into_iter().chain(numbered);
        let chosen = all.into_iter().find(is_free).unwrap_or(last);
        self.0.insert(chosen.clone());
        chosen
    }
}

/// Maximum length of a stage name in characters. Region names can be arbitrarily long and are
/// truncated.
const NAME_MAX: usize = 64;
