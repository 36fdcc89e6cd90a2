// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits for the counted target to end.

use linerate_linux::child::{self, Child, Ended, Stranger};
use linerate_linux::signal::Caught;
use std::time::Duration;

/// How a command ended.
#[derive(Default)]
pub(crate) struct End {
    pub(crate) ended: Option<Ended>,
    /// Whether a signal arrived.
    pub(crate) interrupted: bool,
    /// Whether the command was terminated because of the time limit.
    pub(crate) is_time_up: bool,
}

/// What a run waits for: the command's process, an existing process, or only a signal.
pub(crate) enum Waited {
    Child(Child),
    Stranger(Stranger),
    Nothing,
}

/// Result of waiting for the target: whether it has ended.
pub(crate) enum Woken {
    Ended(Option<Ended>),
    Not,
}

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

    /// Returns whether the command has already received a signal. The terminal sends keyboard
    /// signals to the whole process group, which includes the command unless something like
    /// timeout(1) or setsid(1) has put the command into another group.
    pub(crate) fn has_got(&self, signal: Caught) -> bool {
        matches!(self, Self::Child(child) if signal.is_key() && child.is_in_own_group())
    }

    /// Forwards a termination request to the command. Returns `true` if the target is not a
    /// command, in which case counting should end at once.
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
