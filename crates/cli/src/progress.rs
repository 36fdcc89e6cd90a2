// SPDX-License-Identifier: MIT OR Apache-2.0
//! Progress of a running command, shown on a terminal.

use crate::emit;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

const STEPS: u64 = 1_000;

/// A progress bar for a whole command; hidden unless stderr is a terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Creates a progress bar, which is hidden if `quiet` or if stderr is not a terminal.
    pub(crate) fn new(quiet: bool) -> Self {
        let shown = !quiet && std::io::stderr().is_terminal();
        let target =
            if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(STEPS), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}") {
            bar.set_style(style);
        }
        Self { bar }
    }

    /// Names the current step.
    pub(crate) fn step(&self, name: &str) {
        self.bar.set_message(name.to_owned());
    }

    /// Sets the completed fraction, 0 to 1.
    pub(crate) fn at(&self, share: f64) {
        self.bar.set_position((share.clamp(0.0, 1.0) * STEPS as f64) as u64);
    }

    /// Prints a message above the bar.
    pub(crate) fn warn(&self, text: &str) {
        self.bar.suspend(|| emit::say(&format!("warning:    {text}\n")));
    }

    /// Removes the bar.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
