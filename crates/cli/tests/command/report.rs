// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that `linerate report` prints every kind of record as its command did.

use crate::regions;
use crate::rig::{Done, Folder, answered, edge, linerate, record, refused};
use crate::stat::simulates;
use linerate_record::{Body, fixtures};

/// A command that writes a record, and the options with which `report` prints the same output.
struct Walk {
    /// Name of its record, also used in messages.
    name: &'static str,
    /// The command and its arguments. `{NAME}` is the record of an earlier entry, or a file from
    /// [`input`].
    words: &'static [&'static str],
    /// Options of `report`.
    shown: &'static [&'static str],
}

const fn walk(name: &'static str, words: &'static [&'static str]) -> Walk {
    Walk { name, words, shown: &[] }
}

const PACKETS: &[Walk] = &[
    walk("run", &["run", "{edge}", "--time", "200ms", "--cpus", "0"]),
    walk("plan", &["plan", "{edge}", "--from", "{run}"]),
    walk("plan-machine", &["plan", "--machine", "t1", "{t1}"]),
    walk("budget", &["budget", "--from", "{run}", "--clock", "2.5"]),
    walk("explain", &["explain", "{run}"]),
    walk("run-flows", &["run", "{flows}", "--time", "200ms", "--cpus", "0"]),
    walk("report", &["report", "{run-flows}"]),
];

/// On a busy machine, the first command may have no answer; the second one always does.
const TUNINGS: &[Walk] = &[
    walk("tune", &["tune", "{edge}", "--time", "200ms"]),
    walk("tune-from", &["tune", "--from", "{stored tune}"]),
];

const MACHINES: &[Walk] = &[
    walk("doctor", &["doctor"]),
    walk("memory", &["memory", "--quick", "--max", "8M", "--no-store"]),
    Walk {
        name: "memory-all",
        words: &["memory", "--quick", "--max", "8M", "--no-store", "--all"],
        shown: &["--all"],
    },
    walk("kernels", &["kernels", "--quick", "--kernel", "checksum", "--state", "warm"]),
    walk(
        "kernels-sizes",
        &[
            "kernels",
            "--quick",
            "--kernel",
            "checksum",
            "--state",
            "warm",
            "--size",
            "64,65,66,67,1460",
        ],
    ),
];

const TCP: &[Walk] = &[
    walk("tcp", &["tcp", "--stack", "smoltcp", "--pattern", "bulk", "--time", "100ms"]),
    Walk {
        name: "tcp-all",
        words: &[
            "tcp",
            "--stack",
            "smoltcp",
            "--pattern",
            "bulk",
            "--time",
            "100ms",
            "--histograms",
        ],
        shown: &["--all"],
    },
    walk("tcp-law", &["tcp", "--law", "--stack", "smoltcp"]),
    walk("stream", &["stream", "--buffer", "auto", "--message", "1K,64K", "--time", "600ms"]),
];

const COUNTS: &[Walk] = &[
    walk("stat", &["stat", "-o", "-", "--", "true"]),
    walk("repeated", &["stat", "-o", "-", "--repeat", "6", "--", "true"]),
    walk(
        "stat-baseline",
        &["stat", "-o", "-", "--repeat", "6", "--baseline", "{repeated}", "--", "true"],
    ),
    Walk {
        name: "explained",
        words: &["stat", "-o", "-", "--explain", "--", "true"],
        shown: &["--all"],
    },
    Walk {
        name: "rpistat",
        words: &["stat", "-o", "-", "--format", "rpistat", "--", "true"],
        shown: &["--format", "rpistat"],
    },
];

const SIMULATED: &[Walk] = &[
    walk("sim", &["stat", "-o", "-", "--tier", "sim", "-m", "cache", "--", "true"]),
    walk(
        "sim-baseline",
        &["stat", "-o", "-", "--tier", "sim", "-m", "cache", "--baseline", "{sim}", "--", "true"],
    ),
];

const OTHERS: &[Walk] = &[
    walk("why", &["why", "-o", "-", "-t", "1s", "--", "sleep", "5"]),
    Walk {
        name: "why-details",
        words: &["why", "-o", "-", "-t", "1s", "--details", "--", "sleep", "5"],
        shown: &["--all"],
    },
    walk("profile", &["profile", "-o", "-", "-t", "300ms", "--", "sha256sum", "/dev/zero"]),
    walk("diff", &["diff", "{profile}", "{profile}"]),
    walk("import", &["import", "{dump}", "--machine", "t1"]),
    walk("regions-again", &["regions", "{recorded}"]),
];

const ALL: [&[Walk]; 7] = [PACKETS, TUNINGS, MACHINES, TCP, COUNTS, SIMULATED, OTHERS];

/// Returns the command that creates this kind of record. A new kind requires a command here and
/// thus a test.
fn command_of(body: &Body) -> &'static str {
    match body {
        Body::Run(_) => "run",
        Body::Tune(_) => "tune",
        Body::Kernels(_) => "kernels",
        Body::Stat(_) => "stat",
        Body::Doctor(_) => "doctor",
        Body::Regions(_) => "regions",
        Body::Memory(_) => "memory",
        Body::Budget(_) => "budget",
        Body::Strands(_) => "import",
        Body::Answers(_) => "explain",
        Body::Plan(_) => "plan",
        Body::Stream(_) => "stream",
        Body::Tcp(_) => "tcp",
        Body::Why(_) => "why",
        Body::Profile(_) => "profile",
        Body::ProfileDiff(_) => "diff",
    }
}

/// Returns the stored fixture record of a kind.
fn stored(kind: &str) -> &'static str {
    fixtures::ALL.iter().find(|(name, _)| *name == kind).expect("it is stored").1
}

/// Converts a word of a command to an argument: `{NAME}` becomes a file.
fn input(folder: &Folder, word: &str) -> String {
    const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let Some(name) = word.strip_prefix('{').and_then(|word| word.strip_suffix('}')) else {
        return word.to_owned();
    };
    match name {
        "edge" => folder.write("edge.toml", edge(&[])),
        "flows" => {
            let ports = [("rate = \"100Gb/s\"", "rate = \"1Gb/s\"\nports = 4")];
            folder.write("flows.toml", edge(&ports))
        }
        "t1" => format!("{EXAMPLES}/rlp-t1-config1.toml"),
        "dump" => format!("{EXAMPLES}/netra-sample.dump"),
        "recorded" => regions::recorded(folder),
        "stored tune" => folder.write("stored.json", stored("tune")),
        walked => folder.file(&format!("{walked}.json")),
    }
}

/// Creates the records in order, prints each with `report`, and asserts that stdout is identical
/// and that no other warnings are printed.
fn assert_shown_again(folder: &Folder, walks: &[Walk]) {
    for Walk { name, words, shown } in walks {
        let file = folder.file(&format!("{name}.json"));
        let mut words: Vec<String> = words.iter().map(|word| input(folder, word)).collect();
        let at = words.iter().position(|word| word == "--").unwrap_or(words.len());
        words.splice(at..at, ["--record".to_owned(), file.clone()]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let Done { status, stdout, stderr } = linerate(&words);
        let has_no_answer = *name == "tune" && status == Some(2);
        assert!(matches!(status, Some(0 | 1)) || has_no_answer, "{words:?}: {status:?} {stderr}");
        assert!(!stdout.is_empty(), "{words:?}: {stderr}");
        let again = linerate(&[&["report", file.as_str()], *shown].concat());
        assert_eq!(again.status, Some(0), "{again:?}");
        assert_eq!(again.stdout, stdout, "{words:?}");
        assert!(stderr.contains(&again.stderr), "{stderr}\ndoes not have\n{}", again.stderr);
        assert_readable_elsewhere(&file);
        let json = std::fs::read_to_string(&file).expect("it was written");
        let command = command_of(&record(&json).body);
        assert!(words[0] == command || words[0] == "report", "{words:?} made one of {command}");
    }
}

/// Asserts that Markdown output contains no terminal table, and that there are figures to export.
#[track_caller]
fn assert_readable_elsewhere(file: &str) {
    let markdown = answered(0, &["report", "--format", "markdown", file]);
    assert!(markdown.starts_with("```\n") && !markdown.contains("\n\n\n"), "{markdown}");
    assert!(markdown.contains("\n- ") || markdown.contains("\n| "), "{markdown}");
    let csv = answered(0, &["export", "--format", "csv", file]);
    assert!(csv.lines().count() > 1, "{file}: {csv}");
    let json = answered(0, &["report", "--json", file]);
    assert_eq!(json, std::fs::read_to_string(file).expect("it was written"));
}

#[test]
fn what_measures_packets_is_shown_again() {
    assert_shown_again(&Folder::new(), PACKETS);
}

#[test]
fn a_tuning_is_shown_again() {
    assert_shown_again(&Folder::new(), TUNINGS);
}

#[test]
fn what_measures_machines_is_shown_again() {
    assert_shown_again(&Folder::new(), MACHINES);
}

#[test]
fn a_comparison_of_tcp_stacks_is_shown_again() {
    assert_shown_again(&Folder::new(), TCP);
}

#[test]
fn counts_are_shown_again() {
    let folder = Folder::new();
    assert_shown_again(&folder, COUNTS);
    let refusal = refused(&["report", "--format", "rpistat", &regions::recorded(&folder)]);
    assert!(refusal.contains("needs a `linerate stat` record"), "{refusal}");
}

#[test]
fn simulated_counts_are_shown_again() {
    if simulates() {
        assert_shown_again(&Folder::new(), SIMULATED);
    }
}

#[test]
fn what_others_measured_is_shown_again() {
    assert_shown_again(&Folder::new(), OTHERS);
}

/// Returns the commands that can write records, according to their help.
fn commands_that_record() -> Vec<String> {
    let help = answered(0, &["--help"]);
    // Below each heading, there is one command per line. Lines that list options begin with a dash.
    let names = help.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names = names.filter(|name| !["", "-h,", "-V,", "linerate"].contains(name));
    let records = |name: &&str| answered(0, &[name, "--help"]).contains("--record <FILE>");
    names.filter(records).map(str::to_owned).collect()
}

#[test]
fn every_command_and_kind_of_record_is_walked() {
    let walked = |command: &str| ALL.iter().copied().flatten().any(|w| w.words[0] == command);
    let commands = commands_that_record();
    assert!(commands.len() > 12, "{commands:?}");
    for command in &commands {
        assert!(walked(command), "`{command}` writes records: add a walk");
    }
    for (kind, json) in fixtures::ALL {
        let command = command_of(&record(json).body);
        assert!(walked(command), "{kind}: `{command}` is not walked");
    }
}

#[test]
fn a_record_that_was_changed_is_refused_by_name() {
    let folder = Folder::new();
    assert_shown_again(&folder, &[walk("made", &["budget", "--clock", "2.5"])]);
    let file = folder.file("made.json");
    let json = std::fs::read_to_string(&file).expect("it was written");
    assert!(record(&json).figures().contains_key("ns_per_packet"));
    let other = json.replacen("\"clock_ghz\": 2.5", "\"clock_ghz\": 5.0", 1);
    assert!(linerate(&["report", &folder.write("other.json", other)]).status == Some(0));
    let wrong = json.replacen("\"warnings\": []", "\"warnings\": [{\"code\": \"emulated\"}]", 1);
    let refusal = refused(&["report", &folder.write("wrong.json", wrong)]);
    assert!(refusal.contains("`warnings` contradicts"), "{refusal}");
}

#[test]
fn a_path_given_for_a_record_and_the_reverse_name_the_other_command() {
    let folder = Folder::new();
    let edge = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/edge.toml");
    let said = refused(&["report", edge]);
    assert!(said.contains("a packet path, not a record; did you mean `linerate run "), "{said}");
    let record = folder.write("run.json", "{\n  \"version\": \"2.8\"\n}\n");
    for command in ["run", "tune", "plan"] {
        let said = refused(&[command, &record]);
        assert!(said.contains("if it is a record, did you mean `linerate report "), "{said}");
        assert!(said.lines().count() < 4, "{said}");
    }
}
