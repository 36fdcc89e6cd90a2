// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests rejected input. Every error must state the reason and a remedy.

use crate::rig::{EDGE_TIME, Folder, a_processor, edge, pcap, refused, split_path, udp};
use std::fs;

/// Returns the 1-based line and column of `part`, which must occur exactly once in `text`.
fn place(text: &str, part: &str) -> String {
    assert_eq!(text.matches(part).count(), 1, "{part}");
    let before = text.split(part).next().unwrap_or_default();
    let column = before.lines().last().filter(|_| !before.ends_with('\n')).map_or(0, str::len);
    format!("{}:{}", before.matches('\n').count() + 1, column + 1)
}

#[test]
fn reports_errors_with_position_and_suggestion() {
    let rule = "\"deny   tcp from any to any port 23\"";
    let table: &[(&str, &str, &str, &[&str])] = &[
        // Original text; its replacement; the text that the reported location must point to; the
        // expected message.
        ("burst = 32", "brust = 32", "brust", &["unknown key 'brust' in [run]", "'burst'"]),
        ("\"verify\"\n", "\"verfy\"\n", "\"verfy\"", &["'kind' cannot be 'verfy'", "'verify'"]),
        ("mtu = 1600", "mut = 1600", "mut", &["unknown key 'mut'", "'mtu'"]),
        ("[run]", "[runs]", "runs", &["unknown section [runs]", "[run]"]),
        ("[\"parse\", ", "[\"prase\", ", "\"prase\"", &["unknown stage 'prase'", "'parse'"]),
        ("mtu = 1600", "mtu = 16", "16\n", &["'mtu' is 16", "68 to 65535"]),
        (EDGE_TIME, "time = \"2 days\"", "\"2 days\"", &["'2 days'", "ns, us, ms, s, min, h"]),
        ("\"10.0.0.0/16\"\n", "\"10.0.0.0/33\"\n", "\"10.0.0.0/33\"", &["10.0.0.0/33"]),
        (rule, "\"dney tcp from any to any\"", "\"dney", &["dney", "deny"]),
        ("\"02:00:00:00:00:01\"", "\"02:00\"", "\"02:00\"", &["02:00"]),
    ];
    let folder = Folder::new();
    for (from, to, part, words) in table {
        let text = edge(&[(from, to)]);
        let file = folder.write("path.toml", &text);
        for command in [&["run", &file][..], &["run", &file, "--check"], &["tune", &file]] {
            let said = refused(command);
            let wanted = format!("{file}:{}: ", place(&text, part));
            assert!(said.contains(&wanted), "{wanted} not in {said}");
            assert!(words.iter().all(|word| said.contains(word)), "{words:?} not in {said}");
        }
    }
}

#[test]
fn reports_all_errors_in_one_pass() {
    let folder = Folder::new();
    let changes = [("burst = 32", "brust = 32"), ("mtu = 1600", "mtu = 16")];
    let said = refused(&["run", &folder.write("path.toml", edge(&changes))]);
    assert!(said.contains("'brust'") && said.contains("'mtu'"), "{said}");
}

#[test]
fn a_path_that_cannot_be_read_is_refused() {
    let folder = Folder::new();
    let missing = folder.file("missing.toml");
    let latin = folder.write("latin.toml", [b'#', 0xe9, b'\n']);
    let directory = folder.file("");
    for file in [missing, latin, directory] {
        for command in ["run", "tune"] {
            let said = refused(&[command, &file]);
            assert!(said.contains("cannot read") && said.contains(&file), "{said}");
        }
    }
}

/// Returns a pcap file with this link type.
fn of_link_type(link_type: u8) -> Vec<u8> {
    let mut file = pcap([&udp(1)[..]]);
    file[20] = link_type;
    file
}

/// An unusable capture: name, content, expected message.
type Unusable = (&'static str, Option<Vec<u8>>, &'static [&'static str]);

#[test]
fn a_capture_that_cannot_be_replayed_is_refused_with_the_reason() {
    let folder = Folder::new();
    let good = pcap([&udp(1)[..]]);
    let mut cut = pcap([&udp(1)[..]]);
    cut[36..40].copy_from_slice(&1500_u32.to_le_bytes());
    let table: &[Unusable] = &[
        ("missing", None, &["cannot read", "No such file"]),
        ("empty", Some(Vec::new()), &["empty", "tcpdump"]),
        ("802.11", Some(of_link_type(105)), &["IEEE 802.11 (105)", "unsupported link type"]),
        ("no raw IP", Some(of_link_type(101)), &["raw IP (101)", "unsupported link type"]),
        ("text", Some(b"10:00:01 ARP\n".to_vec()), &["neither pcap nor pcapng"]),
        ("compressed", Some(vec![0x1f, 0x8b, 8, 0]), &["compressed", "gunzip"]),
        ("header cut", Some(good[..20].to_vec()), &["is truncated within its header", "20 bytes"]),
        ("no packets", Some(good[..24].to_vec()), &["no packets"]),
        ("first packet cut", Some(good[..50].to_vec()), &["before its first complete packet"]),
        ("all cut short", Some(cut), &["1 cut_short", "tcpdump -s 0"]),
    ];
    for (name, content, words) in table {
        let capture = folder.file("in.pcap");
        match content {
            Some(content) => drop(folder.write("in.pcap", content)),
            None => assert!(!fs::exists(&capture).expect("the folder can be read")),
        }
        let text =
            "[source]\nkind = \"capture\"\nfile = \"in.pcap\"\n[[stage]]\nkind = \"parse\"\n";
        let file = folder.write("path.toml", text);
        for command in [&["run", &file][..], &["run", &file, "--check"], &["tune", &file]] {
            let said = refused(command);
            assert!(said.contains(&format!("{file}:3:8: ")), "{name}: {said}");
            let words = words.iter().copied().chain([capture.as_str()]);
            words.for_each(|word| assert!(said.contains(word), "{name}: {word} not in {said}"));
        }
    }
}

#[test]
fn more_workers_than_processors_need_leave() {
    let folder = Folder::new();
    let path = split_path(&["parse", "verify", "count"], "packets = 500");
    let file = folder.write("path.toml", path);
    let cpu = a_processor();
    let common = ["run", &file, "--cpus", &cpu];
    let said = refused(&common);
    for word in
        ["3 workers for 1 processor ", "parse+verify+count", "linerate tune", "--oversubscribe"]
    {
        assert!(said.contains(word), "{word} not in {said}");
    }
    let with_leave = [&common[..], &["--oversubscribe", "--json"]].concat();
    let report = crate::rig::report(&with_leave);
    assert_eq!(report.mapping, "parse | verify | count");
    assert_eq!(report.workers.len(), 3);
    let sink = report.workers[2].stages.last().expect("a worker has a tail");
    assert_eq!((sink.name.as_str(), sink.packets), ("sink", 500));
}

#[test]
fn processors_that_may_not_be_used_are_refused() {
    let folder = Folder::new();
    let allowed = linerate_linux::allowed_cpus().expect("the kernel reports the CPUs");
    let beyond = (allowed.iter().max().expect("at least one CPU") + 1).to_string();
    let file = folder.write("path.toml", edge(&[]));
    for command in ["run", "tune"] {
        let said = refused(&[command, &file, "--cpus", &beyond]);
        assert!(said.contains(&format!("CPU {beyond} is not available")), "{said}");
        assert!(said.contains(&a_processor()), "{said}");
    }
    let asks = format!("\"count\"], cpus = [{beyond}] }}");
    let file = folder.write("path.toml", edge(&[("\"count\"] }", asks.as_str())]));
    let said = refused(&["run", &file, "--oversubscribe"]);
    assert!(said.contains(&format!("[mapping] requests CPU {beyond}")), "{said}");
}

#[test]
fn options_that_do_not_fit_the_path_are_refused() {
    let folder = Folder::new();
    let file = folder.write("path.toml", split_path(&["parse"], "time = \"100ms\""));
    for (option, words) in [
        (["--rate", "line"], ["--rate line", "[line] rate = "]),
        (["--rate", "capture"], ["--rate capture", "generator"]),
        (["--goal", "line"], ["--goal line", "[line] rate = "]),
    ] {
        let said = refused(&["run", &file, option[0], option[1]]);
        assert!(words.iter().all(|word| said.contains(word)), "{words:?} not in {said}");
    }
    let live = "[source]\nkind = \"interface\"\nname = \"lo\"\n[[stage]]\nkind = \"parse\"\n";
    let live = folder.write("live.toml", live);
    for rate in ["max", "1Mpps"] {
        let said = refused(&["run", "--check", &live, "--rate", rate]);
        assert!(said.contains("the sender sets the rate of live traffic"), "{said}");
    }
}

#[test]
fn a_command_line_that_makes_no_sense_is_refused() {
    let folder = Folder::new();
    let file = folder.write("path.toml", edge(&[]));
    let table: &[(&[&str], &str)] = &[
        (&["tnue", &file], "'tune'"),
        (&["run"], "PATH.toml"),
        (&["run", &file, "--jsno"], "--json"),
        (&["run", &file, "--time", "10ms"], "shorter than 50ms"),
        (&["run", &file, "--time", "soon"], "soon"),
        (&["run", &file, "--rate", "fast"], "fast"),
        (&["run", &file, "--cpus", "0-"], "0,2-3"),
        (&["run", &file, "--goal", "max"], "1.5Mpps"),
        (&["schema", "recrod"], "record"),
        (&["stages", "prase"], "parse"),
    ];
    for (arguments, word) in table {
        let said = refused(arguments);
        assert!(said.contains(word), "{arguments:?}: {word} not in {said}");
    }
}
