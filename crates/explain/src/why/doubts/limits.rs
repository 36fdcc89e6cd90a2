// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits that are set on purpose, by the program itself or by an emulated network, and connection
//! attempts that exhaust the kernel's queues or ports.

use super::super::facts::{Facts, Subject};
use super::super::losses;
use super::super::measure::Measure;
use super::super::roles::is_accepted;
use super::super::waits::{self, Wait};
use super::super::words::{label, milliseconds, percent};
use super::Doubt;
use linerate_record::units::{BitsPerSecond, grouped};
use linerate_record::why::{FunctionTime, QdiscCounts, SocketCounts, SocketKind, TcpCounts};
use std::collections::BTreeMap;

/// Ratio of bytes sent to bytes received above which a connection carries a stream, and not small
/// requests and replies.
const STREAMS: u64 = 20;

/// Maximum number of data segments per second from the peer of a stream: each response then takes
/// several seconds.
const REQUESTS_PER_S: f64 = 0.4;

/// Minimum number of readings with progress per data segment from the peer at which responses count
/// as long, even if the peer exceeds [`REQUESTS_PER_S`]. A response that is sent at once makes
/// progress in one reading, or in two if a reading falls within it.
const READINGS: f64 = 3.0;

/// A connection that carries a stream.
pub(in super::super) struct Stream<'a> {
    socket: &'a SocketCounts,
    tcp: &'a TcpCounts,
    /// Time for which the connection was open in the window, in seconds, derived from the number of
    /// its readings.
    open_s: f64,
}

impl Stream<'_> {
    /// Returns whether the connection had unacknowledged data for a small part of its time.
    fn pauses(&self) -> bool {
        /// Maximum fraction of the time with unacknowledged data.
        const BUSY: f64 = 0.2;
        self.tcp.busy_s <= BUSY * self.open_s
    }
}

/// Returns the connections on which the program sends a stream rather than replies to one request
/// after another.
pub(in super::super) fn streams<'a>(facts: &Facts<'a>) -> Vec<Stream<'a>> {
    let reads = |socket: &SocketCounts| socket.reads.unwrap_or(0);
    // UDP sockets are read in a rotation of their own.
    let is_tcp = |one: &&SocketCounts| matches!(one.kind, SocketKind::Tcp | SocketKind::TcpListen);
    let sockets = facts.observation.sockets.iter().filter(is_tcp);
    let most = sockets.map(reads).max().unwrap_or(0).max(1);
    let stream = |socket: &'a SocketCounts| {
        let open_s = facts.elapsed() * reads(socket) as f64 / most as f64;
        Some(Stream { socket, tcp: socket.tcp.as_ref()?, open_s })
    };
    let is_stream = |stream: &Stream<'_>| {
        let progress = stream.tcp.delivering_share.unwrap_or(0.0) * reads(stream.socket) as f64;
        let most = (REQUESTS_PER_S * stream.open_s).max(progress / READINGS).max(1.0);
        stream.tcp.bytes_acked >= STREAMS * stream.tcp.bytes_received
            && stream.tcp.data_segments_in.is_none_or(|asked| asked as f64 <= most)
    };
    facts.connections().filter_map(stream).filter(is_stream).collect()
}

/// Returns the bytes sent on streams.
pub(in super::super) fn sent_on<'s, 'a: 's>(
    streams: impl IntoIterator<Item = &'s Stream<'a>>,
) -> u64 {
    streams.into_iter().map(|stream| stream.tcp.bytes_acked).sum()
}

/// Returns whether most bytes of streams are sent on connections that had nothing to send for most
/// of the time. The kernel's mark for delivered bytes (`app_limited`) does not show it if the
/// program sends more at once than the congestion window holds, and then pauses.
pub(in super::super) fn pauses(facts: &Facts<'_>) -> bool {
    let streams = streams(facts);
    let all = sent_on(&streams);
    all > 0 && 2 * sent_on(streams.iter().filter(|stream| stream.pauses())) > all
}

/// Detects a server that pauses within its responses: clients wait for the rest, nothing is left to
/// send, and no other connection of the program supplies the data.
pub(super) fn limits_itself(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum rate of a response, in bytes per second. Slower ones are mostly notifications, which
    /// come when there is something to report.
    const RATE: f64 = 10_000.0;
    /// Minimum fraction of readings with progress. A client that makes a request now and then gets
    /// its response at once.
    const STEADY: f64 = 0.3;
    /// If the bytes received on connections that the program opened exceed this fraction of the
    /// bytes sent, the program may merely be passing them on.
    const PASSED_ON: f64 = 0.5;
    let is_response = |stream: &&Stream<'_>| {
        is_accepted(facts, stream.socket)
            && stream.tcp.bytes_acked as f64 >= RATE * stream.open_s
            && stream.tcp.delivering_share.is_some_and(|share| share >= STEADY)
            && stream.tcp.data_segments_in.is_some()
            && stream.pauses()
    };
    let streams = streams(facts);
    let responses: Vec<&Stream<'_>> = streams.iter().filter(is_response).collect();
    let (sent, all) = (sent_on(responses.iter().copied()), sent_on(&streams));
    let opened = facts.connections().filter(|socket| !is_accepted(facts, socket));
    let supplied: u64 = opened.filter_map(|one| Some(one.tcp.as_ref()?.bytes_received)).sum();
    if 2 * sent <= all || supplied as f64 >= PASSED_ON * sent as f64 {
        return None;
    }
    let busy: f64 = responses.iter().map(|stream| stream.tcp.busy_s).sum();
    let open: f64 = responses.iter().map(|stream| stream.open_s).sum();
    let rate = BitsPerSecond(8.0 * sent as f64 / open);
    let connections = match responses.len() {
        1 => "1 connection".to_owned(),
        number => format!("{number} connections"),
    };
    Doubt::new(
        format!(
            "Cannot tell which of rate_limiter and nothing_wrong applies: the program sends long \
             responses on {connections}, at {rate} each, with pauses: for {} % of the time, no \
             data is queued or in flight. Either it limits the rate itself, or its next data is \
             not ready yet.",
            percent(1.0 - busy / open)
        ),
        "Look for a limit in the program's configuration (limit_rate of nginx, bwlim of haproxy), \
         and compare the rates without it",
    )
}

/// Detects a flood of connection attempts that never complete.
pub(in super::super) fn half_open(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum number of cookies sent per second.
    const PER_SECOND: f64 = 100.0;
    /// Minimum number of cookies sent per connection that was opened.
    const PER_CONNECTION: u64 = 10;
    let cookies = facts.protocol("TcpExt.SyncookiesSent").filter(|_| facts.may_use_tcp())?;
    let opened = facts.protocol("Tcp.PassiveOpens").unwrap_or(0);
    if (cookies as f64) < PER_SECOND * facts.elapsed() || cookies < PER_CONNECTION * opened {
        return None;
    }
    Doubt::new(
        format!(
            "Cannot tell how the program would perform without a flood of connection attempts: the \
             queue of half-open connections was full, so the kernel answered {} attempts with SYN \
             cookies, but only {} connections were opened.",
            grouped(cookies),
            grouped(opened)
        ),
        "Find the senders (tcpdump -ni any 'tcp[tcpflags] == tcp-syn'), and drop or limit their \
         packets before they reach TCP (nft limit rate, synproxy, XDP)",
    )
}

/// Detects a program that opens connections to a server although nearly all local ports may be in
/// use. The kernel does not count attempts that fail for lack of a port (EADDRNOTAVAIL).
pub(super) fn few_ports(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum fraction of the ports that are in use.
    const MOST: f64 = 0.9;
    /// Time for which a closed connection keeps its port, in seconds (TCP_TIMEWAIT_LEN).
    const KEPT_S: f64 = 60.0;
    /// Minimum part of the connections in TIME_WAIT that were opened, and not accepted, on this
    /// machine. The end that closes first keeps its port, and that end may be a server on this
    /// machine.
    const OPENED: f64 = 0.8;
    let ports = facts.observation.local_ports.as_ref()?;
    let opened = facts.protocol("Tcp.ActiveOpens").filter(|opened| *opened > 0)?;
    let own = facts.observation.sockets.iter().filter(|one| one.kind == SocketKind::Tcp);
    let mut servers = BTreeMap::<&str, u64>::new();
    let opened_to = own.filter(|one| !is_accepted(facts, one));
    for server in opened_to.filter_map(|socket| socket.remote.as_deref()) {
        *servers.entry(server).or_default() += 1;
    }
    let (server, open) = servers.into_iter().max_by_key(|(_, connections)| *connections)?;
    let is_loopback = server.starts_with("127.") || server.starts_with("[::1]");
    let frees_soon = ports.reuse == Some(1) || ports.reuse == Some(2) && is_loopback;
    let kept = if frees_soon { 0 } else { ports.time_wait };
    let of_opens = KEPT_S * opened as f64 / facts.elapsed();
    let used = kept as f64 + open as f64;
    if used < MOST * ports.number() as f64 || of_opens < OPENED * kept as f64 {
        return None;
    }
    let doubt = Doubt::new(
        format!(
            "Cannot tell whether connections to servers such as {server} fail for lack of local \
             ports (EADDRNOTAVAIL): {} connections are open to that server, {} connections of the \
             machine are in TIME_WAIT, and the local port range allows {} connections to each \
             server.",
            grouped(open),
            grouped(ports.time_wait),
            grouped(ports.number())
        ),
        format!(
            "Look for failed calls: strace -f -e trace=connect -p {}; keep connections open and \
             use them again (keepalive, a pool), use more source addresses, or raise the limit: \
             sudo sysctl net.ipv4.ip_local_port_range='1024 65535' or net.ipv4.tcp_tw_reuse=1",
            facts.observation.watched.pids.first().copied().unwrap_or(0)
        ),
    )?;
    Some(doubt.with("local ports in use, at most", used / ports.number() as f64, "ratio"))
}

/// Kernel functions that search for a free local port.
const SEARCHES: [&str; 3] =
    ["__inet_hash_connect", "__inet_check_established", "__inet6_check_established"];

/// Detects a program that opens hardly any connections while all local ports are in use, or while
/// it searches for a free one without success: its connects fail, and it waits before it tries
/// again.
pub(super) fn no_ports(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum fraction of the local ports that are in TIME_WAIT.
    const MOST: f64 = 0.9;
    /// Minimum fraction of a thread's samples in the search for a port.
    const SEARCHING: f64 = 0.02;
    /// Minimum number of sleeps per second of a thread that tries again and again.
    const SLEEPS_PER_S: f64 = 1.0;
    /// Maximum number of connections opened per sleep of the thread that tries to open them.
    const OPENED: f64 = 0.1;
    /// Minimum fraction of the thread's time asleep on a timer.
    const ASLEEP: f64 = 0.5;
    let thread = facts.busiest()?;
    let opened = facts.protocol("Tcp.ActiveOpens")?;
    let asleep = waits::time_in(thread, Wait::Timer).unwrap_or(0.0);
    let sleeps = thread.voluntary_switches as f64;
    let tries = sleeps >= SLEEPS_PER_S * facts.elapsed() && opened as f64 <= OPENED * sleeps;
    let is_search = |one: &&FunctionTime| SEARCHES.contains(&one.name.as_str());
    let searching: f64 = thread.functions.iter().filter(is_search).map(|one| one.share).sum();
    let ports = facts.observation.local_ports.as_ref();
    let full = ports.filter(|ports| {
        ports.reuse != Some(1) && ports.time_wait as f64 >= MOST * ports.number() as f64
    });
    // A range with free ports contradicts the search.
    let finds_none = searching >= SEARCHING && (ports.is_none() || full.is_some());
    // Ports in TIME_WAIT may be those of a server on this machine, which lacks none.
    let has_no_traffic = facts.packets().is_none_or(|packets| packets == 0);
    let waits_with_none_left = full.is_some() && asleep >= ASLEEP && has_no_traffic;
    if !tries || !(finds_none || waits_with_none_left) {
        return None;
    }
    let used = match full {
        Some(ports) => format!(
            "{} of the {} local ports are in TIME_WAIT, ",
            grouped(ports.time_wait),
            grouped(ports.number())
        ),
        None => String::new(),
    };
    let (likely, searches) = match searching >= SEARCHING {
        true => {
            let share = percent(searching);
            let searches = format!(
                ", and {share} % of its samples are in kernel functions that search for a free port"
            );
            ("probably", searches)
        }
        false => ("may", String::new()),
    };
    Doubt::new(
        format!(
            "Cannot tell for certain what the program waits for, but connections {likely} fail for \
             lack of local ports (EADDRNOTAVAIL): {used}{} connections were opened in {:.1} s, and \
             thread {} went to sleep {} times ({} % of the time on a timer){searches}.",
            grouped(opened),
            facts.elapsed(),
            label(thread),
            grouped(thread.voluntary_switches),
            percent(asleep)
        ),
        format!(
            "Look for failed calls: strace -f -e trace=connect,bind -p {}; keep connections open \
             and use them again (keepalive, a pool), use more source addresses, or raise the \
             limit: sudo sysctl net.ipv4.ip_local_port_range='1024 65535' or \
             net.ipv4.tcp_tw_reuse=1",
            thread.pid
        ),
    )
}

/// Detects an emulated network (netem) on an interface of the program that delays or drops its
/// packets. The delay limits clients that wait for each reply.
pub(in super::super) fn emulated_network(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum delay in seconds that is reported; it limits a client to 500 requests per second.
    const DELAY_S: f64 = 0.002;
    /// Minimum fraction of the emulated network's traffic that is the program's, and minimum ratio
    /// of its packets to the program's packets.
    const OWN: f64 = 0.1;
    let is_much = |qdisc: &QdiscCounts| {
        qdisc.delay_s.is_some_and(|delay| delay >= DELAY_S)
            || losses::is_much(qdisc.drops, qdisc.packets + qdisc.drops)
    };
    let packets = facts.packets().unwrap_or(0);
    let carries = |interface, qdisc: &QdiscCounts| {
        let own = Measure::OwnTraffic.of(facts, Subject::Qdisc(interface, qdisc));
        let is_own = own.is_none_or(|own| own.value >= OWN);
        qdisc.packets > 0 && is_own && qdisc.packets as f64 >= OWN * packets as f64
    };
    let (interface, qdisc) = facts.observation.interfaces.iter().find_map(|interface| {
        let is_meant = |qdisc: &&QdiscCounts| {
            qdisc.kind == "netem" && carries(interface, qdisc) && is_much(qdisc)
        };
        Some((&interface.name, interface.qdiscs.iter().find(is_meant)?))
    })?;
    let delay =
        qdisc.delay_s.map(|delay| format!("delays each packet by {}", milliseconds(1e3 * delay)));
    let drops = (qdisc.drops > 0).then(|| format!("dropped {} more", grouped(qdisc.drops)));
    let effects: Vec<String> = delay.into_iter().chain(drops).collect();
    Doubt::new(
        format!(
            "Cannot tell how the program would perform without the emulated network on \
             {interface}: its netem qdisc passed on {} packets; it {}.",
            grouped(qdisc.packets),
            effects.join(", and ")
        ),
        format!(
            "Remove the emulation and compare the rates: sudo tc qdisc del dev {interface} root; \
             if it is intended, keep more requests in flight"
        ),
    )
}
