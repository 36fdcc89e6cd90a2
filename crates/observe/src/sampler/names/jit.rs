// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of functions that a program generated at run time, from the perf map file it writes:
//! `/tmp/perf-PID.map`, with lines of start address, length (both hexadecimal) and name.

use linerate_linux::open_regular_file;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;

/// Maximum bytes to read from a file.
const MAX_BYTES: u64 = 64 << 20;
/// Maximum name length.
const MAX_NAME_CHARS: usize = 1024;
/// Number of entries to check, going back from an address. JIT compilers move code, and add entries
/// without removing outdated ones.
const LOOK_BACK: usize = 16;

/// Opens a process's perf map file, in its mount namespace and by its PID there. Ignores files
/// owned by neither the process's user nor root.
pub(super) fn open(pid: u32) -> Option<File> {
    let number = number_inside(pid).unwrap_or(pid);
    let path = format!("/tmp/perf-{number}.map");
    let file = open_regular_file(format!("/proc/{pid}/root{path}")).ok()?;
    let owner = std::fs::metadata(format!("/proc/{pid}")).ok()?.uid();
    let writer = file.metadata().ok()?.uid();
    (writer == owner || writer == 0).then_some(file)
}

/// Returns a process's PID in its own PID namespace, which is the last of `NSpid`.
fn number_inside(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().last()?.parse().ok()
}

/// Functions by address.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PerfMap {
    text: String,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    start: u64,
    end: u64,
    /// Byte range of the name within the text.
    name: (usize, usize),
}

impl PerfMap {
    pub(super) fn read(file: File) -> Self {
        let mut bytes = Vec::new();
        // Lines read before an error are still valid.
        let _ = file.take(MAX_BYTES).read_to_end(&mut bytes);
        Self::parse(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn parse(text: String) -> Self {
        let of = |line: &str| {
            let hex = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
            let mut words = line.trim_end().splitn(3, ' ');
            let (start, bytes) = (hex(words.next()?)?, hex(words.next()?)?);
            let name = words.next().filter(|name| !name.is_empty())?;
            let at = name.as_ptr() as usize - text.as_ptr() as usize;
            let end = start.checked_add(bytes)?;
            Some(Entry { start, end, name: (at, at + name.len()) })
        };
        let mut entries: Vec<Entry> = text.lines().filter_map(of).collect();
        // Of entries with the same address, the last one in the file is valid.
        entries.reverse();
        entries.sort_by_key(|entry| entry.start);
        entries.dedup_by_key(|entry| entry.start);
        Self { text, entries }
    }

    /// Returns the start address and name of the function containing `address`.
    pub(super) fn find(&self, address: u64) -> Option<(u64, String)> {
        let behind = self.entries.partition_point(|entry| entry.start <= address);
        let before = self.entries[..behind].iter().rev().take(LOOK_BACK);
        let entry = before.into_iter().find(|entry| address < entry.end)?;
        let name = self.text[entry.name.0..entry.name.1].chars().take(MAX_NAME_CHARS);
        Some((entry.start, name.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Lines as written by node and Python; the second one replaces the first.
    const MAP: &str = "\
3ef414c0 398 LazyCompile:~step /srv/a b.js:1
3ef414c0 200 Function:*step /srv/a b.js:1
7f0000001000 10 py::main:/srv/x.py
7f0000001100 40 py::inner:/srv/x.py
0x7f0000002000 0x20 written otherwise
7f0000003000 zz no number
7f0000004000 10
ffffffffffffffff 2 beyond the end
";

    #[test]
    fn functions_are_found_by_address_and_the_last_word_holds() {
        let map = PerfMap::parse(MAP.to_owned());
        let name = |address| map.find(address).map(|(_, name)| name);
        assert_eq!(name(0x3ef4_14c0).as_deref(), Some("Function:*step /srv/a b.js:1"));
        assert_eq!(name(0x3ef4_16bf).as_deref(), Some("Function:*step /srv/a b.js:1"));
        assert_eq!(name(0x3ef4_16c0), None);
        assert_eq!(name(0x7f00_0000_100f).as_deref(), Some("py::main:/srv/x.py"));
        assert_eq!(map.find(0x7f00_0000_1110).unwrap().0, 0x7f00_0000_1100);
        assert_eq!(name(0x7f00_0000_2000).as_deref(), Some("written otherwise"));
        assert_eq!(name(0x7f00_0000_3000), None);
        assert_eq!(name(0x7f00_0000_4000), None);
        assert_eq!(name(u64::MAX), None);
    }

    #[test]
    fn a_process_has_its_number() {
        assert_eq!(number_inside(std::process::id()), Some(std::process::id()));
        assert_eq!(number_inside(4_100_000), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(?s).{0,300}", address: u64) {
            let _ = PerfMap::parse(text).find(address);
        }

        #[test]
        fn any_lines_alike_are_read(
            text in "([0-9a-f]{1,17} [0-9a-f]{1,17} [^\n]{0,9}\n){0,9}", address: u64,
        ) {
            if let Some((start, _)) = PerfMap::parse(text).find(address) {
                prop_assert!(start <= address);
            }
        }
    }
}
