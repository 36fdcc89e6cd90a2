// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel functions, from /proc/kallsyms.
//!
//! The list has 100,000 lines or more, and the kernel takes 40 ms to format it each time that it is
//! read, which is more CPU time than all other readings take in one second. The first call after a
//! boot therefore stores the whole list in a compact file ([`kept`]) that later calls use for
//! lookups. Addresses that the file does not cover are looked up in the kernel's list, which is
//! read up to the last of them. Without the file, all addresses are looked up in the kernel's list.
//! The list is not sorted, so a lookup takes one pass over it:
//!
//! ```text
//! for each code symbol, in the order of the list:
//!     find the lowest requested address at or after the symbol's start
//!     the symbol is the candidate for that address, unless the current candidate starts later
//! at the end: an address without a candidate gets that of the next lower address
//! ```

mod kept;

use kept::{Kept, NewFile};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};

const LIST: &str = "/proc/kallsyms";

/// Functions of the running kernel, looked up window by window.
#[derive(Debug, Default)]
pub(super) struct Kernel {
    /// The kernel's complete list of functions, once it has been read.
    list: Option<Kept>,
    /// Number of windows whose addresses were looked up.
    windows: u32,
    /// Functions at addresses that the list does not cover.
    others: KernelSymbols,
}

impl Kernel {
    /// Looks up `addresses`. Nothing is found if the kernel hides its addresses from this user.
    ///
    /// Without a stored list, the first window streams the kernel's own list. From the second
    /// window on, the whole list is held in memory, since streaming it again and again would take
    /// longer.
    pub(super) fn read(&mut self, mut addresses: BTreeSet<u64>) {
        addresses.retain(|address| self.find(*address).is_none());
        if addresses.is_empty() {
            return;
        }
        self.windows += 1;
        if self.list.is_none() {
            self.list = if self.windows == 1 { stored() } else { whole() };
        }
        let is_covered =
            |address: &u64| self.list.as_ref().is_some_and(|list| list.find(*address).is_some());
        addresses.retain(|address| !is_covered(address) && !self.others.was_looked_up(*address));
        if !addresses.is_empty()
            && let Ok(list) = File::open(LIST)
        {
            self.others.add(KernelSymbols::read(list, addresses));
        }
    }

    /// Returns the first address and the name of the function that contains an address passed to
    /// [`Kernel::read`].
    pub(super) fn find(&self, address: u64) -> Option<(u64, &str)> {
        /// Size in bytes that no function reaches. Code at this distance from the preceding symbol
        /// or further does not belong to it, such as BPF programs without names.
        const LARGEST: u64 = 1 << 20;
        let in_list = self.list.as_ref().and_then(|list| list.find(address));
        let found = in_list.or_else(|| self.others.find(address));
        found.filter(|(start, _)| address - start < LARGEST)
    }
}

/// Kernel functions at given addresses.
#[derive(Debug, Default, PartialEq, Eq)]
struct KernelSymbols {
    /// Addresses, each with the start and name of its function.
    found: Vec<(u64, Option<(u64, String)>)>,
}

/// Bytes per read of the list.
const CHUNK_BYTES: usize = 64 << 10;
/// Maximum line length. The kernel limits names to 511 bytes.
const MAX_LINE_BYTES: u64 = 4096;

impl KernelSymbols {
    /// Finds the functions at `addresses` in the list; none if it hides addresses, as it does for
    /// unprivileged users.
    fn read(list: impl Read, addresses: BTreeSet<u64>) -> Self {
        let mut symbols = Self { found: addresses.into_iter().map(|a| (a, None)).collect() };
        let mut list = BufReader::with_capacity(CHUNK_BYTES, list);
        let mut line = Vec::new();
        while !symbols.found.is_empty() {
            line.clear();
            let read = list.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
            if !matches!(read, Ok(1..)) {
                break;
            }
            let Some((start, name, _)) = std::str::from_utf8(&line).ok().and_then(symbol) else {
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

    /// Returns the first address and name of the function that contains `address`, which must be
    /// one of those looked up.
    fn find(&self, address: u64) -> Option<(u64, &str)> {
        let at = self.found.binary_search_by_key(&address, |(address, _)| *address).ok()?;
        self.found[at].1.as_ref().map(|(start, name)| (*start, name.as_str()))
    }

    fn was_looked_up(&self, address: u64) -> bool {
        self.found.binary_search_by_key(&address, |(address, _)| *address).is_ok()
    }

    /// Adds functions at other addresses.
    fn add(&mut self, more: Self) {
        self.found.extend(more.found);
        self.found.sort_by_key(|(address, _)| *address);
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

    /// Gives each address that has no symbol the symbol of the preceding address.
    fn spread(&mut self) {
        for at in 1..self.found.len() {
            if self.found[at].1.is_none() {
                self.found[at].1 = self.found[at - 1].1.clone();
            }
        }
    }
}

/// Returns the list stored since the last boot, or stores it now; `None` if it cannot be stored.
fn stored() -> Option<Kept> {
    let (folder, key) = kept::folder().zip(kept::key())?;
    Kept::read(&folder, &key).or_else(|| {
        let file = NewFile::create(&folder).ok()?;
        let list = whole()?;
        // If the write fails, only this call uses the list.
        let _ = file.write(&list, &key);
        Some(list)
    })
}

/// Reads the kernel's whole list; `None` if it hides addresses.
fn whole() -> Option<Kept> {
    let list = std::fs::read(LIST).ok()?;
    let lines = list.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
    let list = Kept::build(lines.filter_map(symbol));
    (list != Kept::default()).then_some(list)
}

/// Prefix of the padding before a function, which has its own symbol and never runs.
const PADDING: &str = "__pfx_";

/// Parses address, name and module of a code symbol: `ffffffff81000000 T name`, `[module]`.
fn symbol(line: &str) -> Option<(u64, &str, Option<&str>)> {
    let mut parts = line.split_ascii_whitespace();
    let (address, kind, name) = (parts.next()?, parts.next()?, parts.next()?);
    let module = parts.next().map(|word| word.trim_matches(['[', ']']));
    let is_code = matches!(kind, "t" | "T" | "w" | "W") && !name.starts_with(PADDING);
    let address = u64::from_str_radix(address, 16).ok()?;
    (is_code && address != 0).then_some((address, name, module))
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
    fn code_far_behind_a_function_is_not_part_of_it() {
        let (near, far) = (0xffff_ffff_8380_0123, 0xffff_ffff_c010_0000);
        let others = read("ffffffff83800000 T _einittext\n", &[near, far]);
        let kernel = Kernel { others, ..Kernel::default() };
        assert_eq!(kernel.find(near).map(|(_, name)| name), Some("_einittext"));
        assert_eq!(kernel.find(far), None);
    }

    #[test]
    fn padding_belongs_to_the_function_before_it() {
        let text = "1000 t first\n1010 t __pfx_second\n1020 t second\n";
        assert_eq!(read(text, &[0x101f]).find(0x101f), Some((0x1000, "first")));
    }

    #[test]
    fn a_stored_list_answers_like_the_list() {
        let list = std::fs::read_to_string(LIST).unwrap_or_default();
        let kept = Kept::build(list.lines().filter_map(symbol));
        let image: Vec<u64> = (list.lines().filter_map(symbol))
            .filter_map(|(start, _, module)| module.is_none().then_some(start))
            .collect();
        let Some(last) = image.iter().max() else {
            println!("SKIP: /proc/kallsyms shows no addresses to this user");
            return;
        };
        let addresses = image.iter().step_by(997).map(|start| start + 5);
        let addresses: BTreeSet<u64> = addresses.filter(|address| address <= last).collect();
        let streamed = KernelSymbols::read(list.as_bytes(), addresses.clone());
        for address in addresses {
            assert_eq!(kept.find(address), streamed.find(address), "{address:#x}");
        }
        assert_eq!(kept.find(last + 1), None);
    }

    #[test]
    fn addresses_of_later_windows_are_found_too() {
        let Some(list) = whole() else {
            println!("SKIP: /proc/kallsyms shows no addresses to this user");
            return;
        };
        let mut kernel = Kernel { list: Some(list), ..Kernel::default() };
        let text = std::fs::read_to_string(LIST).unwrap();
        let starts: Vec<u64> =
            text.lines().filter_map(symbol).map(|(start, ..)| start).take(3).collect();
        // An address below the kernel is in no function, however often it is looked up.
        for window in [vec![starts[0]], vec![1, starts[2]], vec![1, starts[1]]] {
            kernel.read(window.into_iter().collect());
        }
        assert!(starts.iter().all(|start| kernel.find(*start).is_some()));
        assert_eq!((kernel.find(1), kernel.others.found.len()), (None, 1));
    }

    #[test]
    fn a_list_without_addresses_is_empty() {
        assert_eq!(read("0000000000000000 T _text\n", &[u64::MAX]).find(u64::MAX), None);
    }

    /// A list that counts how many bytes were read.
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
            // The kernel lists symbols in this order.
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
