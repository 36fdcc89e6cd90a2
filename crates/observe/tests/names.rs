// SPDX-License-Identifier: MIT OR Apache-2.0
//! Function names that are hard to find: those of C++, of deleted files, of code generated at run
//! time, and of programs in another root and PID namespace.

use linerate_observe::ObserveError;
use linerate_observe::profile::{
    Annotated, CallGraph, ProfileRequest, ProfileTarget, SampleRate, profile,
};
use linerate_record::profile::{CostClass, ProfileReport};
use linerate_trial::Watch;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Spends its time in `bess::Task::Run()`; exits after at most 10 s.
const CPP: &str = r#"
#include <unistd.h>
void run(volatile long *n) __asm__("_ZN4bess4Task3RunEPVl");
__attribute__((noinline)) void run(volatile long *n) { for (int i = 0; i < 1000000; i++) ++*n; }
int main(void) { volatile long n = 0; alarm(10); for (;;) run(&n); }
"#;

/// Generates a loop in x86-64 code (`1: dec %rdi; jnz 1b; ret`), adds it to a perf map, calls it.
const JIT: &str = r#"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    int all = PROT_READ | PROT_WRITE | PROT_EXEC;
    char *code = mmap(0, 4096, all, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code + 64, "\x48\xff\xcf\x75\xfb\xc3", 6);
    char name[64];
    snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(name, "w");
    fprintf(map, "%lx 6 Interpreter:count a.js\n", (long)(code + 64));
    fclose(map);
    alarm(10);
    for (int i = 0; i < 1500; i++) {
        ((void (*)(long))(code + 64))(1000000);
        for (volatile int n = 0; n < 20000; n++);
    }
    unlink(name);
}
"#;

/// Kills and reaps a program at the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Builds a program; returns `None`, with a note, if that fails.
fn build(source: &str, to: &Path, is_static: bool) -> Option<PathBuf> {
    let (code, program) = (to.join("program.c"), to.join("program"));
    std::fs::write(&code, source).unwrap();
    let kind: &[&str] = if is_static { &["-static"] } else { &[] };
    let built = Command::new("cc").arg("-O1").args(kind).arg("-o").args([&program, &code]).status();
    let is_built = built.is_ok_and(|status| status.success());
    if !is_built {
        println!("SKIP: no C compiler, or no static library");
    }
    is_built.then_some(program)
}

/// Profiles a target; returns `None`, with a note, if sampling is not permitted.
fn profiled(target: ProfileTarget) -> Option<ProfileReport> {
    let (window, rate) = (Duration::from_millis(700), SampleRate::PerSecond(1999));
    let class_of = |_: &str, _: &str| CostClass::Program;
    let request = ProfileRequest {
        target,
        window,
        rate,
        call_graph: CallGraph::Auto,
        interface: None,
        class_of,
        annotated: Annotated::None,
        has_timeline: false,
    };
    match profile(&request, &Watch::unattended()) {
        Ok(profile) => Some(profile),
        Err(ObserveError::NotSampled { reason, .. }) => {
            println!("SKIP: {reason}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Asserts that most samples are in this function of this file.
fn assert_hottest(profile: &ProfileReport, name: &str, module: &str) {
    let hottest = &profile.functions[0];
    assert_eq!((&*hottest.name, &*hottest.module), (name, module), "{:?}", profile.unread);
    assert!(hottest.samples * 2 > profile.samples, "{hottest:?}");
}

#[test]
fn a_deleted_program_of_cpp_has_readable_names() {
    let place = tempfile::tempdir().unwrap();
    let Some(program) = build(CPP, place.path(), false) else { return };
    let running = Running(Command::new(&program).spawn().unwrap());
    std::fs::remove_file(&program).unwrap();
    let Some(found) = profiled(ProfileTarget::Pids(vec![running.0.id()])) else { return };
    assert_hottest(&found, "bess::Task::Run(long volatile*)", "program");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn code_that_a_program_makes_has_the_names_that_it_gives() {
    let place = tempfile::tempdir().unwrap();
    let Some(program) = build(JIT, place.path(), false) else { return };
    let running = Running(Command::new(&program).spawn().unwrap());
    let Some(found) = profiled(ProfileTarget::Pids(vec![running.0.id()])) else { return };
    assert_hottest(&found, "Interpreter:count a.js", "[jit]");
}

/// The program's file, its perf map file and its PID are those within a container.
#[test]
#[cfg(target_arch = "x86_64")]
fn names_are_found_below_the_root_of_a_container() {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("tmp")).unwrap();
    let Some(program) = build(JIT, place.path(), true) else { return };
    let words = ["unshare", "-r", "-p", "-f", "--kill-child", "chroot"].map(OsString::from);
    let mut words = words.to_vec();
    words.extend([place.path().into(), "/program".into()]);
    let mut tried = Command::new("unshare");
    tried.args(["-r", "-p", "-f", "true"]).stderr(Stdio::null());
    if !tried.status().is_ok_and(|status| status.success()) {
        println!("SKIP: no user namespaces");
        return;
    }
    let Some(found) = profiled(ProfileTarget::Command(words)) else { return };
    assert_hottest(&found, "Interpreter:count a.js", "[jit]");
    assert!(found.functions.iter().any(|one| one.name == "main"), "{:?}", found.functions);
    assert!(program.exists());
}
