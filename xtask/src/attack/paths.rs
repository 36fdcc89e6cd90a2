// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates calls with unusual packet path files: bad values, bad structure, and special files in
//! their place.

use super::call::{Call, edge};
use super::damage::damaged;
use super::{Random, Size};

/// Sections of a small path, with their keys.
const PATH: [(&str, &[&str]); 8] = [
    ("", &["name = \"x\"", "kernels = \"selected\""]),
    ("[line]", &["rate = \"10Gb/s\"", "ports = 1"]),
    (
        "[source]",
        &[
            "kind = \"generator\"",
            "sizes = \"imix\"",
            "flows = 16",
            "seed = 1",
            "buffer_bytes = 2048",
        ],
    ),
    ("[[stage]]", &["kind = \"parse\"", "name = \"p\""]),
    ("[[stage]]", &["kind = \"count\"", "name = \"c\""]),
    ("[sink]", &["kind = \"null\"", "packets = 10"]),
    ("[mapping]", &["workers = [{ stages = [\"p\", \"c\"], replicas = 1 }]"]),
    ("[run]", &["time = \"60ms\"", "rate = \"max\"", "burst = 32", "ring = 256"]),
];

/// Values that most keys do not accept.
const VALUES: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "3",
    "255",
    "256",
    "257",
    "65535",
    "65536",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "99999999999999999999",
    "0.5",
    "-0.0",
    "1e308",
    "1e999",
    "nan",
    "inf",
    "-inf",
    "0x10",
    "1_000",
    "true",
    "false",
    "\"\"",
    "\" \"",
    "\"x\"",
    "\"-1\"",
    "\"0\"",
    "\"max\"",
    "\"line\"",
    "\"capture\"",
    "\"1.5Mpps\"",
    "\"5Gb/s\"",
    "\"1e30Gb/s\"",
    "\"0pps\"",
    "\"1ns\"",
    "\"60ms\"",
    "\"900000h\"",
    "\"\\u0000\"",
    "\"\\u001b[2J\"",
    "\"\u{202e}\"",
    "\"../../../../etc/passwd\"",
    "\"/dev/zero\"",
    "'''\nlines\n'''",
    "[]",
    "[0]",
    "[0, 0]",
    "[[]]",
    "{}",
    "{ a = 1 }",
    "1979-05-27",
    "",
];

/// Returns the path file with a different value for one key.
fn path_with(section: usize, key: usize, value: &str) -> String {
    let mut text = String::new();
    for (at, (title, lines)) in PATH.iter().enumerate() {
        text += &format!("{title}\n");
        for (line, given) in lines.iter().enumerate() {
            let name = given.split(' ').next().unwrap_or_default();
            // The key `packets`, at (5, 1), is valid only for a sink that writes packets, so it is
            // left out unless it is the key under test.
            match (at, line) == (section, key) {
                true => text += &format!("{name} = {value}\n"),
                false if (at, line) == (5, 1) => {}
                false => text += &format!("{given}\n"),
            }
        }
    }
    text
}

/// Returns calls for every combination of key and value. All are checked, and some are run.
pub(crate) fn values(random: &mut Random, size: Size) -> Result<Vec<Call>, String> {
    let keys = PATH.iter().enumerate();
    let keys = keys.flat_map(|(at, (_, lines))| (0..lines.len()).map(move |line| (at, line)));
    let all = keys.flat_map(|key| VALUES.iter().map(move |value| (key, *value)));
    let chosen = size.some(all.collect(), 40, random);
    Ok(chosen
        .into_iter()
        .map(|((section, key), value)| {
            let line = match random.below(8) {
                0 => "run -q --oversubscribe path.toml",
                1 => "run --json --oversubscribe path.toml",
                2 => "plan path.toml",
                3 => "run --check --json path.toml",
                _ => "run --check path.toml",
            };
            let call = Call::new(line).file("path.toml", path_with(section, key, value));
            // A value may be a valid run time of up to 25000 hours, so the run is interrupted after
            // 2 s.
            call.within("timeout --preserve-status -s INT 2 \"$@\"").may_end_with(&[130])
        })
        .collect())
}

/// Returns calls with files that do not have the structure of a path.
pub(crate) fn structures(random: &mut Random, size: Size) -> Result<Vec<Call>, String> {
    let whole = path_with(9, 9, "");
    let source = "[source]\nkind = \"generator\"\n";
    let many = if size == Size::Full { 100_000 } else { 20_000 };
    let mut texts: Vec<Vec<u8>> = [
        String::new(),
        "\u{feff}".to_owned() + &whole,
        whole.replace('\n', "\r\n"),
        format!("{source}{}", "[[stage]]\nkind = \"parse\"\n".repeat(many)),
        (0..many).map(|n| format!("k{n} = 1\n")).collect(),
        "a = = 1\n".repeat(many),
        format!("name = {}", "[".repeat(many)),
        format!("name = {}", "{a = ".repeat(many)),
        format!("{}= 1", "a.".repeat(many)),
        format!("name = \"{}\"\n{whole}", "x".repeat(many)),
        format!("{whole}{whole}"),
        whole.replace("[\"p\", \"c\"]", &format!("[{}]", "\"p\", ".repeat(many))),
        whole.replace("replicas = 1", "replicas = 64"),
        format!("{source}[[stage]]\nkind = \"filter\"\nrules = [{}]", "\"deny\",\n".repeat(many)),
    ]
    .map(String::into_bytes)
    .to_vec();
    for _ in 0..size.of(10, 1_000) {
        texts.push(damaged(whole.as_bytes(), random));
    }
    let call = |text: Vec<u8>| {
        let command = ["run --check", "run --check --json", "plan", "tune --time 60ms"];
        let command = command[random.below(if text.len() < 10_000 { 4 } else { 3 })];
        Call::new(&format!("{command} path.toml"))
            .file("path.toml", text)
            .within("timeout --preserve-status -s INT 3 \"$@\"")
            .may_end_with(&[130])
    };
    Ok(texts.into_iter().map(call).collect())
}

/// Returns calls with devices, pipes, directories and the like in place of a path file, a capture,
/// a record or a sink.
pub(crate) fn special_files(random: &mut Random, size: Size) -> Result<Vec<Call>, String> {
    const FILES: [&str; 14] = [
        "/dev/zero",
        "/dev/urandom",
        "/dev/full",
        "/dev/null",
        "/dev/stdin",
        "/dev/tty",
        "fifo",
        "/",
        "missing",
        "loop",
        "/proc/self/mem",
        "/proc/kmsg",
        "/sys/kernel",
        "sparse",
    ];
    const COMMANDS: [&str; 16] = [
        "run",
        "run --check",
        "tune",
        "tune --from",
        "plan",
        "plan path.toml --from",
        "budget --from",
        "budget --machine",
        "explain",
        "explain --machine",
        "export --format csv",
        "report",
        "regions",
        "import",
        "stat --baseline",
        "run --check capture:",
    ];
    let all = FILES.iter().flat_map(|file| COMMANDS.iter().map(move |command| (*file, *command)));
    let mut calls = Vec::new();
    for (file, command) in size.some(all.collect(), 28, random) {
        let mut call = edge("")?.file("path.toml", path_with(9, 9, ""));
        let line = match command.strip_suffix(" capture:") {
            Some(command) => {
                let of_file = format!(
                    "[source]\nkind = \"capture\"\nfile = \"{file}\"\n[[stage]]\nkind = \"parse\"\n"
                );
                call = call.file("of.toml", of_file);
                format!("{command} of.toml")
            }
            None if command.starts_with("stat") => format!("{command} {file} -- true"),
            None => format!("{command} {file}"),
        };
        call.words = Call::new(&line).words;
        let make = "mkfifo fifo; ln -s loop loop; truncate -s 8G sparse; \"$@\"";
        calls.push(call.within(make));
    }
    Ok(calls)
}
