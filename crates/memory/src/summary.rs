// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures that people quote, out of a report.

use linerate_record::Figure;
use linerate_record::memory::{MemoryReport, Operation, PageKind};
use std::collections::BTreeMap;

/// The figures of `report` by name: the tiers and the levels of the translation buffer by theirs
/// (`l1_size_bytes`, `memory_latency_ns`, `l1_dtlb_entries`), bandwidth by tier, operation and
/// threads (`l2_read_1_gb_per_s`), and what it was measured with and beside.
pub fn figures(report: &MemoryReport) -> BTreeMap<String, Figure> {
    let mut figures = BTreeMap::new();
    let mut put = |name: String, figure: &Figure| figures.insert(name, figure.clone());
    for tier in &report.tiers {
        let name = word(&tier.name);
        put(format!("{name}_size_bytes"), &tier.size_bytes);
        put(format!("{name}_latency_ns"), &tier.latency_ns);
        put(format!("{name}_latency_cycles"), &tier.latency_cycles);
    }
    let has_used = report.tlb.iter().any(|level| level.pages == report.pages.used);
    // Huge pages in pieces meet the levels of small ones.
    let pages = if has_used { report.pages.used } else { PageKind::Base };
    for level in report.tlb.iter().filter(|level| level.pages == pages) {
        let name = word(&level.name);
        put(format!("{name}_entries"), &level.entries);
        put(format!("{name}_cost_ns"), &level.cost_ns);
        put(format!("{name}_cost_cycles"), &level.cost_cycles);
    }
    for tier in &report.parallelism {
        put(format!("{}_outstanding", word(&tier.tier)), &tier.outstanding);
    }
    for part in &report.bandwidth {
        let operation = match part.operation {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Copy => "copy",
        };
        let tier = word(&part.tier);
        put(format!("{tier}_{operation}_{}_gb_per_s", part.threads), &part.gb_per_s);
    }
    put("core_ghz".to_owned(), &report.timer.core_ghz);
    put("timer_step_ns".to_owned(), &report.timer.step_ns);
    put("huge_pages_granted".to_owned(), &report.pages.granted);
    put("noise_lost".to_owned(), &report.noise.lost);
    put("noise_longest_us".to_owned(), &report.noise.longest_us);
    figures
}

/// A name as part of another: `L1 dTLB` is `l1_dtlb`.
fn word(name: &str) -> String {
    name.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}
