// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the program's exit status: 2 for unknown commands.
#![forbid(unsafe_code)]

use std::process::Command;

fn run(words: &[&str]) -> (Option<i32>, String, String) {
    let ended = Command::new(env!("CARGO_BIN_EXE_xtask")).args(words).output();
    let ended = ended.expect("the program can be started");
    let text = |bytes| String::from_utf8(bytes).expect("all it says is text");
    (ended.status.code(), text(ended.stdout), text(ended.stderr))
}

#[test]
fn unknown_names_and_bad_numbers_end_with_2_and_say_what_there_is() {
    for (words, said) in [
        (&["nothing"][..], "usage: cargo xtask COMMAND"),
        (&["ci", "nothing"], "ring under Miri"),
        (&["lab", "nothing"], "guest-arm64"),
        (&["isa", "nothing"], "arm926"),
        (&["splice", "--limit", "x"], "--limit takes a number of minutes"),
    ] {
        let (status, stdout, stderr) = run(words);
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{words:?}: {stderr}");
        assert!(stderr.starts_with("xtask: ") && stderr.contains(said), "{words:?}: {stderr}");
    }
}

#[test]
fn requested_output_goes_to_stdout() {
    for (words, said) in [(&["ci", "--help"][..], "usage: "), (&["ci", "--list"], "guests\n")] {
        let (status, stdout, stderr) = run(words);
        assert_eq!((status, stderr.as_str()), (Some(0), ""), "{words:?}");
        assert!(stdout.contains(said), "{words:?}: {stdout}");
    }
}
