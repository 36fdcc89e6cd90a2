// SPDX-License-Identifier: MIT OR Apache-2.0
//! Detects a text's format by content that occurs only in that format.

use crate::{perf_samples, perf_stat, profile_dump, vpp};
use linerate_record::strands::ForeignFormat;

/// Returns the format of a text; `None` if the format cannot be determined.
pub fn format(text: &str) -> Option<ForeignFormat> {
    let has = |is: fn(&str) -> bool| text.lines().any(is);
    if has(profile_dump::is_its_own) {
        Some(ForeignFormat::ProfileDump)
    } else if has(vpp::is_its_own) {
        Some(ForeignFormat::Vpp)
    } else if has(perf_stat::is_its_own) {
        Some(ForeignFormat::PerfStat)
    } else {
        None
    }
}

/// Returns whether a text contains samples in the format of `perf script`, or is a file written by
/// `perf record`. [`perf_samples::read`] rejects such a file, and names the command to convert it.
pub fn has_samples(text: &str) -> bool {
    text.lines().any(perf_samples::is_its_own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_formats() {
        let cases = [
            ("noise\nPROFILE_DUMP_START,ver,2.0\n", Some(ForeignFormat::ProfileDump)),
            ("4,6043,2,30051d74250,512598,1,3a372e12,dc22fb0,0,30c1b080\n", None),
            ("0.75,msec,task-clock,752750,100.00,0.130,CPUs utilized", Some(PERF)),
            ("{\"counter-value\" : \"49.0\", \"event\" : \"page-faults\"}", Some(PERF)),
            ("Thread 1 vpp_wk_0 (lcore 2)\n", Some(ForeignFormat::Vpp)),
            ("  vector rates in 1e5, out 1e5, drop 0, punt 0", Some(ForeignFormat::Vpp)),
            ("", None),
            ("a,b,c,d,e,f,g,h\n{}", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(format(text), wanted, "{text}");
        }
    }

    #[test]
    fn samples_are_detected() {
        let sample = "dd 12/12 [000] 5.123456:     250000 cpu-clock: ";
        assert!(has_samples(&format!("# captured on: today\n{sample}\n")));
        assert!(has_samples("PERFILE2h\0\0"));
        assert_eq!(format(sample), None);
        for other in ["", "a: b: c", "0.75,msec,task-clock,752750,100.00,0.130,CPUs utilized"] {
            assert!(!has_samples(other), "{other}");
        }
    }

    const PERF: ForeignFormat = ForeignFormat::PerfStat;
}
