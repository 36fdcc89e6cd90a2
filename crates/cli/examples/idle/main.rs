// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures what each idle policy costs and saves, for docs/results/idle.md.
//!
//! The path has two workers. The first runs the source and `parse`, and always polls. The second
//! runs `verify`, with the idle policy under test. In each round, every policy is measured once, in
//! random order: how long a waiting worker takes to notice a packet, latency from the source to the
//! sink at a low rate, CPU time of the second worker at several loads, and throughput without a
//! rate limit. Then each round measures a worker next to each kind of neighbour (`neighbours`).
//! Prints Markdown tables of medians over the rounds, and draws CPU time by load.
//!
//! `cargo run --release -p linerate --example idle -- FILE.svg [ROUNDS]`. Takes some 40 s per
//! round.

mod neighbours;

use linerate_dataplane::traffic::Traffic;
use linerate_dataplane::{Job, WARM_UP, Watch, generator::Generator, responses, run};
use linerate_path::check::read;
use linerate_path::model::{IdlePolicy, IdleRules, Path, Rate, RunLength, RunOptions};
use linerate_path::spec::Kinds;
use linerate_record::random::Random;
use linerate_record::run::RunReport;
use linerate_record::stats::{
    CONFIDENCE, Estimate, median_interval, paired_ratio, quantile_interval,
};
use linerate_report::markdown_table;
use linerate_report::svg::{MeasuredCurve, Title, curves};
use std::collections::BTreeMap;

const PATH: &str = "\
[source]\nkind = \"generator\"\nsizes = 60\n\
[[stage]]\nkind = \"parse\"\n[[stage]]\nkind = \"verify\"\n\
[mapping]\nworkers = [{ stages = [\"parse\"] }, { stages = [\"verify\"] }]\n";

/// Default number of rounds. The median of fewer than 6 values has no 95 % interval (sign test).
const ROUNDS: usize = 6;

/// Rate in packets per second and duration in seconds of the latency measurement. Between packets,
/// the worker is idle for 200 us, which is longer than a wake-up. 2.2 s yield enough packets for
/// p99.9.
const LATENCY: (f64, f64) = (5_000.0, 2.2);

/// Offered loads, as fractions of the polling worker's throughput.
const LOADS: [f64; 5] = [0.0, 0.01, 0.1, 0.5, 0.9];

/// Duration in seconds of a measurement at one load, and of one without packets. The latter is
/// longer because the start of a run takes some CPU time as well.
const LOAD_S: [f64; 2] = [0.5, 1.5];

/// Pushes to a waiting worker per policy and round: 2,100 in 6 rounds, of which 21 are above p99.
const PUSHES: usize = 350;

/// Goal for a worker that parks: maximum p99 of the time of a wake-up, in us.
const WAKE_UP_P99_US: f64 = 50.0;
/// Goal for a worker that parks: maximum CPU time without packets, in % of wall time.
const PARKED_PERCENT: f64 = 0.1;

/// Idle time in ns after which `auto` sleeps between the pushes, which are further apart.
const PARK_AFTER_NS: f64 = 25e3;

/// Quantity with many samples per round: the time until a push was noticed, in us.
const RESPONSE: &str = "response";
/// Quantity with many samples per round: pushes left out because a thread was preempted.
const PREEMPTED: &str = "preempted";

/// Samples of one policy by quantity, one per round unless stated otherwise.
type Samples = BTreeMap<String, Vec<f64>>;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, more @ ..] = &arguments[..] else { panic!("usage: idle FILE.svg [ROUNDS]") };
    let rounds = more.first().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let bench = Bench::new();
    let mut random = Random::new(1);
    let mut all: Vec<Samples> = vec![Samples::new(); IdlePolicy::ALL.len()];
    let capacity = bench.throughput_kpps(IdlePolicy::Pause).expect("a throughput") * 1e3;
    for _ in 0..rounds {
        let mut order: Vec<usize> = (0..all.len()).collect();
        (1..order.len()).rev().for_each(|i| order.swap(i, random.below(i + 1)));
        for index in order {
            bench.measure(IdlePolicy::ALL[index], capacity, &mut all[index]);
        }
    }
    let neighbours = neighbours::measured(&bench.traffic, bench.cpus[1], rounds, &mut random);
    println!("{}", machine(&bench, rounds, capacity));
    println!("{}", response_table(&all));
    println!("{}", latency_table(&all));
    println!("{}", load_table(&all));
    println!("![CPU time by load]({})\n", file.rsplit('/').next().unwrap_or(file));
    println!("{}", throughput_table(&all));
    println!("{}", neighbours::table(&neighbours));
    std::fs::write(file, load_plot(&all)).expect("the file can be written");
}

/// The path to measure, with its packets and the CPUs of its workers.
struct Bench {
    path: Path,
    traffic: Traffic,
    cpus: Vec<u32>,
}

impl Bench {
    fn new() -> Self {
        let specs = linerate_stages::specs();
        let kinds = Kinds { stages: &specs, sources: &[], plugins: &[] };
        let path = read(PATH, "idle", kinds).expect("a valid path").path;
        let generator = Generator { sizes: &[60], flows: 64, seed: 1 };
        let traffic = Traffic::generate(generator, 128, &[]).expect("a generator makes frames");
        let allowed = linerate_linux::allowed_cpus().expect("the kernel lists the CPUs");
        assert!(allowed.len() > 1, "two CPUs are needed");
        Self { path, traffic, cpus: allowed[..2].to_vec() }
    }

    /// Runs the path with `policy` on the second worker.
    fn run(&self, policy: IdlePolicy, rate: Rate, seconds: f64) -> RunReport {
        let idle = IdleRules { workers: vec![None, Some(policy)], ..IdleRules::POLLING };
        let options = RunOptions { rate, length: RunLength::Seconds(seconds), ..self.path.run };
        let own = Job::new(&self.path, linerate_stages::KINDS, &self.traffic, &self.cpus);
        let job = Job { options, idle: &idle, ..own };
        run(&job, &Watch::unattended()).expect("the path runs").report
    }

    fn throughput_kpps(&self, policy: IdlePolicy) -> Option<f64> {
        self.run(policy, Rate::Max, 0.4).throughput_kpps.as_number()
    }

    /// Measures a policy once.
    fn measure(&self, policy: IdlePolicy, capacity: f64, samples: &mut Samples) {
        let mut note = |name: String, value: Option<f64>| {
            samples.entry(name).or_default().push(value.unwrap_or(f64::NAN));
        };
        let cpus = [self.cpus[1], self.cpus[0]];
        let took = responses(policy, PARK_AFTER_NS, cpus, PUSHES).expect("two threads can start");
        took.ns.iter().for_each(|ns| note(RESPONSE.to_owned(), Some(ns / 1e3)));
        (0..took.preempted).for_each(|_| note(PREEMPTED.to_owned(), Some(1.0)));
        note("max".to_owned(), self.throughput_kpps(policy));
        let (rate, seconds) = LATENCY;
        let report = self.run(policy, Rate::PacketsPerSecond(rate), seconds);
        let latency = &report.latency;
        for (name, figure) in
            [("p50", &latency.p50), ("p99", &latency.p99), ("p99.9", &latency.p999)]
        {
            note(name.to_owned(), figure.as_number().map(|ns| ns / 1e3));
        }
        let idle = report.workers[1].idle.as_ref().expect("every run reports idle figures");
        note("parks after".to_owned(), idle.park_after_ns.map(|ns| ns as f64 / 1e3));
        for load in LOADS {
            let rate = Rate::PacketsPerSecond((capacity * load).max(1e-3));
            let [short, long] = LOAD_S;
            let report = self.run(policy, rate, if load > 0.0 { short } else { long });
            let worker = &report.workers[1];
            // The CPU time includes that of the warm-up.
            let wall_s = report.elapsed_s + WARM_UP.as_secs_f64();
            let share = worker.cpu_ns as f64 / 1e9 / wall_s;
            note(format!("cpu {load}"), Some(100.0 * share));
            let wakes = worker.idle.as_ref().map_or(0, |idle| idle.wake_ups);
            note(format!("wakes {load}"), Some(wakes as f64 / report.elapsed_s));
        }
    }
}

/// Describes the conditions of the measurement.
fn machine(bench: &Bench, rounds: usize, capacity: f64) -> String {
    let load = linerate_linux::load_average();
    let load = load.map_or_else(|_| "unknown".to_owned(), |averages| format!("{:.2}", averages[0]));
    format!(
        "Workers on CPUs {} and {}, {rounds} rounds, load average at the end {load}; 100 % is \
         {:.2} Mpps.\n",
        bench.cpus[0],
        bench.cpus[1],
        capacity / 1e6
    )
}

fn estimate(samples: &Samples, name: &str) -> Option<Estimate> {
    median(samples.get(name)?)
}

fn median(all: &[f64]) -> Option<Estimate> {
    let values: Vec<f64> = all.iter().copied().filter(|v| v.is_finite()).collect();
    (!values.is_empty()).then(|| median_interval(&values, CONFIDENCE))
}

/// Formats the median of samples with its interval.
fn median_cell(all: &[f64]) -> String {
    median(all).map_or_else(|| "-".to_owned(), spread)
}

/// Formats a median with its interval.
fn cell(samples: &Samples, name: &str) -> String {
    samples.get(name).map_or_else(|| "-".to_owned(), |all| median_cell(all))
}

/// Formats a number with about three significant digits.
fn digits(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn rows(
    all: &[Samples],
    row: impl Fn(&Samples) -> Vec<String>,
) -> impl Iterator<Item = Vec<String>> {
    let policies = IdlePolicy::ALL.into_iter().zip(all);
    policies.map(move |(policy, samples)| {
        std::iter::once(policy.word().to_owned()).chain(row(samples)).collect()
    })
}

/// Formats an interval of a figure in one cell.
fn spread(Estimate { value, low, high, .. }: Estimate) -> String {
    format!("{} ({} to {})", digits(value), digits(low), digits(high))
}

/// States whether a goal is met: an upper limit on the figure.
fn verdict(figure: Option<Estimate>, limit: f64) -> &'static str {
    match figure {
        Some(figure) if figure.high <= limit => "met",
        Some(figure) if figure.low > limit => "MISSED",
        Some(_) => "cannot tell, because the interval contains the limit",
        None => "cannot tell, because there are no samples",
    }
}

fn response_table(all: &[Samples]) -> String {
    let columns =
        ["idle policy", ">p50 (us)", ">p99 (us)", ">p99.9 (us)", ">pushes", ">left out: preempted"];
    let responses = |samples: &Samples| samples.get(RESPONSE).cloned().unwrap_or_default();
    let row = |samples: &Samples| {
        let times = responses(samples);
        let quantile = |q| spread(quantile_interval(&times, q, CONFIDENCE));
        let left_out = samples.get(PREEMPTED).map_or(0, Vec::len);
        let counts = [times.len(), left_out].map(|count| count.to_string());
        [0.5, 0.99, 0.999].map(quantile).into_iter().chain(counts).collect()
    };
    let parked = responses(&all[IdlePolicy::Park as usize]);
    let p99 = (!parked.is_empty()).then(|| quantile_interval(&parked, 0.99, CONFIDENCE));
    "Time from a push on one CPU to the next poll of a worker waiting on the other, at least \
     200 us after the previous push.\n\n"
        .to_owned()
        + &markdown_table(&columns, rows(all, row))
        + &format!(
            "\nGoal for `park`, p99 of at most {WAKE_UP_P99_US} us: {}.\n",
            verdict(p99, WAKE_UP_P99_US)
        )
}

fn latency_table(all: &[Samples]) -> String {
    let columns = ["idle policy", ">p50 (us)", ">p99 (us)", ">p99.9 (us)", ">parks after (us)"];
    let names = ["p50", "p99", "p99.9", "parks after"];
    let row = |samples: &Samples| names.iter().map(|name| cell(samples, name)).collect();
    let (rate, _) = LATENCY;
    format!("Latency from source to sink at {rate} packets/s.\n\n")
        + &markdown_table(&columns, rows(all, row))
}

fn load_table(all: &[Samples]) -> String {
    let columns: Vec<String> = LOADS.iter().map(|load| format!(">at {} %", load * 100.0)).collect();
    let columns: Vec<&str> =
        std::iter::once("idle policy").chain(columns.iter().map(String::as_str)).collect();
    let of = |what: &'static str| {
        move |samples: &Samples| -> Vec<String> {
            LOADS.iter().map(|load| cell(samples, &format!("{what} {load}"))).collect()
        }
    };
    "CPU time of the worker, % of wall time, by load.\n\n".to_owned()
        + &markdown_table(&columns, rows(all, of("cpu")))
        + &format!(
            "\nGoal for `park` without packets, at most {PARKED_PERCENT} %: {}.\n",
            verdict(estimate(&all[IdlePolicy::Park as usize], "cpu 0"), PARKED_PERCENT)
        )
        + "\nWake-ups per second, by load.\n\n"
        + &markdown_table(&columns, rows(all, of("wakes")))
}

/// Draws the medians of CPU time by load. A load of 0 has no place on a logarithmic axis.
fn load_plot(all: &[Samples]) -> String {
    let curve = |(policy, samples): (IdlePolicy, &Samples)| {
        let point =
            |load: &f64| Some((100.0 * load, estimate(samples, &format!("cpu {load}"))?.value));
        MeasuredCurve {
            name: policy.word().to_owned(),
            points: LOADS.iter().filter_map(point).collect(),
        }
    };
    let all: Vec<MeasuredCurve> = IdlePolicy::ALL.into_iter().zip(all).map(curve).collect();
    let title = Title {
        name: "idle".to_owned(),
        title: "CPU time of a worker by load and idle policy".to_owned(),
        note: "Medians. Tier sw: the kernel's account of the worker's thread.".to_owned(),
    };
    let labels = ["load, % of the polling worker's throughput", "CPU time, % of wall time"];
    curves(&title, labels, (1.0, "1 % load"), &all).svg
}

fn throughput_table(all: &[Samples]) -> String {
    let columns = ["idle policy", ">kpps", ">ratio to pause"];
    let rates = |samples: &Samples| samples.get("max").cloned().unwrap_or_default();
    let pause = rates(&all[IdlePolicy::Pause as usize]);
    let row = |samples: &Samples| {
        // A run whose windows do not agree states no throughput.
        let own = rates(samples);
        let pairs = pause.iter().copied().zip(own).filter(|(a, b)| a.is_finite() && b.is_finite());
        let (reference, own): (Vec<f64>, Vec<f64>) = pairs.unzip();
        let ratio = match reference.is_empty() {
            true => "-".to_owned(),
            false => spread(paired_ratio(&reference, &own, CONFIDENCE)),
        };
        vec![cell(samples, "max"), ratio]
    };
    "Throughput without a limit.\n\n".to_owned() + &markdown_table(&columns, rows(all, row))
}
