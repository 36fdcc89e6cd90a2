// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates calls with little memory, few threads, or a small CPU quota.

use super::call::{Call, edge, stored};
use super::{Random, Size};
use std::path::Path;
use std::process;

/// One call of each command that uses memory or threads.
const COMMANDS: [&str; 23] = [
    "run -q --time 60ms edge.toml",
    "run --check edge.toml",
    "tune -q --time 60ms edge.toml",
    "plan edge.toml --from run.json",
    "budget --clock 2",
    "explain run.json",
    "report run.json",
    "export run.json --format csv",
    "import netra.dump",
    "kernels -q --quick --kernel fill --size 64",
    "doctor",
    "stat --tier sw -- true",
    "stat --tier sim -- true",
    "why -q -t 200ms -- sleep 1",
    "regions regions.json",
    "plan --from regions.json --line 10Gb/s",
    "explain regions.json",
    "stages",
    "schema record",
    "completions bash",
    "man pages",
    "memory -q --quick --max 1M",
    "tcp -q --stack smoltcp --pattern bulk --time 100ms",
];

fn command(line: &str, shell: &str) -> Result<Call, String> {
    let call = edge(line)?.file("run.json", stored("crates/record/fixtures/run.json")?);
    let call = call.file("regions.json", stored("crates/record/fixtures/regions.json")?);
    Ok(call.file("netra.dump", stored("examples/netra-sample.dump")?).within(shell))
}

fn each(
    shells: &[String],
    small: usize,
    random: &mut Random,
    size: Size,
) -> Result<Vec<Call>, String> {
    let all = COMMANDS.iter().flat_map(|line| shells.iter().map(move |shell| (*line, shell)));
    let chosen = size.some(all.collect(), small, random);
    chosen.into_iter().map(|(line, shell)| command(line, shell)).collect()
}

/// Returns calls with limits on address space, processors and file sizes.
pub(crate) fn limits(random: &mut Random, size: Size) -> Result<Vec<Call>, String> {
    // The kernel kills a program whose image does not fit: that of a debug build has 51 MiB.
    let mut shells: Vec<String> = [60, 70, 80, 100, 150, 200, 300, 500, 1_000, 2_000]
        .iter()
        .map(|mib| format!("ulimit -v {}; \"$@\"", mib * 1024))
        .collect();
    shells.extend(
        ["ulimit -d 20000; \"$@\"", "ulimit -f 0; \"$@\"", "taskset -c 0 \"$@\""]
            .map(str::to_owned),
    );
    let calls = each(&shells, 16, random, size)?;
    // Programs started by the command, such as Valgrind's, may also run out of memory and fail.
    let calls = calls.into_iter().map(|call| call.may_end_with(&[126, 127]));
    // With a file size limit of 0, error messages cannot be written to their files either.
    Ok(calls.map(|call| if call.shell.contains("-f 0") { call.mute() } else { call }).collect())
}

/// Returns calls with a limit on the number of threads, run as a user to whom the limit applies.
pub(crate) fn threads(random: &mut Random, size: Size) -> Result<Vec<Call>, String> {
    const AS_GUEST: &str = "setpriv --reuid 65534 --regid 65534 --clear-groups";
    let tried = process::Command::new("sh").args(["-c", &format!("{AS_GUEST} true")]).output();
    if !tried.is_ok_and(|tried| tried.status.success()) {
        return Err("requires root and setpriv(1) to become a user with a thread limit".to_owned());
    }
    let shell = |threads: u32| {
        format!(
            "chmod -R a+rwX .. && {AS_GUEST} bash -c 'ulimit -u {threads}; exec \"$@\"' x \"$@\""
        )
    };
    let shells: Vec<String> = (1..=3).map(shell).collect();
    let calls = each(&shells, 8, random, size)?;
    Ok(calls.into_iter().map(|call| call.may_end_with(&[126, 127])).collect())
}

/// Returns a shell command line that runs a call in its own control group, which the shell creates
/// and removes. `files` are the limit files for cgroup versions 2 and 1, with their contents.
fn grouped(controller: &str, [unified, old]: [(&str, String); 2]) -> Result<String, String> {
    let is_unified = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    let folder = if is_unified { "" } else { controller };
    let (file, limit) = if is_unified { unified } else { old };
    let group = format!("/sys/fs/cgroup/{folder}/linerate-attack-$$");
    let shell = format!(
        "g={group}; mkdir $g && echo {limit} > $g/{file} || exit 99; \
         (echo $BASHPID > $g/cgroup.procs || exit 99; exec \"$@\"); s=$?; rmdir $g; exit $s"
    );
    let tried = process::Command::new("bash").args(["-c", &shell, "bash", "true"]).output();
    match tried.is_ok_and(|tried| tried.status.success()) {
        true => Ok(shell),
        false => Err(format!("cannot create a cgroup with the `{controller}` controller here")),
    }
}

/// Returns calls in control groups with a memory limit.
pub(crate) fn memory_groups(random: &mut Random, size: Size) -> Result<Vec<Call>, String> {
    let shell = |mib: u64| {
        let bytes = (mib << 20).to_string();
        grouped("memory", [("memory.max", bytes.clone()), ("memory.limit_in_bytes", bytes)])
    };
    let shells = [30, 60, 120].map(shell).into_iter().collect::<Result<Vec<_>, _>>()?;
    each(&shells, 10, random, size)
}

/// Returns calls in control groups with a quota of a fifth of a CPU.
pub(crate) fn cpu_groups(random: &mut Random, size: Size) -> Result<Vec<Call>, String> {
    let limits = [("cpu.max", "20000 100000".to_owned()), ("cpu.cfs_quota_us", "20000".to_owned())];
    each(&[grouped("cpu", limits)?], 3, random, size)
}
