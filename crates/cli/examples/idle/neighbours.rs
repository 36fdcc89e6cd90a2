// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures how much throughput a worker loses to a neighbour without packets on the same CPU, and
//! what the simulator of the T1 predicts for a strand on the same pipe.
//!
//! The worker under test drops all packets, so its neighbour, the next worker of the path, never
//! gets any. A polling neighbour yields the CPU after each empty poll, as workers that share a CPU
//! do. `while(1)` is a thread that never yields.

use linerate_cmt::fit::{LONG, Model};
use linerate_cmt::processor::Processor;
use linerate_cmt::{Application, Chip};
use linerate_dataplane::traffic::Traffic;
use linerate_dataplane::{Job, Watch, run};
use linerate_path::check::read;
use linerate_path::model::{IdlePolicy, IdleRules, Mapping, Path, RunLength, RunOptions};
use linerate_path::spec::Kinds;
use linerate_record::random::Random;
use linerate_record::stats::{CONFIDENCE, paired_ratio};
use linerate_report::markdown_table;
use std::sync::atomic::{AtomicBool, Ordering};

const PATH: &str = "\
[source]\nkind = \"generator\"\nsizes = 60\n\
[[stage]]\nkind = \"parse\"\n[[stage]]\nkind = \"filter\"\ndefault = \"deny\"\n\
[[stage]]\nkind = \"count\"\n\
[mapping]\nworkers = [{ stages = [\"parse\", \"filter\"] }, { stages = [\"count\"] }]\n";

/// Duration of a measurement in seconds: many time slices.
const SECONDS: f64 = 0.5;

/// What shares the CPU with the worker under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Neighbour {
    /// Nothing: the worker runs all stages.
    None,
    /// A worker with this idle policy.
    Worker(IdlePolicy),
    /// A thread in an endless loop.
    Endless,
}

const ALL: [Neighbour; 7] = [
    Neighbour::None,
    Neighbour::Worker(IdlePolicy::Park),
    Neighbour::Worker(IdlePolicy::Auto),
    Neighbour::Worker(IdlePolicy::Slow),
    Neighbour::Worker(IdlePolicy::Pause),
    Neighbour::Worker(IdlePolicy::Spin),
    Neighbour::Endless,
];

impl Neighbour {
    fn name(self) -> String {
        match self {
            Self::None => "none".to_owned(),
            Self::Worker(policy) => format!("worker, `{}`", policy.word()),
            Self::Endless => "`while(1)`".to_owned(),
        }
    }
}

/// Throughput in kpps next to each neighbour, one per round.
pub(crate) struct Measured([Vec<f64>; ALL.len()]);

/// Measures the throughput next to each neighbour on `cpu`, once per round, in random order.
pub(crate) fn measured(
    traffic: &Traffic,
    cpu: u32,
    rounds: usize,
    random: &mut Random,
) -> Measured {
    let specs = linerate_stages::specs();
    let kinds = Kinds { stages: &specs, sources: &[], plugins: &[] };
    let path = read(PATH, "neighbours", kinds).expect("a valid path").path;
    let mut all = [const { Vec::new() }; ALL.len()];
    for _ in 0..rounds {
        let mut order: Vec<usize> = (0..ALL.len()).collect();
        (1..order.len()).rev().for_each(|i| order.swap(i, random.below(i + 1)));
        for index in order {
            all[index].push(kpps(&path, traffic, cpu, ALL[index]));
        }
    }
    Measured(all)
}

/// Returns the throughput of the worker under test in kpps.
fn kpps(path: &Path, traffic: &Traffic, cpu: u32, neighbour: Neighbour) -> f64 {
    let merged = Mapping::merged(path.stages.len());
    let (mapping, policy) = match neighbour {
        Neighbour::Worker(policy) => (&path.mapping, policy),
        Neighbour::None | Neighbour::Endless => (&merged, IdlePolicy::Pause),
    };
    let idle = IdleRules { workers: vec![None, Some(policy)], ..IdleRules::POLLING };
    let cpus = [cpu; 2];
    let own = Job::new(path, linerate_stages::KINDS, traffic, &cpus[..mapping.workers()]);
    let options = RunOptions { length: RunLength::Seconds(SECONDS), ..path.run };
    let job = Job { options, mapping, idle: &idle, oversubscribe: true, ..own };
    let measure = || run(&job, &Watch::unattended()).expect("the path runs").report;
    let report = match neighbour {
        Neighbour::Endless => next_to_endless(cpu, measure),
        Neighbour::None | Neighbour::Worker(_) => measure(),
    };
    // Packets per wall time: the windows of the report's own rates may leave out time that the
    // neighbour had the CPU.
    report.workers[0].stages.first().and_then(|source| source.kpps).unwrap_or(f64::NAN)
}

/// Calls `measure` while a thread on `cpu` runs in an endless loop.
fn next_to_endless<T>(cpu: u32, measure: impl FnOnce() -> T) -> T {
    let (is_pinned, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            linerate_linux::pin_current_thread(cpu).expect("the CPU is allowed");
            is_pinned.store(true, Ordering::Release);
            #[expect(clippy::missing_spin_loop, reason = "a pause would leave time to others")]
            while !is_over.load(Ordering::Relaxed) {}
        });
        while !is_pinned.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let measured = measure();
        is_over.store(true, Ordering::Relaxed);
        measured
    })
}

/// Returns the simulated throughput of the documented application on the T1, in kpps, for four
/// behaviours of the strand that handles no packets: parked, polling with the fitted stall, polling
/// with a stall of 20 ns, `while(1)`.
fn simulated() -> [f64; 4] {
    let application = Application::named("rlp").expect("the application is built in");
    let chip =
        Chip::new(&Processor::named("t1").expect("the T1 is built in")).expect("the T1 is valid");
    let model = Model { application, chip };
    let pipes = &model.configuration("2").expect("configuration 2 exists").pipes;
    let instead = |word: Option<&str>| -> Vec<Vec<String>> {
        let one = |old: &String| match word {
            Some(word) if old.starts_with("ATIF_RX ") => word.to_owned(),
            _ => old.clone(),
        };
        pipes.iter().map(|pipe| pipe.iter().map(one).collect()).collect()
    };
    let short = model.with(&[("rx_empty_stall_ns", 20.0)]).expect("the parameter exists");
    let kpps = |model: &Model, word| model.run(&instead(word), &LONG).expect("the model runs").kpps;
    [
        kpps(&model, Some("parked")),
        kpps(&model, None),
        kpps(&short, None),
        kpps(&model, Some("while(1)")),
    ]
}

/// Tabulates the throughput next to each neighbour relative to none, and the simulator's ratio.
pub(crate) fn table(Measured(all): &Measured) -> String {
    let [parked, slow, fast, endless] = simulated();
    let row = |(neighbour, kpps): (&Neighbour, &Vec<f64>)| {
        let ratio = paired_ratio(&all[0], kpps, CONFIDENCE);
        let (setting, simulated) = match neighbour {
            Neighbour::None => ("-", None),
            Neighbour::Worker(IdlePolicy::Park | IdlePolicy::Auto) => ("parked", Some(parked)),
            Neighbour::Worker(IdlePolicy::Slow) => ("polling, with the fitted stall", Some(slow)),
            Neighbour::Worker(IdlePolicy::Pause | IdlePolicy::Spin) => {
                ("polling, with a stall of 20 ns", Some(fast))
            }
            Neighbour::Endless => ("`while(1)`", Some(endless)),
        };
        vec![
            neighbour.name(),
            crate::median_cell(kpps),
            format!("{:.3} ({:.3} to {:.3})", ratio.value, ratio.low, ratio.high),
            setting.to_owned(),
            simulated.map_or_else(|| "-".to_owned(), |kpps| format!("{:.3}", kpps / parked)),
        ]
    };
    let columns =
        ["neighbour on the CPU", ">kpps", ">ratio to none", "on the T1's strand", ">simulated"];
    "Throughput of a worker next to a neighbour without packets on the same CPU.\n\n".to_owned()
        + &markdown_table(&columns, ALL.iter().zip(all).map(row))
}
