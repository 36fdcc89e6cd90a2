// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values derived from a `memory` record.

use super::{Derive, Lists, emulated, not_idle, preempted, unknown_core_clock, word};
use crate::figure::{Figure, Figures, bare};
use crate::memory::{MemoryLevel, MemoryReport, Operation, PageKind, TlbLevel};
use crate::provenance::Provenance;
use crate::warning::Warning;
use serde_json::{Value, json};

impl Derive for MemoryReport {
    /// Returns figures for the cache and TLB levels (`l1_size_bytes`, `memory_latency_ns`,
    /// `l1_dtlb_entries`), bandwidth by level, operation and thread count (`l2_read_1_gb_per_s`),
    /// and the measurement conditions.
    fn figures(&self) -> Figures {
        let mut figures = Figures::new();
        let mut put = |name: String, figure: &Figure| figures.insert(name, figure.clone());
        for level in &self.levels {
            let name = word(&level.name);
            put(format!("{name}_size_bytes"), &level.size_bytes);
            put(format!("{name}_latency_ns"), &level.latency_ns);
            put(format!("{name}_latency_cycles"), &level.latency_cycles);
        }
        let has_used = self.tlb.iter().any(|level| level.pages == self.pages.used);
        // If the hypervisor backs huge pages with small ones, huge-page translations occupy the
        // small-page TLB.
        let pages = if has_used { self.pages.used } else { PageKind::Base };
        for level in self.tlb.iter().filter(|level| level.pages == pages) {
            let name = word(&level.name);
            put(format!("{name}_entries"), &level.entries);
            put(format!("{name}_cost_ns"), &level.cost_ns);
            put(format!("{name}_cost_cycles"), &level.cost_cycles);
        }
        for level in &self.parallelism {
            put(format!("{}_outstanding", word(&level.level)), &level.outstanding);
        }
        for part in &self.bandwidth {
            let operation = match part.operation {
                Operation::Read => "read",
                Operation::Write => "write",
                Operation::Copy => "copy",
            };
            let level = word(&part.level);
            put(format!("{level}_{operation}_{}_gb_per_s", part.threads), &part.gb_per_s);
        }
        put("core_ghz".to_owned(), &self.timer.core_ghz);
        put("timer_step_ns".to_owned(), &self.timer.step_ns);
        put("huge_pages_granted".to_owned(), &self.pages.granted);
        put("noise_lost".to_owned(), &self.noise.lost);
        put("noise_longest_us".to_owned(), &self.noise.longest_us);
        figures
    }

    /// Returns the cache levels, TLB, pages, noise, timer and OS-reported sizes as bare values.
    fn lists(&self) -> Lists {
        let levels = self.levels.iter().map(level_summary).collect();
        let tlb = self.tlb.iter().map(tlb_summary).collect();
        let os_view = self.os_view.iter().map(|view| {
            json!({
                "name": view.name,
                "stated_bytes": view.stated_bytes,
                "found_bytes": bare(&view.found_bytes),
                "verdict": view.verdict,
            })
        });
        let pages = json!({
            "base_bytes": self.pages.base_bytes,
            "huge_bytes": self.pages.huge_bytes,
            "granted": bare(&self.pages.granted),
            "verdict": self.pages.verdict,
        });
        let noise = json!({
            "elapsed_s": self.noise.elapsed_s,
            "lost": bare(&self.noise.lost),
            "longest_us": bare(&self.noise.longest_us),
            "load": self.conditions.load_before,
        });
        let timer = json!({
            "source": self.timer.source,
            "step_ns": bare(&self.timer.step_ns),
            "overhead_ns": bare(&self.timer.overhead_ns),
            "core_ghz": bare(&self.timer.core_ghz),
        });
        Lists::from([
            ("levels", Value::Array(levels)),
            ("tlb", Value::Array(tlb)),
            ("os_view", os_view.collect()),
            ("pages", pages),
            ("noise", noise),
            ("timer", timer),
        ])
    }

    fn warnings(&self, provenance: &Provenance) -> Vec<Warning> {
        let unsteady = (self.timer.invariant == Some(false)).then_some(Warning::UnsteadyCounter);
        let (all, dropped) = (self.conditions.windows, self.conditions.windows_dropped);
        let doubts = [
            not_idle(provenance),
            unsteady,
            emulated(provenance),
            unknown_core_clock(&self.timer.core_ghz),
            preempted(dropped, all, None),
        ];
        doubts.into_iter().flatten().collect()
    }
}

fn level_summary(level: &MemoryLevel) -> Value {
    json!({
        "name": level.name,
        "size_bytes": bare(&level.size_bytes),
        "size_low": level.size_bytes.low,
        "size_high": level.size_bytes.high,
        "latency_ns": bare(&level.latency_ns),
        "latency_cycles": bare(&level.latency_cycles),
        "low": level.latency_ns.low,
        "high": level.latency_ns.high,
    })
}

fn tlb_summary(level: &TlbLevel) -> Value {
    json!({
        "name": level.name,
        "pages": level.pages,
        "entries": bare(&level.entries),
        "onset": bare(&level.onset),
        "half": bare(&level.half),
        "cost_ns": bare(&level.cost_ns),
        "cost_cycles": bare(&level.cost_cycles),
    })
}
