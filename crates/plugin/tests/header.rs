// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that `stage.h` is valid C11 and C++11, and that its structures have the same layout as
//! those of the data plane.

use linerate_stage_api::foreign::{ForeignBurst, PACKET_OFFSETS};
use std::process::Command;

const INCLUDE: &str = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include");
const STAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stages");

/// Compiles `layout.c` as `language`, runs it, and returns its output; `None` if the compiler is
/// not installed.
fn layout(compiler: &str, language: &str, standard: &str) -> Option<String> {
    let folder = tempfile::tempdir().expect("a temporary directory can be created");
    let program = folder.path().join("layout");
    let mut command = Command::new(compiler);
    command.args(["-x", language, &format!("-std={standard}"), INCLUDE]);
    command.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-o"]).arg(&program);
    let done = match command.arg(format!("{STAGES}/layout.c")).output() {
        Ok(done) => done,
        Err(error) => {
            println!("SKIP: {compiler}: {error}");
            return None;
        }
    };
    assert!(done.status.success(), "{compiler}: {}", String::from_utf8_lossy(&done.stderr));
    let run = Command::new(&program).output().expect("the compiled program starts");
    Some(String::from_utf8(run.stdout).expect("the program prints ASCII"))
}

#[test]
fn the_header_is_c_and_cpp_with_the_layout_of_a_line() {
    let mut expected: String = PACKET_OFFSETS
        .iter()
        .map(|(field, offset)| format!("linerate_packet {field} {offset}\n"))
        .collect();
    let pointer = size_of::<usize>();
    let sizes = [
        ("packet", 64),
        ("burst", size_of::<ForeignBurst>()),
        ("param", 32 + 2 * pointer + pointer),
        ("value", 8 + pointer.max(8)),
        ("setup", 4 * pointer + 8),
        ("stage", 16 + 9 * pointer),
    ];
    for (name, size) in sizes {
        expected += &format!("linerate_{name} size {size}\n");
    }
    let compilers = [
        ("cc", "c", "c11"),
        ("cc", "c", "c17"),
        ("c++", "c++", "c++11"),
        ("c++", "c++", "c++20"),
        ("clang", "c", "c11"),
        ("clang", "c++", "c++17"),
    ];
    for (compiler, language, standard) in compilers {
        if let Some(found) = layout(compiler, language, standard) {
            assert_eq!(found, expected, "{compiler} -std={standard}");
        }
    }
}
