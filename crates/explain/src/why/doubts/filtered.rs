// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that firewall rules, the reverse path filter or a full connection tracking table dropped
//! in the network namespace of a program that receives hardly any packets there: they may have been
//! meant for other programs, or these drops may be the reason why the program receives none.

use super::super::facts::{Facts, Subject};
use super::super::losses::{is_much, long_chains, table_full, vanished};
use super::super::measure::Measure as M;
use super::super::rules::{OWN, rules};
use super::super::words::{conntrack_fix, percent};
use super::Doubt;
use linerate_record::units::grouped;
use linerate_record::why::{Cause, SocketKind};

/// Detects packets that the reverse path filter or a full connection tracking table dropped
/// although the program received hardly any.
pub(in super::super) fn before_sockets(facts: &Facts<'_>) -> Option<Doubt> {
    let own = M::OwnOfReceived.of(facts, Subject::Program)?.value;
    if !has_sockets(facts) || own >= OWN {
        return None;
    }
    let by_filter = facts.protocol("TcpExt.IPReversePathFilter").unwrap_or(0);
    let by_table = table_full(facts).map_or(0, |[least, _]| least);
    let lost = facts.ledger.lost().unwrap_or(0);
    let (dropped, what, fix) = match by_filter >= by_table {
        true => {
            let rule = rules().find(|one| one.cause == Cause::ReversePathFilter)?;
            (by_filter, "the reverse path filter", rule.fix)
        }
        false => {
            let by_chains = long_chains(facts).is_some_and(|chains| 2 * chains >= by_table);
            let table = match by_chains {
                true => "the connection tracking table, for lack of buckets,",
                false => "the full connection tracking table",
            };
            (by_table, table, conntrack_fix(facts))
        }
    };
    if dropped == 0 || 2 * dropped < lost {
        return None;
    }
    Doubt::new(
        format!(
            "Cannot tell whether {} packets that {what} of the network namespace dropped were \
             meant for the program, which received less than 1 % of the packets there.",
            grouped(dropped)
        ),
        format!("If they were, {}{}", fix[..1].to_lowercase(), &fix[1..]),
    )
}

/// Returns whether the program has sockets other than Unix domain sockets.
fn has_sockets(facts: &Facts<'_>) -> bool {
    let is_local = |kind| matches!(kind, SocketKind::Unix | SocketKind::UnixListen);
    facts.observation.sockets.iter().any(|socket| !is_local(socket.kind))
}

/// Detects packets that firewall rules dropped although the program received hardly any.
pub(super) fn by_rules(facts: &Facts<'_>) -> Option<Doubt> {
    let vanished = vanished(facts)?;
    let dropped = vanished.by_firewall.filter(|dropped| is_much(*dropped, vanished.received))?;
    let own = M::OwnOfReceived.of(facts, Subject::Program)?.value;
    if !has_sockets(facts) || own >= OWN {
        return None;
    }
    let share = dropped as f64 / vanished.received.max(1) as f64;
    let doubt = Doubt::new(
        format!(
            "Cannot tell whether {} packets ({} % of all received in the network namespace) that \
             firewall rules dropped were meant for the program, which received less than 1 % of \
             the packets there.",
            grouped(dropped),
            percent(share)
        ),
        "Find the rule whose counter grows (nft list ruleset; iptables -vnL), and see whether it \
         matches the program's addresses and ports",
    )?;
    Some(doubt.with("packets dropped by firewall rules, of all received", share, "ratio"))
}
