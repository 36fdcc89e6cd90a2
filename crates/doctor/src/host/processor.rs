// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the processor: name, hypervisor, and instruction set extensions relevant to packet
//! processing.

use super::Host;
use linerate_machine::cpuinfo::{cpu_name, value};
use linerate_record::doctor::{Observation, Section};

const PROCESSOR: Section = Section::Processor;

pub(super) fn observe(host: &Host) -> Vec<Observation> {
    vec![name(host), platform(host), instructions(host)]
}

fn name(host: &Host) -> Observation {
    match cpu_name(&host.cpuinfo) {
        Some(name) => PROCESSOR.fact("cpu", name, &numbers(host)),
        None => PROCESSOR.unknown("cpu", "/proc/cpuinfo names no processor"),
    }
}

/// Returns the vendor's model numbers, which identify the processor's manual.
fn numbers(host: &Host) -> String {
    let of = |key: &'static str| value(&host.cpuinfo, key);
    if let (Some(vendor), Some(family), Some(model)) =
        (of("vendor_id"), of("cpu family"), of("model"))
    {
        return format!("{vendor}, family {family}, model {model}");
    }
    if let (Some(implementer), Some(part)) = (of("CPU implementer"), of("CPU part")) {
        return format!("implementer {implementer}, part {part}");
    }
    "name reported by the kernel".to_owned()
}

fn platform(host: &Host) -> Observation {
    let (value, sentence) = match (&host.platform.hypervisor, host.platform.emulated) {
        (Some(name), Some(true)) => {
            (name.as_str(), "emulated CPU: counts are exact, times are meaningless")
        }
        (Some(name), Some(false)) => (
            name.as_str(),
            "a virtual machine: clocks, counters and other load depend on the hypervisor",
        ),
        (Some(name), None) => {
            (name.as_str(), "a virtual machine, or an emulator whose times are meaningless")
        }
        (None, Some(_)) => ("hardware", "CPUID reports no hypervisor"),
        (None, None) => {
            let sentence = "no hypervisor was found, but this architecture need not report one";
            return PROCESSOR.unknown("platform", sentence);
        }
    };
    PROCESSOR.fact("platform", value, sentence)
}

/// Instruction set extensions useful for packet processing, as named in /proc/cpuinfo: SIMD,
/// carry-less multiplication, ciphers, checksums, copies, bit manipulation, atomics.
const EXTENSIONS: [&str; 41] = [
    "sse2",
    "ssse3",
    "sse4_1",
    "sse4_2",
    "avx",
    "avx2",
    "fma",
    "avx512f",
    "avx512bw",
    "avx512vl",
    "avx512vbmi",
    "avx512_vnni",
    "avx10",
    "bmi1",
    "bmi2",
    "adx",
    "aes",
    "vaes",
    "pclmulqdq",
    "vpclmulqdq",
    "gfni",
    "sha_ni",
    "erms",
    "fsrm",
    "clflushopt",
    "movdir64b",
    "neon",
    "asimd",
    "asimddp",
    "sve",
    "sve2",
    "crc32",
    "pmull",
    "sha2",
    "sha512",
    "atomics",
    "dcpop",
    "v",
    "altivec",
    "vsx",
    "vfpv4",
];

/// Vector width by extension, widest first. The width of SVE depends on the implementation.
const VECTORS: [(&str, &str); 9] = [
    ("avx512bw", "512 bits"),
    ("avx2", "256 bits"),
    ("avx", "256 bits, floating point only"),
    ("sse2", "128 bits"),
    ("sve", "128 bits or more"),
    ("asimd", "128 bits"),
    ("neon", "128 bits"),
    ("altivec", "128 bits"),
    ("v", "128 bits or more"),
];

fn instructions(host: &Host) -> Observation {
    let listed = ["flags", "Features"].iter().find_map(|key| value(&host.cpuinfo, key));
    // On POWER, the CPU name is followed by the only extension.
    let altivec = value(&host.cpuinfo, "cpu").is_some_and(|name| name.contains("altivec"));
    let listed = listed.unwrap_or(if altivec { "altivec" } else { "" });
    let words: Vec<&str> = listed.split(' ').collect();
    let present: Vec<&str> = EXTENSIONS.into_iter().filter(|word| words.contains(word)).collect();
    if present.is_empty() {
        return PROCESSOR.unknown("isa", "/proc/cpuinfo lists no instruction set extensions");
    }
    let widest = VECTORS.iter().find(|(word, _)| present.contains(word));
    let width = widest.map_or("none known to linerate", |(_, width)| width);
    let sentence =
        format!("vectors: {width}; `linerate kernels --list` shows which routines use them");
    PROCESSOR.fact("isa", present.join(" "), &sentence)
}
