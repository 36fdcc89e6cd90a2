// SPDX-License-Identifier: MIT OR Apache-2.0
//! Demangles Rust and C++ names.

use cpp_demangle::{DemangleOptions, Symbol};
use std::fmt::{self, Write};

/// Maximum length of a demangled name. A mangled name of 1 KiB may repeat a type a million times.
const MAX_NAME_BYTES: usize = 1024;

/// Demangles a Rust name without its hash, or a C++ name without its return type. Returns other
/// names, and those that would become too long, unchanged.
pub(super) fn demangled(name: &str) -> String {
    let rust = rustc_demangle::try_demangle(name).ok().and_then(|readable| {
        let mut limited = Limited(String::new());
        write!(limited, "{readable:#}").ok()?;
        Some(limited.0)
    });
    rust.or_else(|| of_cpp(name)).unwrap_or_else(|| name.to_owned())
}

fn of_cpp(name: &str) -> Option<String> {
    // The demangler also accepts type names: `i` would become `int`.
    let is_mangled = name.starts_with("_Z") || name.starts_with("_GLOBAL__");
    let symbol = is_mangled.then(|| Symbol::new(name.as_bytes()).ok())??;
    let mut limited = Limited(String::new());
    let options = DemangleOptions::new().no_return_type();
    symbol.structured_demangle(&mut limited, &options).ok()?;
    Some(limited.0)
}

/// A string that refuses to grow beyond [`MAX_NAME_BYTES`].
struct Limited(String);

impl Write for Limited {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_NAME_BYTES {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_of_rust_and_cpp_are_readable_and_others_as_they_are() {
        for (mangled, readable) in [
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
            ("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar"),
            ("_ZN4bess4Task3RunEv", "bess::Task::Run()"),
            (
                "_ZNKSt6vectorIiSaIiEE4sizeEv",
                "std::vector<int, std::allocator<int> >::size() const",
            ),
            // The mangled name of a template includes the return type.
            ("_Z3maxIiET_S0_S0_", "max<int>(int, int)"),
            ("_Znwm", "operator new(unsigned long)"),
            ("eth_af_packet_rx", "eth_af_packet_rx"),
            ("main.(*Server).handle", "main.(*Server).handle"),
            ("_Z", "_Z"),
            ("i", "i"),
        ] {
            assert_eq!(demangled(mangled), readable);
        }
    }

    #[test]
    fn a_name_that_would_fill_memory_stays_as_it_is() {
        // Each substitution refers to the previous one twice.
        let mut name = "_Z1fISt4pairIiiE".to_owned();
        let mut of = |at: usize| {
            let digits = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
            let last = char::from(digits[at]);
            name += &format!("S_IS{last}_S{last}_E");
        };
        (0..30).for_each(&mut of);
        name += "EvT_";
        assert!(demangled(&name).len() <= MAX_NAME_BYTES);
    }

    proptest! {
        #[test]
        fn any_name_is_read(name in "(_Z|_R|_ZN|)[0-9A-Za-z_.$]{0,80}") {
            prop_assert!(demangled(&name).len() <= MAX_NAME_BYTES.max(name.len()));
        }
    }
}
