// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that invalid data files fail the build with an error that names the file and the key.

#[path = "../build/mod.rs"]
pub mod build;

use build::{Data, generate, read};
use std::path::Path;

fn data() -> Data {
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("data")).unwrap()
}

/// Returns the build's error after a change to the data files.
#[track_caller]
fn error_of(change: impl FnOnce(&mut Data)) -> String {
    let mut data = data();
    change(&mut data);
    generate(&data).expect_err("the invalid data was accepted")
}

#[track_caller]
fn replace(text: &mut String, from: &str, to: &str) {
    assert!(text.contains(from), "the data no longer contains `{from}`");
    *text = text.replacen(from, to, 1);
}

#[track_caller]
fn events(table: &str, from: &str, to: &str, told: &[&str]) {
    let error = error_of(|data| replace(data.events.get_mut(table).unwrap(), from, to));
    let file = format!("data/events/{table}.toml");
    assert!(told.iter().all(|part| error.contains(part)) && error.starts_with(&file), "{error}");
}

#[track_caller]
fn metrics(set: &str, from: &str, to: &str, told: &[&str]) {
    let error = error_of(|data| replace(data.metrics.get_mut(set).unwrap(), from, to));
    assert!(told.iter().all(|part| error.contains(part)), "{error}");
    assert!(error.contains("data/metrics"), "{error}");
}

#[test]
fn the_data_is_right_and_its_names_stand_in_the_source() {
    let source = generate(&data()).unwrap();
    for part in ["arm1176", "mpc74xx", "power10", "amd_zen5", "PM_BRU_FIN (0x10068)"] {
        assert!(source.tables.contains(part), "{part}");
    }
    assert!(source.metrics.contains("branch_miss_percent"));
}

#[test]
fn wrong_tables_are_named_with_the_key() {
    let key = "native = \"INSTR_EXEC\"";
    events("arm1176", key, "nativ = \"INSTR_EXEC\"", &["line", "nativ"]);
    events("arm1176", key, "native = \"CPU_CYCLES\"", &["CPU_CYCLES", "another event"]);
    events("arm1176", key, "native = \"L2_MISSES\"", &["L2_MISSES", "another event"]);
    events("arm1176", "code = 0x07", "code = \"7\"", &["line"]);
    events("arm1176", "code = 0x07", "", &["INSTR_EXEC", "one of code"]);
    events("arm1176", "code = 0x07", "code = 7\nhardware = 1", &["INSTR_EXEC", "one of code"]);
    events("arm1176", "code = 0x07", "code = 7\numask = 1", &["INSTR_EXEC", "umask requires"]);
    events("arm1176", "\"instructions\"", "\"instrs\"", &["instrs", "names.toml"]);
    events("arm1176", "\"instructions\"", "\"cycles\"", &["`cycles`", "several events"]);
    events("arm1176", "names = [\"instructions\"]", "", &["`instructions` has no event"]);
    events("arm1176", "prose = \"Half lines", "unit = \"", &["DCACHE_WBACK", "prose"]);
    events("arm1176", "unaligned = ", "un_aligned = ", &["un_aligned"]);
    events("arm1176", "unaligned = ", "branches = ", &["branches", "is in [absent]"]);
    events(
        "arm1176",
        "exceptions = \"this core has no such event\"",
        "",
        &["`exceptions`", "reason"],
    );
    events("arm1176", "[[processor]]\nimplementer = 0x41\nparts = [0xb76]", "", &["[[processor]]"]);
    events("arm1176", "parts = [0xb76]", "part = [0xb76]", &["line"]);
    events("amd_zen1", "[0x00, 0x2f]", "[0x2f, 0x00]", &["models", "[0x2f, 0x0]"]);
}

#[test]
fn wrong_codes_and_bases_are_named() {
    events("amd_zen1", "umask = 0x05", "umask = 0x105", &["LS_DISPATCH.LOADS", "byte"]);
    events("amd_zen1", "event = 0x0c0", "event = 0x10c0", &["RETIRED_INSTRUCTIONS", "one of code"]);
    events("amd_zen2", "base = \"amd_zen1\"", "base = \"zen\"", &["`zen`"]);
    events("amd_zen1", "\n[[processor]]", "base = \"amd_zen5\"\n[[processor]]", &["base"]);
    events("amd_zen2", "INSTRUCTION_PIPE_STALL.DQ_EMPTY", "DQ_EMPTY", &["without", "DQ_EMPTY"]);
    events("generic", "\"l1d\", \"read\"", "\"l0d\", \"read\"", &["cache", "l0d", "l1d, l1i"]);
    events("generic", "[\"l1i\", \"read\"", "[\"l1i\", \"fetch\"", &["fetch", "prefetch"]);
    events("cortex_a7", "emulated = [\"CPU", "emulated = [\"CPUS", &["emulated", "CPUS_CYCLES"]);
    events(
        "mpc74xx",
        "also = [0x602]",
        "also = [0x506]",
        &["PM_L2_HIT", "PM_L2_DCACHE_MISS", "0x506"],
    );
    events("mpc74xx", "code = 0x502", "hardware = 1", &["PM_L2_HIT", "also"]);
    events("mpc74xx", "sources = [\"papi\", \"shark\"]", "", &["PM_L3_HIT_6", "sources"]);
    events("software", "software = 2", "software = \"two\"", &["line"]);
    let error =
        error_of(|data| replace(&mut data.names, "like = \"stall_frontend\"", "like = \"x\""));
    assert!(error.contains("data/names.toml: ibuf_stall_cycles: like"), "{error}");
    let error = error_of(|data| replace(&mut data.names, "\"cpu-cycles\"", "\"instructions\""));
    assert!(error.contains("data/names.toml") && error.contains("duplicate name"), "{error}");
}

#[test]
fn wrong_metrics_are_named() {
    metrics(
        "pipeline",
        "instructions / cycles",
        "instructions / cycle",
        &["define.ipc", "`cycle`"],
    );
    metrics("pipeline", "instructions / cycles", "instructions /", &["define.ipc.formula"]);
    metrics("pipeline", "instructions / cycles", "cycles / (cycles - cycles)", &["no value"]);
    metrics(
        "pipeline",
        "[define.ipc]",
        "[define.loads]",
        &["define.loads", "an event already has this name"],
    );
    metrics("pipeline", "[\"ipc\", ", "[\"ipcc\", ", &["`ipcc`"]);
    metrics("branch", "\"branch_miss_pti\"]", "]", &["define.branch_miss_pti", "no set uses it"]);
    metrics("branch", "[define.branch_pti]", "[define.cpi]", &["cpi", "another file"]);
    metrics("branch", "\"branches\", ", "\"branchs\", ", &["`branchs`"]);
    metrics("branch", "\"branches\", ", "\"instructions\", ", &["twice"]);
    metrics("branch", "unit = ", "units = ", &["line", "units"]);
    metrics("branch", "limits = \"The cost of a", "limits = \"\" # ", &["limits"]);
}
