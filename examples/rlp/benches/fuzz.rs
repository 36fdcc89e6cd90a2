// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fuzzer: mutates random inputs and runs them. Inputs that trigger new behaviour are kept and
//! mutated further. A failure is a panic, which prints the input.
//!
//! Guided by observable events (refusals, kinds of frames, ...), which the targets report as bits:
//! an input is kept if it triggers a pair of events that no earlier input triggered together. Code
//! coverage is not used, because it needs compiler instrumentation (docs/decisions/0153).
//!
//! `cargo bench -p linerate-rlp --bench fuzz [-- EXECUTIONS | SECONDSs] [--write]`; `--write`
//! stores the kept inputs in `fuzz/corpus.txt`.

#[path = "../tests/fuzz/target.rs"]
mod target;

use linerate_stage_api::source::Random;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use target::Target;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus.txt");
const EXECUTIONS: u64 = 30_000_000;
/// Maximum input length in bytes. Longer packets exercise no additional code.
const LONGEST: usize = 600;
const SEED: u64 = 1;

/// One target's fuzzing state.
struct Campaign {
    target: Target,
    kept: Vec<(u32, Vec<u8>)>,
    /// Bit `j` of entry `i`: events `i` and `j` have occurred in the same run.
    pairs: [u32; 32],
    executions: u64,
    seconds: f64,
}

impl Campaign {
    fn new(target: Target) -> Self {
        Self { target, kept: Vec::new(), pairs: [0; 32], executions: 0, seconds: 0.0 }
    }

    /// Runs an input and keeps it if it triggers a new pair of events.
    fn run(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.executions += 1;
        let run = AssertUnwindSafe(|| self.target.run(bytes));
        let bits = catch_unwind(run).map_err(|_| {
            format!(
                "{} fails on {}; run the line again with a test",
                self.target.name(),
                hex(bytes)
            )
        })?;
        let mut is_new = self.kept.is_empty();
        for (thing, others) in self.pairs.iter_mut().enumerate() {
            if bits >> thing & 1 != 0 && bits & !*others != 0 {
                *others |= bits;
                is_new = true;
            }
        }
        if is_new {
            self.kept.push((bits, bytes.to_vec()));
        }
        Ok(())
    }

    /// Minimizes the corpus: keeps only inputs that add a pair of events, those with the most
    /// events first, then the shortest.
    fn thin(&mut self) {
        let mut seen = [0; 32];
        let mut kept = std::mem::take(&mut self.kept);
        kept.sort_by_key(|(bits, bytes)| (std::cmp::Reverse(bits.count_ones()), bytes.len()));
        for (bits, bytes) in kept {
            let set = |thing: &usize| bits >> thing & 1 != 0;
            if (0..32).filter(set).any(|thing| bits & !seen[thing] != 0) {
                (0..32).filter(set).for_each(|thing| seen[thing] |= bits);
                self.kept.push((bits, bytes));
            }
        }
    }

    fn things(&self) -> u32 {
        (0..32).filter(|&thing| self.pairs[thing] >> thing & 1 != 0).count() as u32
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().as_chunks::<2>().0;
    let digit = |digit: u8| Some(char::from(digit).to_digit(16)? as u8);
    pairs.iter().map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

/// Boundary byte values, where encodings and comparisons tend to change behaviour.
const TURNING: [u8; 12] = [0, 1, 2, 3, 4, 7, 8, 0x20, 0x7f, 0x80, 0xfe, 0xff];

/// Applies one to eight random mutations to `bytes`.
fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    for _ in 0..=random.below(8) {
        let at = random.below(bytes.len() + 1);
        let length = random.below(16).min(bytes.len() - at);
        match random.below(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = TURNING[random.below(TURNING.len())],
            2 if at < bytes.len() => bytes[at] = random.next() as u8,
            3 => drop(bytes.drain(at..at + length)),
            4 => {
                let piece = bytes[at..at + length].to_vec();
                bytes.splice(at..at, piece);
            }
            5 if !other.is_empty() => {
                let from = random.below(other.len());
                let to = (from + random.below(64)).min(other.len());
                bytes.splice(at..at, other[from..to].iter().copied());
            }
            _ => bytes.truncate(at.max(bytes.len() / 2)),
        }
    }
    bytes.truncate(LONGEST);
}

/// Corrects a packet's length fields and checksum, which random mutation would almost never get
/// right.
fn repair(target: Target, bytes: &mut [u8], random: &mut Random) {
    let keep = random.below(4) == 0;
    match target {
        Target::Envelope if !keep && bytes.len() >= 34 => {
            let end = 14 + usize::from(bytes[14] & 0x0f) * 4;
            if let Some(header) = bytes.get_mut(14..end).filter(|header| header.len() >= 20) {
                header[10..12].fill(0);
                let sum = linerate_stage_api::kernels::checksum::header(
                    header,
                    linerate_stage_api::kernels::Sum::ZERO,
                );
                header[10..12].copy_from_slice(&sum.finish().to_be_bytes());
            }
        }
        Target::Access if !keep && bytes.len() >= 22 => {
            let length = bytes.len() as u16 - 22;
            bytes[16..18].copy_from_slice(&length.to_be_bytes());
        }
        _ => {}
    }
}

/// When fuzzing stops.
#[derive(Clone, Copy)]
enum Extent {
    Executions(u64),
    Time(Duration),
}

fn extent(arguments: &[String]) -> Extent {
    if arguments.iter().any(|argument| argument == "--test") {
        return Extent::Executions(30_000);
    }
    let seconds = |text: &String| text.strip_suffix('s')?.parse().ok().map(Duration::from_secs);
    let executions = || arguments.iter().find_map(|text| text.parse().ok());
    let time = arguments.iter().find_map(seconds).map(Extent::Time);
    time.unwrap_or_else(|| Extent::Executions(executions().unwrap_or(EXECUTIONS)))
}

fn fuzz(campaign: &mut Campaign, extent: Extent, random: &mut Random) -> Result<(), String> {
    let start = Instant::now();
    loop {
        // Read the clock once per 1024 executions.
        for _ in 0..1024 {
            let (one, two) = (random.below(campaign.kept.len()), random.below(campaign.kept.len()));
            let mut bytes = campaign.kept[one].1.clone();
            mutate(&mut bytes, &campaign.kept[two].1, random);
            repair(campaign.target, &mut bytes, random);
            campaign.run(&bytes)?;
        }
        campaign.seconds = start.elapsed().as_secs_f64();
        let is_over = match extent {
            Extent::Executions(executions) => campaign.executions >= executions / 3,
            Extent::Time(time) => campaign.seconds >= time.as_secs_f64() / 3.0,
        };
        if is_over {
            return Ok(());
        }
    }
}

/// Seed inputs: a valid packet for each parser, and all kinds of steps for the session.
const SEEDS: [&str; 3] = [
    "02000000000102000000000208004500003000004000402f0000c0000201c6336407300088810000000700000008\
     55665566556655665566556655665566",
    "02000000000102000000000288b50102002800000007010000040000000001020304040000100000000000000005\
     000000030000002000000001",
    "06ff01020304050607080403400100051234567895010200100201020304020503040340\
     05ffe0100700010703ff",
];

fn campaigns(text: &str) -> Result<Vec<Campaign>, String> {
    let mut all: Vec<Campaign> = Target::ALL.map(Campaign::new).into();
    for (campaign, seed) in all.iter_mut().zip(SEEDS) {
        campaign.run(&unhex(seed).ok_or("a seed is not hexadecimal")?)?;
        campaign.run(&[])?;
    }
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let name = words.next();
        let campaign = all.iter_mut().find(|campaign| name == Some(campaign.target.name()));
        let bytes = words.nth(1).and_then(unhex);
        let (Some(campaign), Some(bytes)) = (campaign, bytes) else {
            return Err(format!("{FILE}: `{line}` is not a target, what happens, and bytes"));
        };
        campaign.run(&bytes)?;
    }
    Ok(all)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(1)
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let text = std::fs::read_to_string(FILE).unwrap_or_default();
    let mut all = campaigns(&text)?;
    let mut random = Random::new(SEED);
    println!("| target | executions | things that happened | pairs of them | inputs kept |");
    println!("|---|---:|---:|---:|---:|");
    for campaign in &mut all {
        fuzz(campaign, extent(arguments), &mut random)?;
        let pairs: u32 = campaign.pairs.iter().map(|others| others.count_ones()).sum();
        campaign.thin();
        println!(
            "| {} | {} | {} | {} | {} |",
            campaign.target.name(),
            campaign.executions,
            campaign.things(),
            (pairs - campaign.things()) / 2,
            campaign.kept.len(),
        );
    }
    let seconds: f64 = all.iter().map(|campaign| campaign.seconds).sum();
    eprintln!("{seconds:.1} s");
    let executions: u64 = all.iter().map(|campaign| campaign.executions).sum();
    println!(
        "\n{executions} executions, no panic, nothing out of bounds, all that must hold held."
    );
    if arguments.iter().any(|argument| argument == "--write") {
        std::fs::write(FILE, corpus(&all)).map_err(|error| format!("{FILE}: {error}"))?;
    }
    Ok(())
}

fn corpus(all: &[Campaign]) -> String {
    let mut text = "# SPDX-License-Identifier: MIT OR Apache-2.0\n\
        # Written by `cargo bench --bench fuzz -- --write`: target, what happens, bytes.\n"
        .to_owned();
    for campaign in all {
        for (bits, bytes) in campaign.kept.iter().filter(|(_, bytes)| !bytes.is_empty()) {
            text += &format!("{} {bits:x} {}\n", campaign.target.name(), hex(bytes));
        }
    }
    text
}
