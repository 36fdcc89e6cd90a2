// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that reply with JSON, one port at a time, over a SOCK_SEQPACKET socket: DPDK
//! applications.

mod answers;
mod description;

use super::listening::{Kind, Listening, below_root};
use super::refusal;
use answers::{Counters, Totals, parse_counters, parse_field, parse_list};
use description::Description;
use linerate_linux::monotonic_ns;
use linerate_linux::seqpacket::Seqpacket;
use linerate_machine::Root;
use linerate_record::why::{ProgramCounts, Unread};
use std::path::Path;
use std::time::Duration;

/// Timeout for connecting, and for each request.
const DEADLINE: Duration = Duration::from_millis(200);

/// Maximum reply size. DPDK's replies are at most 16 KiB.
const ANSWER_MAX: usize = 64 << 10;

/// Total timeout for the replies of one read.
const READ_MAX: Duration = Duration::from_secs(1);

/// Maximum number of ports to query.
const PORTS_MAX: usize = 16;

/// A program that is queried port by port.
#[derive(Debug)]
pub(crate) struct Ports {
    description: Description,
    connection: Option<Seqpacket>,
    says: Option<String>,
    ports: Vec<Port>,
    first: Totals,
    last: Totals,
    trouble: Option<String>,
    /// Deadline for the current read's replies, in ns.
    until_ns: u64,
}

/// One port of the program.
#[derive(Debug)]
struct Port {
    number: u64,
    is_missed_counted: bool,
    /// Whether this port's packets are also counted at other ports.
    is_upper: bool,
}

/// Removes ports whose packets are also counted at other ports, unless no port would remain.
fn leave_out_upper(ports: &mut Vec<Port>) {
    if ports.iter().any(|port| !port.is_upper) {
        ports.retain(|port| !port.is_upper);
    }
}

/// Finds a program among the observed processes by its listening sockets.
pub(super) fn find(
    root: &Root,
    listening: &[Listening],
    unread: &mut Vec<Unread>,
) -> Option<Ports> {
    let description = description::dpdk();
    let is_meant = |socket: &&Listening| {
        socket.kind == Kind::Messages && socket.path.contains(&description.socket)
    };
    let socket = listening.iter().find(is_meant)?;
    match Ports::start(root, description, &below_root(socket)) {
        Ok(ports) => Some(ports),
        Err(reason) => {
            unread.push(refusal(&socket.path, &reason));
            None
        }
    }
}

impl Ports {
    fn start(root: &Root, description: Description, socket: &Path) -> Result<Self, String> {
        let path = root.path(&socket.display().to_string());
        let connection = Seqpacket::connect(&path, DEADLINE).map_err(|error| error.to_string())?;
        let greeting = receive(&connection)?;
        let mut program = Self {
            says: parse_field(&greeting, None, &description.program),
            connection: Some(connection),
            ports: Vec::new(),
            first: Totals::default(),
            last: Totals::default(),
            trouble: None,
            description,
            until_ns: latest_ns(),
        };
        let list = program.ask(&program.description.list)?;
        let numbers = parse_list(&list, &program.description.list).ok_or(
            "the reply is not a list \
            of ports",
        )?;
        for number in numbers.into_iter().take(PORTS_MAX) {
            let about = program.ask(&question(&program.description.about, number))?;
            let name =
                parse_field(&about, Some(&program.description.about), &program.description.name);
            let name = name.as_deref();
            let is_missed_counted =
                name.is_some_and(|name| program.description.is_missed_counted(root, name));
            let is_upper = name.is_some_and(|name| program.description.is_upper(name));
            program.ports.push(Port { number, is_missed_counted, is_upper });
        }
        leave_out_upper(&mut program.ports);
        program.first = program.totals()?;
        program.last = program.first.clone();
        Ok(program)
    }

    /// Reads the counters and returns their increase since the start of the window: packets and, if
    /// counted, bytes. `None` if they are no longer available.
    pub(super) fn read(&mut self) -> Option<(u64, Option<u64>)> {
        self.connection.as_ref()?;
        self.until_ns = latest_ns();
        match self.totals().and_then(|now| self.check(now)) {
            Ok(now) => self.last = now,
            Err(reason) => {
                self.trouble = Some(reason);
                self.connection = None;
                return None;
            }
        }
        let received = self.last.counters.received.saturating_sub(self.first.counters.received);
        let sent = self.last.counters.sent.saturating_sub(self.first.counters.sent);
        let bytes = self.last.counters.bytes.saturating_sub(self.first.counters.bytes);
        Some((received.max(sent), (received >= sent && bytes > 0).then_some(bytes)))
    }

    /// Rejects counters that went backwards: either they were reset, or they are not counters.
    fn check(&self, now: Totals) -> Result<Totals, String> {
        match now.counters.is_behind(&self.last.counters) {
            true => Err("the counters went backwards during the window".to_owned()),
            false => Ok(now),
        }
    }

    fn totals(&self) -> Result<Totals, String> {
        let mut totals = Totals { is_missed_known: !self.ports.is_empty(), ..Totals::default() };
        for port in &self.ports {
            let answer = self.ask(&question(&self.description.counters, port.number))?;
            let counters: Counters = parse_counters(&answer, &self.description).ok_or(
                "the reply does not contain a \
                    port's counters",
            )?;
            totals.add(counters, port.is_missed_counted);
        }
        Ok(totals)
    }

    fn ask(&self, question: &str) -> Result<String, String> {
        let connection = self.connection.as_ref().ok_or("not connected")?;
        if monotonic_ns() > self.until_ns {
            return Err(format!("the replies took more than {READ_MAX:?} in total"));
        }
        connection.send(question.as_bytes()).map_err(|error| error.to_string())?;
        receive(connection)
    }

    /// Returns the program's counts over the window and begins the next window.
    pub(super) fn finish(&mut self, unread: &mut Vec<Unread>) -> ProgramCounts {
        if let Some(reason) = &self.trouble {
            unread.push(refusal(&self.description.socket, reason));
        }
        let first = std::mem::replace(&mut self.first, self.last.clone()).counters;
        let last = self.last.counters.clone();
        let missed = last.missed.saturating_sub(first.missed);
        let others = last.others.into_iter().filter_map(|(name, now)| {
            let more = now.checked_sub(first.others.get(&name).copied().unwrap_or(0))?;
            (more > 0).then_some((name, more))
        });
        ProgramCounts {
            adapter: self.description.adapter.clone(),
            program: self.says.clone(),
            unit: self.description.unit.clone(),
            received: Some(last.received.saturating_sub(first.received)),
            sent: Some(last.sent.saturating_sub(first.sent)),
            // A count above 0 is valid even where a 0 would not be.
            missed: (missed > 0 || self.last.is_missed_known).then_some(missed),
            // If packets were received but no bytes, the program does not count bytes.
            bytes: Some(last.bytes.saturating_sub(first.bytes))
                .filter(|bytes| *bytes > 0 || last.received == first.received),
            others: others.collect(),
        }
    }

    /// Returns the counter's name in the record.
    pub(super) fn counter(&self) -> &str {
        &self.description.counter
    }
}

fn latest_ns() -> u64 {
    monotonic_ns() + READ_MAX.as_nanos() as u64
}

/// Returns a request with a port number as its parameter.
fn question(text: &str, number: u64) -> String {
    text.replace("{}", &number.to_string())
}

fn receive(connection: &Seqpacket) -> Result<String, String> {
    let bytes = connection.receive(ANSWER_MAX).map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|_| "the reply is not text".to_owned())
}

#[cfg(test)]
mod tests;
