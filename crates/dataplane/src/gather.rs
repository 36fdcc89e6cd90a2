// SPDX-License-Identifier: MIT OR Apache-2.0
//! From what the strands saw to the report of the run.

mod events;
mod kernels;

use crate::ledger::StageLedger;
use crate::meter::{Readings, Window};
use crate::runner::{Ended, Job, find, overflow_cause};
use crate::source::Timetable;
use crate::strand::{Head, Strand, Tail};
use hdrhistogram::Histogram;
use linerate_path::mapping::describe;
use linerate_record::run::{
    Latency, Ledger, RingReport, RunReport, StageReport, StrandReport, Tally, TimeShares,
    WindowCount,
};
use linerate_record::stats::{self, Estimate};
use linerate_record::{Figure, Tier};
use std::collections::BTreeMap;

/// Confidence of the intervals of a run.
const CONFIDENCE: f64 = 0.95;

/// How far the core clock may move between the start and the end of a strand for its cycles to mean
/// anything.
const CLOCK_DRIFT_MAX: f64 = 0.05;

const SEED: u64 = 0x006C_696E_6572_6174;

/// Fewest clean windows for an estimate.
const WINDOWS_MIN: usize = 3;

/// Bursts that count together at least, for a rate: one more or less is then 2 %.
const BURSTS_TOGETHER: f64 = 50.0;

/// A strand that starved for this many times what it lost has caught up.
const CAUGHT_UP: u64 = 2;

/// Fewest samples that windows are put together to.
const TOGETHER_MIN: usize = 8;

/// The name of a strand's head or tail in the report.
pub(crate) fn end_name(strand: &Strand<'_, '_>, head: bool) -> &'static str {
    match (head, &strand.head, &strand.tail) {
        (true, Head::Source(_), _) => "source",
        (true, Head::Rings { .. }, _) => "ring in",
        (false, _, Tail::Sink(_)) => "sink",
        (false, _, Tail::Rings { .. }) => "ring out",
    }
}

/// The report of a run whose strands have ended.
pub(crate) fn report(
    job: &Job<'_>,
    ended: &mut [Ended<'_, '_>],
    timetable: Option<&Timetable>,
    ticks_per_second: f64,
    interrupted: bool,
) -> RunReport {
    let readings: Vec<&Readings> = ended.iter().map(|e| &e.readings).collect();
    let rates = Rates::of(&readings, ticks_per_second, !job.oversubscribe);
    let seconds = ended.iter().map(|e| e.readings.wall_ns).max().unwrap_or(0) as f64 / 1e9;
    let mean_octets = job.traffic.mean_octets();
    RunReport {
        path: job.path.name.clone(),
        mapping: describe(job.mapping, &job.path.stages),
        kernels: Some(job.kernels.name().to_owned()),
        counted: events::counted(ended),
        seconds,
        ticks_per_second,
        offered_kpps: Some(offered(timetable, ticks_per_second)),
        throughput_kpps: rates.figure(&rates.delivered, "packets at the sink"),
        processed_kpps: rates.figure(&rates.processed, "packets taken and not lost"),
        line_rate_kpps: job.path.line.map(|line| line.packets_per_second(mean_octets) / 1e3),
        latency: latency(ended, ticks_per_second),
        strands: ended.iter().map(|e| strand_report(job, e, ticks_per_second)).collect(),
        rings: ring_reports(ended),
        rejected: job.traffic.rejected().clone(),
        interrupted,
    }
}

/// At which rate the source was to offer packets.
fn offered(timetable: Option<&Timetable>, ticks_per_second: f64) -> Figure {
    const METHOD: &str = "frames of the traffic over the time they are due in";
    match timetable {
        Some(timetable) => {
            let kpps = timetable.packets_per_tick() * ticks_per_second / 1e3;
            Figure::exact("kpps", kpps, Tier::Model, METHOD)
        }
        None => {
            let reason =
                "the source has no rate of its own: packets come as fast as they are taken";
            Figure::absent("kpps", Tier::Model, METHOD, reason)
        }
    }
}

/// What went through the path in each window that counts.
///
/// A path at its limit loses what it would have done while it was interrupted, so windows count
/// that were clean on every strand. A path with time to spare does it a little later, so all
/// windows count. Clean ones alone would be wrong there: packets and interruptions that both come
/// at regular intervals fall into the same windows again and again, or never.
///
/// Strands that take turns on a processor cannot tell the time that others had it from time lost:
/// `tells_lost` is false for them, and only clean windows count.
#[derive(Default)]
struct Rates {
    /// Every window counts.
    all: bool,
    /// Length of the windows, mean over the strands.
    milliseconds: Vec<f64>,
    delivered: Vec<f64>,
    processed: Vec<f64>,
    /// Packets that come at once.
    burst: f64,
}

impl Rates {
    fn of(strands: &[&Readings], ticks_per_second: f64, tells_lost: bool) -> Self {
        let all = tells_lost && strands.iter().all(|readings| has_caught_up(readings));
        let mut joined: BTreeMap<u64, (usize, u64, f64, f64)> = BTreeMap::new();
        for readings in strands {
            for window in readings.windows.iter().filter(|w| all || w.clean) {
                let entry = joined.entry(window.index).or_default();
                entry.0 += 1;
                entry.1 += window.ticks + if all { window.crossing } else { 0 };
                entry.2 += window.delivered as f64;
                entry.3 += window.taken as f64 - window.overflowed as f64;
            }
        }
        let mut rates = Self { all, burst: largest_mean_burst(strands), ..Self::default() };
        for (present, ticks, delivered, processed) in joined.into_values() {
            // Where one strand was away for several windows, the others have more of them.
            if all || present == strands.len() {
                let ticks = ticks as f64 / strands.len() as f64;
                rates.milliseconds.push(ticks / ticks_per_second * 1e3);
                rates.delivered.push(delivered);
                rates.processed.push(processed);
            }
        }
        rates
    }

    /// The median rate: where the strand catches up after having been away, the windows that follow
    /// are clean, and above the rate.
    ///
    /// Packets fall into windows in whole bursts. So as many neighbours count together as it takes
    /// for one burst more or less to make no difference; otherwise half a packet per window would
    /// have a median of none.
    fn figure(&self, packets: &[f64], what: &str) -> Figure {
        let windows = packets.len();
        let which = match self.all {
            true => "all windows, with time to catch up",
            false => "windows without preemption",
        };
        let method = format!("{what}, {which}");
        if windows < WINDOWS_MIN {
            return Figure::absent("kpps", Tier::Sw, &method, &few_windows(windows));
        }
        let mean = packets.iter().sum::<f64>() / windows as f64;
        let wanted = (BURSTS_TOGETHER * self.burst / mean).ceil() as usize;
        let together = wanted.clamp(1, (windows / TOGETHER_MIN).max(1));
        let sums = |values: &[f64]| -> Vec<f64> {
            values.chunks_exact(together).map(|chunk| chunk.iter().sum()).collect()
        };
        let (packets, milliseconds) = (sums(packets), sums(&self.milliseconds));
        let rates: Vec<f64> = packets.iter().zip(milliseconds).map(|(n, ms)| n / ms).collect();
        Figure::number("kpps", series(&rates), Tier::Sw, &method)
    }
}

fn has_caught_up(readings: &Readings) -> bool {
    readings.starved > 0 && readings.starved >= CAUGHT_UP * readings.lost
}

/// Mean packets of a burst, of the strand where it is largest.
fn largest_mean_burst(strands: &[&Readings]) -> f64 {
    let bursts = strands.iter().map(|readings| {
        readings.packets as f64 / readings.burst_sizes.iter().sum::<u64>().max(1) as f64
    });
    bursts.fold(0.0, f64::max)
}

fn few_windows(count: usize) -> String {
    format!("only {count} windows without preemption; run longer, or on idle processors")
}

/// The median of a series of windows.
fn series(samples: &[f64]) -> Estimate {
    stats::block_bootstrap_median(samples, CONFIDENCE, SEED)
}

fn latency(ended: &[Ended<'_, '_>], ticks_per_second: f64) -> Latency {
    let mut all: Option<Histogram<u64>> = None;
    for readings in ended.iter().map(|e| &e.readings) {
        let Some(histogram) = &readings.latency else {
            continue;
        };
        match &mut all {
            // The bounds are the same on all strands, so nothing can fail to fit.
            Some(all) => drop(all.add(histogram)),
            None => all = Some(histogram.clone()),
        }
    }
    let figure = |quantile: f64| latency_figure(all.as_ref(), quantile, 1e9 / ticks_per_second);
    Latency { p50: figure(0.5), p99: figure(0.99), p999: figure(0.999) }
}

/// A quantile with the interval its rank gives: the rank of the true quantile among `n` independent
/// samples is binomial, so ranks `n q -+ 1.96 sqrt(n q (1 - q))` hold it 95 % of the time.
fn latency_figure(all: Option<&Histogram<u64>>, quantile: f64, ns_per_tick: f64) -> Figure {
    const METHOD: &str = "first packet of each burst (each packet, where paced), source to sink";
    let samples = all.map_or(0, Histogram::len);
    let n = samples as f64;
    if n * (1.0 - quantile) < 10.0 {
        let reason = format!("{samples} samples are too few for this quantile; run longer");
        return Figure::absent("ns", Tier::Sw, METHOD, &reason);
    }
    let spread = 1.96 * (quantile * (1.0 - quantile) / n).sqrt();
    let at = |q: f64| {
        all.map_or(f64::NAN, |h| h.value_at_quantile(q.clamp(0.0, 1.0)) as f64 * ns_per_tick)
    };
    let estimate = Estimate {
        value: at(quantile),
        low: at(quantile - spread),
        high: at(quantile + spread),
        confidence: CONFIDENCE,
        n: samples,
    };
    Figure::number("ns", estimate, Tier::Sw, METHOD)
}

fn strand_report(job: &Job<'_>, ended: &Ended<'_, '_>, ticks_per_second: f64) -> StrandReport {
    let readings = &ended.readings;
    let time = time_shares(readings, ticks_per_second);
    let busy: Vec<f64> =
        readings.windows.iter().filter(|w| w.clean && w.packets > 0).map(per_packet).collect();
    StrandReport {
        name: ended.place.name(),
        cpu: ended.place.cpu,
        segment: ended.place.segment as u32,
        replica: ended.place.replica as u32,
        stages: stage_reports(job, ended, time),
        time,
        run_delay_ns: readings.run_delay_ns,
        lost_ns: (readings.lost as f64 * 1e9 / ticks_per_second) as u64,
        ticks_per_packet: ticks_figure(&busy, "busy ticks over packets, clean windows"),
        empty_polls: readings.empty_polls,
        burst_sizes: readings.burst_sizes.to_vec(),
        windows: WindowCount {
            total: readings.windows_total,
            lost_to_preemption: readings.windows_lost,
        },
        involuntary_switches: readings.switches,
        cpu_ns: ended.cpu_ns,
    }
}

fn per_packet(window: &Window) -> f64 {
    window.busy as f64 / window.packets as f64
}

fn time_shares(readings: &Readings, ticks_per_second: f64) -> Option<TimeShares> {
    let wall = readings.wall_ns as f64 / 1e9 * ticks_per_second;
    if wall == 0.0 {
        return None;
    }
    let share = |ticks: u64| ticks as f64 / wall;
    let [busy, starved, blocked, lost] =
        [readings.busy, readings.starved, readings.blocked, readings.lost].map(share);
    let unaccounted = 1.0 - busy - starved - blocked - lost;
    Some(TimeShares { busy, starved, blocked, lost, unaccounted })
}

fn ticks_figure(samples: &[f64], method: &str) -> Figure {
    if samples.len() < WINDOWS_MIN {
        return Figure::absent("ticks/packet", Tier::Sw, method, &few_windows(samples.len()));
    }
    Figure::number("ticks/packet", series(samples), Tier::Sw, method)
}

/// Ticks turned into core cycles, where the core clock is known and stood still.
fn cycles_figure(ticks: &Figure, clock: [Option<f64>; 2]) -> Figure {
    const METHOD: &str = "ticks times core cycles per tick, before and after the run";
    let absent = |reason: &str| Figure::absent("cycles/packet", Tier::Sw, METHOD, reason);
    let [Some(before), Some(after)] = clock else {
        return absent("the core clock could not be measured");
    };
    if (before / after - 1.0).abs() > CLOCK_DRIFT_MAX {
        return absent(&format!(
            "the core clock moved: {before:.3} cycles per tick before, {after:.3} after"
        ));
    }
    let factor = (before + after) / 2.0;
    let Some(value) = ticks.as_number() else {
        return absent(ticks.reason.as_deref().unwrap_or("no ticks"));
    };
    let estimate = Estimate {
        value: value * factor,
        low: ticks.low.map_or(f64::NAN, |x| x * before.min(after)),
        high: ticks.high.map_or(f64::NAN, |x| x * before.max(after)),
        confidence: ticks.confidence.unwrap_or(CONFIDENCE),
        n: ticks.n,
    };
    Figure::number("cycles/packet", estimate, Tier::Sw, METHOD)
}

/// What the report of one part needs beside the strand's own figures.
struct PartView {
    name: String,
    packets: u64,
    measured: u64,
    ledger: Ledger,
    counts: BTreeMap<String, u64>,
}

fn stage_reports(
    job: &Job<'_>,
    ended: &Ended<'_, '_>,
    time: Option<TimeShares>,
) -> Vec<StageReport> {
    let readings = &ended.readings;
    let clean = || readings.windows.iter().filter(|window| window.clean);
    let sampled: u64 = clean().flat_map(|w| w.parts).map(|part| part.ticks).sum();
    let seconds = readings.wall_ns as f64 / 1e9;
    let views = part_views(job, ended);
    let reports = views.into_iter().enumerate().map(|(index, view)| {
        let windows = clean().map(|window| window.parts[index]);
        let ticks: u64 = windows.clone().map(|part| part.ticks).sum();
        let samples: Vec<f64> = windows
            .filter(|part| part.packets > 0)
            .map(|part| part.ticks as f64 / part.packets as f64)
            .collect();
        let ticks_per_packet = ticks_figure(&samples, "one turn in sixteen, clean windows");
        let share = (sampled > 0).then(|| ticks as f64 / sampled as f64);
        let drops = view.ledger.drops.iter().map(|(cause, t)| (cause.clone(), t.packets));
        let kernels = ended.kernels.get(index).and_then(Option::as_ref);
        let kernels = kernels.map(|all| kernels::uses(all, &ticks_per_packet));
        StageReport {
            name: view.name,
            packets: view.packets,
            kpps: (seconds > 0.0).then(|| view.measured as f64 / seconds / 1e3),
            cycles_per_packet: cycles_figure(&ticks_per_packet, ended.clock),
            ticks_per_packet,
            busy: time.zip(share).map(|(time, share)| time.busy * share),
            starved: time.map(|time| time.starved),
            blocked: time.map(|time| time.blocked),
            empty_polls: readings.empty_polls,
            drops: drops.collect(),
            ledger: view.ledger,
            counts: view.counts,
            kernels,
            events: events::of_part(ended, index),
        }
    });
    reports.collect()
}

fn part_views(job: &Job<'_>, ended: &Ended<'_, '_>) -> Vec<PartView> {
    let strand = &ended.strand;
    let mut views = vec![head_view(ended)];
    let mut reaching = strand.input;
    for (index, part) in strand.parts.iter().enumerate() {
        let ledger = stage_ledger(job, ended, index, reaching);
        reaching = ledger.output;
        views.push(PartView {
            name: part.name.clone(),
            packets: part.input_packets,
            measured: measured(part.measured, part.input_packets),
            ledger,
            counts: part.stage.counts().into_iter().map(|(n, c)| (n.to_owned(), c)).collect(),
        });
    }
    views.push(tail_view(job, strand));
    views
}

/// How far a total went while measuring, from its values when that began and ended; if it never
/// ended, up to the last.
fn measured([begin, end]: [u64; 2], total: u64) -> u64 {
    end.min(total) - begin
}

/// What a part that panicked left of its burst.
fn held(ended: &Ended<'_, '_>, part: usize) -> Tally {
    let mut held = Tally::default();
    if ended.panic.is_some() && ended.strand.at == part {
        ended.strand.burst.remaining().for_each(|packet| held.add(1, packet.octets() as u64));
    }
    held
}

/// The account of a stage. Packets out are what the next part was given; octets out are recounted
/// where the run was audited and at the end of the strand, elsewhere they follow from the account.
fn stage_ledger(job: &Job<'_>, ended: &Ended<'_, '_>, index: usize, reaching: Tally) -> Ledger {
    let strand = &ended.strand;
    let part = &strand.parts[index];
    let account: &StageLedger = &part.ledger;
    let held = held(ended, index + 1);
    let computed = (reaching.octets + account.created.octets)
        .wrapping_sub(account.consumed.octets)
        .wrapping_sub(account.dropped().octets)
        .wrapping_sub(held.octets);
    let output = match strand.parts.get(index + 1) {
        None => strand.output,
        Some(_) if job.audit => part.audited_output,
        Some(next) => Tally { packets: next.input_packets, octets: computed },
    };
    let causes = find(job.kinds, &kind_of(job, &part.name)).map(|kind| kind.spec.drop_causes);
    let drops = account.drops.iter().enumerate().filter(|(_, t)| t.packets > 0);
    let named = drops.map(|(i, tally)| {
        let cause = causes.as_ref().ok().and_then(|causes| causes.get(i)).copied();
        (cause.map_or_else(|| format!("cause {i}"), str::to_owned), *tally)
    });
    Ledger {
        input: Tally { packets: part.input_packets, octets: reaching.octets },
        created: account.created,
        output,
        consumed: account.consumed,
        drops: named.collect(),
        held,
    }
}

fn kind_of(job: &Job<'_>, name: &str) -> String {
    let used = job.path.stages.iter().find(|stage| stage.name == name);
    used.map_or_else(|| name.to_owned(), |stage| stage.kind.clone())
}

fn head_view(ended: &Ended<'_, '_>) -> PartView {
    let strand = &ended.strand;
    let mut ledger = Ledger { output: strand.input, held: held(ended, 0), ..Ledger::default() };
    match &strand.head {
        Head::Source(queue) => {
            ledger.created = queue.taken + queue.missed;
            if queue.missed.packets > 0 {
                ledger.drops.insert("rx_missed".to_owned(), queue.missed);
            }
        }
        Head::Rings { .. } => ledger.input = strand.input + ledger.held,
    }
    PartView {
        name: end_name(strand, true).to_owned(),
        packets: strand.input.packets,
        measured: measured(strand.measured.map(|[input, _]| input), strand.input.packets),
        ledger,
        counts: BTreeMap::new(),
    }
}

fn tail_view(job: &Job<'_>, strand: &Strand<'_, '_>) -> PartView {
    let mut ledger = Ledger { input: strand.output, ..Ledger::default() };
    match &strand.tail {
        Tail::Sink(_) => ledger.consumed = strand.output,
        Tail::Rings { outlets, .. } => {
            let staged = outlets.iter().flat_map(|outlet| &outlet.staged);
            staged.for_each(|packet| ledger.held.add(1, packet.octets() as u64));
            // The reader of the ring counts it again.
            ledger.output = Tally {
                packets: strand.output.packets - strand.overflow.packets - ledger.held.packets,
                octets: strand.output.octets - strand.overflow.octets - ledger.held.octets,
            };
            if let Some(cause) = overflow_cause(job.options.full_ring)
                && strand.overflow.packets > 0
            {
                ledger.drops.insert(cause.to_owned(), strand.overflow);
            }
        }
    }
    PartView {
        name: end_name(strand, false).to_owned(),
        packets: strand.output.packets,
        measured: measured(strand.measured.map(|[_, output]| output), strand.output.packets),
        ledger,
        counts: BTreeMap::new(),
    }
}

fn ring_reports(ended: &[Ended<'_, '_>]) -> Vec<RingReport> {
    let mut reports = Vec::new();
    for from in ended {
        let Tail::Rings { outlets, .. } = &from.strand.tail else {
            continue;
        };
        let next = ended.iter().filter(|e| e.place.segment == from.place.segment + 1);
        for (outlet, to) in outlets.iter().zip(next) {
            let Head::Rings { inlets, .. } = &to.strand.head else {
                continue;
            };
            let inlet = &inlets[from.place.replica];
            reports.push(RingReport {
                name: format!("{} > {}", from.place.name(), to.place.name()),
                capacity: inlet.capacity as u64,
                occupancy: inlet.occupancy.to_vec(),
                full_pushes: outlet.full_pushes,
                held: inlet.ring.len() as u64,
            });
        }
    }
    reports
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICKS_PER_SECOND: f64 = 1e6;

    /// A strand with a packet in every second window, which are those that are interrupted.
    fn in_step(windows: u64, starved: u64) -> Readings {
        let window = |index: u64| {
            let packets = index % 2;
            Window {
                index,
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
            ..Readings::default()
        }
    }

    fn kpps(starved: u64, tells_lost: bool) -> Option<f64> {
        let readings = in_step(1_000, starved);
        let rates = Rates::of(&[&readings], TICKS_PER_SECOND, tells_lost);
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
    fn strands_that_take_turns_on_a_processor_never_count_as_having_caught_up() {
        assert_eq!(kpps(u64::MAX, false), Some(0.0));
    }

    #[test]
    fn windows_of_one_strand_in_a_long_window_of_another_are_not_lost() {
        let mut one = in_step(1_000, 200);
        let mut other = in_step(1_000, 200);
        // Away for three windows, then two packets at once.
        one.windows.drain(501..503);
        one.windows[500].ticks = 2_970 + 20;
        one.windows[501].delivered += 1;
        other.windows.iter_mut().for_each(|window| window.delivered = 0);
        let rates = Rates::of(&[&one, &other], TICKS_PER_SECOND, true);
        let total: f64 = rates.milliseconds.iter().sum();
        assert!((total - 1_000.0).abs() < 1e-9, "{total} ms");
        assert_eq!(rates.delivered.iter().sum::<f64>(), 500.0);
    }
}
