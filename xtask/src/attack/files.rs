// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates calls with damaged captures, damaged records, and damaged output of other profilers.

use super::call::{Call, capture, edge, stored};
use super::damage::{damaged, renumbered};
use super::{Random, Size};

/// Creates a call that runs the edge router on this capture.
fn on_capture(line: &str, capture: Vec<u8>) -> Result<Call, String> {
    let mut call = edge(line)?;
    call.files[1].1 = capture;
    Ok(call)
}

/// Creates a pcap file with this magic number and link type. Each of `records` consists of the
/// captured length and the original length for the packet's header, and the actual length.
fn pcap(magic: u32, link: u32, records: &[(u32, u32, usize)]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [magic, 0x0004_0002, 0, 0, 65_535, link] {
        file.extend(word.to_le_bytes());
    }
    for (captured, original, bytes) in records {
        for word in [1, 1, *captured, *original] {
            file.extend(word.to_le_bytes());
        }
        file.extend((0..*bytes).map(|at| at as u8));
    }
    file
}

/// Returns handmade captures with unusual magic numbers, link types and lengths.
fn by_hand() -> Vec<Vec<u8>> {
    let sound = [(60, 60, 60), (60, 60, 60)];
    let mut all = Vec::new();
    for magic in [0xa1b2_c3d4, 0xd4c3_b2a1, 0xa1b2_3c4d, 0xa1b2_cd34, 0x1a2b_3c4d, 0] {
        for link in [0, 1, 9, 12, 101, 113, 228, 229, 276, 0xffff, 0x1400_0001, 0xffff_ffff] {
            all.push(pcap(magic, link, &sound));
        }
    }
    for record in [
        (0, 0, 0),
        (0, 60, 0),
        (60, 0, 60),
        (60, u32::MAX, 60),
        (u32::MAX, 60, 60),
        (1 << 30, 60, 60),
        (1, 1, 1),
        (13, 13, 13),
        (65_535, 65_535, 65_535),
        (60, 61, 60),
    ] {
        for link in [1, 101, 113, 276] {
            all.push(pcap(0xa1b2_c3d4, link, &[sound[0], record, sound[1]]));
        }
    }
    all
}

/// Returns calls with damaged captures. All are checked, and some are run.
pub(crate) fn captures(random: &mut Random, size: Size) -> Result<Vec<Call>, String> {
    let whole = capture()?;
    let mut inputs = size.some(by_hand(), 12, random);
    inputs.extend((0..size.of(16, 2_000)).map(|_| damaged(&whole, random)));
    let call = |input| {
        let line = match random.below(8) {
            0 => "run -q --time 60ms edge.toml",
            1 => "run --json --time 60ms edge.toml",
            2 => "run --check --json edge.toml",
            _ => "run --check edge.toml",
        };
        on_capture(line, input)
    };
    inputs.into_iter().map(call).collect()
}

/// Returns calls with captures in place of records.
pub(crate) fn foreign_inputs(random: &mut Random, size: Size) -> Result<Vec<Call>, String> {
    let mut inputs = by_hand();
    inputs.push(capture()?);
    let lines = [
        "import x",
        "explain x",
        "report x",
        "export x --format csv",
        "regions x",
        "run x",
        "plan x",
        "budget --from x",
        "tune --from x",
    ];
    let all = inputs.iter().flat_map(|input| lines.iter().map(move |line| (input, *line)));
    let chosen = size.some(all.collect(), 10, random);
    Ok(chosen.into_iter().map(|(input, line)| Call::new(line).file("x", input.clone())).collect())
}

/// Kinds of stored records.
const KINDS: [&str; 12] = [
    "answers", "budget", "doctor", "kernels", "memory", "plan", "regions", "run", "stat",
    "strands", "tcp", "tune",
];

/// Commands that read a record.
const READERS: [&str; 17] = [
    "report x.json",
    "report --all x.json",
    "report --json x.json",
    "report --format markdown x.json",
    "report --format rpistat x.json",
    "explain x.json",
    "explain --json x.json",
    "explain x.json --against x.json",
    "export x.json --format csv",
    "export x.json --format folded",
    "export x.json --format prometheus",
    "export x.json --format profile-dump",
    "plan edge.toml --from x.json --json",
    "budget --from x.json --clock 2 --json",
    "regions x.json",
    "tune --from x.json --json",
    "stat --tier sw --baseline x.json -- true",
];

fn reading(
    random: &mut Random,
    change: impl Fn(&str, &mut Random) -> Vec<u8>,
) -> Result<Call, String> {
    let kind = KINDS[random.below(KINDS.len())];
    let json = stored(&format!("crates/record/fixtures/{kind}.json"))?;
    let json = String::from_utf8_lossy(&json).into_owned();
    let call = edge(READERS[random.below(READERS.len())])?;
    Ok(call.file("x.json", change(&json, random)))
}

/// Returns calls with records in which bytes were changed.
pub(crate) fn records(random: &mut Random, size: Size) -> Result<Vec<Call>, String> {
    let change = |json: &str, random: &mut Random| damaged(json.as_bytes(), random);
    (0..size.of(24, 3_900)).map(|_| reading(random, change)).collect()
}

/// Returns calls with records in which numbers were changed.
pub(crate) fn numbers(random: &mut Random, size: Size) -> Result<Vec<Call>, String> {
    let change = |json: &str, random: &mut Random| renumbered(json, random).into_bytes();
    (0..size.of(24, 1_500)).map(|_| reading(random, change)).collect()
}

const PERF_JSON: &str = "\
{\"counter-value\" : \"1234.000000\", \"unit\" : \"\", \"event\" : \"cycles\", \"event-runtime\" : \
 1000, \"pcnt-running\" : 100.00}\n{\"counter-value\" : \"2000.000000\", \"unit\" : \"\", \
 \"event\" : \"instructions\", \"event-runtime\" : 1000, \"pcnt-running\" : 50.00}\n";

const PERF_CSV: &str = "1234,,cycles,1000,100.00,,\n<not supported>,,instructions,0,0.00,,\n";

const VPP: &str = "\
Time 10.0, 10 sec internal node vector rate 256.00 loops/sec 1000.00
  vector rates in 1.0e6, out 1.0e6, drop 0.0e0, punt 0.0e0
             Name                 State         Calls          Vectors        Suspends         \
 Clocks       Vectors/Call
dpdk-input                       polling             10000            2560000               0 \
       5.21e1          256.00
ip4-lookup                        active             10000            2560000               0 \
       2.31e1          256.00
";

/// Returns calls with damaged output from other profilers.
pub(crate) fn dumps(random: &mut Random, size: Size) -> Result<Vec<Call>, String> {
    let dump = stored("examples/netra-sample.dump")?;
    let texts = [&dump[..], PERF_JSON.as_bytes(), PERF_CSV.as_bytes(), VPP.as_bytes()];
    let lines = [
        "import x",
        "import x --json",
        "import x --machine t1",
        "import x --machine t2 --clock 1",
        "import x --format vpp",
        "import x --format perf-stat",
        "import x --format profile-dump",
    ];
    let call = |_| {
        let text = damaged(texts[random.below(texts.len())], random);
        Call::new(lines[random.below(lines.len())]).file("x", text)
    };
    Ok((0..size.of(16, 2_100)).map(call).collect())
}
