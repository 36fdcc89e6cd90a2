// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clocks: time sources, and the core clock.

use super::Host;
use linerate_machine::core_clock::core_cycles_per_tick;
use linerate_machine::cpuinfo::value;
use linerate_machine::ticks::ticks_per_s;
use linerate_record::doctor::{Observation, Section};

const PROCESSOR: Section = Section::Processor;
const DATA_PLANE: Section = Section::DataPlane;

pub(super) fn observe(host: &Host) -> Vec<Observation> {
    let core = host.root.is_here().then(core_clock);
    let always = [counter(host), Some(source(host)), core, Some(governor(host)), boost(host)];
    always.into_iter().flatten().collect()
}

/// Checks that the x86 TSC runs at a constant rate in every power state. On other architectures,
/// the timestamp counter always does.
fn counter(host: &Host) -> Option<Observation> {
    let flags = value(&host.cpuinfo, "flags")?;
    let has = |flag: &str| flags.split(' ').any(|f| f == flag);
    if !has("tsc") {
        return None;
    }
    Some(match has("constant_tsc") && has("nonstop_tsc") {
        true => PROCESSOR.good(
            "timestamp_counter",
            "steady",
            "the TSC runs at a constant rate in every power state",
        ),
        false => PROCESSOR.advice(
            "timestamp_counter",
            "not guaranteed",
            "the TSC may change its rate, or stop while the core sleeps, so times may be wrong",
            None,
        ),
    })
}

const SOURCES: &str = "sys/devices/system/clocksource/clocksource0";

/// Kernel names of the clock sources that programs can read without a system call.
const FAST_SOURCES: [&str; 7] = [
    "tsc",
    "arch_sys_counter",
    "timebase",
    "kvm-clock",
    "hyperv_clocksource_tsc_page",
    "riscv_clocksource",
    "tod",
];

fn source(host: &Host) -> Observation {
    let Some(source) = host.root.text(&format!("{SOURCES}/current_clocksource")) else {
        return PROCESSOR.unknown("clocksource", "the kernel does not report its clock source");
    };
    if FAST_SOURCES.contains(&source.as_str()) {
        let sentence = "programs read the clock without a system call";
        return PROCESSOR.good("clocksource", source, sentence);
    }
    let available = host.root.text(&format!("{SOURCES}/available_clocksource")).unwrap_or_default();
    let mut faster = FAST_SOURCES.iter().filter(|fast| available.split(' ').any(|a| a == **fast));
    let fix =
        faster.next().map(|fast| format!("echo {fast} | sudo tee /{SOURCES}/current_clocksource"));
    let sentence = "each clock read is a slow system call";
    PROCESSOR.advice("clocksource", source, sentence, fix)
}

/// Measures the core clock of this thread's CPU. Takes 3 ms, plus 20 ms on the first call.
fn core_clock() -> Observation {
    // This call sleeps, so that earlier work can finish before the core clock is measured.
    let ticks_per_s = ticks_per_s();
    match core_cycles_per_tick() {
        Ok(per_tick) => {
            let ghz = |ratio: f64| format!("{:.2} GHz", ratio * ticks_per_s / 1e9);
            let sentence = format!(
                "measured with dependent additions on one CPU ({} to {})",
                ghz(per_tick.low),
                ghz(per_tick.high)
            );
            PROCESSOR.fact("core_clock", ghz(per_tick.value), &sentence)
        }
        Err(error) => PROCESSOR.unknown("core_clock", &error.to_string()),
    }
}

const CPUFREQ: &str = "sys/devices/system/cpu/cpufreq";

fn governor(host: &Host) -> Observation {
    let policies = host.root.names(CPUFREQ).into_iter().filter(|name| name.starts_with("policy"));
    let read = |policy: String| host.root.text(&format!("{CPUFREQ}/{policy}/scaling_governor"));
    let mut governors: Vec<String> = policies.filter_map(read).collect();
    governors.sort_unstable();
    governors.dedup();
    if governors.is_empty() {
        let sentence = "the kernel does not control the core clock here: firmware or the \
                        hypervisor may change it";
        return DATA_PLANE.unknown("governor", sentence);
    }
    if governors == ["performance"] {
        let sentence = "the cores do not clock down when idle";
        return DATA_PLANE.good("governor", "performance", sentence);
    }
    let available = format!("{CPUFREQ}/policy{}/scaling_available_governors", host.first_cpu());
    let has_none = host.root.text(&available).is_some_and(|all| !all.contains("performance"));
    let fix = format!("echo performance | sudo tee /{CPUFREQ}/policy*/scaling_governor");
    DATA_PLANE.advice(
        "governor",
        governors.join(", "),
        "the core clock drops when idle, so a burst after a pause starts on a slow core",
        (!has_none).then_some(fix),
    )
}

/// Checks whether frequency boost is on. Drivers report it in one of two files, one of which has
/// the inverse meaning (1 is off). Returns no observation if neither file exists.
fn boost(host: &Host) -> Option<Observation> {
    let drivers = [
        (format!("{CPUFREQ}/boost"), "1", "0"),
        ("sys/devices/system/cpu/intel_pstate/no_turbo".to_owned(), "0", "1"),
    ];
    let found = drivers.iter().find_map(|(file, on, off)| {
        let value = host.root.text(file)?;
        Some((file, value == *on, off))
    });
    let (file, is_on, off) = found?;
    Some(match is_on {
        true => DATA_PLANE.advice(
            "boost",
            "on",
            "the core clock varies with temperature and with the load on other cores: measurements \
             are less repeatable",
            Some(format!(
                "echo {off} | sudo tee /{file}  # for repeatable measurements; code runs faster \
                 with boost on"
            )),
        ),
        false => {
            DATA_PLANE.good("boost", "off", "the core clock does not depend on other cores' load")
        }
    })
}
