// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the system calls in which threads sleep can be read.
//!
//! /proc/PID/task/TID/syscall and /proc/PID/mem require permission to attach to the process, which
//! the Yama security module restricts beyond the user ID (kernel documentation,
//! admin-guide/LSM/Yama).

use super::PROGRAMS;
use crate::host_facts::Facts;
use linerate_machine::Root;
use linerate_record::doctor::Observation;

/// Number of `CAP_SYS_PTRACE` (capabilities(7), linux/capability.h). Yama accepts this capability
/// in the user namespace of the observed process, and therefore also in a container.
const CAP_SYS_PTRACE: u32 = 19;

/// Checks whether Yama hides the system calls in which this user's programs sleep.
pub(super) fn observe(root: &Root, facts: &Facts) -> Observation {
    const NAME: &str = "system_calls_asleep";
    const LOST: &str = "what makes threads sleep cannot be determined";
    const RUN_AS_ROOT: &str = "sudo linerate why PID";
    let is_privileged = facts.capabilities.is_some_and(|set| set >> CAP_SYS_PTRACE & 1 == 1);
    // Without Yama, the file does not exist.
    let scope = root.text("proc/sys/kernel/yama/ptrace_scope").unwrap_or_else(|| "0".to_owned());
    let fix = Some(RUN_AS_ROOT.to_owned());
    match (scope.trim().parse::<u32>(), is_privileged) {
        (Ok(0), _) | (Ok(1 | 2), true) => {
            PROGRAMS.good(NAME, "readable", "system calls in which threads sleep are visible")
        }
        (Ok(1), false) => {
            let sentence = format!(
                "kernel.yama.ptrace_scope is 1: without root, {LOST}, except in programs that \
                 linerate starts (`linerate why -- COMMAND`)"
            );
            PROGRAMS.advice(NAME, "of children", &sentence, fix)
        }
        (Ok(2), false) => {
            let sentence = format!("kernel.yama.ptrace_scope is 2: without root, {LOST}");
            PROGRAMS.advice(NAME, "not readable", &sentence, fix)
        }
        (Ok(_), _) => {
            let sentence = format!("kernel.yama.ptrace_scope is 3 until the next boot: {LOST}");
            PROGRAMS.missing(NAME, "not readable", &sentence, None)
        }
        (Err(_), _) => PROGRAMS.unknown(NAME, "kernel.yama.ptrace_scope is not a number"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_facts::HostFacts;
    use linerate_record::doctor::Verdict;
    use std::fs;

    fn observed(scope: Option<&str>, capabilities: &str) -> Observation {
        let folder = tempfile::tempdir().expect("a folder");
        let put = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        put("proc/self/status", &format!("CapEff:\t{capabilities}\n"));
        if let Some(scope) = scope {
            put("proc/sys/kernel/yama/ptrace_scope", scope);
        }
        observe(&Root::new(folder.path()), HostFacts::from(folder.path()).facts())
    }

    #[test]
    fn yama_hides_sleep_from_users() {
        const NONE: &str = "0000000000000000";
        const PERFMON: &str = "0000004000000000";
        const PTRACE: &str = "0000000000080000";
        let cases = [
            (None, NONE, Verdict::Good, "readable"),
            (Some("0\n"), NONE, Verdict::Good, "readable"),
            (Some("1\n"), NONE, Verdict::Advice, "of children"),
            (Some("1\n"), PERFMON, Verdict::Advice, "of children"),
            (Some("1\n"), PTRACE, Verdict::Good, "readable"),
            (Some("2\n"), PERFMON, Verdict::Advice, "not readable"),
            (Some("2\n"), PTRACE, Verdict::Good, "readable"),
            (Some("3\n"), PTRACE, Verdict::Missing, "not readable"),
        ];
        for (scope, capabilities, verdict, value) in cases {
            let found = observed(scope, capabilities);
            assert_eq!(found.verdict, verdict, "{scope:?} {capabilities}: {found:?}");
            assert_eq!(found.value.as_deref(), Some(value), "{scope:?} {capabilities}");
            assert_eq!(found.fix.is_some(), verdict == Verdict::Advice, "{found:?}");
        }
        assert_eq!(observed(Some("on\n"), NONE).verdict, Verdict::Unknown);
    }
}
