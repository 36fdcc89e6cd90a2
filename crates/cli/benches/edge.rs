// SPDX-License-Identifier: MIT OR Apache-2.0
//! The edge router of `examples/edge.toml` on one strand, in memory: ticks per packet beside the
//! bound, and what the profile costs.
//!
//! In each round three things run in random order on the same processor: the path with its profile,
//! the path with the profile compiled out, and the bound: the same packets copied into the same
//! number of warm buffers and nothing else. Costs are processor time per packet as the scheduler
//! charges it, which leaves out time in which the thread did not run. Rounds with an involuntary
//! switch more than one in 10 ms are dropped.
//!
//! `cargo bench -p linerate --bench edge [-- ROUNDS]`

use linerate_dataplane::generator::Generator;
use linerate_dataplane::traffic::Traffic;
use linerate_dataplane::{Account, Job, Outcome, RunError, Watch, run, steering};
use linerate_dataplane::{pool::Pool, runner::run_unmetered};
use linerate_linux as linux;
use linerate_machine::ticks::{ticks, ticks_per_second};
use linerate_path::check::read;
use linerate_path::keys::IMIX_OCTETS;
use linerate_path::model::{Mapping, Path, RunLength, RunOptions};
use linerate_record::run::RunReport;
use linerate_record::stats::{median_interval, paired_ratio};
use linerate_stages::{KINDS, specs};
use std::hint::black_box;
use std::sync::atomic::AtomicBool;

const SECONDS: f64 = 0.25;
const BUFFER_OCTETS: u32 = 2_048;

/// Buffers the bound copies into: what one strand keeps in turn.
const WARM_BUFFERS: usize = 32;

/// Involuntary switches per second of a round above which it is dropped.
const SWITCHES_MAX: f64 = 100.0;

struct Bench {
    path: Path,
    traffic: Traffic,
    cpu: u32,
    seconds: f64,
}

/// Nanoseconds of processor time per packet, `None` for a disturbed round.
type Cost = Option<f64>;

impl Bench {
    fn cost(&self, runner: fn(&Job<'_>, &Watch<'_>) -> Result<Outcome, RunError>) -> Cost {
        let cpus = [self.cpu];
        let job = Job {
            mapping: &Mapping::merged(self.path.stages.len()),
            options: RunOptions { length: RunLength::Seconds(self.seconds), ..self.path.run },
            replay: true,
            ..Job::new(&self.path, KINDS, &self.traffic, &cpus)
        };
        let watch = Watch { stop: &AtomicBool::new(false), progress: &|_| {} };
        let switches = linux::involuntary_switches();
        let report = runner(&job, &watch).expect("the edge path runs").report;
        let disturbed = linux::involuntary_switches() - switches;
        self.per_packet(&report, disturbed)
    }

    fn per_packet(&self, report: &RunReport, switches: u64) -> Cost {
        let strand = &report.strands[0];
        let packets = strand.stages[0].packets as f64;
        let calm = (switches as f64) < SWITCHES_MAX * self.seconds;
        calm.then_some(strand.cpu_ns as f64 / packets)
    }

    /// The bound: every frame copied into a buffer, nothing looked at.
    fn copy(&self) -> Cost {
        let mut pool = Pool::new(WARM_BUFFERS, BUFFER_OCTETS as usize);
        let mut packets = pool.packets(0);
        let mut account = Account::default();
        let end = ticks() + (self.seconds * ticks_per_second()) as u64;
        let (switches, start) = (linux::involuntary_switches(), linux::thread_cpu_time_ns());
        let mut copied = 0_u64;
        while ticks() < end {
            for index in 0..self.traffic.len() {
                let packet = &mut packets[index % WARM_BUFFERS];
                packet.fill(self.traffic.frame(index));
            }
            black_box(&mut packets);
            copied += self.traffic.len() as u64;
        }
        let cpu_ns = linux::thread_cpu_time_ns() - start;
        let switches = linux::involuntary_switches() - switches;
        packets.iter_mut().for_each(|packet| packet.truncate(0, &mut account));
        let calm = (switches as f64) < SWITCHES_MAX * self.seconds;
        calm.then_some(cpu_ns as f64 / copied as f64)
    }
}

fn edge() -> Path {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/edge.toml");
    let text = std::fs::read_to_string(file).expect("the example is there");
    read(&text, "edge", &specs()).expect("the example is a path").path
}

fn imix(path: &Path) -> Traffic {
    let steers = steering(path, KINDS).expect("the example's stages");
    let generator = Generator { sizes: &IMIX_OCTETS, flows: 1_024, seed: 1 };
    Traffic::generate(generator, BUFFER_OCTETS, &steers).expect("IMIX fits the buffers")
}

fn print(name: &str, costs: &[f64], ticks_per_ns: f64) {
    let cost = median_interval(costs, 0.95);
    let [value, low, high] = [cost.value, cost.low, cost.high].map(|ns| ns * ticks_per_ns);
    println!("{name:26} {value:7.1} ticks/packet ({low:.1} to {high:.1}, n = {})", costs.len());
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let test = arguments.iter().any(|argument| argument == "--test");
    let rounds = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(40);
    let path = edge();
    let traffic = imix(&path);
    let cpu = linux::allowed_cpus().expect("the kernel tells the processors")[0];
    linux::pin_current_thread(cpu).expect("the processor may be used");
    let bench = Bench { path, traffic, cpu, seconds: if test { 0.05 } else { SECONDS } };
    let mut costs = [const { Vec::new() }; 3];
    for _ in 0..if test { 1 } else { rounds } {
        let first = (ticks() >> 5) as usize % 3;
        let mut round = [None; 3];
        for step in 0..3 {
            let which = (first + step) % 3;
            round[which] = match which {
                0 => bench.cost(run),
                1 => bench.cost(run_unmetered),
                _ => bench.copy(),
            };
        }
        if let [Some(on), Some(off), Some(copy)] = round {
            costs.iter_mut().zip([on, off, copy]).for_each(|(all, one)| all.push(one));
        }
    }
    let [on, off, copy] = &costs;
    if on.is_empty() {
        println!("edge: no round without preemption");
        return;
    }
    let ticks_per_ns = ticks_per_second() / 1e9;
    println!("edge path on one strand, IMIX 7:4:1, burst {}", bench.path.run.burst);
    print("path with profile", on, ticks_per_ns);
    print("path, profile compiled out", off, ticks_per_ns);
    print("bound: copying alone", copy, ticks_per_ns);
    for (name, under, above) in [("profile on / out", off, on), ("path / copying", copy, on)] {
        let ratio = paired_ratio(under, above, 0.95);
        println!("{name:26} {:7.4} ({:.4} to {:.4})", ratio.value, ratio.low, ratio.high);
    }
}
