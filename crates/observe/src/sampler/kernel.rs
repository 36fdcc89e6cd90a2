// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of the kernel: /proc/kallsyms.

/// Functions by address.
#[derive(Debug, Default)]
pub(super) struct KernelSymbols {
    text: String,
    /// Address, and where its name is in `text`.
    symbols: Vec<(u64, u32)>,
}

impl KernelSymbols {
    /// Reads the list; without addresses in it, as users without privileges see it, it is empty.
    pub(super) fn parse(text: String) -> Self {
        let mut symbols = Vec::new();
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            let name_at = line.get(..19).and_then(symbol);
            if let (Some(address), Ok(name_at)) = (name_at, u32::try_from(at + 19)) {
                symbols.push((address, name_at));
            }
            at += line.len();
        }
        symbols.sort_by_key(|&(address, _)| address);
        Self { text, symbols }
    }

    /// The first address and the name of the function that holds `address`.
    pub(super) fn find(&self, address: u64) -> Option<(u64, &str)> {
        let behind = self.symbols.partition_point(|&(start, _)| start <= address);
        let (start, name_at) = *self.symbols[..behind].last()?;
        let name = self.text.get(name_at as usize..)?.split(['\t', '\n', ' ']).next()?;
        Some((start, name))
    }
}

/// The address in the head of a line of code, `ffffffff81000000 T `.
fn symbol(head: &str) -> Option<u64> {
    let (address, kind) = head.split_once(' ')?;
    let is_code = matches!(kind, "t " | "T " | "w " | "W ");
    let address = u64::from_str_radix(address, 16).ok()?;
    (is_code && address != 0).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn functions_are_found_by_address() {
        let text = "ffffffff81000100 T second\nffffffff81000000 t first\nffffffff81000050 d data\n\
                    ffffffffc0000000 t third\t[module]\n";
        let symbols = KernelSymbols::parse(text.to_owned());
        let name = |address| symbols.find(address).map(|(_, name)| name);
        assert_eq!(name(0xffff_ffff_8100_0060), Some("first"));
        assert_eq!(name(0xffff_ffff_8100_0100), Some("second"));
        assert_eq!(name(0xffff_ffff_c000_0001), Some("third"));
        assert_eq!(name(0xffff_ffff_8000_0000), None);
    }

    #[test]
    fn a_list_without_addresses_is_empty() {
        let symbols = KernelSymbols::parse("0000000000000000 T _text\n".to_owned());
        assert_eq!(symbols.find(u64::MAX), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(?s).{0,100}", address: u64) {
            let _ = KernelSymbols::parse(text).find(address);
        }
    }
}
