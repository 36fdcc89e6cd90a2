// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting for the counted target to end.

use linerate_linux::child::{self, Child, Ended, Stranger};
use linerate_linux::signal::Caught;
use std::time::Duration;

/// Exit of a waited-for command.
#[derive(Default)]
pub(crate) struct End {
    pub(crate) ended: Option<Ended>,
    /// Whether a signal arrived.
    pub(crate) interrupted: bool,
    /// Whether the command was terminated because of the time limit.
    pub(crate) is_time_up: bool,
}

/// The target of waiting.
pub(crate) enum Waited {
    Child(Child),
    Stranger(Stranger),
    Nothing,
}

/// Result of waiting.
pub(crate) enum Woken {
    Ended(Option<Ended>),
    Not,
}

/// Maximum time between polls for signals: a signal that arrives just before this thread begins to
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

    /// Whether a signal has already reached the command: signals from terminal keys have, if the
    /// command is in our process group; timeout(1) and setsid(1) create their own.
    pub(crate) fn has_got(&self, signal: Caught) -> bool {
        matches!(self, Self::Child(child) if signal.is_key() && child.is_in_own_group())
    }

    /// Forwards a request to end to the command; returns true if the target is not a command, in
    /// which case counting should end directly.
    pub(crate) fn request_end(&self, signal: i32) -> bool {
        match self {
            Self::Child(child) => {
                child.signal(signal);
                false
            }
            Self::Stranger(_) | Self::Nothing => true,
        }
    }
}
