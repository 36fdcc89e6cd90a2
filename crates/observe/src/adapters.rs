// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program's own counters, read over its socket.
//!
//! Which socket, which questions, which fields, and which of them mean anything is data: a file in
//! `adapters`. A field that no file says to be counted is `null`. A program that hangs, lies or
//! sends garbage is asked no more; what it said until then is kept.

mod listening;
mod ports;
mod texts;

use crate::sockets::Sockets;
use linerate_machine::Root;
use linerate_record::why::{ProgramCounts, Unread};
use ports::Ports;
use texts::Texts;

/// A program that is asked.
#[derive(Debug)]
pub(crate) enum Program {
    /// It answers port by port.
    Ports(Ports),
    /// It answers with a text.
    Texts(Texts),
}

/// Finds a program among the watched processes by the sockets that they listen on. `unix` is the
/// text of /proc/PID/net/unix; addresses of TCP can be reached from here if `is_own_network`.
pub(crate) fn find(
    root: &Root,
    unix: &str,
    sockets: &Sockets,
    is_own_network: bool,
    unread: &mut Vec<Unread>,
) -> Option<Program> {
    let listening = listening::listening(root, unix, sockets.owners());
    let addresses = if is_own_network { sockets.listening_addresses(root) } else { Vec::new() };
    let ports = ports::find(root, &listening, unread).map(Program::Ports);
    let texts = || texts::find(root, &listening, &addresses, unread).map(Program::Texts);
    ports.or_else(texts)
}

fn refusal(socket: &str, reason: &str) -> Unread {
    Unread {
        what: "program_counters".to_owned(),
        reason: format!("the program's socket {socket} gave no usable answer: {reason}"),
        fix: None,
    }
}

impl Program {
    /// Asks for the counters; the packets and their bytes, if it counts packets.
    pub(crate) fn read(&mut self) -> Option<(u64, Option<u64>)> {
        match self {
            Self::Ports(ports) => ports.read(),
            Self::Texts(texts) => texts.read(),
        }
    }

    /// Its counts over the window.
    pub(crate) fn finish(self, unread: &mut Vec<Unread>) -> ProgramCounts {
        match self {
            Self::Ports(ports) => ports.finish(unread),
            Self::Texts(texts) => texts.finish(unread),
        }
    }

    /// The counter, as the record names it.
    pub(crate) fn counter(&self) -> &str {
        match self {
            Self::Ports(ports) => ports.counter(),
            Self::Texts(texts) => texts.counter(),
        }
    }
}
