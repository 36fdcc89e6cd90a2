// SPDX-License-Identifier: MIT OR Apache-2.0
//! A record's provenance: machine, system and time.
//!
//! Neither the user nor anything that identifies the host is recorded.

use crate::cpuinfo::cpu_name;
use crate::files::{Root, read};
use crate::groups;
use crate::platform::Platform;
use crate::ticks::{is_invariant, ticks_per_s};
use crate::topology::Topology;
use linerate_linux as linux;
use linerate_record::{Provenance, shell};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Describes the current state of this machine, for a record made by `program` (name and version),
/// which was built from `commit` by `compiler` and run as `command` (quoted for a shell). Values
/// that cannot be read are `None`; an empty list of CPUs means that the allowed CPUs are unknown.
///
/// Call this before pinning threads: the CPUs listed are those the calling thread may use. Takes 20
/// ms the first time (see [`tick_rate`](crate::ticks::tick_rate)).
pub fn provenance(
    program: &str,
    commit: Option<&str>,
    compiler: &str,
    command: &str,
) -> Provenance {
    let ticks_per_s = Some(ticks_per_s());
    let rest = provenance_without_ticks(program, commit, compiler, command);
    let siblings = Some(siblings(&rest.cpus));
    Provenance { ticks_per_s, ticks_invariant: Some(is_invariant()), siblings, ..rest }
}

/// Like [`provenance`], but for records without ticks: omits the tick rate and shared cores, and
/// takes a few hundred microseconds.
pub fn provenance_without_ticks(
    program: &str,
    commit: Option<&str>,
    compiler: &str,
    command: &str,
) -> Provenance {
    let cpuinfo = read(Path::new("/proc/cpuinfo")).unwrap_or_default();
    let platform = Platform::determined_by(Path::new("/"), &cpuinfo);
    Provenance {
        program: program.to_owned(),
        commit: commit.map(str::to_owned),
        compiler: compiler.to_owned(),
        command: command.to_owned(),
        unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs()),
        architecture: std::env::consts::ARCH.to_owned(),
        cpu: cpu_name(&cpuinfo),
        cpus: linux::allowed_cpus().unwrap_or_default(),
        kernel: linux::kernel_release().ok().map(|release| format!("Linux {release}")),
        hypervisor: platform.hypervisor,
        emulated: platform.emulated,
        load_1min: linux::load_average().ok().map(|load| load[0]),
        ticks_per_s: None,
        ticks_invariant: None,
        others: None,
        siblings: None,
        cpu_quota: cpu_quota(),
    }
}

/// Returns the CPU quota of this process's control groups in CPUs.
fn cpu_quota() -> Option<f64> {
    let root = Root::new(Path::new("/"));
    let folders = groups::folders(&root, "cpu")?;
    groups::cpu_quota(&root, &folders).map(|quota| quota.cpus)
}

/// Returns the SMT siblings among `cpus`: a list of logical CPUs for each core of which `cpus`
/// contains more than one.
fn siblings(cpus: &[u32]) -> Vec<Vec<u32>> {
    let siblings = Topology::read(cpus).cpus.into_iter().filter_map(|cpu| cpu.siblings.ok());
    let together = |all: Vec<u32>| all.into_iter().filter(|cpu| cpus.contains(cpu)).collect();
    let mut cores: Vec<Vec<u32>> = siblings.map(together).collect();
    cores.retain(|core| core.len() > 1);
    cores.sort_unstable();
    cores.dedup();
    cores
}

/// Returns this process's command line, quoted for a shell.
pub fn command_line() -> String {
    shell::command_line(std::env::args_os())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes_this_machine() {
        let made = provenance("test 1", Some("abc"), "rustc", "test --it");
        assert_eq!((made.program.as_str(), made.commit.as_deref()), ("test 1", Some("abc")));
        assert_eq!((made.compiler.as_str(), made.command.as_str()), ("rustc", "test --it"));
        assert_eq!(made.cpus, linux::allowed_cpus().unwrap());
        assert_eq!(made.architecture, std::env::consts::ARCH);
        // A time in seconds that falls within this century.
        assert!((1_700_000_000..4_000_000_000).contains(&made.unix_s), "{}", made.unix_s);
        assert!(made.kernel.unwrap().starts_with("Linux "));
        assert_eq!(made.ticks_per_s, Some(ticks_per_s()));
        assert!(made.load_1min.unwrap() >= 0.0);
        let without = provenance_without_ticks("test 1", Some("abc"), "rustc", "test --it");
        assert_eq!((without.ticks_per_s, without.cpu), (None, made.cpu));
    }

    #[test]
    fn the_command_line_is_that_of_this_process() {
        assert!(command_line().contains("linerate_machine"), "{}", command_line());
    }
}
