// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests every possible mistake in a path file, with its position and message.

use crate::kinds::{KINDS, STEM};
use linerate_path::check::read;

/// Returns the reader's messages about `text`, one problem per line: `line:column: message; help`.
pub(crate) fn messages(text: &str) -> String {
    match read(text, STEM, KINDS) {
        Ok(_) => "nothing".to_owned(),
        Err(problems) => problems.to_string(),
    }
}

/// A valid file of three lines: a source and one stage. A text that a test appends begins on line
/// 4.
const GOOD: &str = "source = { kind = 'generator' }\n[[stage]]\nkind = 'parse'\n";

/// Checks that each text, appended to [`GOOD`], gives exactly the expected problem.
pub(crate) fn after_good(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(messages(&format!("{GOOD}{text}")), *expected, "{text}");
    }
}

/// Checks that each source, followed by a valid stage, gives exactly the expected problem.
fn sources(cases: &[(&str, &str)]) {
    for (source, expected) in cases {
        let text = format!("[source]\n{source}\n[[stage]]\nkind = 'parse'\n");
        assert_eq!(messages(&text), *expected, "{source}");
    }
}

#[test]
fn reports_all_errors_in_order_like_a_compiler() {
    let text = "\
[source]
kind = \"capture\"
file = \"edge.pcapng\"
[[stage]]
kind = \"prase\"
[run]
ratee = \"max\"
burst = 300
";
    let problems = read(text, STEM, KINDS).expect_err("it has three mistakes");
    let expected = "\
edge.toml:5:8: 'kind' cannot be 'prase'; did you mean 'parse'?
    5 | kind = \"prase\"
      |        ^^^^^^^
edge.toml:7:1: unknown key 'ratee' in [run]; did you mean 'rate'?
    7 | ratee = \"max\"
      | ^^^^^
edge.toml:8:9: 'burst' is 300; it must be from 1 to 256
    8 | burst = 300
      |         ^^^
";
    assert_eq!(problems.display("edge.toml").to_string(), expected);
}

#[test]
fn syntax() {
    for (text, expected) in [
        ("[source\n", "1:8: unclosed table, expected `]`"),
        ("a = [1,\n", "1:8: unclosed array, expected `]`"),
        ("[run]\n[run]\n", "2:2: 'run' is given twice"),
        ("[stage]\n[[stage]]\n", "2:3: 'stage' is given twice; write each one as [[stage]]"),
    ] {
        assert_eq!(messages(text), expected);
    }
}

/// An unquoted value is reported together with the other errors.
#[test]
fn missing_quotes() {
    after_good(&[
        (
            "[run]\nrate = 10Gb/s # a comment\nburst = 0\ntime =\n",
            "5:8: '10Gb/s' is not a TOML value; strings need quotes: \"10Gb/s\"\n\
             6:9: 'burst' is 0; it must be from 1 to 256\n\
             7:7: the value is missing",
        ),
        ("[run]\nrate = fast\n", "5:8: 'fast' is not a TOML value; strings need quotes: \"fast\""),
        (
            "[run]\nrate = 1.5Mpps\n",
            "5:8: '1.5Mpps' is not a TOML value; strings need quotes: \"1.5Mpps\"",
        ),
        (
            "[mapping]\nworkers = [{ stages = [parse] }]\n[run]\nring = 3\n",
            "5:24: 'parse' is not a TOML value; strings need quotes: \"parse\"\n7:8: 'ring' is 3, \
             not a power of two; nearest: 2 and 4",
        ),
    ]);
}

/// Texts to append to [`GOOD`], and the one problem that each has.
const SECTIONS_AND_KEYS: &[(&str, &str)] = &[
    ("[lines]\nrate = 3\n", "4:2: unknown section [lines]; did you mean [line]?"),
    ("[[stages]]\n", "4:3: unknown key 'stages' at the top of the file; did you mean [[stage]]?"),
    ("[stag]\n", "4:2: unknown section [stag]; did you mean [[stage]]?"),
    (
        "bust = 3\n",
        "4:1: unknown key 'bust' in [[stage]] of kind 'parse'; valid: 'kind', 'name', 'only', \
         'other'",
    ),
    ("burst = 3\n", "4:1: unknown key 'burst' in [[stage]] of kind 'parse'; it belongs in [run]"),
    (
        "[run]\nkernels = 'avx2'\n",
        "5:1: unknown key 'kernels' in [run]; it belongs at the top of the file, before all \
         sections",
    ),
    (
        "[mapping]\nworkers = [{ stages = ['parse'] }]\nkernels = 'avx2'\n",
        "6:1: unknown key 'kernels' in [mapping]; it belongs at the top of the file, before all \
         sections",
    ),
    (
        "rules = []\n",
        "4:1: unknown key 'rules' in [[stage]] of kind 'parse'; it belongs to kind 'filter'",
    ),
    ("[line]\n", "4:1: 'rate' is missing in [line]; example: rate = \"10Gb/s\""),
    ("[[run]]\n", "4:1: [run] must be a section, not a list"),
    (
        "[run]\nfull-ring = 'drop'\n",
        "5:1: unknown key 'full-ring' in [run]; did you mean 'full_ring'?",
    ),
    (
        "[run]\npace = 'drop'\n",
        "5:1: unknown key 'pace' in [run]; valid: 'time', 'packets', 'rate', 'burst', 'ring', \
             'full_ring'",
    ),
    (
        "[sink]\nkind = 'file'\n",
        "5:8: 'kind' cannot be 'file'; valid: 'null', 'capture', 'interface', 'ports'",
    ),
    (
        "[sink]\nkind = 'capture'\n",
        "4:1: 'file' is missing in [sink]; example: file = \"out.pcap\"",
    ),
    (
        "[sink]\npackets = 3\n",
        "5:1: unknown key 'packets' in [sink] of kind 'null'; it belongs to kind 'capture'",
    ),
    ("[sink]\nkind = 3\n", "5:8: 'kind' must be a word, not an integer; example: kind = \"null\""),
];

#[test]
fn sections_and_keys() {
    assert_eq!(
        messages(""),
        "1:1: [[stage]] is missing; this section describes the stages that process the packets, \
         one section each, in order\n1:1: [source] is missing; this section describes the source \
         of the packets"
    );
    after_good(SECTIONS_AND_KEYS);
    assert_eq!(
        messages("source = { kind = 'generator' }\nstage = []\n"),
        "2:9: [[stage]] must not be empty"
    );
    assert_eq!(
        messages("source = { kind = 'generator' }\n[stage]\nkind = 'parse'\n"),
        "2:1: 'stage' is a list of sections; write each one as [[stage]]"
    );
    assert_eq!(
        messages("source = { kind = 'generator' }\nstage = [{ kind = 'parse' }, 7]\n"),
        "2:30: each entry of [[stage]] must be a table"
    );
    assert_eq!(
        messages("stage = 7\nsource = 'x'\nname = ''\n"),
        "1:9: [[stage]] must be a list of tables, not an integer\n\
         2:10: [source] must be a section, not a string\n\
         3:8: 'name' must not be empty; example: name = \"edge\""
    );
}

#[test]
fn source() {
    let smallest = "frame sizes exclude the 4-byte FCS, so the minimum is 60";
    sources(&[
        ("", "1:1: 'kind' is missing in [source]; example: kind = \"capture\""),
        (
            "kind = 'pcap'",
            "2:8: 'kind' cannot be 'pcap'; valid: 'capture', 'generator', 'interface', 'ports', \
             'cells'",
        ),
        ("kind = 'capture'", "1:1: 'file' is missing in [source]; example: file = \"edge.pcapng\""),
        (
            "kind = 'capture'\nfile = 'a'\nflows = 1",
            "4:1: unknown key 'flows' in [source] of kind 'capture'; it belongs to kind \
             'generator'",
        ),
        (
            "kind = 'capture'\nfile = \"a\\u0000\"",
            "3:8: 'file' must not contain control characters; example: file = \"edge.pcapng\"",
        ),
        (
            "kind = 'generator'\nsizes = [60, 59]",
            &format!("3:14: an entry of 'sizes' is 59; it must be from 60 to 65407; {smallest}"),
        ),
        (
            "kind = 'generator'\nsizes = 70000",
            &format!("3:9: 'sizes' is 70000; it must be from 60 to 65407; {smallest}"),
        ),
        (
            "kind = 'generator'\nsizes = [60, 3000]",
            "3:14: frames of 3000 bytes exceed buffer_bytes = 2048; raise buffer_bytes (at most \
             65407) or use shorter frames",
        ),
        (
            "kind = 'generator'\nbuffer_bytes = 1000",
            "3:16: frames of 1514 bytes exceed buffer_bytes = 1000; raise buffer_bytes (at most \
             65407) or use shorter frames",
        ),
        (
            "kind = 'generator'\nsizes = []",
            "3:9: 'sizes' must not be empty; example: sizes = \"imix\"",
        ),
        ("kind = 'generator'\nsizes = 'mix'", "3:9: 'sizes' cannot be 'mix'; did you mean 'imix'?"),
        (
            "kind = 'generator'\nsizes = 1.5",
            "3:9: 'sizes' must be a size in bytes, a list of sizes, or 'imix', not a \
             floating-point number; example: sizes = \"imix\"",
        ),
        ("kind = 'generator'\nflows = 0", "3:9: 'flows' is 0; it must be from 1 to 1048576"),
        ("kind = 'generator'\nseed = -1", "3:8: 'seed' is -1; it must be at least 0"),
        (
            "kind = 'generator'\nseed = 99999999999999999999",
            "3:8: 'seed' is 99999999999999999999; it must be from 0 to 9223372036854775807",
        ),
    ]);
}

#[test]
fn registered_sources() {
    let with = |keys: &str| format!("kind = 'cells'\nfile = 'a'\n{keys}");
    let cases = [
        ("bytes = 59", "4:9: 'bytes' is 59; it must be from 60 to 9000"),
        (
            "bytes = 3000",
            "4:9: frames of 3000 bytes exceed buffer_bytes = 2048; raise buffer_bytes (at most \
             65407) or use shorter frames",
        ),
        ("lost = 0.6", "4:8: 'lost' is 0.6; it must be from 0 to 0.5"),
        (
            "lost = 'a'",
            "4:8: 'lost' must be a number from 0 to 0.5, not a string; example: lost = 0.5",
        ),
        ("lost = 0.1\nway = 'out'", "4:8: nothing is lost on the way out; leave it out"),
        ("way = 'up'", "4:7: 'way' cannot be 'up'; valid: 'in', 'out'"),
        (
            "flows = 1",
            "4:1: unknown key 'flows' in [source] of kind 'cells'; it belongs to kind 'generator'",
        ),
    ];
    for (keys, expected) in cases {
        sources(&[(&with(keys), expected)]);
    }
    sources(&[(&with("lost = 0.5\nbytes = 2048"), "nothing")]);
    let missing = "1:1: 'file' is missing in [source]; example: file = \"edge.pcapng\"";
    sources(&[("kind = 'cells'", missing)]);
}

#[test]
fn stages() {
    after_good(&[
        ("[[stage]]\n", "4:1: 'kind' is missing in [[stage]]; example: kind = \"parse\""),
        (
            "[[stage]]\nkind = 'xyz'\n",
            "5:8: 'kind' cannot be 'xyz'; valid: 'parse', 'verify', 'filter', 'nat44', 'count' (or \
             your own, written with linerate new-stage)",
        ),
        (
            "[[stage]]\nkind = 'parse'\n",
            "5:8: two stages are named 'parse'; give one a different name, such as name = \
             \"parse-2\"",
        ),
        (
            "[[stage]]\nkind = 'count'\nname = 'parse'\n",
            "6:8: two stages are named 'parse'; give one a different name, such as name = \
             \"parse-2\"",
        ),
        (
            "[[stage]]\nkind = 'count'\nname = 'a b'\n",
            "6:8: 'name' must be a string of letters, digits, '-' and '_'; example: name = \
             \"count-in\"",
        ),
        (
            "[[stage]]\nkind = 'verify'\nl4 = 1\n",
            "6:6: 'l4' must be true or false, not an integer; example: l4 = true",
        ),
        (
            "[[stage]]\nkind = 'filter'\nrules = ['a', 3]\n",
            "6:15: each entry of 'rules' must be a string, not an integer; example: rules = \
             [\"...\"]",
        ),
        (
            "[[stage]]\nkind = 'filter'\nrules = 'a'\n",
            "6:9: 'rules' must be a list of strings, not a string; example: rules = [\"...\"]",
        ),
        (
            "[[stage]]\nkind = 'filter'\notherwise = 'dorp'\n",
            "6:13: 'otherwise' cannot be 'dorp'; did you mean 'drop'?",
        ),
        (
            "[[stage]]\nkind = 'nat44'\n",
            "4:1: 'outside' is missing in [[stage]]; example: outside = \"...\"",
        ),
        (
            "[[stage]]\nkind = 'nat44'\noutside = 1979-05-27\n",
            "6:11: 'outside' must be a string, not a date or time of day; example: \
             outside = \"...\"",
        ),
        (
            "[[stage]]\nkind = 'nat44'\noutside = ''\nflows = 70_000\n",
            "7:9: 'flows' is 70000; it must be from 1 to 65536",
        ),
        (&"[[stage]]\nkind = 'count'\n".repeat(16), &{
            let twice = |line| {
                format!(
                    "{line}:8: two stages are named 'count'; give one a different name, such as \
                     name = \"count-2\""
                )
            };
            let mut said: Vec<_> = (1..16).map(|i| twice(5 + 2 * i)).collect();
            said.insert(14, "35:8: 17 stages; the limit is 16".to_owned());
            said.join("\n")
        }),
    ]);
}

#[test]
fn a_stage_before_the_one_it_needs() {
    assert_eq!(
        messages(
            "source = { kind = 'generator' }\n[[stage]]\nkind = 'verify'\n\
             [[stage]]\nkind = 'parse'\n"
        ),
        "3:8: a 'verify' stage needs parsed headers, but no 'parse' stage precedes it; add a \
         [[stage]] with kind = \"parse\" before it"
    );
}

#[test]
fn mapping() {
    let path = format!("{GOOD}[[stage]]\nkind = 'verify'\n[[stage]]\nkind = 'count'\n[mapping]\n");
    for (workers, expected) in [
        (
            "",
            "8:1: 'workers' is missing in [mapping]; example: workers = [{ stages = [\"parse\", \
             \"verify\"] }]",
        ),
        (
            "workers = []",
            "9:11: 'workers' must not be empty; example: workers = [{ stages = [\"parse\", \
             \"verify\"] }]",
        ),
        (
            "workers = ['parse']",
            "9:12: each entry of 'workers' must be a table; example: workers = [{ stages = \
             [\"parse\", \"verify\"] }]",
        ),
        (
            "workers = [{ stages = ['parse', 'verify'] }]",
            "9:11: stage 'count' is not assigned to a worker; assign every stage to a worker",
        ),
        (
            "workers = [{ stages = ['parse', 'vrify', 'count'] }]",
            "9:33: unknown stage 'vrify'; did you mean 'verify'?",
        ),
        (
            "workers = [{ stages = ['parse', 'verify', 'count', 'xyzzy'] }]",
            "9:52: unknown stage 'xyzzy'; valid: 'parse', 'verify', 'count'",
        ),
        (
            "workers = [{ stages = ['parse', 'verify', 'parse', 'count'] }]",
            "9:43: stage 'parse' is already assigned to a worker; to run it on several workers, \
             set replicas in one entry",
        ),
        (
            "workers = [{ stages = ['parse', 'count'] }, { stages = ['verify'] }]",
            "9:57: stage 'verify' comes before 'count' in the path; assign stages to workers in \
             path order",
        ),
        (
            "workers = [{ stages = ['parse', 'verify', 'count'], replicas = 2 }]",
            "9:64: stage 'count': a 'count' stage has global state, so it must not be replicated; \
             give it its own worker with replicas = 1",
        ),
        (
            "workers = [{ stages = ['parse', 'verify', 'count'], cpus = [1, 2] }]",
            "9:60: CPUs listed: 2; replicas: 1; give one CPU per replica, or none",
        ),
        (
            "workers = [{ stages = ['parse', 'verify'], cpus = [1] }, \
             { stages = ['count'], cpus = [1] }]",
            "9:88: CPU 1 is used twice; each worker needs its own CPU",
        ),
        (
            "workers = [{ stages = ['parse'], replicas = 64 }, { stages = ['verify', 'count'] }]",
            "9:51: the mapping has 65 workers, but the limit is 64",
        ),
        (
            "workers = [{ stages = ['parse', 'verify', 'count'], replicas = 65, cpus = [-1] }]",
            "9:64: 'replicas' is 65; it must be from 1 to 64\n\
             9:76: an entry of 'cpus' is -1; it must be from 0 to 8191",
        ),
        (
            "workers = [{ stages = [] }]",
            "9:23: 'stages' must not be empty; example: stages = [\"parse\", \"verify\"]",
        ),
    ] {
        assert_eq!(messages(&format!("{path}{workers}\n")), expected, "{workers}");
    }
}

/// Texts to append to [`GOOD`], and the one problem that each has.
const RUN: &[(&str, &str)] = &[
    (
        "[run]\ntime = '1s'\npackets = 3\n",
        "6:11: 'time' and 'packets' are mutually exclusive; keep one of them",
    ),
    (
        "[run]\npackets = 3\ntime = '1s'\n",
        "6:8: 'time' and 'packets' are mutually exclusive; keep one of them",
    ),
    ("[run]\ntime = '0s'\n", "5:8: 'time': '0s' must be above 0 and at most 30 days"),
    (
        "[run]\ntime = 2\n",
        "5:8: 'time' must be a duration with a unit, not an integer; example: time = \"2s\"",
    ),
    (
        "[run]\nrate = 'line'\n",
        "5:8: rate = \"line\" needs [line]; add [line] with rate = \"10Gb/s\", or give a rate here",
    ),
    (
        "[run]\nrate = 'capture'\n",
        "5:8: rate = \"capture\" needs a capture; a generator has no recorded timestamps; use \
         \"max\", \"line\" or a rate",
    ),
    (
        "[run]\nrate = 'lin'\n",
        "5:8: 'rate': invalid rate 'lin'; did you mean 'line'? (or a rate such as '1.5Mpps' \
         or '5Gb/s')",
    ),
    ("[run]\nburst = 257\n", "5:9: 'burst' is 257; it must be from 1 to 256"),
    (
        "[run]\nburst = '32'\n",
        "5:9: 'burst' must be an integer from 1 to 256, not a string; example: burst = 32",
    ),
    ("[run]\nring = 300\n", "5:8: 'ring' is 300, not a power of two; nearest: 256 and 512"),
    ("[run]\nring = 40000\n", "5:8: 'ring' is 40000, not a power of two; nearest: 32768 and 65536"),
    ("[run]\nring = 1\n", "5:8: 'ring' is 1; it must be from 2 to 65536"),
    ("[run]\nfull_ring = 'dropp'\n", "5:13: 'full_ring' cannot be 'dropp'; did you mean 'drop'?"),
    ("[line]\nrate = '10Gbps'\nports = 0\n", "6:9: 'ports' is 0; it must be from 1 to 1024"),
];

#[test]
fn run() {
    after_good(RUN);
    let unit = messages(&format!(
        "{GOOD}[run]\nrate = '5Mpp'\ntime = '2 parsecs'\n[line]\nrate = '10 gigs'\n"
    ));
    let starts: Vec<_> = unit.lines().map(|line| line.split("; ").next().unwrap_or("")).collect();
    assert_eq!(
        starts,
        [
            "5:8: 'rate': '5Mpp' has an unknown unit, 'Mpp'",
            "6:8: 'time': '2 parsecs' has an unknown unit, 'parsecs'",
            "8:8: 'rate': '10 gigs' has an unknown unit, 'gigs'",
        ]
    );
}
