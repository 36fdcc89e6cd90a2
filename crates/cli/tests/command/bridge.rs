// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plans a user's own program from its regions, without hand-written TOML.

use crate::rig::{Done, Folder, answered, linerate, record, refused};
use linerate_record::plan::PlanReport;
use linerate_record::{Body, Record};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A data plane of two identical threads, with regions around its stages.
const PROGRAM: &str = r#"
#include <linerate/regions.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

enum { BURSTS = 400, BURST = 32, BYTES = 256 };

static uint32_t rx, classify, tx;

static void *work(void *unused)
{
    static _Thread_local unsigned char packets[BURST][BYTES];
    volatile uint32_t sum = 0;

    (void)unused;
    for (int burst = 0; burst < BURSTS; burst++) {
        lr_region_enter(rx);
        for (int i = 0; i < BURST; i++)
            packets[i][burst % BYTES] = (unsigned char)burst;
        lr_region_add_units(BURST);
        lr_region_leave(rx);
        lr_region_enter(classify);
        for (int turn = 0; turn < 8; turn++)
            for (int i = 0; i < BURST; i++)
                for (int at = 0; at < BYTES; at++)
                    sum = sum * 31 + packets[i][at];
        lr_region_add_units(BURST);
        lr_region_leave(classify);
        /* Every second packet is passed on. */
        lr_region_enter(tx);
        for (int i = 0; i < BURST / 2; i++)
            sum += packets[i][0];
        lr_region_add_units(BURST / 2);
        lr_region_leave(tx);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;

    (void)argv;
    rx = lr_region("rx");
    classify = lr_region("classify");
    tx = lr_region("tx");
    if (argc == 1 && pthread_create(&thread, NULL, work, NULL) != 0)
        return 1;
    work(NULL);
    if (argc == 1)
        pthread_join(thread, NULL);
    return 0;
}
"#;

/// Returns the most recently built static regions library, as Cargo may have kept older ones.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own file");
    let folder = test.parent().expect("it is in a folder");
    let files = std::fs::read_dir(folder).expect("the folder can be read").flatten();
    let is_library = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("liblinerate_regions") && name.ends_with(".a")
    };
    let built = |file: &PathBuf| file.metadata().and_then(|data| data.modified()).ok();
    let files = files.map(|entry| entry.path()).filter(is_library);
    files.max_by_key(built).expect("the library was built for this test")
}

/// Compiles and runs the program. Returns the record that it writes about its regions; `None`
/// without a C compiler.
fn regions(folder: &Folder, arguments: &[&str]) -> Option<String> {
    let source = folder.write("program.c", PROGRAM);
    let program = folder.file("program");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../regions/include");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let compiled = Command::new(&compiler)
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-I"])
        .args([include.as_os_str(), source.as_ref(), library().as_os_str()])
        .args(["-lpthread", "-ldl", "-lm", "-o", &program])
        .output();
    let Ok(compiled) = compiled else {
        println!("SKIP: no C compiler `{compiler}`");
        return None;
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let file = folder.file("regions.json");
    let run = Command::new(&program)
        .args(arguments)
        .env("LINERATE_REGIONS", &file)
        .env("LINERATE_REGIONS_EVENTS", "")
        .status();
    assert!(run.expect("the program starts").success());
    Some(file)
}

fn plan_of(done: &str) -> PlanReport {
    match record(done).body {
        Body::Plan(plan) => *plan,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_program_measured_by_regions_is_planned_without_a_line_of_toml() {
    let folder = Folder::new();
    let Some(regions) = regions(&folder, &[]) else { return };
    let out = folder.file("program.toml");
    let from = ["plan", "--from", &regions, "--line", "10Gb/s", "--frame", "256"];
    let json = answered(0, &[&from[..], &["--workers", "4", "--out", &out, "--json"]].concat());
    let plan = plan_of(&json);
    assert_eq!(plan.mapping, "rx+classify+tx x2");
    assert_eq!(plan.bottleneck.stage.as_deref(), Some("classify"));
    assert_eq!(plan.workers.len(), 2, "the program has two threads");
    assert!(plan.costs.contains("regions.json"), "{}", plan.costs);
    let hold = plan.line_hold.as_ref().expect("a line was given");
    let line = plan.line_rate_kpps.expect("a line was given");
    assert!((line - 1e7 / ((256.0 + 20.0) * 8.0)).abs() < 1.0, "{line}");
    assert!(hold.predicted_kpps.high.is_some_and(|high| high <= line * 1.000_001), "{hold:?}");
    // The written file describes the same path. It can be edited and planned again, with or without
    // the record.
    let again = plan_of(&answered(0, &["plan", &out, "--workers", "4", "--json"]));
    assert_eq!((again.mapping.clone(), again.line_rate_kpps), (plan.mapping, plan.line_rate_kpps));
    let text = std::fs::read_to_string(&out).expect("it was written");
    let cut = text.replace(
        "  { stages = [\"rx\", \"classify\", \"tx\"], replicas = 2 },\n",
        "  { stages = [\"rx\"] },\n  { stages = [\"classify\", \"tx\"], replicas = 3 },\n",
    );
    assert_ne!(cut, text);
    let cut = folder.write("cut.toml", cut);
    let with = ["plan", &cut, "--from", &regions, "--workers", "4", "--json"];
    assert_eq!(plan_of(&answered(0, &with)).mapping, "rx | classify+tx x3");
    let said = refused(&[&with[..], &["--line", "1Gb/s"]].concat());
    assert!(said.contains("--line") && said.contains("PATH.toml"), "{said}");
}

#[test]
fn a_program_of_one_thread_says_what_is_assumed_of_its_stages() {
    let folder = Folder::new();
    let Some(regions) = regions(&folder, &["alone"]) else { return };
    let json = answered(0, &["plan", "--from", &regions, "--workers", "4", "--json"]);
    assert!(!plan_of(&json).recommendations.iter().any(|one| one.mapping.contains("x2")));
    let free = ["plan", "--from", &regions, "--workers", "4", "--state", "flow", "--json"];
    let plan = plan_of(&answered(0, &free));
    assert!(plan.recommendations.iter().any(|one| one.mapping.contains(" x")), "{plan:?}");
    let printed = linerate(&["plan", "--from", &regions, "--out", "-", "-q"]);
    assert_eq!(printed.status, Some(0), "{printed:?}");
    assert!(printed.stdout.contains("state = \"global\"  # assumed"), "{}", printed.stdout);
    assert!(printed.stderr.contains("predicted"), "the report is on stderr: {}", printed.stderr);
}

#[test]
fn budget_and_explain_read_records_of_regions() {
    let folder = Folder::new();
    let Some(regions) = regions(&folder, &[]) else { return };
    let budget = ["budget", "--from", &regions, "--clock", "2"];
    let said = refused(&budget);
    assert!(said.contains("--frame"), "{said}");
    let text = answered(0, &[&budget[..], &["--frame", "256", "--json"]].concat());
    let Body::Budget(report) = record(&text).body else { panic!("{text}") };
    let shortfall = report.shortfall.expect("a rate");
    assert!(shortfall.packets_per_s > 0.0 && shortfall.frame_bytes == 256.0, "{shortfall:?}");
    let text = answered(0, &["explain", &regions, "--ask", "bottleneck"]);
    assert!(text.contains("classify"), "{text}");
}

const VPP: &str = "Thread 1 vpp_wk_0 (lcore 2)\n\
    Time 10.0, 10 sec internal node vector rate 256.00 loops/sec 3523343.91\n\
    \x20 vector rates in 1.0000e6, out 9.9000e5, drop 1.0000e4, punt 0.0000e0\n\
    \x20            Name                 State         Calls          Vectors        \
    Suspends         Clocks       Vectors/Call\n\
    eth0-tx                          active             39000         9984000           0  \
    5.00e1          256.00\n\
    dpdk-input                       polling            39062        10000000           0  \
    4.00e1          256.00\n\
    ip4-lookup                       active             39062        10000000           0  \
    1.25e2          256.00\n";

#[test]
fn an_import_of_vpp_is_planned_and_its_full_vectors_are_an_answer() {
    let folder = Folder::new();
    let (text, imported) = (folder.write("vpp.txt", VPP), folder.file("vpp.json"));
    answered(0, &["import", &text, "--record", &imported]);
    let said = refused(&["plan", "--from", &imported]);
    assert!(said.contains("--clock"), "{said}");
    let known = ["plan", "--from", &imported, "--clock", "2.5", "--line", "10Gb/s", "--json"];
    let plan = plan_of(&answered(0, &known));
    assert_eq!(plan.mapping, "dpdk-input+ip4-lookup+eth0-tx");
    assert_eq!(plan.bottleneck.stage.as_deref(), Some("ip4-lookup"));
    // 40 + 125 ticks, plus 50 ticks for nearly all packets, at 2.5 GHz.
    let ns = plan.workers[0].ns_per_packet.as_number().expect("a time");
    assert!((ns - (165.0 + 50.0 * 0.9984) / 2.5).abs() < 0.1, "{ns}");
    let text = answered(0, &["explain", &imported, "--ask", "bottleneck"]);
    assert!(text.contains("ip4-lookup") && text.contains("vectors are full"), "{text}");
}

#[test]
fn empty_polls_of_vpp_are_not_the_cost_of_a_packet() {
    let folder = Folder::new();
    // 100 kpps: the input node spends nearly all of the thread's cycles on empty polls.
    let low = VPP
        .replace("1.0000e6", "1.0000e5")
        .replace("39062        10000000           0  4.00e1", "50000000 1000000 0 2.3e4")
        .replace("39062        10000000", "900000 1000000");
    let (text, imported) = (folder.write("vpp.txt", &low), folder.file("vpp.json"));
    let said = answered(0, &["import", &text, "--clock", "2.5", "--record", &imported]);
    assert!(said.contains("at most 23,000"), "{said}");
    let said = refused(&["plan", "--from", &imported]);
    assert!(said.contains("`dpdk-input` on vpp_wk_0 received 0.0 packets per poll"), "{said}");
    for question in ["bottleneck", "split", "line-rate-64"] {
        let ask = ["explain", &imported, "--ask", question, "--line", "10Gb/s"];
        let done = linerate(&ask);
        let is_said = done.stdout.contains("include empty polls");
        assert!(done.status == Some(2) && is_said, "{question}: {done:?}");
    }
}

const PERF: &str = "\n Performance counter stats for './forward':\n\n\
    \x20         2,000.00 msec task-clock                #    0.998 CPUs utilized\n\
    \x20   5,000,000,000      cycles                    #    2.500 GHz\n\
    \x20   8,000,000,000      instructions              #    1.60  insn per cycle\n\n\
    \x20      2.004000000 seconds time elapsed\n\n";

#[test]
fn the_plain_text_of_perf_stat_with_packets_is_planned() {
    let folder = Folder::new();
    let (text, imported) = (folder.write("perf.txt", PERF), folder.file("perf.json"));
    answered(0, &["import", &text, "--record", &imported]);
    let said = refused(&["plan", "--from", &imported]);
    assert!(said.contains("--packets"), "{said}");
    let with = ["import", &text, "--packets", "10000000", "--json"];
    let json = answered(0, &[&with[..], &["--record", &imported]].concat());
    let value: Value = serde_json::from_str(&json).expect("JSON");
    let strand = &value["strands"][0];
    assert_eq!(strand["instructions_per_packet"]["value"], 800.0, "{strand}");
    let Done { status, stdout, stderr } = linerate(&["plan", "--from", &imported, "--json"]);
    assert_eq!(status, Some(0), "{stderr}");
    // 200 ns of task clock.
    let kpps = plan_of(&stdout).predicted_kpps.as_number().expect("a rate");
    assert!((kpps - 5000.0).abs() < 1.0, "{kpps}");
    let vpp = folder.write("vpp.txt", VPP);
    assert!(refused(&["import", &vpp, "--packets", "5"]).contains("already counts packets"));
}

#[test]
fn the_clock_of_this_machine_is_known_to_import() {
    let folder = Folder::new();
    let text = folder.write("vpp.txt", VPP);
    let imported = folder.file("vpp.json");
    answered(0, &["import", &text, "--machine", "this", "-q", "--record", &imported]);
    let kept = std::fs::read_to_string(&imported).expect("it was written");
    let Body::Strands(report) = Record::from_json(&kept).expect("a record").body else {
        panic!("{kept}")
    };
    assert!(report.machine.is_some_and(|machine| machine.clock_ghz > 0.1), "{kept}");
    answered(0, &["plan", "--from", &imported]);
}

#[test]
fn what_says_nothing_of_packets_is_refused_with_what_does() {
    let folder = Folder::new();
    let budget = folder.file("budget.json");
    answered(0, &["budget", "--clock", "2", "--record", &budget]);
    let said = refused(&["plan", "--from", &budget]);
    assert!(said.contains("regions") && said.contains("why"), "{said}");
    let said = refused(&["plan", "--out", &folder.file("p.toml"), "path.toml"]);
    assert!(said.contains("--from"), "{said}");
}
