// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands to run in a guest, and checks of their output.

mod known;
mod memory;
mod records;
mod sampling;

use super::guest::{Answer, Guest, Question};
use super::module;

/// Result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) holds: bool,
    /// Describes the result, with its numbers.
    pub(crate) sentence: String,
}

/// Converts the result of a check to a finding. The claim holds if `found` is `Ok`; both variants
/// hold a sentence.
fn finding(found: Result<String, String>) -> Finding {
    match found {
        Ok(sentence) => Finding { holds: true, sentence },
        Err(sentence) => Finding { holds: false, sentence },
    }
}

/// Returns the commands to run in a guest.
pub(crate) fn plan(guest: &Guest) -> Vec<Question> {
    let mut plan = vec![
        question("pmus", "ls /sys/bus/event_source/devices"),
        question("counts", "known counts"),
    ];
    if guest.has_user_reads {
        plan.push(question("no access", "known reads"));
        plan.push(question("access", "sysctl -w kernel.perf_user_access=1"));
        plan.push(question("reads", "known reads"));
    }
    plan.extend(records::plan());
    plan.push(memory::plan());
    plan.extend(sampling::plan());
    if guest.port.is_some() {
        plan.push(question("port", &format!("insmod /bin/{}", module::FILE)));
        let unload = format!("rmmod {}; dmesg", module::NAME);
        plan.push(question("port log", &format!("sh -c '{unload}'")));
    }
    plan
}

fn question(name: &str, command: &str) -> Question {
    Question { name: name.replace(' ', "_"), command: command.to_owned() }
}

/// Checks the answers to the commands in [`plan`].
pub(crate) fn judge(guest: &Guest, answers: &[Answer]) -> Vec<Finding> {
    let answer = |name: &str| {
        let name = name.replace(' ', "_");
        let found = answers.iter().find(|answer| answer.name == name);
        found.cloned().unwrap_or_default()
    };
    let mut findings = vec![driver(guest, &answer("pmus").output)];
    findings.extend(known::counts(&answer("counts").output));
    if guest.has_user_reads {
        findings.push(known::no_reads(&answer("no access").output));
        findings.extend(known::reads(&answer("reads").output));
    }
    findings.extend(records::judge(answer));
    findings.push(memory::judge(answer));
    findings.extend(sampling::judge(answer));
    if let Some(vector) = guest.port {
        let log = answer("port log").output;
        findings.push(finding(module::judge(&log, &module::agrees(vector))));
    }
    findings
}

fn driver(guest: &Guest, pmus: &str) -> Finding {
    let found: Vec<&str> = pmus.split_whitespace().collect();
    finding(match found.contains(&guest.pmu) {
        true => Ok(format!("the kernel counts with the PMU {}", guest.pmu)),
        false => Err(format!("no PMU {}; the kernel has {}", guest.pmu, found.join(", "))),
    })
}
