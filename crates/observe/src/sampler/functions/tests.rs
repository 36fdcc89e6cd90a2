// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use proptest::prelude::*;
use std::io::Write;

/// Returns the functions of this test program, whose symbols are known.
fn own() -> Functions {
    Functions::read(File::open("/proc/self/exe").unwrap()).unwrap()
}

#[inline(never)]
fn a_function_of_this_test(x: u64) -> u64 {
    std::hint::black_box(x.wrapping_mul(7) ^ 5)
}

/// Returns the file address of a function in this program.
fn address_of_own(functions: &Functions) -> u64 {
    let address = a_function_of_this_test as fn(u64) -> u64 as usize as u64;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let maps = super::super::maps::parse(&maps).code;
    let mapping = super::super::maps::find(&maps, address).unwrap();
    functions.address_of(address - mapping.start + mapping.offset).unwrap()
}

#[test]
fn a_function_of_this_program_is_found_by_name() {
    assert_eq!(a_function_of_this_test(1), 2);
    let functions = own();
    let address = address_of_own(&functions);
    let found = functions.find(address + 1).unwrap();
    let name = found.name.unwrap();
    assert!(name.ends_with("a_function_of_this_test"), "{name}");
    assert_eq!(found.start, address);
}

#[test]
fn without_symbols_its_bounds_are_found_all_the_same() {
    let mut functions = own();
    let address = address_of_own(&functions);
    functions.symbols.clear();
    let found = functions.find(address + 1);
    assert_eq!(found, Some(Function { start: address, name: None }));
}

#[test]
fn what_is_not_an_elf_file_has_no_functions() {
    assert!(Functions::read(File::open("/proc/self/maps").unwrap()).is_none());
    assert!(Functions::read(File::open("/dev/null").unwrap()).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_damaged_file_is_read_without_harm(
        damage in prop::collection::vec((0usize..8192, any::<u8>()), 1..40),
        length in 0usize..200_000,
        address: u64,
    ) {
        let mut bytes = std::fs::read("/proc/self/exe").unwrap();
        bytes.truncate(length);
        for (at, byte) in damage {
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        if let Some(functions) = Functions::read(file) {
            let _ = functions.find(address);
            let _ = functions.address_of(address);
        }
    }
}
