// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that reply with text: HAProxy, nginx, Open vSwitch, VPP, WireGuard.

mod asking;
mod configuration;
mod description;
mod parse;

use super::listening::{Kind, Listening, below_root};
use super::refusal;
use asking::{Place, ask, pages};
use configuration::named_paths;
use description::{Description, Named, Transport};
use linerate_machine::Root;
use linerate_record::why::{ProgramCounts, Unread};
use parse::{Counters, parse};
use std::net::SocketAddr;
use std::path::Path;

/// Unit of counters that can be compared with those of the network stack's layers.
const PACKETS: &str = "packets";

/// Maximum number of HTTP pages to try.
const PAGES_MAX: usize = 4;

/// A program that replies with text.
#[derive(Debug)]
pub(crate) struct Texts {
    description: Description,
    root: Root,
    place: Place,
    /// Number of requests sent after the first one. Some programs include these requests in their
    /// counts.
    asked: u64,
    first: Counters,
    last: Counters,
    /// Error after which the program is no longer queried.
    trouble: Option<String>,
}

/// Finds a program by the sockets or TCP addresses on which observed processes listen.
pub(super) fn find(
    root: &Root,
    listening: &[Listening],
    addresses: &[(u32, String, SocketAddr)],
    unread: &mut Vec<Unread>,
) -> Option<Texts> {
    let mut refused = Vec::new();
    for description in description::all() {
        let places = places(root, &description, listening, addresses, &mut refused);
        for place in places {
            match Texts::start(root, &description, place.clone()) {
                Ok(texts) => return Some(texts),
                Err(reason) => refused.push(refusal(&name(&place), &reason)),
            }
        }
    }
    // If several adapters for a program fail, report only the last failure.
    unread.extend(refused.pop());
    None
}

/// Returns candidate addresses for a program type. Adds to `refused` the sockets that may be for
/// clients.
fn places(
    root: &Root,
    description: &Description,
    listening: &[Listening],
    addresses: &[(u32, String, SocketAddr)],
    refused: &mut Vec<Unread>,
) -> Vec<Place> {
    let is_meant = |program: &String| description.programs.contains(program);
    match &description.transport {
        Transport::Unix { path, named, .. } => listening
            .iter()
            .filter(|socket| socket.kind == Kind::Stream && socket.path.contains(path.as_str()))
            .filter(|socket| is_meant(&socket.program))
            .filter(|socket| {
                named.as_ref().is_none_or(|named| is_named(root, socket, named, refused))
            })
            .map(|socket| Place::Unix(below_root(socket)))
            .collect(),
        Transport::Http { configuration, directive } => {
            let own = addresses.iter().filter(|(_, program, _)| is_meant(program));
            let own: Vec<SocketAddr> = own.map(|(.., address)| *address).collect();
            let first = addresses.iter().find(|(_, program, _)| is_meant(program));
            let Some((pid, ..)) = first else { return Vec::new() };
            let mut pages = pages(root, *pid, configuration, directive, &own);
            pages.truncate(PAGES_MAX);
            pages
        }
    }
}

/// Returns whether the configuration of a socket's process names the socket. HAProxy may put a
/// prefix before all paths (`unix-bind prefix`).
fn is_named(root: &Root, socket: &Listening, named: &Named, refused: &mut Vec<Unread>) -> bool {
    let Named { option, after } = named;
    if let Some(paths) = named_paths(root, socket.pid, option, after) {
        return paths.iter().any(|path| socket.path.ends_with(path));
    }
    refused.push(Unread {
        what: "program_counters".to_owned(),
        reason: format!(
            "the program's socket {} was not queried, because it may be a socket for clients: the \
             configuration file that would show its purpose (`{after}`) is not on the command line \
             ({option} FILE) or cannot be read",
            socket.path
        ),
        fix: None,
    });
    false
}

fn name(place: &Place) -> String {
    match place {
        Place::Unix(path) => {
            // The path as the program sees it, without the prefix that leads into its mount
            // namespace.
            let own: std::path::PathBuf = path.iter().skip(3).collect();
            Path::new("/").join(own).display().to_string()
        }
        Place::Http(address, page) => format!("http://{address}{page}"),
    }
}

impl Texts {
    fn start(root: &Root, description: &Description, place: Place) -> Result<Self, String> {
        let answer = ask(root, &place, &description.transport, &description.question)?;
        let first = parse(&answer, description);
        if first.is_empty() {
            return Err("the reply contains none of the program's counters".to_owned());
        }
        Ok(Self {
            description: description.clone(),
            root: root.clone(),
            place,
            asked: 0,
            last: first.clone(),
            first,
            trouble: None,
        })
    }

    /// Reads the counters and returns their increase since the start of the window: packets and, if
    /// counted, bytes. `None` if the program does not count packets.
    pub(super) fn read(&mut self) -> Option<(u64, Option<u64>)> {
        if self.trouble.is_some() {
            return None;
        }
        let description = &self.description;
        self.asked += 1;
        let answer = ask(&self.root, &self.place, &description.transport, &description.question);
        match answer.and_then(|answer| self.check(parse(&answer, &self.description))) {
            Ok(now) => self.last = now,
            Err(reason) => {
                self.trouble = Some(reason);
                return None;
            }
        }
        if self.description.unit != PACKETS {
            return None;
        }
        let more = |of: fn(&Counters) -> Option<u64>| of(&self.last)?.checked_sub(of(&self.first)?);
        let (received, sent) = (more(|c| c.received), more(|c| c.sent));
        let bytes = more(|c| c.bytes).filter(|bytes| received >= sent && *bytes > 0);
        Some((received.max(sent)?, bytes))
    }

    /// Rejects counters that went backwards: either they were reset, or they are not counters.
    fn check(&self, now: Counters) -> Result<Counters, String> {
        match now.is_behind(&self.last) {
            true => Err("the counters went backwards during the window".to_owned()),
            false => Ok(now),
        }
    }

    /// Returns the program's counts over the window and begins the next window.
    pub(super) fn finish(&mut self, unread: &mut Vec<Unread>) -> ProgramCounts {
        if let Some(reason) = &self.trouble {
            unread.push(refusal(&name(&self.place), reason));
        }
        let own = if self.description.counts_questions { self.asked } else { 0 };
        let (first, last) = (&self.first, &self.last);
        let more = |of: fn(&Counters) -> Option<u64>| Some(of(last)?.saturating_sub(of(first)?));
        let others = last.others.iter().filter_map(|(name, now)| {
            let more = now.checked_sub(*first.others.get(name)?)?.saturating_sub(own);
            (more > 0).then(|| (name.clone(), more))
        });
        let others = others.collect();
        let counts = ProgramCounts {
            program: None,
            received: more(|counters| counters.received).map(|count| count.saturating_sub(own)),
            sent: more(|counters| counters.sent),
            missed: more(|counters| counters.missed),
            bytes: more(|counters| counters.bytes),
            others,
            adapter: self.description.adapter.clone(),
            unit: self.description.unit.clone(),
        };
        (self.first, self.asked) = (self.last.clone(), 0);
        counts
    }

    /// Returns the counter's name in the record.
    pub(super) fn counter(&self) -> &str {
        &self.description.counter
    }
}

#[cfg(test)]
mod tests;
