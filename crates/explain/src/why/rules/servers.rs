// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that wait for the replies of other servers.

use super::super::gain::GainModel;
use super::super::measure::Measure as M;
use super::super::requests::DELAYED;
use super::{Next, Rule, Scope, at_least, at_most};
use linerate_record::why::Cause;

/// Causes that make requests wait before they are sent to a server.
const STALLS_AND_LOCKS: &[Cause] = &[
    Cause::UserLock,
    Cause::RateLimiter,
    Cause::ReceiveWindow,
    Cause::SlowReceiver,
    Cause::SendBuffer,
    Cause::TcpLoss,
    Cause::NagleDelay,
];
/// Causes that stall a connection, so that the other end waits: all causes in [`STALLS_AND_LOCKS`]
/// except locks.
const STALLS: &[Cause] = STALLS_AND_LOCKS.split_at(1).1;

pub(super) const RULES: &[Rule] = &[
    Rule {
        cause: Cause::WaitingForPeer,
        scope: Scope::Program,
        conditions: &[
            at_most(M::Demand, 0.7, "the program's threads have headroom"),
            at_least(M::Asleep, 0.3, "the program is waiting"),
            at_least(M::ClientsPerServer, 2.0, "two or more clients share each server connection"),
            at_least(M::AskedPerRequest, 0.5, "below that, most requests need no server"),
            at_least(M::AwaitingServers, 0.02, "below that, the servers reply at once"),
            at_least(
                M::RepliesDelayed,
                DELAYED,
                "below that, the program's own work may account for the delay",
            ),
            at_least(M::QueuedForServers, 0.5, "below that, hardly any request has to wait"),
        ],
        symptoms: 4,
        explained_by: STALLS_AND_LOCKS,
        gain: GainModel::MoreOnTheWay,
        then_limited_by: Next::Is("the servers, or the program's own CPU"),
        sentence: "{program} sleeps {asleep} of the time and has {clients_per_server} clients per \
                   server connection: on average, {queued_for_servers} requests wait for a free \
                   connection, or for a lock that admits one at a time.",
        fix: "Allow more connections to the servers (maxconn, upstream keepalive, pool size), and \
              do not hold a lock while waiting for a reply",
        workaround: Some(
            "use a faster server, which answers sooner over the same number of connections",
        ),
        wrong_if: "with twice as many connections, requests per second rise by less than 10 %",
        measure: "the queue length in the program's statistics, such as qcur in HAProxy",
    },
    Rule {
        cause: Cause::WaitingForPeer,
        scope: Scope::Threads,
        conditions: &[
            at_least(M::AsleepOnServer, 0.5, "more than half of the time"),
            at_most(M::Demand, 0.5, "below that, the thread's own CPU time is not the bottleneck"),
        ],
        symptoms: 0,
        explained_by: STALLS,
        gain: GainModel::MoreInFlight,
        then_limited_by: Next::Is("the peer"),
        sentence: "Thread {thread} spends {asleep_on_server} of the time waiting for replies from \
                   {asked_server}: its connection carries one request, or one batch, at a \
                   time.{reconnects}{round_trip}",
        fix: "{keep_open} more requests in flight: pipeline them (in larger batches), or use more \
              connections (and threads)",
        workaround: Some(
            "make the peer faster, or use a closer one; to see what limits the peer: {watch_peer}",
        ),
        wrong_if: "with two requests in flight, the rate rises by less than 10 %",
        measure: "the peer's response time, from `ss -ti` (rtt) and the peer's log",
    },
    Rule {
        cause: Cause::WaitingForPeer,
        scope: Scope::Program,
        conditions: &[
            at_least(
                M::OpeningToServers,
                0.2,
                "below that, a SYN without an answer is an exception",
            ),
            at_least(
                M::RepliesDelayed,
                DELAYED,
                "below that, the program's own work may account for the delay",
            ),
        ],
        symptoms: 0,
        explained_by: STALLS_AND_LOCKS,
        gain: GainModel::UpToFullCpu,
        then_limited_by: Next::Is("the other servers, or the program's own CPU"),
        sentence: "{program} waits for server {awaited_server} to accept connections: in \
                   {opening_to_servers} of the readings, a client's request was waiting while a \
                   SYN to a server was unanswered.",
        fix: "Check that the server is up, and that neither a firewall nor a full accept queue \
              drops the SYNs; meanwhile, take it out of the list of servers (health checks do so)",
        workaround: Some("shorten the connect timeout, so that another server is tried sooner"),
        wrong_if: "without that server, the rate rises by less than 10 %",
        measure: "the time that connections take to open, with tcpdump 'tcp[tcpflags] & tcp-syn \
                  != 0'",
    },
    Rule {
        cause: Cause::WaitingForPeer,
        scope: Scope::Program,
        conditions: &[
            at_least(M::AsleepOnSilent, 0.5, "more than half of the time"),
            at_most(M::Demand, 0.5, "below that, the thread's own CPU time is not the bottleneck"),
        ],
        symptoms: 0,
        explained_by: &[],
        gain: GainModel::UpToFullCpu,
        then_limited_by: Next::LoadOr("the program's own CPU"),
        sentence: "Thread {thread} spends {asleep_on_silent} of the time waiting for \
                   {silent_server}, which does not seem to answer: each wait lasts {silent_wait} \
                   or longer, like a timeout, and fewer datagrams arrive than are sent.",
        fix: "Find out whether the server runs and is reachable; for a name server, try dig \
              @SERVER NAME, and remove it from /etc/resolv.conf if it does not answer",
        workaround: Some(
            "do without the query (option -n of tcpdump and others suppresses name lookups), \
             answer it from a cache, or give up sooner (options timeout:1 attempts:1 in \
             resolv.conf)",
        ),
        wrong_if: "tcpdump -ni any udp shows replies from that server",
        measure: "replies from that server, with tcpdump",
    },
    Rule {
        cause: Cause::WaitingForPeer,
        scope: Scope::Program,
        conditions: &[
            at_least(M::AwaitingServers, 0.5, "more than half of the time"),
            at_least(
                M::RepliesDelayed,
                DELAYED,
                "below that, the program's own work may account for the delay",
            ),
            at_least(
                M::PendingAtServers,
                0.5,
                "below that, most requests wait for something else first: a lock or a connection",
            ),
        ],
        symptoms: 0,
        explained_by: STALLS_AND_LOCKS,
        gain: GainModel::UpToFullCpu,
        then_limited_by: Next::Is("the queried server, or the program's own CPU"),
        sentence: "{program} waits for replies from server {awaited_server}: in \
                   {awaiting_servers} of the readings, a client's request was waiting for such a \
                   reply.{times_asked}",
        fix: "{combine}Find out why the server is slow: {watch_server}; or answer from a cache",
        workaround: Some(
            "if the server answers one request at a time, open more connections, or use more \
             servers",
        ),
        wrong_if: "with a server that answers at once, the rate rises by less than 10 %",
        measure: "the server's response time, from its log",
    },
];
