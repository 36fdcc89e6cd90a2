// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel functions, from /proc/kallsyms.
//!
//! The list has 100,000 lines or more, which the kernel formats as they are read, in 40 ms. Only
//! the functions at sampled addresses are needed, so nothing else is kept, and reading stops at the
//! last of them:
//!
//! ```text
//! for each symbol of code, in the order of the list:
//!     the lowest address at or behind its start is in it, or in a symbol that starts later
//! at the end: an address without a symbol of its own is in that of the address before it
//! ```

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};

/// Kernel functions at given addresses.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct KernelSymbols {
    /// Addresses, each with the start and name of its function.
    found: Vec<(u64, Option<(u64, String)>)>,
}

/// Bytes per read of the list.
const CHUNK_BYTES: usize = 64 << 10;
/// Maximum line length; the kernel limits names to 511 bytes.
const MAX_LINE_BYTES: u64 = 4096;

impl KernelSymbols {
    /// Finds the functions at `addresses` in the list; none if it hides addresses, as it does for
    /// unprivileged users.
    pub(super) fn read(list: impl Read, addresses: BTreeSet<u64>) -> Self {
        let mut symbols = Self { found: addresses.into_iter().map(|a| (a, None)).collect() };
        let mut list = BufReader::with_capacity(CHUNK_BYTES, list);
        let mut line = Vec::new();
        while !symbols.found.is_empty() {
            line.clear();
            let read = list.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
            if !matches!(read, Ok(1..)) {
                break;
            }
            let Some((start, name)) = std::str::from_utf8(&line).ok().and_then(symbol) else {
                continue;
            };
            // The kernel's own functions are in order; modules follow, usually at higher addresses.
            if symbols.is_behind(start) && symbols.is_first_found() {
                break;
            }
            symbols.take(start, name);
        }
        symbols.spread();
        symbols
    }

    /// First address and name of the function that contains one of the addresses.
    pub(super) fn find(&self, address: u64) -> Option<(u64, &str)> {
        let at = self.found.binary_search_by_key(&address, |(address, _)| *address).ok()?;
        self.found[at].1.as_ref().map(|(start, name)| (*start, name.as_str()))
    }

    fn is_behind(&self, start: u64) -> bool {
        self.found.last().is_none_or(|(address, _)| *address < start)
    }

    fn is_first_found(&self) -> bool {
        self.found.first().is_none_or(|(_, found)| found.is_some())
    }

    /// Assigns the symbol at `start` to the lowest address at or after it.
    fn take(&mut self, start: u64, name: &str) {
        let at = self.found.partition_point(|(address, _)| *address < start);
        match self.found.get_mut(at) {
            Some((_, Some((known, text)))) if *known <= start => {
                *known = start;
                name.clone_into(text);
            }
            Some((_, found @ None)) => *found = Some((start, name.to_owned())),
            _ => {}
        }
    }

    /// Assigns addresses without a symbol of their own to that of the preceding address.
    fn spread(&mut self) {
        for at in 1..self.found.len() {
            if self.found[at].1.is_none() {
                self.found[at].1 = self.found[at - 1].1.clone();
            }
        }
    }
}

/// Parses address and name of a code symbol: `ffffffff81000000 T name`.
fn symbol(line: &str) -> Option<(u64, &str)> {
    let mut parts = line.split_ascii_whitespace();
    let (address, kind, name) = (parts.next()?, parts.next()?, parts.next()?);
    let is_code = matches!(kind, "t" | "T" | "w" | "W");
    let address = u64::from_str_radix(address, 16).ok()?;
    (is_code && address != 0).then_some((address, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str, addresses: &[u64]) -> KernelSymbols {
        KernelSymbols::read(text.as_bytes(), addresses.iter().copied().collect())
    }

    #[test]
    fn functions_are_found_by_address() {
        let text = "ffffffff81000100 T second\nffffffff81000000 t first\nffffffff81000050 d data\n\
                    ffffffffc0000000 t third\t[module]\n";
        let first = 0xffff_ffff_8100_0060;
        let second = 0xffff_ffff_8100_0100;
        let third = 0xffff_ffff_c000_0001;
        let before = 0xffff_ffff_8000_0000;
        let symbols = read(text, &[second, third, before, first, second + 1]);
        let name = |address| symbols.find(address).map(|(_, name)| name);
        assert_eq!(name(first), Some("first"));
        assert_eq!(name(second), Some("second"));
        assert_eq!(symbols.find(second + 1), Some((second, "second")));
        assert_eq!(name(third), Some("third"));
        assert_eq!(name(before), None);
    }

    #[test]
    fn a_list_without_addresses_is_empty() {
        assert_eq!(read("0000000000000000 T _text\n", &[u64::MAX]).find(u64::MAX), None);
    }

    /// A list that counts the bytes read from it.
    struct Counted<'a>(&'a [u8], &'a mut usize);

    impl Read for Counted<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let read = self.0.read(buffer)?;
            *self.1 += read;
            Ok(read)
        }
    }

    #[test]
    fn nothing_is_read_behind_the_last_address() {
        let lines: Vec<String> =
            (1..100_000_u64).map(|n| format!("{:016x} T f{n}\n", 0x1000 * n)).collect();
        let text = lines.concat();
        let mut bytes = 0;
        let list = Counted(text.as_bytes(), &mut bytes);
        let symbols = KernelSymbols::read(list, [0x5008, 0x9ff0].into());
        assert_eq!(symbols.find(0x9ff0), Some((0x9000, "f9")));
        assert_eq!(symbols.find(0x5008), Some((0x5000, "f5")));
        assert!(bytes <= CHUNK_BYTES, "{bytes}");
    }

    proptest! {
        #[test]
        fn the_function_is_the_one_that_starts_last(
            mut starts in prop::collection::vec(1..5000_u64, 1..40),
            addresses in prop::collection::btree_set(0..6000_u64, 1..20),
        ) {
            // In order, as the kernel lists them.
            starts.sort_unstable();
            starts.dedup();
            let lines = starts.iter().map(|start| format!("{start:x} t f{start}\n"));
            let text: String = lines.collect();
            let symbols = KernelSymbols::read(text.as_bytes(), addresses.clone());
            for address in addresses {
                let expected = starts.iter().rfind(|start| **start <= address).copied();
                prop_assert_eq!(symbols.find(address).map(|(start, _)| start), expected);
            }
        }

        #[test]
        fn any_text_is_read(text in "(?s).{0,100}", address: u64) {
            let _ = read(&text, &[address]).find(address);
        }
    }
}
