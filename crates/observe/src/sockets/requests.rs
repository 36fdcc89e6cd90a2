// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long requests on the program's TCP connections wait for replies, estimated by sampling.

use super::alternation::{Alternation, Idle};
use super::reading::Asks;
use super::rotation::Side;
use super::turns::Turns;
use super::watched::Watched;
use linerate_record::stats::share_interval;
use linerate_record::why::{RequestCounts, SocketKind};
use linerate_record::{Figure, Tier};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum ratio of the bytes that one end sends to those that the other end sends. Beyond it, the
/// connection carries a stream, not requests and replies.
const ONE_WAY: u64 = 1000;

/// Pending requests in one reading of all connections.
#[derive(Clone, Debug, Default)]
struct Pending {
    is_read: bool,
    /// Number of clients still waiting for a reply.
    of_clients: u32,
    /// Whether a client has been waiting for 4 ms or longer.
    is_late: bool,
    at_servers: BTreeSet<String>,
    /// Number of connections on which the program is waiting for a server.
    awaiting: u32,
    /// Whether a connection to a server is still being opened.
    is_opening: bool,
}

/// Requests on all of the program's connections.
#[derive(Debug, Default)]
struct Requests {
    /// Pending requests, by reading number.
    readings: BTreeMap<u32, Pending>,
    connections: u64,
    /// Number of connections whose readings do not show whether a request was pending: accepted
    /// connections, and connections to servers.
    undetermined: [u64; 2],
    /// Number of accepted connections whose exchanges are regular.
    regular: u64,
    /// Number of exchanges on regular connections.
    exchanges: u64,
    /// For each reading, the number of regular connections with a pending request, and the number
    /// of regular connections that were read.
    of_regular: BTreeMap<u32, (u32, u32)>,
    /// Readings of the connections that the program accepted and of those that it opened; `None` if
    /// each reading covers all connections.
    in_rotation: Option<[Side; 2]>,
}

/// Returns the requests on a program's connections over a window of `elapsed_s`. If none of the
/// connections that it accepted shows whether its client is waiting, the error is their number.
/// `looks` are the readings in which all connections were searched for. `is_in_rotation` is whether
/// the other readings cover only some of the connections.
pub(super) fn requests<'a>(
    sockets: impl Iterator<Item = &'a Watched>,
    looks: &BTreeSet<u32>,
    elapsed_s: f64,
    is_in_rotation: bool,
) -> Result<RequestCounts, u64> {
    let sockets: Vec<&Watched> = sockets.collect();
    let listening = sockets.iter().filter(|socket| socket.kind == SocketKind::TcpListen);
    let ports: BTreeSet<u16> = listening.filter_map(|socket| socket.port()).collect();
    let is_accepted = |socket: &Watched| socket.port().is_some_and(|port| ports.contains(&port));
    let tcp = sockets.iter().copied().filter(|socket| socket.kind == SocketKind::Tcp);
    let (active, quiet): (Vec<&Watched>, Vec<&Watched>) = tcp.partition(|socket| {
        let tcp = socket.tcp();
        tcp.bytes_received + tcp.bytes_acked > 0 || socket.openings(false).next().is_some()
    });
    // A request without a reply on a connection that carries nothing else is a long poll, unless no
    // other request is answered either.
    let (connections, silent) = match active.is_empty() {
        true => (quiet, 0),
        false => (active, count_waiting(&quiet, is_accepted)),
    };
    let in_rotation = is_in_rotation.then(Default::default);
    let mut requests = Requests { in_rotation, ..Requests::default() };
    let alternating = || connections.iter().copied().filter(|socket| !is_stream(socket));
    let idle = idle_states(alternating(), is_accepted);
    let answering = |socket: &&Watched| socket.tcp().bytes_received > 0;
    let answering: BTreeSet<&str> =
        alternating().filter(answering).filter_map(|socket| socket.remote.as_deref()).collect();
    for socket in alternating() {
        let service = service(socket, is_accepted(socket));
        requests.add(socket, is_accepted(socket), idle.get(&service).copied().flatten());
        if let Some(server) = socket.remote.as_deref().filter(|_| !is_accepted(socket)) {
            for tick in socket.openings(answering.contains(server)) {
                requests.readings.entry(tick).or_default().is_opening = true;
            }
        }
    }
    let of = |accepted: bool| {
        connections.iter().filter(move |one| is_accepted(one) == accepted && !is_stream(one))
    };
    if are_brief(of(true), looks) {
        requests.restrict_to(looks);
    }
    // Other readings show brief connections only if they were found by a search.
    let of_servers = are_brief(of(false), looks).then_some(looks);
    match (requests.connections, requests.undetermined) {
        (0, [undetermined, _]) => Err(undetermined),
        _ => Ok(requests.counts(silent, of_servers, elapsed_s)),
    }
}

/// Returns the end that sends requests.
fn asks(is_accepted: bool) -> Asks {
    if is_accepted { Asks::Peer } else { Asks::Program }
}

/// A service of the program or of a server: whether the program accepted the connection, and its
/// local port in that case, otherwise the address of the server.
type Service = (bool, String);

fn service(socket: &Watched, is_accepted: bool) -> Service {
    let own = || socket.port().map(|port| port.to_string());
    let address = if is_accepted { own() } else { socket.remote.clone() };
    (is_accepted, address.unwrap_or_default())
}

/// Returns the state of each service's connections while no request is pending; `None` if unknown.
fn idle_states<'a>(
    connections: impl Iterator<Item = &'a Watched>,
    is_accepted: impl Fn(&Watched) -> bool,
) -> BTreeMap<Service, Option<Idle>> {
    let mut services = BTreeMap::<Service, Vec<Alternation>>::new();
    for socket in connections {
        let is_accepted = is_accepted(socket);
        if let Some(alternation) = socket.alternation(asks(is_accepted)) {
            services.entry(service(socket, is_accepted)).or_default().push(alternation);
        }
    }
    services.into_iter().map(|(service, all)| (service, Idle::of(&all))).collect()
}

/// Returns whether at least half of the connections began and ended within the window.
fn are_brief<'a>(
    connections: impl Iterator<Item = &'a &'a Watched>,
    looks: &BTreeSet<u32>,
) -> bool {
    let last_look = looks.last().copied();
    let (mut all, mut brief) = (0, 0);
    for socket in connections {
        let has_ended = socket.last_tick().is_some_and(|tick| Some(tick) < last_look);
        (all, brief) = (all + 1, brief + u32::from(socket.first.is_none() && has_ended));
    }
    brief > 0 && 2 * brief >= all
}

impl Requests {
    fn add(&mut self, socket: &Watched, is_accepted: bool, idle: Option<Idle>) {
        let turns = socket.turns(asks(is_accepted), idle);
        if !turns.is_known {
            self.undetermined[usize::from(!is_accepted)] += 1;
            return;
        }
        note(&mut self.readings, &turns, socket, is_accepted);
        if let Some([accepted, opened]) = &mut self.in_rotation {
            if is_accepted { accepted } else { opened }.add(&turns, socket);
        }
        self.connections += u64::from(is_accepted);
        let Some(exchanges) = turns.exchanges.filter(|_| is_accepted && socket.is_whole()) else {
            return;
        };
        (self.regular, self.exchanges) = (self.regular + 1, self.exchanges + u64::from(exchanges));
        for turn in &turns.all {
            let (pending, all) = self.of_regular.entry(turn.tick).or_default();
            (*pending, *all) = (*pending + u32::from(turn.is_pending), *all + 1);
        }
    }

    /// Restricts the readings to `looks`. In other readings, the only brief connections are those
    /// that outlast the slice in which they were found, which are the ones with the longest waits.
    /// If a search found none, no client was waiting.
    fn restrict_to(&mut self, looks: &BTreeSet<u32>) {
        // Those that the program opened may last.
        self.in_rotation = self.in_rotation.take().map(|[_, opened]| [Side::default(), opened]);
        self.readings.retain(|tick, _| looks.contains(tick));
        for &tick in looks {
            self.readings.entry(tick).or_default().is_read = true;
        }
    }

    /// Returns the counts over the window. `looks` are the readings in which brief connections to
    /// servers were searched for; `None` if each reading covers the connections to servers.
    fn counts(
        mut self,
        silent: u64,
        looks: Option<&BTreeSet<u32>>,
        elapsed_s: f64,
    ) -> RequestCounts {
        let [pending, awaiting] = self.means_of_rotation();
        let awaiting = awaiting.filter(|_| looks.is_none());
        self.readings.retain(|_, pending| pending.is_read);
        let readings = self.readings.len() as u64;
        let mean = |of: fn(&Pending) -> f64| {
            self.readings.values().map(of).sum::<f64>() / readings.max(1) as f64
        };
        let is_look = |tick: &u32| looks.is_none_or(|looks| looks.contains(tick));
        let looks: Vec<&Pending> =
            self.readings.iter().filter(|(tick, _)| is_look(tick)).map(|(_, at)| at).collect();
        let mean_of_looks = |of: fn(&Pending) -> f64| {
            looks.iter().map(|at| of(at)).sum::<f64>() / looks.len().max(1) as f64
        };
        let mut servers = BTreeMap::<&String, u64>::new();
        for at in self.readings.values().filter(|at| at.is_awaiting()) {
            at.at_servers.iter().for_each(|server| *servers.entry(server).or_default() += 1);
        }
        let server = servers.into_iter().max_by_key(|(_, count)| *count);
        RequestCounts {
            readings,
            connections: self.connections,
            pending_share: mean(|at| f64::from(u8::from(at.of_clients > 0))),
            pending_mean: pending.unwrap_or_else(|| mean(|at| f64::from(at.of_clients))),
            late_share: mean(|at| f64::from(u8::from(at.is_late))),
            awaiting_share: mean_of_looks(|at| f64::from(u8::from(at.is_awaiting()))),
            awaiting_mean: awaiting.unwrap_or_else(|| mean_of_looks(|at| f64::from(at.awaiting))),
            opening_share: Some(mean_of_looks(|at| {
                f64::from(u8::from(at.is_awaiting() && at.is_opening))
            })),
            server_readings: Some(looks.len() as u64),
            server: server.map(|(name, _)| name.clone()),
            silent,
            undetermined: Some(self.undetermined[0]),
            undetermined_at_servers: Some(self.undetermined[1]),
            requests: self.exchanges,
            reply_time: self.reply_time(elapsed_s),
        }
    }

    /// Returns how many requests were pending on average on connections that the program accepted,
    /// and on those that it opened; `None` if each reading covers all connections.
    fn means_of_rotation(&self) -> [Option<f64>; 2] {
        let ends = self.readings.keys().next().zip(self.readings.keys().last());
        match (&self.in_rotation, ends) {
            (Some(sides), Some((&begin, &end))) => {
                sides.each_ref().map(|side| side.mean(begin, end))
            }
            _ => [None; 2],
        }
    }

    /// Returns the mean time from a request to its reply, by Little's law: the mean number of
    /// pending requests divided by their rate.
    fn reply_time(&self, elapsed_s: f64) -> Figure {
        const METHOD: &str = "pending requests (sampled) / requests per second (Little's law)";
        const SEED: u64 = 0x7265_706c;
        if self.exchanges == 0 {
            let why = "on no connection do requests and replies take a fixed number of segments";
            return Figure::absent("s", Tier::Sw, METHOD, why);
        }
        let (pending, all): (Vec<f64>, Vec<f64>) = self
            .of_regular
            .values()
            .map(|&(pending, all)| (f64::from(pending), f64::from(all)))
            .unzip();
        let pending = share_interval(&pending, &all, SEED).scale(self.regular as f64);
        Figure::number("s", pending.scale(elapsed_s / self.exchanges as f64), Tier::Sw, METHOD)
    }
}

impl Pending {
    /// Returns whether a client and the program were waiting for a reply at the same time.
    fn is_awaiting(&self) -> bool {
        self.of_clients > 0 && self.awaiting > 0
    }
}

/// Counts accepted connections on which a request had no reply in more than 95 % of the readings.
fn count_waiting(sockets: &[&Watched], is_accepted: impl Fn(&Watched) -> bool) -> u64 {
    let waits =
        |socket: &&&Watched| is_accepted(socket) && socket.turns(Asks::Peer, None).share() > 0.95;
    sockets.iter().filter(waits).count() as u64
}

fn note(ticks: &mut BTreeMap<u32, Pending>, turns: &Turns, socket: &Watched, is_accepted: bool) {
    for turn in &turns.all {
        let at = ticks.entry(turn.tick).or_default();
        at.is_read |= is_accepted;
        at.of_clients += u32::from(is_accepted && turn.is_pending);
        at.is_late |= is_accepted && turn.is_late;
        if let Some(server) = socket.remote.as_ref().filter(|_| turn.is_pending && !is_accepted) {
            at.at_servers.insert(server.clone());
            at.awaiting += 1;
        }
    }
}

/// Returns whether a connection carries data in one direction only. A large first request without a
/// reply yet does not count.
fn is_stream(socket: &Watched) -> bool {
    /// Maximum number of bytes of a first request; a connection that carried more in one direction
    /// may be a stream.
    const REQUEST: u64 = 65_536;
    let tcp = socket.tcp();
    let (less, more) =
        (tcp.bytes_received.min(tcp.bytes_acked), tcp.bytes_received.max(tcp.bytes_acked));
    socket.is_one_way() || more > REQUEST && more > ONE_WAY * less
}
