// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks for the privilege to receive and send packets on network interfaces, which is required by
//! live paths.

use super::Host;
use linerate_record::doctor::{Observation, Section};

const NAME: &str = "packet_sockets";

/// Number of CAP_NET_RAW (capabilities(7)).
const NET_RAW: u32 = 13;

/// Checks for `CAP_NET_RAW`. Returns no observation if the process's capabilities cannot be read.
pub(super) fn observe(host: &Host) -> Option<Observation> {
    let status = host.root.text("proc/self/status")?;
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let capabilities = u64::from_str_radix(mask.trim(), 16).ok()?;
    Some(match capabilities >> NET_RAW & 1 {
        0 => Section::DataPlane.advice(
            NAME,
            "not allowed",
            "live paths (kind = \"interface\") need CAP_NET_RAW, and CAP_NET_ADMIN for TAP \
             interfaces; in your own user and network namespace (unshare -Urn), you have both",
            Some("sudo setcap cap_net_raw+ep $(command -v linerate)".to_owned()),
        ),
        _ => Section::DataPlane.good(
            NAME,
            "allowed",
            "live paths can open interfaces (CAP_NET_RAW); they drop the capability once the \
             interfaces are open",
        ),
    })
}
