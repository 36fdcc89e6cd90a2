// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why /proc/kallsyms shows no addresses, and what would show them.
//!
//! `kallsyms_show_value` in kernel/kallsyms.c decides. With `kernel.kptr_restrict` 0, addresses are
//! shown if `kernel.perf_event_paranoid` is at most 1; with 0 or 1, to processes with CAP_SYSLOG in
//! the initial user namespace; otherwise to none.

use crate::host_facts::HostFacts;
use linerate_machine::Root;

/// Why kernel functions have no names, and the command that gives them names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HiddenNames {
    /// The setting that hides kernel symbols, in words.
    pub reason: String,
    /// Command that makes them visible; `None` if the settings do not explain why they are hidden.
    pub fix: Option<String>,
}

/// Number of `CAP_SYSLOG` (capabilities(7), linux/capability.h).
const CAP_SYSLOG: u32 = 34;
const SHOW: &str = "sudo sysctl kernel.kptr_restrict=0";
const GRANT: &str = "sudo setcap cap_perfmon,cap_syslog=ep \"$(command -v linerate)\"";

/// Returns why kernel symbols are hidden from this process, given that they are.
pub fn hidden_names(around: &HostFacts) -> HiddenNames {
    let facts = around.facts();
    let text = Root::new(around.root()).text("proc/sys/kernel/kptr_restrict");
    let restricted: Option<i32> = text.and_then(|text| text.trim().parse().ok());
    let has_syslog = !facts.is_in_user_namespace
        && facts.capabilities.is_some_and(|set| set >> CAP_SYSLOG & 1 == 1);
    // Whether 0 as `kernel.kptr_restrict` would show the symbols to this process.
    let would_show = has_syslog || facts.paranoid.is_some_and(|level| level <= 1);
    let (reason, fix) = match (restricted, would_show) {
        (Some(0), true) => {
            let reason = "/proc/kallsyms has no addresses, and no known setting hides them";
            return HiddenNames { reason: reason.to_owned(), fix: None };
        }
        (Some(0), false) => (
            "kernel symbols are hidden from users without CAP_SYSLOG while \
             kernel.perf_event_paranoid is above 1",
            GRANT.to_owned(),
        ),
        (Some(1), false) => {
            ("kernel symbols are hidden from users without CAP_SYSLOG", GRANT.to_owned())
        }
        (_, true) => ("kernel symbols are hidden (kernel.kptr_restrict)", SHOW.to_owned()),
        (_, false) => (
            "kernel symbols are hidden (kernel.kptr_restrict)",
            format!("sudo sysctl kernel.kptr_restrict=1 && {GRANT}"),
        ),
    };
    // Neither the settings nor capabilities in the initial namespace can be changed from here.
    let fix = match facts.is_in_user_namespace {
        true => format!("# on the host: {fix}"),
        false => fix,
    };
    HiddenNames { reason: reason.to_owned(), fix: Some(fix) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Returns the reason and fix for the given settings and effective capabilities.
    fn hidden(kptr: &str, paranoid: &str, capabilities: &str, uid_map: &str) -> HiddenNames {
        let folder = tempfile::tempdir().expect("a folder");
        let files = [
            ("proc/sys/kernel/kptr_restrict", kptr.to_owned()),
            ("proc/sys/kernel/perf_event_paranoid", paranoid.to_owned()),
            ("proc/self/status", format!("CapEff:\t{capabilities}\n")),
            ("proc/self/uid_map", uid_map.to_owned()),
        ];
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        hidden_names(&HostFacts::from(folder.path()))
    }

    #[test]
    fn the_setting_that_hides_kernel_symbols_is_the_one_to_change() {
        const NONE: &str = "0000000000000000";
        const PERFMON: &str = "0000004000000000";
        const ALL: &str = "000001ffffffffff";
        const HOST: &str = "         0          0 4294967295\n";
        let cases = [
            ("0\n", "2\n", PERFMON, Some(GRANT.to_owned())),
            ("0\n", "1\n", NONE, None),
            ("0\n", "2\n", ALL, None),
            ("1\n", "2\n", PERFMON, Some(GRANT.to_owned())),
            ("1\n", "1\n", NONE, Some(SHOW.to_owned())),
            ("2\n", "2\n", ALL, Some(SHOW.to_owned())),
            ("2\n", "1\n", NONE, Some(SHOW.to_owned())),
            ("2\n", "2\n", PERFMON, Some(format!("sudo sysctl kernel.kptr_restrict=1 && {GRANT}"))),
        ];
        for (kptr, paranoid, capabilities, fix) in cases {
            let found = hidden(kptr, paranoid, capabilities, HOST);
            assert_eq!(found.fix, fix, "{kptr:?} {paranoid:?} {capabilities}: {found:?}");
        }
        let found = hidden("0\n", "2\n", PERFMON, HOST);
        assert!(found.reason.contains("without CAP_SYSLOG"), "{found:?}");
        assert!(!found.reason.contains("kptr_restrict"), "{found:?}");
        // The kernel asks for CAP_SYSLOG in the initial namespace.
        let found = hidden("1\n", "2\n", ALL, "         0       1000          1\n");
        assert_eq!(found.fix, Some(format!("# on the host: {GRANT}")));
    }
}
