// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether small and huge pages are available, granted and effective, as text for the record.
//!
//! hugetlbfs pages, which must be reserved in advance, are not covered.

use crate::bench::Bench;
use linerate_hierarchy::tlb::HugePages;
use linerate_machine::Root;
use linerate_record::memory::{PageKind, Pages, PagesVerdict};
use linerate_record::stats::Estimate;
use linerate_record::{Figure, Tier};
use std::path::Path;

/// Minimum fraction of the memory that must be backed by huge pages for their effect to be judged.
const MOSTLY: f64 = 0.5;

/// The system's huge page settings, and the pages granted.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    base: usize,
    huge: Option<usize>,
    used: PageKind,
    /// Transparent huge page mode: `always`, `madvise`, `never`.
    mode: Option<String>,
    granted: Option<f64>,
    /// Whether a huge page fits in the memory under test.
    has_room: bool,
    /// Whether this is known to be a guest of a hypervisor.
    is_guest: bool,
}

impl Offer {
    pub(super) fn read(bench: &Bench<'_>, used: PageKind, granted: Option<f64>) -> Self {
        let setting = Root::new(Path::new("/")).text("sys/kernel/mm/transparent_hugepage/enabled");
        let mode = setting.as_deref().and_then(chosen).map(str::to_owned);
        let has_room = bench.huge.is_none_or(|bytes| bytes as u64 <= bench.limit.bytes / 2);
        let is_guest = linerate_machine::platform(Path::new("/")).hypervisor.is_some();
        Self { base: bench.page, huge: bench.huge, used, mode, granted, has_room, is_guest }
    }
}

/// Returns the bracketed word in `always [madvise] never`.
fn chosen(setting: &str) -> Option<&str> {
    setting.split_once('[')?.1.split_once(']').map(|(mode, _)| mode)
}

pub(super) fn judge(offer: &Offer, effect: &HugePages) -> Pages {
    let is_offered = offer.huge.is_some() && offer.mode.as_deref() != Some("never");
    let verdict = match offer.granted {
        _ if !is_offered => PagesVerdict::NotOffered,
        Some(granted) if granted < MOSTLY => PagesVerdict::NotGranted,
        _ => effect.verdict,
    };
    let method = "AnonHugePages for the arena (/proc/self/smaps)";
    let granted = match offer.granted {
        Some(granted) => Figure::exact("ratio", granted, Tier::Sw, method),
        None if offer.huge.is_none() => {
            Figure::absent("ratio", Tier::Sw, method, "this kernel has no transparent huge pages")
        }
        None if !offer.has_room => {
            Figure::absent("ratio", Tier::Sw, method, "not enough memory for a huge page")
        }
        None => {
            Figure::absent("ratio", Tier::Sw, method, "the kernel does not report AnonHugePages")
        }
    };
    Pages {
        base_bytes: offer.base as u64,
        huge_bytes: offer.huge.map(|bytes| bytes as u64),
        used: offer.used,
        granted,
        time_ratio: time_ratio(verdict, effect),
        verdict,
        sentence: sentence(verdict, offer, effect),
    }
}

fn time_ratio(verdict: PagesVerdict, effect: &HugePages) -> Figure {
    let method = "one line per small page: time per load with huge pages divided by that with \
                  small pages";
    let absent = |reason| Figure::absent("ratio", Tier::Sw, method, reason);
    match (verdict, effect.time_ratio) {
        (PagesVerdict::NotOffered | PagesVerdict::NotGranted, _) => {
            absent("no huge pages were available to measure")
        }
        (_, Some(ratio)) => Figure::number("ratio", ratio, Tier::Sw, method),
        (_, None) => absent("nothing was measured beyond the first-level TLB"),
    }
}

fn sentence(verdict: PagesVerdict, offer: &Offer, effect: &HugePages) -> String {
    let pieces = kib_or_mib(offer.base);
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let share = effect.share.map_or(String::new(), |share| {
        format!(" ({} of the miss cost remains)", percent(share.value.clamp(0.0, 1.0)))
    });
    match verdict {
        PagesVerdict::Work => {
            format!("huge pages work: one TLB entry covers a whole huge page{share}")
        }
        PagesVerdict::Splintered => {
            format!(
                "huge pages are granted, but the first-level TLB holds them in pieces of \
                 {pieces}{share}, {}",
                match offer.is_guest {
                    true =>
                        "which happens when the hypervisor backs the guest with small pages: \
                             back this guest with huge pages on the host",
                    false => "as TLBs without entries for huge pages do",
                }
            )
        }
        PagesVerdict::NotGranted => {
            let only = |share| format!("only {}", percent(share));
            let granted = offer.granted.map_or("none".to_owned(), only);
            format!(
                "huge pages were requested, but {granted} of them were granted: memory may be too \
                 fragmented; try `echo 1 > /proc/sys/vm/compact_memory` as root, and measure again"
            )
        }
        PagesVerdict::NotOffered if offer.huge.is_none() => {
            "this kernel has no transparent huge pages; use one built with \
             CONFIG_TRANSPARENT_HUGEPAGE"
                .to_owned()
        }
        PagesVerdict::NotOffered => "transparent huge pages are switched off; `echo madvise > \
                                     /sys/kernel/mm/transparent_hugepage/enabled` as root lets \
                                     programs request them"
            .to_owned(),
        PagesVerdict::Unknown if !offer.has_room => {
            "cannot tell whether huge pages work: there is no room for a huge page; allow more \
             memory"
                .to_owned()
        }
        PagesVerdict::Unknown => {
            let why = effect.share.map_or(
                "the latency curve shows no first-level TLB".to_owned(),
                |Estimate { low, high, .. }| {
                    let [low, high] = [low, high].map(|share| percent(share.clamp(0.0, 1.0)));
                    format!("{low} to {high} of the miss cost may remain with huge pages")
                },
            );
            format!(
                "cannot tell whether huge pages work: {why}; measure again when nothing else runs"
            )
        }
    }
}

fn kib_or_mib(bytes: usize) -> String {
    if bytes >= 1 << 20 { format!("{} MiB", bytes >> 20) } else { format!("{} KiB", bytes >> 10) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(value: f64) -> Option<Estimate> {
        Some(Estimate { value, low: value, high: value, confidence: 0.95, n: 5 })
    }

    fn offer(mode: &str, granted: Option<f64>) -> Offer {
        let (base, huge) = (4096, Some(2 << 20));
        let mode = Some(mode.to_owned());
        let used = PageKind::Huge;
        Offer { base, huge, used, mode, granted, has_room: true, is_guest: true }
    }

    fn effect(verdict: PagesVerdict) -> HugePages {
        HugePages { verdict, share: estimate(0.98), time_ratio: estimate(0.5) }
    }

    #[test]
    fn the_mode_in_brackets_is_chosen() {
        assert_eq!(chosen("always [madvise] never"), Some("madvise"));
        assert_eq!(chosen("always madvise [never]"), Some("never"));
        for bad in ["", "always", "[always", "]["] {
            assert_eq!(chosen(bad), None, "{bad:?}");
        }
    }

    /// Timings do not show whether huge pages work if none were granted.
    #[test]
    fn offered_then_granted_then_working() {
        use PagesVerdict::{NotGranted, NotOffered, Splintered, Unknown, Work};
        let none = Offer { huge: None, mode: None, ..offer("", None) };
        for (offer, seen, verdict) in [
            (none, Work, NotOffered),
            (offer("never", Some(0.0)), Splintered, NotOffered),
            (offer("madvise", Some(0.1)), Splintered, NotGranted),
            (offer("madvise", Some(0.9)), Splintered, Splintered),
            (offer("always", Some(1.0)), Work, Work),
            (offer("always", None), Work, Work),
            (offer("always", Some(1.0)), Unknown, Unknown),
        ] {
            let pages = judge(&offer, &effect(seen));
            assert_eq!(pages.verdict, verdict, "{offer:?}");
            let is_there = !matches!(verdict, NotOffered | NotGranted);
            assert_eq!(pages.time_ratio.as_number().is_some(), is_there, "{offer:?}");
            assert_eq!(pages.granted.as_number(), offer.granted);
            assert_eq!(pages.granted.reason.is_none(), offer.granted.is_some());
        }
    }

    #[test]
    fn the_sentence_says_what_was_found_and_what_to_do() {
        let say = |offer: &Offer, verdict| judge(offer, &effect(verdict)).sentence;
        let splintered = say(&offer("madvise", Some(1.0)), PagesVerdict::Splintered);
        assert!(splintered.contains("pieces of 4 KiB (98 % of the miss cost remains)"));
        assert!(splintered.contains("on the host"), "{splintered}");
        let bare = Offer { is_guest: false, ..offer("madvise", Some(1.0)) };
        let bare = say(&bare, PagesVerdict::Splintered);
        assert!(bare.ends_with("remains), as TLBs without entries for huge pages do"), "{bare}");
        assert!(!bare.contains("host") && !bare.contains("hypervisor"), "{bare}");
        let denied = say(&offer("madvise", Some(0.07)), PagesVerdict::Work);
        assert!(denied.contains("7 % of them were granted") && denied.contains("compact_memory"));
        let small = Offer { has_room: false, ..offer("always", None) };
        assert!(say(&small, PagesVerdict::Unknown).ends_with("allow more memory"));
        let doubtful = say(&offer("always", None), PagesVerdict::Unknown);
        assert!(doubtful.contains("98 % to 98 % of the miss cost may remain"));
        let unseen = HugePages { share: None, ..effect(PagesVerdict::Unknown) };
        let unseen = judge(&offer("always", None), &unseen).sentence;
        assert!(unseen.contains("no first-level TLB"), "{unseen}");
        let off = say(&offer("never", Some(0.0)), PagesVerdict::Work);
        assert!(off.contains("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"));
    }
}
