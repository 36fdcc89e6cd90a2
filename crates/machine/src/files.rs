// SPDX-License-Identifier: MIT OR Apache-2.0
//! Access to files in /proc and /sys, and parsers for formats that they share.

use crate::Error;
use linerate_record::units::parse_memory_size;
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Parent directory of /proc and /sys: `/`, or another directory in tests. Methods take paths
/// relative to it, without the leading slash.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Root {
    /// Uses the directory `path` in place of `/`.
    pub fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Returns whether this is `/`, and the files therefore describe the machine that the program
    /// runs on.
    pub fn is_here(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// Returns the full path for `path`, which is relative to the root.
    pub fn path(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    /// Returns whether `path` exists.
    pub fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Returns a file's text without leading and trailing white space and NUL bytes; `None` if it
    /// cannot be read or has no text.
    pub fn text(&self, path: &str) -> Option<String> {
        let text = String::from_utf8_lossy(&contents(&self.path(path)).ok()?).into_owned();
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// Returns the number in a file; `None` if it cannot be read or is not a number.
    pub fn number<T: FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// Returns the list of CPUs in a file, ascending; `None` if it cannot be read. Empty for an
    /// empty file.
    pub fn cpu_list(&self, path: &str) -> Option<Vec<u32>> {
        let text = fs::read_to_string(self.path(path)).ok()?;
        parse_cpu_list(text.trim()).ok()
    }

    /// Returns the sorted names in a directory; empty if it cannot be read.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }
}

/// Returns a file's contents. Most files in /proc and /sys fit into the first buffer, and are read
/// with two system calls; their reported size cannot be used to choose a buffer.
fn contents(path: &Path) -> std::io::Result<Vec<u8>> {
    /// Size of the first buffer in bytes: four pages.
    const FIRST: usize = 16 << 10;
    let mut contents = Vec::with_capacity(FIRST);
    fs::File::open(path)?.read_to_end(&mut contents)?;
    Ok(contents)
}

/// Returns a file's text without the trailing newline.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text.trim_end().to_owned()),
        Err(error) => Err(Error::File { path: display(path), reason: error.to_string() }),
    }
}

/// Reads a file and parses its text with `parse`.
pub(crate) fn read_as<T>(
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, Error> {
    parse(&read(path)?).map_err(|reason| Error::File { path: display(path), reason })
}

fn display(path: &Path) -> String {
    path.display().to_string()
}

/// Parses a decimal integer.
pub(crate) fn parse_number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("invalid number `{text}`; expected an integer below 2^32"))
}

/// Exclusive upper limit on CPU numbers, 8 times the largest NR_CPUS of any kernel (8192). Keeps a
/// corrupt list from exhausting memory.
const CPU_LIMIT: u32 = 1 << 16;

/// Parses a list of CPUs in the kernel's format, such as `0-3,8,10-11`. Returns the CPUs ascending
/// and deduplicated; empty for an empty string.
///
/// # Errors
/// Returns an error message that quotes the invalid item if one is neither a CPU number nor an
/// ascending range.
pub fn parse_cpu_list(text: &str) -> Result<Vec<u32>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let mut cpus = parse_cpus(text)?;
    cpus.sort_unstable();
    Ok(cpus)
}

/// Parses a user-supplied list of at least one CPU, in the notation of [`parse_cpu_list`]. Returns
/// the CPUs in the order given, deduplicated.
///
/// # Errors
/// Returns an error message that quotes the invalid item if one is neither a CPU number nor an
/// ascending range.
pub fn parse_cpus(text: &str) -> Result<Vec<u32>, String> {
    let mut cpus = Vec::new();
    let mut seen = BTreeSet::new();
    for range in text.split(',').map(str::trim) {
        let number = |text: &str| text.parse::<u32>().ok().filter(|cpu| *cpu < CPU_LIMIT);
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (Some(first), Some(last)) = (number(first), number(last)) else {
            return Err(invalid_cpu(range));
        };
        if first > last {
            return Err(format!("invalid CPU range '{range}': its end is below its start"));
        }
        cpus.extend((first..=last).filter(|&cpu| seen.insert(cpu)));
    }
    Ok(cpus)
}

/// Parses a user-supplied CPU number.
///
/// # Errors
/// Returns an error message that quotes `text` if it is not a number.
pub fn parse_cpu(text: &str) -> Result<u32, String> {
    text.trim().parse().map_err(|_| invalid_cpu(text))
}

fn invalid_cpu(text: &str) -> String {
    format!("invalid CPU number '{text}'; expected e.g. 2, or a list such as 0,2-3")
}

/// Formats a list of CPUs as the kernel does. `cpus` must be ascending, without duplicates.
pub fn format_cpu_list(cpus: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let range = |&(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

/// Formats a list of CPUs for messages, such as `CPU 1` or `CPUs 0-2,5`. `cpus` must be ascending,
/// without duplicates.
pub fn name_cpus(cpus: &[u32]) -> String {
    match cpus {
        [] => "no CPU".to_owned(),
        [one] => format!("CPU {one}"),
        _ => format!("CPUs {}", format_cpu_list(cpus)),
    }
}

/// Parses a size in the kernel's notation (`512`, `32768K`, `2M`, `1G`), returning bytes.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    parse_memory_size(text).map(|size| size.0).map_err(|_| format!("invalid size `{text}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn users_lists_keep_their_order() {
        assert_eq!(parse_cpus("0,2-4, 3"), Ok(vec![0, 2, 3, 4]));
        assert_eq!(parse_cpus("5,0-1"), Ok(vec![5, 0, 1]));
        for bad in ["", "x", "3-1", "1,,2", "-1", "0-99999"] {
            let why = parse_cpus(bad).expect_err(bad);
            assert!(why.starts_with("invalid CPU "), "{why}");
        }
        assert_eq!(parse_cpu(" 7 "), Ok(7));
        assert!(parse_cpu("0-1").is_err() && parse_cpu("-1").is_err());
    }

    #[test]
    fn lists_and_sizes_as_recorded() {
        assert_eq!(parse_cpu_list(""), Ok(vec![]));
        assert_eq!(parse_cpu_list("0"), Ok(vec![0]));
        assert_eq!(parse_cpu_list("0-1"), Ok(vec![0, 1]));
        assert_eq!(format_cpu_list(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!([&[][..], &[4], &[4, 5]].map(name_cpus), ["no CPU", "CPU 4", "CPUs 4-5"]);
        assert_eq!(parse_cpu_list("0-2,64-66"), Ok(vec![0, 1, 2, 64, 65, 66]));
        assert_eq!(parse_cpu_list("8,0,8"), Ok(vec![0, 8]));
        for bad in [",", "0-", "-1", "3-1", "0-4294967295", "65536", "a", "0;1", " "] {
            assert!(parse_cpu_list(bad).is_err(), "{bad:?}");
        }
        assert_eq!(parse_size("512"), Ok(512));
        assert_eq!(parse_size("32768K"), Ok(32 << 20));
        assert_eq!(parse_size("2M"), Ok(2 << 20));
        assert_eq!(parse_size("1G"), Ok(1 << 30));
        for bad in ["", "K", "1.5M", "-1", "18446744073709551615K"] {
            assert!(parse_size(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = read(Path::new("/proc/no such file")).unwrap_err();
        assert!(error.to_string().starts_with("/proc/no such file: No such file"), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        #[test]
        fn lists_give_back_what_was_printed(cpus in prop::collection::btree_set(0u32..400, 0..80)) {
            let cpus: Vec<u32> = cpus.into_iter().collect();
            prop_assert_eq!(parse_cpu_list(&format_cpu_list(&cpus)), Ok(cpus));
        }

        #[test]
        fn lists_and_sizes_survive_anything(text in "[0-9,\\-KMG]{0,24}|.{0,24}") {
            if let Ok(cpus) = parse_cpu_list(&text) {
                prop_assert!(cpus.windows(2).all(|pair| pair[0] < pair[1]));
            }
            if let Ok(size) = parse_size(&text) {
                let starts_well = text.trim_start().starts_with(|c: char| c.is_ascii_digit());
                prop_assert!(starts_well, "{size}");
            }
        }
    }
}
