// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `linerate` program, with the stage and source kinds of this repository.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    linerate::main(&[])
}
