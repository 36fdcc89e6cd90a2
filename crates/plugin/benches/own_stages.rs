// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the per-packet cost of the same stage in C and in Rust. Both versions are built from
//! the templates of `linerate new-stage` and process bursts of generated frames that stay in L1.
//!
//! In each iteration, both stages process the same burst, in an order that is random per round. The
//! frames are restored in between, outside the timed part. The C stage is built with the compiler
//! and flags of its Makefile. Rounds in which the thread was preempted are discarded. Costs are in
//! timestamp-counter ticks.
//!
//! `cargo bench -p linerate-plugin --bench own_stages [-- ROUNDS]`

use linerate_stage_api::bench::{self, Dropped, Machine, Window, provenance, ticks};
use linerate_stage_api::bench::{CONFIDENCE, median_interval, orders, paired_ratio};
use linerate_stage_api::params::{Params, Value};
use linerate_stage_api::testing::Pool;
use linerate_stage_api::{BuildContext, Burst, Stage, StageContext};
use std::process::Command;

#[path = "../../cli/templates/rust/src/lib.rs"]
#[allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "a crate of its own for users, whose unit tests run in tests of cli"
)]
mod ttl;

const C_SOURCE: &str = include_str!("../../cli/templates/c/stage.c.in");
const INCLUDE: &str = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include");
const FRAME_BYTES: usize = 60;
const TURNS: usize = 512;
const ROUNDS: usize = 400;
/// Goal at a burst size of 32: the C stage takes at most this many ticks per packet more than the
/// Rust stage.
const ADDED_MAX: f64 = 5.0;

/// Compiles the template of a C stage to a shared object, loads it, and builds an instance.
fn stage_in_c() -> Box<dyn Stage> {
    let folder = tempfile::tempdir().expect("a temporary directory can be created");
    let (source, object) = (folder.path().join("ttl.c"), folder.path().join("libttl.so"));
    let text = C_SOURCE.replace("@NAME@", "ttl").replace("@FILE@", "ttl");
    std::fs::write(&source, text).expect("the folder can be written");
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-O2", "-g", INCLUDE, "-fPIC", "-shared", "-fvisibility=hidden", "-o"]);
    let done = cc.arg(&object).arg(&source).output().expect("a C compiler is installed");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let (_, kind) = linerate_plugin::load("./libttl.so", &object).expect("the template is a stage");
    let file = ("file".to_owned(), Value::Text("./libttl.so".to_owned()));
    let params = Params::from([file, ("min_ttl".to_owned(), Value::Integer(2))]);
    (kind.build)(&params, &CONTEXT).expect("the parameters are in range")
}

fn stage_in_rust() -> Box<dyn Stage> {
    let kind = ttl::EXTENSION.stage("ttl").expect("the template defines the kind `ttl`");
    let params = Params::from([("min_ttl".to_owned(), Value::Integer(2))]);
    (kind.build)(&params, &CONTEXT).expect("the parameters are in range")
}

const CONTEXT: BuildContext = BuildContext { replica: 0, replicas: 1 };

/// Returns an IPv4 frame with TTL 64. Its checksum does not need to be valid.
fn frame() -> [u8; FRAME_BYTES] {
    let mut frame = [0; FRAME_BYTES];
    frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
    frame[22] = 64;
    frame
}

/// Runs one round. Returns the ticks per packet of each stage, or why the window was not clean.
/// `first` is the index of the stage that processes each burst first.
fn round(
    stages: &mut [Box<dyn Stage>; 2],
    burst: &mut Burst<'_>,
    first: usize,
    clock: &Machine,
) -> Result<[f64; 2], Dropped> {
    let (mut costs, mut context) = ([0; 2], StageContext::default());
    let mut packets: Vec<_> = burst.drain().collect();
    let (count, frame) = (packets.len(), frame());
    let window = Window::open(clock);
    for _ in 0..TURNS {
        for way in [first, 1 - first] {
            for mut packet in packets.drain(..) {
                assert!(packet.fill(&frame), "a frame fits its buffer");
                burst.push(packet);
            }
            let start = ticks();
            stages[way].process(burst, &mut context);
            costs[way] += ticks() - start;
            packets.extend(burst.drain());
        }
    }
    let kept = window.close().keep(costs.map(|ticks| ticks as f64 / (TURNS * count) as f64));
    assert_eq!((context.account.dropped().packets, packets.len()), (0, count));
    packets.into_iter().for_each(|packet| burst.push(packet));
    kept
}

fn compare(size: usize, rounds: usize) {
    let mut pool = Pool::new(size, 2_048);
    let mut burst = Burst::new();
    pool.packets(0).into_iter().for_each(|packet| burst.push(packet));
    let mut stages = [stage_in_rust(), stage_in_c()];
    let (clock, mut next) = (Machine::counter(), orders(2, ticks()));
    let mut costs = [const { Vec::new() }; 2];
    for turn in 0..=rounds {
        let took = round(&mut stages, &mut burst, next()[0], &clock);
        // The first round fills the caches.
        if let Some(took) = took.ok().filter(|_| turn > 0) {
            costs.iter_mut().zip(took).for_each(|(all, one)| all.push(one));
        }
    }
    println!("burst {size}, {} undisturbed rounds", costs[0].len());
    if costs[0].is_empty() {
        return;
    }
    for (name, all) in ["in Rust", "in C"].iter().zip(&costs) {
        let cost = median_interval(all, CONFIDENCE);
        println!("  {name:22} {:6.2} ticks ({:.2} to {:.2})", cost.value, cost.low, cost.high);
    }
    let ratio = paired_ratio(&costs[0], &costs[1], CONFIDENCE);
    let added: Vec<f64> = costs[1].iter().zip(&costs[0]).map(|(c, rust)| c - rust).collect();
    let added = median_interval(&added, CONFIDENCE);
    println!(
        "  {:22} {:6.2}       ({:.2} to {:.2})",
        "C / Rust", ratio.value, ratio.low, ratio.high
    );
    let verdict = match (added.low <= ADDED_MAX, added.high <= ADDED_MAX) {
        _ if size != 32 => String::new(),
        (_, true) => format!(", goal: at most {ADDED_MAX}: met"),
        (false, _) => format!(", goal: at most {ADDED_MAX}: MISSED"),
        (true, false) => format!(", goal: at most {ADDED_MAX}: indistinguishable"),
    };
    println!(
        "  {:22} {:+6.2} ticks ({:+.2} to {:+.2}){verdict}",
        "added by C", added.value, added.low, added.high
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let test = arguments.iter().any(|argument| argument == "--test");
    let given = arguments.iter().find_map(|argument| argument.parse().ok());
    let rounds = if test { 1 } else { given.unwrap_or(ROUNDS) };
    let on = provenance("own_stages", None, "", "");
    let or_unknown = |text: Option<String>| text.unwrap_or_else(|| "unknown".to_owned());
    println!(
        "{}, {} logical processors, hypervisor {}, {}; {:.0} million ticks per second; load {:.1}",
        or_unknown(on.cpu),
        on.cpus.len(),
        or_unknown(on.hypervisor),
        or_unknown(on.kernel),
        on.ticks_per_s.unwrap_or(f64::NAN) / 1e6,
        on.load_1min.unwrap_or(f64::NAN),
    );
    let cpu = bench::allowed_cpus().expect("the kernel reports the CPUs")[0];
    bench::pin_current_thread(cpu).expect("the processor may be used");
    for size in [32, 8, 1, 256] {
        compare(size, rounds);
    }
}
