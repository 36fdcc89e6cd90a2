// SPDX-License-Identifier: MIT OR Apache-2.0
//! Derives functions, kinds of work and the call tree from samples.

use super::annotate::annotate;
use super::events::Events;
use super::meter::Meter;
use super::polling::{Missing, Polling, ThreadFigures};
use super::stacks::{Resolved, Stacks};
use super::timeline;
use super::{ProfileRequest, Program};
use crate::ObserveError;
use crate::sampler::cost;
use linerate_doctor::host_facts::HostFacts;
use linerate_doctor::kernel_names::{HiddenNames, hidden_names};
use linerate_record::profile::{
    CallTree, ClassCost, CostClass, FunctionCost, MachineLimits, ProfileReport, SampledProgram,
    SampledThread, SamplingMethod,
};
use linerate_record::stats::{Estimate, share_interval};
use linerate_record::why::{PacketCount, Unread};
use linerate_record::{Figure, Tier};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The sampling window.
pub(super) struct Window {
    pub(super) began_ns: u64,
    pub(super) elapsed_s: f64,
    /// CPU time of all threads, in seconds.
    pub(super) cpu_s: f64,
    pub(super) own_s: f64,
    /// CPU time that a sample takes, in nanoseconds; `None` if not measured.
    pub(super) cost_ns: Option<Estimate>,
}

/// The samples from which a report was computed.
pub(super) struct Sampled {
    pub(super) resolved: Resolved,
    /// Maps a function's number to its index in the report.
    pub(super) indices: HashMap<u32, u32>,
    /// CPU time between samples, in nanoseconds.
    pub(super) period_ns: u64,
}

/// Maximum number of functions whose shares get a confidence interval: those with the most samples.
/// The rest have one or two samples each.
const MOST_INTERVALS: usize = 512;
const SEED: u64 = 0x7072_6f66;
const METHOD: &str = "samples in the function / all samples";

fn sampled(program: &Program, resolved: &Resolved) -> SampledProgram {
    SampledProgram {
        name: program.name.clone(),
        pids: resolved.pids.clone(),
        is_command: program.is_command,
        ended: program.ended.clone(),
        interrupted: program.interrupted,
    }
}

fn method(
    request: &ProfileRequest,
    events: &Events,
    resolved: &Resolved,
    cost_ns: Option<Estimate>,
) -> SamplingMethod {
    SamplingMethod {
        event: events.name().to_owned(),
        rate_hz: 1e9 / request.rate.period_ns().max(1) as f64,
        has_kernel: events.has_kernel(),
        is_by_cpu: events.is_by_cpu(),
        slices: resolved.slices.len() as u32,
        stack_bytes: events.stack_bytes(),
        incomplete_chains: events.stack_bytes().map(|_| resolved.incomplete),
        sample_cost: Some(cost::figure(cost_ns)),
    }
}

pub(super) fn report(
    request: &ProfileRequest,
    program: &Program,
    (events, stacks, meter): (&mut Events, Stacks, &mut Meter),
    window: &Window,
) -> Result<(ProfileReport, Sampled), ObserveError> {
    let cpu_s = window.cpu_s;
    // On AArch64, the PMU's interrupt is usually maskable, so cycles are sampled late too.
    let is_maskable = events.is_clock() || cfg!(target_arch = "aarch64");
    let resolved = stacks.resolve(is_maskable);
    if resolved.samples == 0 {
        let name = program.name.clone();
        let (elapsed_us, cpu_us) = ((window.elapsed_s * 1e6) as u64, (cpu_s * 1e6) as u64);
        return Err(ObserveError::NoSamples { name, elapsed_us, cpu_us });
    }
    let missing = match (events.has_kernel(), events.is_clock()) {
        (true, _) => Missing::Nothing,
        (false, true) => Missing::Kernel,
        (false, false) => Missing::Unknown,
    };
    let cost_ns = window.cost_ns.map_or(0.0, |cost| cost.low);
    let overhead = (cost_ns / request.rate.period_ns().max(1) as f64).min(0.9);
    let polling = Polling::new(&resolved, meter, missing, overhead);
    let mut report = ProfileReport {
        sampled: sampled(program, &resolved),
        elapsed_s: window.elapsed_s,
        sampling: method(request, events, &resolved, window.cost_ns),
        cpu_s,
        samples: resolved.samples,
        lost_samples: events.lost(),
        threads: Vec::new(),
        functions: Vec::new(),
        classes: Vec::new(),
        calls: Vec::new(),
        packets: meter.packets(),
        observer: Figure::exact(
            "ratio",
            window.own_s / window.elapsed_s.max(f64::MIN_POSITIVE),
            Tier::Sw,
            "CPU time of the profiler divided by wall time",
        ),
        evidence: Vec::new(),
        bounds: Vec::new(),
        asleep_on: Vec::new(),
        limits: MachineLimits::default(),
        simulated: None,
        memory: Vec::new(),
        shared_lines: Vec::new(),
        annotated: None,
        timeline: None,
        imported_from: None,
        unread: events.unread(),
    };
    report.unread.append(&mut meter.unread);
    let shares = Shares::new(&report, &resolved, &polling);
    let indices = shares.functions(&mut report, &resolved, request.class_of);
    report.classes = shares.classes(&report.functions, &indices);
    let place = add_calls(&mut report, &resolved, &indices, &polling);
    let around = timeline::Around {
        began_ns: window.began_ns,
        elapsed_s: window.elapsed_s,
        period_ns: request.rate.period_ns(),
        tier: report.tier(),
        slices: meter.slices(window.began_ns),
        losses: meter.loss_counter(),
        no_gaps: timeline::no_gaps(&report.sampling, events.is_clock(), report.lost_samples),
    };
    report.timeline = timeline::timeline(&resolved, around, &place, &indices);
    annotate(&mut report, &resolved, &indices, &request.annotated);
    report.unread.extend(resolved.names.unread.iter().cloned());
    report.unread.extend(resolved.names.hides_kernel.then(hidden_kernel));
    if events.is_clock() {
        report.unread.extend(too_short(&report));
    }
    name_after_busiest(&mut report, program.family.pids[0]);
    let period_ns = report.ns_per_sample().round() as u64;
    Ok((report, Sampled { resolved, indices, period_ns }))
}

/// Names the program after the process with the most samples, if `first` merely waits for it.
fn name_after_busiest(report: &mut ProfileReport, first: u32) {
    if let Some(name) = busiest_process(&report.threads, first) {
        report.sampled.name = name;
    }
}

/// Returns the name of the process with the most samples, if `first`, the program's first process,
/// merely waits for it as timeout(1) and shells do.
fn busiest_process(threads: &[SampledThread], first: u32) -> Option<String> {
    /// Maximum share of the samples of a process that merely waits.
    const WAITS: f64 = 0.02;
    let mut samples = BTreeMap::<u32, u64>::new();
    threads.iter().for_each(|one| *samples.entry(one.pid).or_default() += one.samples);
    let all: u64 = samples.values().sum();
    let (busiest, _) = samples.iter().max_by_key(|(_, samples)| **samples)?;
    let of_first = samples.get(&first).copied().unwrap_or(0);
    if of_first as f64 >= WAITS * all as f64 {
        return None;
    }
    let of_it = || threads.iter().filter(|one| one.pid == *busiest);
    let main = of_it().find(|one| one.tid == *busiest);
    main.or(of_it().max_by_key(|one| one.samples)).map(|one| one.name.clone())
}

/// Reports that kernel functions have no names.
fn hidden_kernel() -> Unread {
    let HiddenNames { reason, fix } = hidden_names(&HostFacts::gather());
    Unread { what: "kernel_names".to_owned(), reason, fix }
}

/// Reports CPU time that has no samples because the thread exited before being sampled.
fn too_short(report: &ProfileReport) -> Option<Unread> {
    /// Fraction of samples that may be missing by chance.
    const MISSING: f64 = 0.15;
    /// Minimum number of expected samples: with fewer, nothing is reported.
    const LEAST: f64 = 50.0;
    let due = report.cpu_s * report.sampling.rate_hz;
    let missing = 1.0 - (report.samples + report.lost_samples) as f64 / due.max(1.0);
    (due >= LEAST && missing > MISSING).then(|| Unread {
        what: "short_threads".to_owned(),
        reason: format!(
            "{:.0} % of the CPU time has no samples: the threads or processes that used it exited \
             before they were sampled",
            100.0 * missing
        ),
        fix: Some("linerate profile -F 10000  # also samples shorter-lived threads".to_owned()),
    })
}

/// Sample counts by slice.
struct Shares<'a> {
    resolved: &'a Resolved,
    polling: &'a Polling,
    /// Samples per slice.
    all: Vec<f64>,
    /// Samples per function, by slice.
    counts: Vec<HashMap<u32, f64>>,
    tier: Tier,
    /// CPU time per packet in nanoseconds, or the reason why it is unknown.
    ns_per_packet: Result<f64, &'static str>,
}

impl<'a> Shares<'a> {
    fn new(report: &ProfileReport, resolved: &'a Resolved, polling: &'a Polling) -> Self {
        let by_function = |slice: &HashMap<u32, u64>| {
            let mut counts = HashMap::<u32, f64>::new();
            for (&spot, &samples) in slice {
                *counts.entry(resolved.names.function_of(spot)).or_default() += samples as f64;
            }
            counts
        };
        let sum = |slice: &HashMap<u32, u64>| slice.values().sum::<u64>() as f64;
        Self {
            resolved,
            polling,
            all: resolved.slices.iter().map(sum).collect(),
            counts: resolved.slices.iter().map(by_function).collect(),
            tier: report.tier(),
            ns_per_packet: per_packet(report.packets.as_ref(), report.cpu_s),
        }
    }

    /// Returns the samples of the selected functions, by slice.
    fn of(&self, is_it: impl Fn(u32) -> bool) -> Vec<f64> {
        let of_slice = |counts: &HashMap<u32, f64>| {
            counts.iter().filter(|(function, _)| is_it(**function)).map(|(_, n)| n).sum()
        };
        self.counts.iter().map(of_slice).collect()
    }

    fn figure(&self, hits: &[f64], has_interval: bool) -> Figure {
        if !has_interval {
            let all: f64 = self.all.iter().sum();
            let value = hits.iter().sum::<f64>() / all;
            let none = Estimate::of_ends(value, None, None, all as u64);
            return Figure::number("ratio", none, self.tier, METHOD);
        }
        Figure::number("ratio", share_interval(hits, &self.all, SEED), self.tier, METHOD)
    }

    fn cost(&self, share: &Figure) -> Figure {
        const METHOD: &str = "the functions' CPU time, from their share of samples, divided by the \
                              number of packets";
        match self.ns_per_packet {
            Ok(ns) => share.scaled(ns, "ns/packet", METHOD),
            Err(reason) => Figure::absent("ns/packet", self.tier, METHOD, reason),
        }
    }

    /// Returns the CPU time per packet of the functions selected by `is_it`: only their work in
    /// threads with a known poll loop, and all their time in others.
    fn cost_of(&self, is_it: impl Fn(u32) -> bool, share: &Figure) -> Figure {
        const METHOD: &str =
            "linear fit of samples per slice against packets per slice, without the poll loop";
        let (Ok(ns), Some(work)) = (self.ns_per_packet, self.polling.work_ns(&is_it)) else {
            return self.cost(share);
        };
        let function_of = |spot| self.resolved.names.function_of(spot);
        let of_slice = |slice: &HashMap<(u32, u32), u64>| {
            let is_other = |(thread, spot): &(u32, u32)| {
                !self.polling.is_separated(*thread) && is_it(function_of(*spot))
            };
            slice.iter().filter(|(at, _)| is_other(at)).map(|(_, n)| *n as f64).sum()
        };
        let with_samples = self.resolved.of_threads.iter().filter(|slice| !slice.is_empty());
        let mut others: Vec<f64> = with_samples.map(of_slice).collect();
        // Unsampled kernel time is only known as a total over all threads.
        let all: f64 = others.iter().sum();
        let left = (all - self.polling.unsampled(&is_it) as f64).max(0.0);
        others.iter_mut().for_each(|n| *n *= left / all.max(f64::MIN_POSITIVE));
        let work = match left > 0.0 {
            true => work.plus_independent(share_interval(&others, &self.all, SEED).scale(ns)),
            false => work,
        };
        Figure::number("ns/packet", work, self.tier, METHOD)
    }

    /// Adds the functions. Returns a map from function number to index in the report.
    fn functions(
        &self,
        report: &mut ProfileReport,
        resolved: &Resolved,
        class_of: fn(&str, &str) -> CostClass,
    ) -> HashMap<u32, u32> {
        let (own, with_callees) = samples_of(resolved);
        let mut order: Vec<u32> = with_callees.keys().copied().collect();
        let count = |number: &u32| own.get(number).copied().unwrap_or(0);
        order.sort_by_key(|number| {
            let reverse = std::cmp::Reverse;
            (reverse(count(number)), reverse(with_callees[number]), *number)
        });
        for (at, number) in order.iter().enumerate() {
            let name = &resolved.names.functions[*number as usize];
            let has_interval = at < MOST_INTERVALS && count(number) > 0;
            let share = self.figure(&self.of(|one| one == *number), has_interval);
            report.functions.push(FunctionCost {
                name: name.name.clone(),
                module: name.file.clone(),
                class: class_of(&name.name, &name.file),
                samples: count(number),
                samples_with_callees: with_callees[number],
                ns_per_packet: self.cost_of(|one| one == *number, &share),
                is_polling: self.polling.is_polling(*number),
                share,
            });
        }
        (0..).zip(order).map(|(at, number)| (number, at)).collect()
    }

    /// Returns the kinds of work that have samples.
    fn classes(&self, functions: &[FunctionCost], indices: &HashMap<u32, u32>) -> Vec<ClassCost> {
        let class_of =
            |number: u32| indices.get(&number).map(|&index| functions[index as usize].class);
        let cost = |class: CostClass| {
            let is_it = |number: u32| class_of(number) == Some(class);
            let hits = self.of(is_it);
            let share = self.figure(&hits, true);
            ClassCost {
                class,
                samples: hits.iter().sum::<f64>() as u64,
                ns_per_packet: self.cost_of(is_it, &share),
                share,
            }
        };
        let mut classes: Vec<ClassCost> = CostClass::ALL.into_iter().map(cost).collect();
        classes.retain(|one| one.samples > 0);
        classes.sort_by_key(|one| std::cmp::Reverse(one.samples));
        classes
    }
}

/// Returns each function's samples, excluding and including callees.
fn samples_of(resolved: &Resolved) -> (HashMap<u32, u64>, HashMap<u32, u64>) {
    let (mut own, mut with_callees) = (HashMap::new(), HashMap::new());
    for (_, spots, samples) in &resolved.chains {
        let functions = spots.iter().map(|&spot| resolved.names.function_of(spot));
        if let Some(leaf) = functions.clone().next_back() {
            *own.entry(leaf).or_default() += samples;
        }
        // Count recursive functions once.
        for function in functions.collect::<BTreeSet<u32>>() {
            *with_callees.entry(function).or_default() += samples;
        }
    }
    (own, with_callees)
}

/// Adds the call tree and the threads, ordered by number of samples. Returns each thread's index in
/// the report, by thread number.
fn add_calls(
    report: &mut ProfileReport,
    resolved: &Resolved,
    indices: &HashMap<u32, u32>,
    polling: &Polling,
) -> Vec<u32> {
    let mut order: Vec<usize> = (0..resolved.threads.len()).collect();
    order.sort_by_key(|&at| (std::cmp::Reverse(resolved.threads[at].samples), at));
    let mut place = vec![0_u32; order.len()];
    for (&at, now) in order.iter().zip(0..) {
        place[at] = now;
    }
    let thread = |&at: &usize| {
        let one = &resolved.threads[at];
        let ThreadFigures { busy, ns_per_packet, capacity } = polling.figures(at as u32);
        let (pid, tid, samples) = (one.pid, one.tid, one.samples);
        SampledThread { pid, tid, name: one.name.clone(), samples, busy, ns_per_packet, capacity }
    };
    report.threads = order.iter().map(thread).collect();
    let mut tree = CallTree::default();
    for (thread, spots, samples) in &resolved.chains {
        let functions = spots.iter().map(|&spot| indices[&resolved.names.function_of(spot)]);
        tree.add(place[*thread as usize], functions, *samples);
    }
    report.calls = tree.nodes;
    place
}

/// Returns the CPU time per packet in nanoseconds.
fn per_packet(packets: Option<&PacketCount>, cpu_s: f64) -> Result<f64, &'static str> {
    match packets {
        None => Err("packets are not counted: select an interface with --iface"),
        Some(counted) if counted.packets == 0 => Err("no packets were counted"),
        Some(counted) => Ok(cpu_s * 1e9 / counted.packets as f64),
    }
}
