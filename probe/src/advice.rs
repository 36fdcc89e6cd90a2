// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adapts suggested fixes, which are written as `linerate` commands, to this program. A command
//! that the probe also has is shown under the probe's name. For any other `linerate` command, the
//! fix says that `linerate` is required, or is reduced to its alternative without the simulator.

use linerate_record::doctor::{DoctorReport, Observation};
use linerate_record::stat::StatReport;

/// Command in fixes that uses the simulator, which the probe lacks.
const SIMULATES: &str = "linerate stat --tier sim";

/// Command in fixes that lists events, which the probe cannot do.
const LISTS: &str = "linerate stat --list";

/// Names of observations about features that the probe lacks: the simulator, live paths, and the
/// demo of `linerate why`.
pub(crate) const FOREIGN: [&str; 3] = ["valgrind", "packet_sockets", "user_namespaces"];

/// Rewrites the fixes in a report of counts.
pub(crate) fn of_stat(report: &mut StatReport) {
    for fix in report.events.iter_mut().filter_map(|event| event.fix.as_mut()) {
        *fix = own(fix);
    }
}

/// Rewrites the fixes in a report about the machine.
pub(crate) fn of_doctor(report: &mut DoctorReport) {
    for fix in report.tiers.iter_mut().filter_map(|tier| tier.fix.as_mut()) {
        *fix = own(fix);
    }
    for Observation { name, fix, .. } in &mut report.observations {
        if let Some(fix) = fix {
            *fix = of_observation(name, fix);
        }
    }
}

fn of_observation(name: &str, fix: &str) -> String {
    match FOREIGN.contains(&name) && !fix.contains(SIMULATES) {
        true => format!("# with linerate: {fix}"),
        false => own(fix),
    }
}

/// Subcommands of `linerate` that the probe has too.
const OWN: [&str; 3] = ["doctor", "memory", "stat"];

/// Rewrites one fix to use the probe's commands.
pub(crate) fn own(fix: &str) -> String {
    match fix.split_once("  # ") {
        // Keep only the alternative, which works without the simulator.
        Some((command, why)) if command.contains(SIMULATES) => {
            let instead = why.strip_prefix("simulates; ").unwrap_or(why);
            format!("# {}", instead.strip_prefix("or ").unwrap_or(instead))
        }
        _ if fix.contains(SIMULATES) || fix.contains(LISTS) || lacks(fix) => {
            format!("# with linerate: {fix}")
        }
        _ => {
            let fix = fix.replace("command -v linerate)", "command -v linerate-probe)");
            OWN.iter().fold(fix, |fix, command| {
                fix.replace(&format!("linerate {command}"), &format!("linerate-probe {command}"))
            })
        }
    }
}

/// Returns whether a fix has a command of `linerate` that the probe lacks. In the comment after a
/// command, the name may be part of a sentence.
fn lacks(fix: &str) -> bool {
    let command = fix.split("# ").next().unwrap_or_default();
    let rests = command.split("linerate ").skip(1);
    rests.filter_map(|rest| rest.split_whitespace().next()).any(|word| !OWN.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::{of_observation, own};

    #[test]
    fn commands_are_those_of_the_probe_where_it_has_them() {
        for (fix, expected) in [
            ("taskset -c 4 linerate stat -e x -- C", "taskset -c 4 linerate-probe stat -e x -- C"),
            (
                "sudo setcap x \"$(command -v linerate)\"",
                "sudo setcap x \"$(command -v linerate-probe)\"",
            ),
            ("taskset -c 1 linerate doctor", "taskset -c 1 linerate-probe doctor"),
            ("linerate memory --quick", "linerate-probe memory --quick"),
            ("# run linerate outside the container", "# run linerate outside the container"),
            ("sudo sysctl kernel.nmi_watchdog=0", "sudo sysctl kernel.nmi_watchdog=0"),
        ] {
            assert_eq!(own(fix), expected);
        }
    }

    #[test]
    fn features_missing_in_the_probe_are_omitted_or_attributed_to_linerate() {
        let simulate = "linerate stat --tier sim -- COMMAND";
        let install = format!("sudo apt-get install valgrind && {simulate}");
        for (fix, expected) in [
            (simulate.to_owned(), format!("# with linerate: {simulate}")),
            (install.clone(), format!("# with linerate: {install}")),
            (
                format!("{install}  # simulates; for counters, on the host: q"),
                "# for counters, on the host: q".to_owned(),
            ),
            (
                format!("{simulate}  # simulates; or on the host: sudo y"),
                "# on the host: sudo y".to_owned(),
            ),
            (
                "linerate stat --list  # shows".to_owned(),
                "# with linerate: linerate stat --list  # shows".to_owned(),
            ),
            (
                "sudo linerate why PID".to_owned(),
                "# with linerate: sudo linerate why PID".to_owned(),
            ),
        ] {
            assert_eq!(own(&fix), expected);
        }
        // The probe has no live paths that would need capabilities.
        let rights = "sudo setcap cap_net_raw+ep $(command -v linerate)";
        let expected = format!("# with linerate: {rights}");
        assert_eq!(of_observation("packet_sockets", rights), expected);
    }
}
