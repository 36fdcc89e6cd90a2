// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program's own counters, read over its socket.
//!
//! Sockets, requests, fields and their meanings are defined in data files under `adapters`, not in
//! code. A counter that the program is not known to maintain is `null`. A program that hangs or
//! sends invalid replies is not queried again; earlier replies are kept.

mod listening;
mod ports;
mod texts;

use crate::sockets::Sockets;
use linerate_machine::Root;
use linerate_record::why::{ProgramCounts, Unread};
use ports::Ports;
use texts::Texts;

/// A program that exports its own counters.
#[derive(Debug)]
pub(crate) enum Program {
    /// A program that replies port by port.
    Ports(Box<Ports>),
    /// A program that replies with text.
    Texts(Box<Texts>),
}

/// Finds a supported program among the observed processes by its listening sockets. `unix` is the
/// text of /proc/PID/net/unix; TCP addresses are tried only if `is_own_network`, as they cannot be
/// reached from another network namespace.
pub(crate) fn find(
    root: &Root,
    unix: &str,
    sockets: &Sockets,
    is_own_network: bool,
    unread: &mut Vec<Unread>,
) -> Option<Program> {
    let listening = listening::listening(root, unix, sockets.owners());
    let addresses = if is_own_network { sockets.listening_addresses(root) } else { Vec::new() };
    let ports = ports::find(root, &listening, unread).map(Box::new).map(Program::Ports);
    let texts =
        || texts::find(root, &listening, &addresses, unread).map(Box::new).map(Program::Texts);
    ports.or_else(texts)
}

fn refusal(socket: &str, reason: &str) -> Unread {
    Unread {
        what: "program_counters".to_owned(),
        reason: format!("no usable reply from the program's socket {socket}: {reason}"),
        fix: None,
    }
}

impl Program {
    /// Reads the program's counters and returns their increase since the start of the window:
    /// packets and, if counted, bytes. `None` if the program does not count packets.
    pub(crate) fn read(&mut self) -> Option<(u64, Option<u64>)> {
        match self {
            Self::Ports(ports) => ports.read(),
            Self::Texts(texts) => texts.read(),
        }
    }

    /// Returns the program's counts over the window and begins the next window.
    pub(crate) fn finish(&mut self, unread: &mut Vec<Unread>) -> ProgramCounts {
        match self {
            Self::Ports(ports) => ports.finish(unread),
            Self::Texts(texts) => texts.finish(unread),
        }
    }

    /// Returns the counter's name in the record.
    pub(crate) fn counter(&self) -> &str {
        match self {
            Self::Ports(ports) => ports.counter(),
            Self::Texts(texts) => texts.counter(),
        }
    }
}
