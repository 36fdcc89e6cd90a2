// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks core idle states, and vulnerability mitigations that cost time.

use super::Host;
use linerate_record::doctor::{Observation, Section};

const DATA_PLANE: Section = Section::DataPlane;

pub(super) fn observe(host: &Host) -> Vec<Observation> {
    [idle_states(host), mitigations(host)].into_iter().flatten().collect()
}

/// Minimum wake-up latency, in microseconds, at which an idle state is reported. In this time, 149
/// minimum-size packets arrive at 10 Gbit/s.
const LONG_US: u64 = 10;

/// A core idle state.
struct State {
    index: u32,
    name: String,
    exit_us: u64,
}

/// Checks the first CPU's enabled idle states. Returns no observation if the kernel has no choice
/// of states, as in most guests and with idle polling.
fn idle_states(host: &Host) -> Option<Observation> {
    let at = format!("sys/devices/system/cpu/cpu{}/cpuidle", host.first_cpu());
    let state = |folder: String| {
        let text = |file: &str| host.root.text(&format!("{at}/{folder}/{file}"));
        let index = folder.strip_prefix("state")?.parse().ok()?;
        let is_on = text("disable")? == "0";
        let exit_us = text("latency")?.parse().ok()?;
        is_on.then_some(State { index, name: text("name")?, exit_us })
    };
    let states: Vec<State> = host.root.names(&at).into_iter().filter_map(state).collect();
    let deepest = states.iter().max_by_key(|state| state.exit_us)?;
    let value = format!("{} (wakes in {} us)", deepest.name, deepest.exit_us);
    if deepest.exit_us < LONG_US {
        let sentence = "an idle core wakes quickly";
        return Some(DATA_PLANE.good("idle_states", value, sentence));
    }
    let long = states.iter().filter(|state| state.exit_us >= LONG_US);
    let indices: String = long.map(|state| state.index.to_string()).collect();
    let fix = format!(
        "for f in /sys/devices/system/cpu/cpu*/cpuidle/state[{indices}]/disable; do echo 1 | sudo \
         tee $f; done"
    );
    let sentence = "the first packet after a pause waits for its core to wake; polling workers \
                    never sleep";
    Some(DATA_PLANE.advice("idle_states", value, sentence, Some(fix)))
}

const VULNERABILITIES: &str = "sys/devices/system/cpu/vulnerabilities";

/// Reports the kernel's vulnerability mitigations, but gives no advice, because disabling them
/// would weaken security.
fn mitigations(host: &Host) -> Option<Observation> {
    let of = |name: &String| host.root.text(&format!("{VULNERABILITIES}/{name}"));
    let states: Vec<String> = host.root.names(VULNERABILITIES).iter().filter_map(of).collect();
    if states.is_empty() {
        return None;
    }
    let count = |word: &str| {
        let said = |state: &&String| state.trim_start_matches("KVM: ").starts_with(word);
        states.iter().filter(said).count()
    };
    let value = format!(
        "{} of {} vulnerabilities mitigated, {} open",
        count("Mitigation"),
        states.len() - count("Not affected"),
        count("Vulnerable")
    );
    let sentence = "mitigations slow down system calls, interrupts and indirect calls: compare \
                    only machines with the same mitigations";
    Some(DATA_PLANE.fact("mitigations", value, sentence))
}
