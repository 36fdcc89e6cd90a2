// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of the kernel that packets need not pass, or that a different setup makes cheap, judged by
//! the functions in which a thread was sampled. The functions are listed in data/cost-classes.txt.

use super::called;
use super::facts::{Facts, sampled};
use super::functions::{is_of_kernel, part};
use linerate_record::stats::Estimate;
use linerate_record::why::{SocketKind, ThreadActivity};

/// A part of the kernel, and what removes its cost.
#[derive(Debug)]
pub(super) struct KernelPart {
    /// Name of the part in data/cost-classes.txt.
    name: &'static str,
    /// Functions of which at least one must have samples, because other parts of the kernel also
    /// use the rest; empty if the part has its functions to itself.
    anchors: &'static [&'static str],
    /// CPU time of the work that the part causes, relative to that of its own functions.
    pub(super) causes: f64,
    /// What the functions do, as the object of "spends its time in".
    pub(super) does: &'static str,
    /// How to remove the cost.
    pub(super) fix: &'static str,
}

const PARTS: &[KernelPart] = &[
    KernelPart {
        name: "ip_rules",
        anchors: &[],
        causes: 1.0,
        does: "policy routing: the rules of `ip rule` are compared one by one with each packet",
        fix: "Merge the rules (`ip rule` lists them): use routes in one table, or one rule with a \
              prefix or a mark, instead of a rule per address; put the rule that matches most \
              packets first; or connect the sockets, because a connected socket looks up its route \
              only once",
    },
    KernelPart {
        name: "taps",
        anchors: &[],
        causes: 1.0,
        does: "packet sockets of other programs (a capture, a DHCP client, an agent), each of \
               which sees every packet",
        fix: "Find the sockets (ss -0p lists them with their processes, in the network namespace \
              of the program), and close them or bind each to one protocol and interface",
    },
    KernelPart {
        name: DESCRIPTORS,
        anchors: &["do_select", "core_sys_select", "do_sys_poll", "do_poll", "__pollwait"],
        causes: 1.0,
        does: "select or poll, which examine all of their descriptors at each call",
        fix: "Wait with epoll, whose cost does not depend on the number of idle descriptors",
    },
    KernelPart {
        name: "random",
        anchors: &[
            "get_random_bytes_user",
            "get_random_bytes",
            "_get_random_bytes",
            "crng_make_state",
            "urandom_read_iter",
        ],
        causes: 1.0,
        does: "the kernel's random number generator",
        fix: "Read random numbers in larger blocks (getrandom with 256 bytes or more), or seed a \
              generator in the program with them; stdio reads 4096 bytes from /dev/urandom where \
              16 are wanted",
    },
    KernelPart {
        name: "conntrack",
        anchors: &[],
        causes: 1.0,
        does: "connection tracking",
        fix: "Exempt the packets (nft: notrack in a chain at priority raw), or unload nf_conntrack \
              if no rule needs it",
    },
    KernelPart {
        name: "bridge",
        anchors: &[],
        // Each copy of a frame is sent, received and dropped, too.
        causes: 3.0,
        does: "a bridge (perhaps it floods: it copies a frame to all ports if it does not know the \
               destination's port)",
        fix: "Check that the bridge learns addresses (bridge fdb show; ip -d link shows \
              ageing_time, which must not be 0, and bridge -d link shows learning and flood per \
              port); if no firewall rule applies to bridged frames, set \
              net.bridge.bridge-nf-call-iptables=0",
    },
    KernelPart {
        name: "clock",
        anchors: &[],
        causes: 1.0,
        does: "reading a slow clock source",
        fix: "Use the TSC: echo tsc | sudo tee \
              /sys/devices/system/clocksource/clocksource0/current_clocksource; if it is not \
              available, dmesg says why",
    },
    KernelPart {
        name: "audit",
        anchors: &[],
        causes: 1.0,
        does: "the audit subsystem, whose rules are evaluated at each system call",
        fix: "Remove the rules for frequent calls (sudo auditctl -l lists them), or exempt the \
              program: sudo auditctl -a never,task",
    },
    KernelPart {
        name: "security",
        anchors: &[],
        causes: 1.0,
        does: "a security module (AppArmor, SELinux, Smack), which checks each call",
        fix: "See which profile applies (/proc/PID/attr/current), and shorten it or exempt the \
              program",
    },
    KernelPart {
        name: "ipsec",
        anchors: &[],
        causes: 1.0,
        does: "IPsec policies, which are searched for each packet",
        fix: "Reduce the number of policies and states (ip xfrm policy, ip xfrm state)",
    },
    KernelPart {
        name: "seccomp",
        anchors: &[],
        causes: 1.0,
        does: "a seccomp filter, which runs at each system call",
        fix: "Shorten the filter, or test the most frequent calls first (libseccomp: \
              SCMP_FLTATR_CTL_OPTIMIZE=2)",
    },
];

/// Returns the part in which a thread was sampled most often, and the fraction of the thread's
/// samples; `None` without samples of the kernel, or if the thread was in none of the parts.
pub(super) fn largest(
    facts: &Facts<'_>,
    thread: &ThreadActivity,
) -> Option<(&'static KernelPart, Estimate)> {
    if !facts.has_enough_samples(thread) || !facts.has_kernel_samples() {
        return None;
    }
    let of_part = |part: &KernelPart| share(thread, part);
    let parts = PARTS.iter().filter(|part| !is_own(facts, part));
    let parts = parts.filter(|part| part.name != DESCRIPTORS || has_many(facts, thread, part));
    let (most, share) =
        parts.map(|part| (part, of_part(part))).max_by(|a, b| a.1.total_cmp(&b.1))?;
    (share > 0.0).then(|| (most, sampled(share.min(1.0), thread.samples)))
}

/// Returns whether the program itself causes the work, because it has packet sockets of its own.
fn is_own(facts: &Facts<'_>, part: &KernelPart) -> bool {
    let mut sockets = facts.observation.sockets.iter();
    part.name == "taps" && sockets.any(|one| one.kind == SocketKind::Packet)
}

/// Name of the part whose cost depends on the number of descriptors.
const DESCRIPTORS: &str = "descriptors";

/// Returns whether a thread's calls to select or poll examine many descriptors: the process has
/// many sockets, or each call takes long. With a few descriptors, epoll would cost as much.
fn has_many(facts: &Facts<'_>, thread: &ThreadActivity, part: &KernelPart) -> bool {
    /// Minimum number of sockets.
    const SOCKETS: usize = 32;
    /// Minimum CPU time of a call in seconds: 50 ns for each of 40 descriptors.
    const CALL_S: f64 = 2e-6;
    let calls = ["select", "pselect6", "poll", "ppoll"].map(|name| called::count(facts, name));
    let calls: u64 = calls.iter().sum();
    let on_cpu = Facts::on_cpu(thread).map_or(0.0, |share| share.value) * thread.elapsed_s;
    let sockets = facts.observation.sockets.iter().filter(|one| one.pid == thread.pid);
    sockets.count() >= SOCKETS
        || (calls > 0 && share(thread, part) * on_cpu >= CALL_S * calls as f64)
}

/// Returns the fraction of a thread's samples in a part of the kernel.
fn share(thread: &ThreadActivity, of: &KernelPart) -> f64 {
    /// Minimum fraction of the samples in [`KernelPart::anchors`], for a part that has any.
    const SHOWS: f64 = 0.005;
    let functions = || thread.functions.iter().filter(|one| is_of_kernel(one));
    let shows = functions().filter(|one| of.anchors.contains(&one.name.as_str()));
    if !of.anchors.is_empty() && shows.map(|one| one.share).sum::<f64>() < SHOWS {
        return 0.0;
    }
    functions().filter(|one| part(one) == Some(of.name)).map(|one| one.share).sum()
}

/// Returns the functions of a part in which a thread was sampled most often, with their shares.
pub(super) fn functions(thread: &ThreadActivity, of: &KernelPart) -> Vec<(String, f64)> {
    const NUMBER: usize = 3;
    let own = thread.functions.iter().filter(|one| is_of_kernel(one) && part(one) == Some(of.name));
    let mut own: Vec<(String, f64)> = own.map(|one| (one.name.clone(), one.share)).collect();
    own.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    own.truncate(NUMBER);
    own
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classes::class_and_part;

    #[test]
    fn every_part_has_functions_in_the_list_and_each_anchor_is_one() {
        let list = include_str!("../../data/cost-classes.txt");
        for part in PARTS {
            let named = format!("/{} kernel ", part.name);
            assert!(list.contains(&named), "{}", part.name);
            for anchor in part.anchors {
                assert_eq!(class_and_part(anchor, "kernel").1, Some(part.name), "{anchor}");
            }
        }
    }
}
