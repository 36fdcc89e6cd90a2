// SPDX-License-Identifier: MIT OR Apache-2.0
//! A traffic generator on this machine that is itself the bottleneck.

use super::super::facts::Facts;
use super::super::roles::is_accepted;
use super::{evidence, not_predicted, seen};
use linerate_record::why::{Cause, PeerActivity, SocketCounts, ThreadState, WhyFinding};

/// Returns a CPU that another program saturates while traffic is generated on this machine.
pub(super) fn generator(facts: &Facts<'_>) -> Option<u32> {
    /// Maximum idle fraction of a saturated CPU.
    const FULL: f64 = 0.05;
    /// Minimum fraction of a saturated CPU's work that is due to peers. Allows for an accounting
    /// error of 10 % and for other threads.
    const PEERS: f64 = 0.7;
    let rate = facts.packet_rate().unwrap_or(0.0);
    let is_local = facts.observation.sockets.iter().any(|socket| socket.peer_pid.is_some());
    let opened = facts.connections().filter(|socket| !is_accepted(facts, socket));
    let sends_itself = opened.filter_map(|socket| socket.tcp.as_ref());
    let sends =
        sends_itself.map(|tcp| tcp.bytes_acked as i64 - tcp.bytes_received as i64).sum::<i64>();
    let is_source = sends > 0;
    if rate < 1000.0 || !is_local || is_source {
        return None;
    }
    let own = |cpu: u32| -> f64 {
        let here = facts.observation.threads.iter().filter(|t| t.ran_on.first() == Some(&cpu));
        here.map(|thread| thread.share_of(ThreadState::is_on_cpu)).sum()
    };
    // A CPU may be saturated by work that has nothing to do with the traffic.
    let peers = |cpu: u32| -> f64 { peers_on(facts, cpu).map(|peer| peer.cpus).sum() };
    let full = facts.observation.cpus.iter().filter(|cpu| cpu.idle < FULL && own(cpu.cpu) < 0.3);
    let of_peers = full.filter(|cpu| peers(cpu.cpu) >= PEERS * (cpu.user + cpu.system));
    of_peers.map(|cpu| cpu.cpu).min()
}

/// Iterates over the sources of traffic that may have run on a CPU: those whose busiest thread was
/// last there, and those for which this is unknown.
fn peers_on<'a>(facts: &Facts<'a>, cpu: u32) -> impl Iterator<Item = &'a PeerActivity> {
    let is_source = sources(facts);
    let peers = facts.observation.peers.iter().filter(move |peer| is_source(peer.pid));
    peers.filter(move |peer| peer.cpu.is_none_or(|on| on == cpu))
}

/// Returns a test for whether a process sends requests to the program. If the program accepted
/// connections, these are its clients. The servers that it queries only answer.
fn sources(facts: &Facts<'_>) -> impl Fn(u32) -> bool {
    let peers = |of: &dyn Fn(&SocketCounts) -> bool| -> Vec<u32> {
        let sockets = facts.observation.sockets.iter().filter(|socket| of(socket));
        sockets.filter_map(|socket| socket.peer_pid).collect()
    };
    let clients = peers(&|socket| is_accepted(facts, socket));
    let servers = peers(&|socket| !is_accepted(facts, socket));
    let accepts = facts.connections().any(|socket| is_accepted(facts, socket));
    move |pid| !accepts || (clients.contains(&pid) && !servers.contains(&pid))
}

pub(super) fn generator_limit(facts: &Facts<'_>, cpu: u32) -> WhyFinding {
    let used: f64 = peers_on(facts, cpu).map(|peer| peer.cpus).sum();
    let busiest = peers_on(facts, cpu).next();
    let sender = busiest.map_or_else(String::new, |p| format!(", {} ({}),", p.name, p.pid));
    let mut seen = seen(facts);
    seen.push(evidence("CPU time of the program's peers on that CPU", used, "CPUs"));
    WhyFinding {
        cause: Cause::GeneratorLimit,
        sentence: format!(
            "The traffic generator{sender} is at its limit: CPU {cpu} of this machine is saturated \
             by other programs, while {} has headroom and drops nothing.",
            facts.observation.watched.name
        ),
        evidence: seen,
        gain: not_predicted("the gain depends on the generator"),
        fix: Some(
            "Increase the offered load: add a second generator, or run it on another machine"
                .to_owned(),
        ),
        workaround: None,
        wrong_if: "with a second generator, the rate stays the same".to_owned(),
    }
}
