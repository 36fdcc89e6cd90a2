// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters read by their registers: on emulated boards without an operating system.
//!
//! `lab/pmu` is one program for ARMv7 and AArch64, which checks what one machine can see of itself
//! and runs the tutorial's programs. Here it is built, started several times, and judged by what it
//! cannot know: how many instructions a program has, and that every run says the same.

mod board;
mod guests;
mod judge;

use super::{Obstacle, check_tools, note};
use board::BOARDS;

/// As in `cargo xtask lab NAME`.
pub(crate) const NAME: &str = "pmu";

/// Commands needed here, and the packages that bring them.
const TOOLS: [(&str, &str); 4] = [
    ("qemu-system-aarch64", "qemu-system-arm"),
    ("qemu-system-arm", "qemu-system-arm"),
    ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
    ("arm-linux-gnueabi-gcc", "gcc-arm-linux-gnueabi"),
];

/// How often each board is started.
#[derive(Clone, Copy)]
pub(crate) enum Extent {
    /// As often as CI has time for.
    Brief,
    Full,
}

impl Extent {
    fn runs(self) -> usize {
        match self {
            Self::Brief => 2,
            Self::Full => 5,
        }
    }
}

/// Starts every board and every guest; says what each showed.
pub(crate) fn check(extent: Extent) -> Result<(), Obstacle> {
    check_tools(&TOOLS)?;
    check_boards(extent)?;
    guests::check(extent)
}

fn check_boards(extent: Extent) -> Result<(), Obstacle> {
    for board in &BOARDS {
        let image = board.build()?;
        let console = board.run(&image)?;
        for _ in 1..extent.runs() {
            if board.run(&image)? != console {
                return Err(Obstacle::Failed(format!("{}: two runs differ", board.name)));
            }
        }
        let shown = judge::judge(&console, &board.disassemble(&image)?)
            .map_err(|why| format!("{}: {why}; it said:\n{console}", board.name))?;
        let runs = extent.runs();
        note(&format!("RESULT PASS {}: {shown}, {runs} runs identical", board.name));
    }
    Ok(())
}
