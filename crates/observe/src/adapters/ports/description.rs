// SPDX-License-Identifier: MIT OR Apache-2.0
//! Description of a program type, from a file under `adapters`: how to query its counters.

use linerate_machine::Root;
use serde::Deserialize;

/// Protocol of a program type. Fields are documented in the files.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Description {
    pub(super) adapter: String,
    pub(super) unit: String,
    pub(super) counter: String,
    pub(super) socket: String,
    pub(super) program: String,
    pub(super) list: String,
    pub(super) counters: String,
    pub(super) about: String,
    pub(super) name: String,
    upper: Vec<String>,
    pub(super) received: String,
    pub(super) sent: String,
    pub(super) missed: String,
    pub(super) bytes: String,
    pub(super) others: Vec<String>,
    counts_missed: Vec<Known>,
}

/// Identifies ports whose driver counts the packets dropped because a receive queue was full.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    /// Kernel driver of a NIC shared by DPDK and the kernel.
    driver: Option<String>,
    /// Name prefix of virtual ports.
    name: Option<String>,
    /// Source that documents what the driver counts.
    #[serde(rename = "source")]
    _source: String,
}

/// Returns the DPDK adapter.
pub(super) fn dpdk() -> Description {
    toml::from_str(include_str!("../../../adapters/dpdk.toml")).expect("the built-in file is valid")
}

impl Description {
    /// Returns whether the named port's packets are counted at other ports too.
    pub(super) fn is_upper(&self, name: &str) -> bool {
        self.upper.iter().any(|start| name.starts_with(start))
    }

    /// Returns whether the named port's driver counts the packets dropped because a receive queue
    /// was full.
    pub(super) fn is_missed_counted(&self, root: &Root, name: &str) -> bool {
        // The name comes from the program; a bus address contains no path separators.
        let is_place = !name.contains('/') && !name.starts_with('.');
        let link = std::fs::read_link(root.path(&format!("sys/bus/pci/devices/{name}/driver")));
        let driver = link.ok().filter(|_| is_place);
        let driver = driver.as_ref().and_then(|link| link.file_name()?.to_str());
        self.counts_missed.iter().any(|known| {
            let is_driver = known.driver.as_deref().is_some_and(|known| Some(known) == driver);
            is_driver || known.name.as_deref().is_some_and(|start| name.starts_with(start))
        })
    }
}
