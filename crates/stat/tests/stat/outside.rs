// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands whose processes and programs get out of the simulation: they run as they would without
//! it, and the report says that they are not counted.

use crate::emulated::{Known, counts, skip, warnings};
use crate::rig::watch;
use linerate_linux::signal::Pending;
use linerate_record::Warning;
use linerate_stat::{Outcome, Simulator};
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const ONE_OUTSIDE: [Warning; 1] = [Warning::UnsimulatedPrograms { programs: 1 }];

/// Simulates a script of dash, which is run with `arguments` as `$0`, `$1`, ...
fn dash(known: &Known, script: &str, arguments: &[&Path]) -> Outcome {
    let mut argv: Vec<OsString> = ["dash", "-c", script].map(OsString::from).to_vec();
    argv.extend(arguments.iter().map(|argument| (*argument).into()));
    let request = known.requested(argv, Simulator::Qemu);
    request.run(&watch(&Pending::new())).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns whether the file appears within half a minute.
fn appears(file: &Path) -> bool {
    (0..3000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        file.exists()
    })
}

/// The program, where every user can execute it; `None` if this test cannot become another user.
fn for_all_users() -> Option<Known> {
    let known = Known::new("cc", &["-static"])?;
    fs::set_permissions(known.folder.path(), Permissions::from_mode(0o755)).unwrap();
    match fs::metadata("/proc/self").map(|own| std::os::unix::fs::MetadataExt::uid(&own)) {
        Ok(0) => Some(known),
        _ => skip("only root can become another user"),
    }
}

#[test]
fn background_processes_outlive_the_command() {
    let Some(known) = Known::new("cc", &["-static"]) else { return };
    let mark = |name: &str| -> PathBuf { known.folder.path().join(name) };
    // The shell's child forks again long after the counts have been read.
    let script = "{ sleep 1; touch \"$0\"; } > /dev/null 2>&1 &";
    let left = dash(&known, script, &[&mark("late")]);
    assert_eq!(left.status, 0);
    let warnings = warnings(&left);
    let [Warning::UnfinishedProcesses { processes: 1 | 2 }] = warnings.as_slice() else {
        panic!("{warnings:?}");
    };
    assert!(appears(&mark("late")));
    // This one is in the middle of starting.
    for number in 0..20 {
        let mark = mark(&number.to_string());
        let left = dash(&known, "touch \"$0\" &", &[&mark]);
        assert_eq!(left.status, 0);
        assert!(counts(&left)["instructions"] > 10_000);
        assert!(appears(&mark), "{number}");
    }
}

#[test]
fn processes_of_another_user_run_on_and_are_reported() {
    let Some(known) = for_all_users() else { return };
    let forked = known.run("u65534 fx");
    assert_eq!((forked.status, warnings(&forked)), (99, ONE_OUTSIDE.to_vec()));
    let forked = known.run("u65534 fw w1000000");
    assert_eq!((forked.status, warnings(&forked)), (0, ONE_OUTSIDE.to_vec()));
    let own = counts(&forked)["branches"];
    assert!((1_000_000..1_100_000).contains(&own), "{own}");
}

#[test]
fn programs_of_another_user_are_reported() {
    let Some(known) = for_all_users() else { return };
    let executed = known.run("w1000 u65534 e w1000000 x5");
    assert_eq!((executed.status, warnings(&executed)), (5, ONE_OUTSIDE.to_vec()));
    let own = counts(&executed)["branches"];
    assert!((1000..100_000).contains(&own), "{own}");
}

#[test]
fn programs_that_only_the_kernel_can_start_are_reported() {
    let Some(known) = Known::new("cc", &["-static"]) else { return };
    // The emulator's own options no longer fit.
    let executed = known.run("w1000 b");
    assert_eq!((executed.status, warnings(&executed)), (0, ONE_OUTSIDE.to_vec()));
}

#[test]
fn programs_that_nothing_can_start_are_not_reported() {
    let Some(known) = Known::new("cc", &["-static"]) else { return };
    let failed = known.run("B F x6");
    assert_eq!((failed.status, warnings(&failed)), (6, vec![]));
    let other = known.folder.path().join("other");
    fs::write(&other, "no program").unwrap();
    fs::set_permissions(&other, Permissions::from_mode(0o755)).unwrap();
    // The shell takes a file that the kernel refuses for a script.
    let failed = dash(&known, "\"$0\" 2> /dev/null; exit 4", &[&other]);
    assert_eq!((failed.status, warnings(&failed)), (4, vec![]));
}

/// Programs are followed even under a seccomp filter that refuses system calls unknown to it.
#[test]
fn programs_are_followed_under_an_old_seccomp_filter() {
    let folder = tempfile::tempdir().unwrap();
    let deny = folder.path().join("deny");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sim/deny.c");
    match Command::new("cc").arg("-o").arg(&deny).arg(source).output() {
        Ok(built) if built.status.success() => {}
        other => return println!("SKIP: cc: {other:?}"),
    }
    // The filter stays for good, so the measurement has a process of its own.
    let mut command = Command::new(&deny);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", "emulated::every_emulated_process_and_program_counts_once"]);
    let output = command.output().unwrap();
    if output.status.code() == Some(77) {
        return println!("SKIP: no seccomp filters");
    }
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// A process that raises SIGILL on purpose uses no instruction that the emulator lacks.
#[test]
fn traps_are_not_taken_for_missing_instructions() {
    for compiler in
        ["cc", "aarch64-linux-gnu-gcc", "arm-linux-gnueabi-gcc", "powerpc-linux-gnu-gcc"]
    {
        let Some(mut known) = Known::new(compiler, &["-static"]) else { continue };
        known.caches = "cortex_a53".to_owned();
        let killed = known.run("w1000 k4");
        let signal = killed.report.ended.unwrap().signal;
        assert_eq!((signal, warnings(&killed)), (Some(4), vec![]), "{compiler}");
        let trapped = known.run("w1000 t");
        // The trap of some architectures raises SIGTRAP.
        assert!(trapped.report.ended.unwrap().signal.is_some(), "{compiler}");
        assert_eq!(warnings(&trapped), [], "{compiler}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_repeated_instruction_counts_once() {
    let Some(known) = Known::new("cc", &["-static"]) else { return };
    assert_eq!(known.difference("stores", "r100000", "r001000"), 99_000);
    assert_eq!(known.difference("instructions", "r100000", "r001000"), 0);
    assert_eq!(known.difference("instructions", "r1 r1", "r1 r0"), 0);
    assert_eq!(known.difference("branches", "r100000", "r001000"), 0);
}

/// Uncounted processes and repeated instructions add no more to the counts per instruction than to
/// the totals.
#[test]
fn counts_per_instruction_add_up_without_the_uncounted_processes() {
    let Some(known) = for_all_users() else { return };
    for arguments in ["u65534 fw w1000", "r100000 w1000"] {
        let mut request = known.request(arguments, Simulator::Qemu);
        request.hot = Some("instructions".to_owned());
        let outcome = request.run(&watch(&Pending::new())).unwrap();
        let code = outcome.code.as_ref().unwrap();
        let counts = self::counts(&outcome);
        for (place, name) in code.events.iter().enumerate() {
            let spots: u64 = code.spots.iter().map(|spot| spot.counts[place]).sum();
            assert_eq!((spots + code.rest[place]) as i64, counts[name], "{arguments}: {name}");
        }
        let without = self::counts(&known.run(arguments))["instructions"];
        assert_eq!(counts["instructions"], without, "{arguments}");
    }
}
