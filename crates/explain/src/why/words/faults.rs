// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts about the reason for page faults, which their number does not show: memory that is
//! allocated and returned again and again, memory that is touched for the first time, or pages that
//! are copied after a fork.

use super::super::facts::Facts;
use super::super::measure::faults;
use linerate_record::units::grouped;

/// Placeholders that this module fills in.
#[cfg(test)]
pub(super) const NAMES: &[&str] = &["fault_reason", "fault_fix"];

const REUSE: &str = "reuse memory: leave MALLOC_TRIM_THRESHOLD_ and MALLOC_MMAP_THRESHOLD_ unset \
                     or large, use a pool, or map with MAP_POPULATE";
const RETURNED: &str = "memory is constantly allocated from and returned to the kernel";

/// What is known about the reason.
enum Reason {
    /// The resident memory grew by this number of pages, most of those that faulted.
    FirstTouch(u64),
    /// This number of processes were forked recently, and may cause the faults.
    PerhapsFork(u64),
    /// Neither memory grew nor processes were forked.
    Returned,
    /// Not read.
    Unknown,
}

fn reason(facts: &Facts<'_>) -> Reason {
    /// Minimum growth relative to the number of faults.
    const MOST: f64 = 0.5;
    /// Maximum growth relative to the number of faults, which are not counted at the same moment.
    /// With more, faults mapped huge pages, and few of them may explain all of the growth.
    const AT_MOST: f64 = 1.25;
    let Some(memory) = &facts.observation.memory else { return Reason::Unknown };
    let pages = u64::try_from(memory.resident_growth_pages).unwrap_or(0);
    let per_fault = pages as f64 / faults(facts).max(1) as f64;
    // Processes that were forked and ended within the window are not counted.
    let has_ended = facts.observation.ended_children_cpus.is_some_and(|cpus| cpus > 0.0);
    match memory.recent_forks {
        _ if per_fault > AT_MOST => Reason::Unknown,
        _ if per_fault >= MOST => Reason::FirstTouch(pages),
        Some(0) if has_ended => Reason::Unknown,
        Some(0) => Reason::Returned,
        Some(forks) => Reason::PerhapsFork(forks),
        None => Reason::Unknown,
    }
}

pub(super) fn value(name: &str, facts: &Facts<'_>) -> Option<String> {
    match name {
        "fault_reason" => Some(match reason(facts) {
            Reason::FirstTouch(pages) => format!(
                "most of them are first touches of memory: the program's resident memory grew by \
                 {} pages",
                grouped(pages)
            ),
            Reason::PerhapsFork(forks) => {
                let processes = if forks == 1 { "process was" } else { "processes were" };
                format!(
                    "either {RETURNED}, or pages are copied at the first write after a fork \
                     ({forks} {processes} forked less than a minute ago)"
                )
            }
            Reason::Returned => RETURNED.to_owned(),
            Reason::Unknown => {
                format!(
                    "{RETURNED}, or pages are touched for the first time or copied after a fork"
                )
            }
        }),
        "fault_fix" => Some(match reason(facts) {
            Reason::FirstTouch(_) => "Touch the memory before it is needed (MAP_POPULATE, \
                                      MADV_POPULATE_WRITE, AlwaysPreTouch in Java), or use huge \
                                      pages; the faults end once all of it has been touched"
                .to_owned(),
            Reason::PerhapsFork(_) => format!(
                "If the program forks to copy itself (redis snapshots, workers that are restarted \
                 again and again), let it fork less often, or with less memory in use; otherwise, \
                 {REUSE}"
            ),
            Reason::Returned | Reason::Unknown => {
                let (first, rest) = REUSE.split_at(1);
                first.to_uppercase() + rest
            }
        }),
        _ => None,
    }
}
