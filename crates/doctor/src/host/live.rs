// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks for the privileges to receive and send packets on network interfaces, which are required
//! by live paths.

use super::Host;
use linerate_record::doctor::{Observation, Section};

const NAME: &str = "packet_sockets";

/// Number of `CAP_NET_ADMIN` (capabilities(7), linux/capability.h).
const NET_ADMIN: u32 = 12;
const NET_RAW: u32 = 13;
/// Number of `CAP_SYS_ADMIN`, which also grants what `CAP_BPF` does (split off in Linux 5.8).
const SYS_ADMIN: u32 = 21;
const BPF: u32 = 39;

/// Which of the capabilities needed by live paths the process has.
struct Rights {
    raw: bool,
    admin: bool,
    bpf: bool,
}

/// Checks for the capabilities that packet sockets, TAP and AF_XDP need. Returns no observation if
/// the process's capabilities cannot be read.
pub(super) fn observe(host: &Host) -> Option<Observation> {
    let status = host.root.text("proc/self/status")?;
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let capabilities = u64::from_str_radix(mask.trim(), 16).ok()?;
    let has = |bit: u32| capabilities >> bit & 1 == 1;
    // Linux lets only capabilities of the initial user namespace load programs.
    let bpf = (has(BPF) || has(SYS_ADMIN)) && is_in_initial_namespace(host);
    let rights = Rights { raw: has(NET_RAW), admin: has(NET_ADMIN), bpf };
    let allowed = rights.allowed();
    Some(match rights.raw {
        false => Section::DataPlane.advice(
            NAME,
            if allowed.is_empty() { "not allowed" } else { &allowed },
            &format!(
                "live paths (kind = \"interface\") need CAP_NET_RAW; {}; in your own user and \
                 network namespace (unshare -Urn), you have all but CAP_BPF",
                rights.missing().unwrap_or_default()
            ),
            Some("sudo setcap cap_net_raw,cap_net_admin,cap_bpf+ep $(command -v linerate)".into()),
        ),
        true => {
            let missing = rights.missing().map_or(String::new(), |missing| format!("; {missing}"));
            let reason = format!(
                "live paths can open interfaces{missing}; they drop the capabilities once the \
                 interfaces are open"
            );
            Section::DataPlane.good(NAME, &allowed, &reason)
        }
    })
}

impl Rights {
    /// Lists the kinds of interfaces that live paths can open.
    fn allowed(&self) -> String {
        let kinds = [
            ("packet sockets", self.raw),
            ("TAP", self.admin),
            ("AF_XDP", self.raw && self.admin && self.bpf),
        ];
        let allowed = kinds.into_iter().filter(|(_, is_allowed)| *is_allowed);
        allowed.map(|(kind, _)| kind).collect::<Vec<_>>().join(", ")
    }

    /// Returns what TAP and AF_XDP need; `None` if both are allowed.
    fn missing(&self) -> Option<String> {
        let tap = if self.admin { "" } else { "TAP interfaces need CAP_NET_ADMIN; " };
        let is_missing = !(self.raw && self.admin && self.bpf);
        is_missing.then(|| {
            format!(
                "{tap}AF_XDP needs CAP_NET_RAW, CAP_NET_ADMIN and, outside user namespaces, CAP_BPF"
            )
        })
    }
}

/// Returns whether the process is in the initial user namespace, which maps all user IDs to
/// themselves.
fn is_in_initial_namespace(host: &Host) -> bool {
    host.root
        .text("proc/self/uid_map")
        .is_none_or(|map| map.split_whitespace().eq(["0", "0", "4294967295"]))
}
