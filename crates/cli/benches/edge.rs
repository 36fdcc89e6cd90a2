// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the edge router of `examples/edge.toml` on one worker, in memory. Compares the router's
//! ticks per packet with a bound, and measures the cost of profiling.
//!
//! Each round runs three contestants in random order on the same CPU: the path with profiling, the
//! path with profiling compiled out, and the bound, which copies the same packets into the same
//! number of warm buffers. The cost is the CPU time per packet as measured by the scheduler, which
//! excludes time off the CPU. Rounds with more than one involuntary context switch per 10 ms are
//! dropped.
//!
//! `cargo bench -p linerate --bench edge [-- ROUNDS]`

use linerate_dataplane::generator::Generator;
use linerate_dataplane::traffic::Traffic;
use linerate_dataplane::{Account, Job, Outcome, RunError, Watch, run, steering};
use linerate_dataplane::{pool::Pool, runner::run_unmetered};
use linerate_linux as linux;
use linerate_machine::ticks::{ticks, ticks_per_s};
use linerate_path::check::read;
use linerate_path::keys::IMIX_BYTES;
use linerate_path::model::{Mapping, Path, RunLength, RunOptions};
use linerate_record::stats::{CONFIDENCE, median_interval};
use linerate_stages::{KINDS, specs};
use linerate_trial::Account as Charged;
use linerate_trial::{Dropped, Length, Machine, Rules, Samples, rounds};
use std::convert::Infallible;
use std::hint::black_box;

const SECONDS: f64 = 0.25;
const BUFFER_BYTES: u32 = 2_048;

/// Number of buffers that the bound copies into; one worker cycles through the same number.
const WARM_BUFFERS: usize = 32;

/// Involuntary context switches per second above which a round is dropped.
const SWITCHES_MAX: f64 = 100.0;

struct Bench {
    path: Path,
    traffic: Traffic,
    cpu: u32,
    seconds: f64,
    clock: Machine,
}

/// CPU time per packet in nanoseconds, or the reason why the round was dropped.
type Cost = Result<f64, Dropped>;

impl Bench {
    fn cost(&self, runner: fn(&Job<'_>, &Watch<'_>) -> Result<Outcome, RunError>) -> Cost {
        let cpus = [self.cpu];
        let job = Job {
            mapping: &Mapping::merged(self.path.stages.len()),
            options: RunOptions { length: RunLength::Seconds(self.seconds), ..self.path.run },
            replay: true,
            ..Job::new(&self.path, KINDS, &self.traffic, &cpus)
        };
        let watch = Watch::unattended();
        let before = Charged::now(&self.clock);
        let report = runner(&job, &watch).expect("the edge path runs").report;
        let worker = &report.workers[0];
        self.per_packet(before, worker.cpu_ns, worker.stages[0].packets)
    }

    /// Returns the cost of a run. Runs are too long to avoid context switches, but CPU time
    /// excludes the time off the CPU, and the limit on switches bounds their effect on the caches.
    fn per_packet(&self, before: Charged, cpu_ns: u64, packets: u64) -> Cost {
        let charged = Charged::now(&self.clock).since(before);
        let is_calm = (charged.switches as f64) < SWITCHES_MAX * self.seconds;
        is_calm.then_some(cpu_ns as f64 / packets as f64).ok_or(Dropped::Switched)
    }

    /// Measures the bound: copies every frame into a buffer and does nothing else.
    fn copy(&self) -> Cost {
        let mut pool = Pool::new(WARM_BUFFERS, BUFFER_BYTES as usize);
        let mut packets = pool.packets(0);
        let mut account = Account::default();
        let end = ticks() + (self.seconds * ticks_per_s()) as u64;
        let before = Charged::now(&self.clock);
        let mut copied = 0_u64;
        while ticks() < end {
            for index in 0..self.traffic.len() {
                let packet = &mut packets[index % WARM_BUFFERS];
                packet.fill(self.traffic.frame(index));
            }
            black_box(&mut packets);
            copied += self.traffic.len() as u64;
        }
        let cpu_ns = Charged::now(&self.clock).since(before).cpu_ns;
        let cost = self.per_packet(before, cpu_ns, copied);
        packets.iter_mut().for_each(|packet| packet.truncate(0, &mut account));
        cost
    }
}

fn edge() -> Path {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/edge.toml");
    let text = std::fs::read_to_string(file).expect("the example exists");
    read(&text, "edge", &specs()).expect("the example is a path").path
}

fn imix(path: &Path) -> Traffic {
    let steers = steering(path, KINDS).expect("the stages are valid");
    let generator = Generator { sizes: &IMIX_BYTES, flows: 1_024, seed: 1 };
    Traffic::generate(generator, BUFFER_BYTES, &steers).expect("IMIX fits the buffers")
}

/// Contestants of each round.
const CONTESTANTS: [&str; 3] =
    ["path with profile", "path, profile compiled out", "bound: copying alone"];

fn print(costs: &Samples<f64>, which: usize, ticks_per_ns: f64) {
    let costs: Vec<f64> = costs.kept(which).copied().collect();
    let cost = median_interval(&costs, CONFIDENCE);
    let [value, low, high] = [cost.value, cost.low, cost.high].map(|ns| ns * ticks_per_ns);
    let (name, n) = (CONTESTANTS[which], costs.len());
    println!("{name:26} {value:7.1} ticks/packet ({low:.1} to {high:.1}, n = {n})");
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let test = arguments.iter().any(|argument| argument == "--test");
    let asked = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(40);
    let path = edge();
    let traffic = imix(&path);
    let cpu = linux::allowed_cpus().expect("the kernel reports the CPUs")[0];
    linux::pin_current_thread(cpu).expect("the CPU is available");
    let (clock, seconds) = (Machine::counter(), if test { 0.05 } else { SECONDS });
    let bench = Bench { path, traffic, cpu, seconds, clock };
    let rules = Rules {
        what: "edge",
        contestants: &CONTESTANTS,
        placements: 1,
        length: Length::Rounds(if test { 1 } else { asked }),
        seed: ticks(),
    };
    let Ok(costs) = rounds(&rules, &clock, &Watch::unattended(), |turn| {
        Ok::<_, Infallible>(match turn.contestant {
            0 => bench.cost(run),
            1 => bench.cost(run_unmetered),
            _ => bench.copy(),
        })
    });
    let ratios = [("profile on / out", 0, 1), ("path / copying", 0, 2)];
    let ratios = ratios.map(|(name, above, under)| (name, costs.ratio(above, under, CONFIDENCE)));
    if ratios.iter().any(|(_, ratio)| ratio.is_none()) {
        println!("edge: every round was preempted");
        return;
    }
    let ticks_per_ns = ticks_per_s() / 1e9;
    println!("edge path on one worker, IMIX 7:4:1, burst {}", bench.path.run.burst);
    (0..CONTESTANTS.len()).for_each(|which| print(&costs, which, ticks_per_ns));
    for (name, ratio) in ratios.into_iter().filter_map(|(name, ratio)| Some((name, ratio?))) {
        println!("{name:26} {:7.4} ({:.4} to {:.4})", ratio.value, ratio.low, ratio.high);
    }
}
