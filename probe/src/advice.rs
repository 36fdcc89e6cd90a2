// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adapts suggested fixes, which are written as `linerate` commands, to this program. A command
//! that the probe also has is shown under the probe's name. For any other `linerate` command, the
//! fix says that `linerate` is required, or is reduced to its alternative without the simulator.

use linerate_record::doctor::DoctorReport;
use linerate_record::stat::StatReport;

/// Command in fixes that uses the simulator, which the probe lacks.
const SIMULATES: &str = "linerate stat --tier sim";

/// Command in fixes that lists events, which the probe cannot do.
const LISTS: &str = "linerate stat --list";

/// Rewrites the fixes in a report of counts.
pub(crate) fn of_stat(report: &mut StatReport) {
    for fix in report.events.iter_mut().filter_map(|event| event.fix.as_mut()) {
        *fix = own(fix);
    }
}

/// Rewrites the fixes in a report about the machine.
pub(crate) fn of_doctor(report: &mut DoctorReport) {
    let tiers = report.tiers.iter_mut().filter_map(|tier| tier.fix.as_mut());
    let others = report.observations.iter_mut().filter_map(|seen| seen.fix.as_mut());
    for fix in tiers.chain(others) {
        *fix = own(fix);
    }
}

/// Rewrites one fix to use the probe's commands.
pub(crate) fn own(fix: &str) -> String {
    match fix.split_once("  # ") {
        // Keep only the alternative, which works without the simulator.
        Some((command, why)) if command.contains(SIMULATES) => {
            let instead = why.strip_prefix("simulates; ").unwrap_or(why);
            format!("# {}", instead.strip_prefix("or ").unwrap_or(instead))
        }
        _ if fix.contains(SIMULATES) || fix.contains(LISTS) => format!("# with linerate: {fix}"),
        _ => fix
            .replace("linerate stat", "linerate-probe stat")
            .replace("linerate doctor", "linerate-probe doctor")
            .replace("command -v linerate)", "command -v linerate-probe)"),
    }
}

#[cfg(test)]
mod tests {
    use super::own;

    #[test]
    fn commands_are_those_of_the_probe_where_it_has_them() {
        for (fix, expected) in [
            ("taskset -c 4 linerate stat -e x -- C", "taskset -c 4 linerate-probe stat -e x -- C"),
            (
                "sudo setcap x \"$(command -v linerate)\"",
                "sudo setcap x \"$(command -v linerate-probe)\"",
            ),
            ("taskset -c 1 linerate doctor", "taskset -c 1 linerate-probe doctor"),
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
        ] {
            assert_eq!(own(&fix), expected);
        }
    }
}
