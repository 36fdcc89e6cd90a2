// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting for the end of what is counted.

use linerate_linux::child::{self, Child, Ended, Stranger};
use linerate_linux::signal::Caught;
use std::time::Duration;

/// How a command ended that was waited for.
#[derive(Default)]
pub(crate) struct End {
    pub(crate) ended: Option<Ended>,
    /// Whether a signal came.
    pub(crate) interrupted: bool,
    /// Whether it was told to end because its time was up.
    pub(crate) is_time_up: bool,
}

/// What is waited for.
pub(crate) enum Waited {
    Child(Child),
    Stranger(Stranger),
    Nothing,
}

/// What waiting ended with.
pub(crate) enum Woken {
    Ended(Option<Ended>),
    Not,
}

/// Signals are looked for this often at least: one that arrives just before this thread begins to
/// wait does not wake it.
pub(crate) const GLANCE: Duration = Duration::from_millis(100);

impl Waited {
    pub(crate) fn wait(&mut self, at_most: Duration) -> Woken {
        match self {
            Self::Child(child) => match child.wait_timeout(at_most) {
                Some(ended) => Woken::Ended(Some(ended)),
                None => Woken::Not,
            },
            Self::Stranger(process) if process.wait_timeout(at_most) => Woken::Ended(None),
            Self::Stranger(_) => Woken::Not,
            Self::Nothing => {
                child::sleep(at_most);
                Woken::Not
            }
        }
    }

    /// Whether a signal has reached a command already: keys of the terminal have, if they are one
    /// group there; timeout(1) and setsid(1) make their own.
    pub(crate) fn has_got(&self, signal: Caught) -> bool {
        matches!(self, Self::Child(child) if signal.is_key() && child.is_in_own_group())
    }

    /// Passes a wish to end on to a command; whether there is none, and counting ends by itself.
    pub(crate) fn tell_to_end(&self, signal: i32) -> bool {
        match self {
            Self::Child(child) => {
                child.signal(signal);
                false
            }
            Self::Stranger(_) | Self::Nothing => true,
        }
    }
}
