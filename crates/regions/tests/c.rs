// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the C interface with C programs. Each is compiled, linked with the shared or the static
//! library, and run; its record is then read.

use linerate_record::regions::RegionsReport;
use linerate_record::{Body, Record};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

/// System libraries that a C program needs to link with Rust's std
/// (`rustc --print native-static-libs`).
const SYSTEM_LIBRARIES: &[&str] = &["-lpthread", "-ldl", "-lm"];

fn folder_of_libraries() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own file");
    test.parent().expect("it is in a folder").to_owned()
}

/// Returns the most recently built library whose file name has this suffix; cargo may keep older
/// libraries.
fn library(end: &str) -> PathBuf {
    let files = std::fs::read_dir(folder_of_libraries()).expect("the folder can be read");
    let is_library = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("liblinerate_regions") && name.ends_with(end)
    };
    let built = |file: &PathBuf| {
        file.metadata().and_then(|data| data.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
    };
    let libraries = files.flatten().map(|entry| entry.path()).filter(is_library);
    libraries.max_by_key(built).unwrap_or_else(|| panic!("no liblinerate_regions*{end}"))
}

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Compiles a C file and links it with a library; `None` if there is no compiler.
fn compile(source: &Path, library: &Path, to: &Path, flags: &[&str]) -> Option<()> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let output = Command::new(&compiler)
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-I"])
        .arg(package().join("include"))
        .args(flags)
        .arg(source)
        .arg(library)
        .args(SYSTEM_LIBRARIES)
        .arg("-o")
        .arg(to)
        .output();
    let Ok(output) = output else {
        println!("SKIP: no C compiler `{compiler}`");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(())
}

/// Runs a program with these events requested, and returns its record.
fn record_of(program: &Path, events: &str) -> RegionsReport {
    let file = program.with_extension("%p.json");
    let mut command = Command::new(program);
    command.env("LINERATE_REGIONS", &file).env("LINERATE_REGIONS_EVENTS", events);
    let mut child = command.env("LD_LIBRARY_PATH", folder_of_libraries()).spawn().unwrap();
    assert!(child.wait().unwrap().success());
    let file = program.with_extension(format!("{}.json", child.id()));
    let json = std::fs::read_to_string(file).expect("the record was written at the end");
    match Record::from_json(&json).unwrap().body {
        Body::Regions(report) => *report,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_program_with_threads_writes_its_regions() {
    let folder = tempfile::tempdir().unwrap();
    for end in [".so", ".a"] {
        let program = folder.path().join("packets");
        let source = package().join("examples/packets.c");
        if compile(&source, &library(end), &program, &[]).is_none() {
            return;
        }
        let report = record_of(&program, "");
        assert_eq!(report.reading, "timestamp counter only");
        assert!(report.own_ticks.as_number().unwrap() > 0.0);
        let mut regions: Vec<_> =
            report.regions.iter().map(|r| (r.name.as_str(), r.visits, r.units)).collect();
        regions.sort_unstable();
        let (burst, fill) = (("burst", 200, 0), ("burst/fill", 200, 0));
        let (sum, sampled) = (("burst/sum", 200, 6400), ("sampled", 8, 5120));
        assert_eq!(regions, [burst, burst, fill, fill, sum, sum, sampled], "{end}");
        let mut threads: Vec<u32> = report.regions.iter().map(|region| region.tid).collect();
        threads.sort_unstable();
        threads.dedup();
        assert_eq!(threads.len(), 2, "{end}");
    }
}

/// Returns the README's first fenced code block in a language.
fn fenced(language: &str) -> &'static str {
    let text = include_str!("../README.md");
    let (_, from) = text.split_once(&format!("\n```{language}\n")).expect("it has such a block");
    from.split_once("\n```\n").expect("the block ends").0
}

#[test]
fn the_example_of_the_readme_works() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("readme.c"), folder.path().join("readme"));
    std::fs::write(&source, fenced("c")).unwrap();
    if compile(&source, &library(".so"), &program, &[]).is_none() {
        return;
    }
    let report = record_of(&program, "");
    let found: Vec<_> = report.regions.iter().map(|r| (&*r.name, r.visits, r.units)).collect();
    assert_eq!(found, [("parse", 100, 3200)]);
}

#[test]
fn reports_missing_events_and_counts_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("packets");
    let source = package().join("examples/packets.c");
    if compile(&source, &library(".so"), &program, &[]).is_none() {
        return;
    }
    let report = record_of(&program, "page_faults,no_such_event");
    for region in report.regions.iter().filter(|region| region.name != "sampled") {
        let [faults, unknown] = &region.events[..] else { panic!("{region:?}") };
        let reason = unknown.count.reason.as_deref().unwrap();
        assert!(reason.contains("no_such_event"), "{reason}");
        assert_eq!((faults.name.as_str(), unknown.name.as_str()), ("page_faults", "no_such_event"));
        assert!(faults.count.as_number().is_some() || faults.count.reason.is_some(), "{faults:?}");
    }
}

#[test]
fn misuse_and_forks_do_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("misuse.c"), folder.path().join("misuse"));
    std::fs::write(&source, MISUSE).unwrap();
    if compile(&source, &library(".so"), &program, &["-D_GNU_SOURCE"]).is_none() {
        return;
    }
    let report = record_of(&program, "");
    let found: Vec<_> = report.regions.iter().map(|r| (r.name.as_str(), r.visits)).collect();
    assert_eq!(found, [("outer", 2), ("outer/inner", 1)]);
    // The child wrote nothing: the only record is the parent's.
    let records = std::fs::read_dir(folder.path()).unwrap().flatten();
    let records = records.filter(|entry| entry.path().extension().is_some_and(|e| e == "json"));
    assert_eq!(records.count(), 1);
}

const MISUSE: &str = r#"
#include <linerate/regions.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
    uint32_t outer = lr_region("outer"), inner = lr_region("inner"), none = lr_region(NULL);
    int status, good;

    good = lr_region_leave(outer) == -1;          /* not open */
    lr_region_enter(123456);                      /* never made */
    good = good && lr_region_leave(123456) == -1;
    lr_region_add_units(7);                       /* in nothing */
    lr_region_enter(outer);
    lr_region_enter(inner);                       /* left with the outer one */
    lr_region_enter(none);
    good = good && lr_region_leave(none) == -1;
    good = good && lr_region_leave(outer) == 0 && lr_region_leave(inner) == -1;
    lr_region_enter(outer);
    lr_region_leave(outer);
    lr_region_enter(outer);                       /* never left */
    if (fork() == 0) {
        lr_region_leave(outer);
        lr_region_enter(inner);
        exit(lr_region_leave(inner) == -1 ? 0 : 1);
    }
    wait(&status);
    good = good && lr_region("inner") == inner && lr_regions_write(NULL) != 0;
    good = good && lr_regions_write("/no/such/folder/file") != 0;
    good = good && lr_sampler_new("s", "", 0, 1) == NULL && lr_sampler_update(NULL, 1) == 0;
    lr_sampler_dump(NULL);
    lr_sampler_free(NULL);
    return good && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}
"#;

/// A C program that acts like a data plane: it enters a region in a loop, prints a line once the
/// record contains the region, and ends in the requested way.
const ENDLESS: &str = r#"
#include <linerate/regions.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_recorded(void)
{
    static char text[1 << 16];
    FILE *file = fopen(getenv("LINERATE_REGIONS"), "r");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;

    if (file)
        fclose(file);
    text[size] = 0;
    return strstr(text, "\"loop\"") != NULL;
}

int main(int argc, char **argv)
{
    const char *end = argc > 1 ? argv[1] : "";
    uint32_t loop = lr_region("loop");
    int recorded = 0;

    /* Use the default action, as if started in the foreground, and end after a minute. */
    signal(SIGINT, SIG_DFL);
    alarm(60);
    for (;;) {
        lr_region_enter(loop);
        lr_region_add_units(32);
        usleep(1000);
        lr_region_leave(loop);
        if (recorded || !is_recorded())
            continue;
        recorded = 1;
        if (!strcmp(end, "abort"))
            abort();
        if (!strcmp(end, "_exit"))
            _exit(0);
        puts("ready");
        fflush(stdout);
    }
}
"#;

/// Returns the blocked-signal masks of a process's threads with this name, as printed by the
/// kernel.
fn blocked_signals(pid: u32, name: &str) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let status = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
    let named = status.filter(|text| text.starts_with(&format!("Name:\t{name}\n")));
    let mask = |text: String| {
        let line = text.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        line.unwrap_or_default().trim().to_owned()
    };
    named.map(mask).collect()
}

#[test]
fn the_record_survives_every_end_of_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("endless.c"), folder.path().join("endless"));
    std::fs::write(&source, ENDLESS).unwrap();
    if compile(&source, &library(".so"), &program, &["-D_GNU_SOURCE"]).is_none() {
        return;
    }
    let ends = [("INT", 2), ("TERM", 15), ("KILL", 9), ("abort", 6), ("_exit", 0)];
    for (end, signal) in ends.map(|(end, signal)| (end, (signal != 0).then_some(signal))) {
        let file = folder.path().join(format!("{end}.json"));
        let mut command = Command::new(&program);
        command.arg(end).env("LINERATE_REGIONS", &file).env("LINERATE_REGIONS_EVENTS", "");
        command.env("LD_LIBRARY_PATH", folder_of_libraries()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        if said == "ready\n" {
            let blocked = blocked_signals(child.id(), "linerate-record");
            let [mask] = &blocked[..] else { panic!("{blocked:?}") };
            let mask = u64::from_str_radix(mask, 16).unwrap();
            let of_program = 1 << (2 - 1) | 1 << (15 - 1);
            assert_eq!(mask & of_program, of_program, "SIGINT and SIGTERM are the program's");
            let pid = child.id().to_string();
            assert!(Command::new("kill").args(["-s", end, &pid]).status().unwrap().success());
        }
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), signal, "{end}: {status}");
        let json = std::fs::read_to_string(&file).expect("the record is there");
        let record = Record::from_json(&json).expect("it is complete");
        let Body::Regions(report) = record.body else { panic!("{json}") };
        let [region] = &report.regions[..] else { panic!("{report:?}") };
        assert_eq!(region.name, "loop", "{end}");
        assert!(region.visits > 0 && region.units >= 32, "{end}: {region:?}");
    }
}

#[test]
fn regions_can_be_compiled_out() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("packets");
    let source = package().join("examples/packets.c");
    // `LINERATE_REGIONS_OFF` makes the library unnecessary, so `-lc` takes its place on the command
    // line.
    let flags = ["-DLINERATE_REGIONS_OFF"];
    if compile(&source, Path::new("-lc"), &program, &flags).is_none() {
        return;
    }
    let file = folder.path().join("record.json");
    let status = Command::new(&program).env("LINERATE_REGIONS", &file).status().unwrap();
    assert!(status.success() && !file.exists());
}
