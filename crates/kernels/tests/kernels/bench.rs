// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests routines through their common call interface: variants compute the right result; bounds
//! access exactly the given bytes.

use crate::rig::{lengths, noise, rfc1071};
use linerate_kernels::bench::{Role, Routine, bounds, headers, routines};
use linerate_kernels::{Kernel, Sum, variants};
use std::ptr::null_mut;

#[test]
fn each_kernel_has_what_is_selected_its_variants_and_a_bound() {
    for kernel in Kernel::ALL {
        let routines = routines(kernel);
        let count = |role| routines.iter().filter(|r| r.role() == role).count();
        assert!(routines.iter().all(|r| r.kernel() == kernel));
        assert_eq!((count(Role::Selected), count(Role::Entry)), (1, 1));
        assert_eq!(count(Role::Variant), variants().filter(|v| v.is_supported()).count());
        assert!(count(Role::Bound) >= 1, "{kernel}");
        assert_eq!(count(Role::Peer), 0);
    }
}

#[test]
fn bounds_are_for_one_way_of_moving_each() {
    let names: Vec<&str> = bounds().map(|b| b.name()).collect();
    assert!(
        names.starts_with(&["load64", "load128", "load256", "load512", "store64"]),
        "{names:?}"
    );
    for bound in bounds() {
        let of = |kernel| Routine::from_variant(bound, Role::Bound, kernel).is_some();
        let [checksum, copy, copy_checksum, fill] = Kernel::ALL.map(of);
        let wanted = match bound.name() {
            _ if !bound.is_supported() => [false; 4],
            "memcpy" => [false, true, true, false],
            name => [name.starts_with("load"), false, false, !name.starts_with("load")],
        };
        assert_eq!([checksum, copy, copy_checksum, fill], wanted, "{}", bound.name());
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn bounds_are_as_wide_as_the_processor() {
    let wide = is_x86_feature_detected!("avx2");
    let widest = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    for (bits, has) in [("64", true), ("128", true), ("256", wide), ("512", widest)] {
        for bound in bounds().filter(|b| b.name().ends_with(bits)) {
            assert_eq!(bound.is_supported(), has, "{}", bound.name());
        }
    }
}

/// Bytes between two inaccessible pages, one directly before and one directly after them.
struct Fenced {
    start: *mut u8,
    page: usize,
    pages: usize,
}

impl Fenced {
    fn new(pages: usize) -> Self {
        // SAFETY: queries a constant of the system.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let (size, kind) = ((pages + 2) * page, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, which nothing else uses.
        let start = unsafe { libc::mmap(null_mut(), size, libc::PROT_NONE, kind, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        // SAFETY: the offset is one page into the mapping, which is two pages longer than `pages`.
        let start = unsafe { start.cast::<u8>().add(page) };
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: these are the pages between the first and the last page of the mapping.
        let done = unsafe { libc::mprotect(start.cast(), pages * page, access) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
        Self { start, page, pages }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: these are the accessible pages, zeroed by the system and borrowed for as long as
        // `self` is.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.pages * self.page) }
    }
}

impl Drop for Fenced {
    fn drop(&mut self) {
        // SAFETY: this is the whole mapping, and no slice of it outlives `self`.
        unsafe { libc::munmap(self.start.sub(self.page).cast(), (self.pages + 2) * self.page) };
    }
}

#[test]
fn routines_read_nothing_outside() {
    let mut fenced = Fenced::new(2);
    let bytes = fenced.bytes();
    let whole = bytes.len();
    bytes.copy_from_slice(&noise(whole, 17));
    for routine in routines(Kernel::Checksum) {
        for length in lengths() {
            for gap in [0, 1, 3, 8, 31, 63] {
                for part in [&bytes[gap..gap + length], &bytes[whole - gap - length..whole - gap]] {
                    let sum = Sum::from_raw(routine.checksum(part, 0));
                    if routine.role() != Role::Bound {
                        assert_eq!(sum.fold(), rfc1071(part), "{} {length}", routine.name());
                    }
                }
            }
        }
    }
}

#[test]
fn inline_sums_are_those_of_whole_words() {
    let bytes = noise(80, 31);
    for routine in headers() {
        assert_eq!((routine.role(), routine.kernel()), (Role::Entry, Kernel::Checksum));
        for length in (0..=64).step_by(4) {
            for start in 0..8 {
                let part = &bytes[start..start + length];
                let sum = Sum::from_raw(routine.checksum(part, 0xffff));
                let with_seed = u32::from(rfc1071(part)) + 0xffff;
                let expected = (with_seed & 0xffff) + (with_seed >> 16);
                assert_eq!(u32::from(sum.fold()), expected, "{} {length}", routine.name());
            }
        }
    }
}

#[test]
fn bounds_of_fill_fill_and_write_nothing_outside() {
    let mut fenced = Fenced::new(2);
    let bytes = fenced.bytes();
    for routine in routines(Kernel::Fill) {
        for length in lengths() {
            for start in [0, 5, bytes.len() - length] {
                bytes.fill(0x11);
                routine.fill(&mut bytes[start..start + length], 0xee);
                let end = start + length;
                let name = routine.name();
                assert!(bytes[start..end].iter().all(|o| *o == 0xee), "{name} {length} {start}");
                let outside = bytes[..start].iter().chain(&bytes[end..]);
                assert!(outside.into_iter().all(|o| *o == 0x11), "{name} {length} {start}");
            }
        }
    }
}

#[test]
fn routines_that_copy_copy() {
    let source = noise(2200, 23);
    for length in lengths() {
        let src = &source[7..7 + length];
        for routine in routines(Kernel::Copy) {
            let mut dst = vec![0; length];
            routine.copy(&mut dst, src);
            assert!(dst == src, "{} {length}", routine.name());
        }
        for routine in routines(Kernel::CopyChecksum) {
            let mut dst = vec![0; length];
            let sum = Sum::from_raw(routine.copy_checksum(&mut dst, src, 0));
            assert!(dst == src, "{} {length}", routine.name());
            if routine.role() != Role::Bound {
                assert_eq!(sum.fold(), rfc1071(src), "{} {length}", routine.name());
            }
        }
    }
}

extern "C" fn first_byte(at: *const u8, bytes: usize, sum: u32) -> u32 {
    if bytes == 0 {
        return sum;
    }
    // SAFETY: `at` can be read if there are bytes, because the routine takes it from a slice.
    sum + u32::from(unsafe { *at })
}

#[test]
fn a_peer_is_called_as_the_others_are() {
    // SAFETY: `first_byte` reads only the first byte, if there is one.
    let peer = unsafe { Routine::checksum_from("first", Role::Peer, first_byte) };
    assert_eq!((peer.name(), peer.role(), peer.kernel()), ("first", Role::Peer, Kernel::Checksum));
    assert_eq!(peer.checksum(&[7, 9], 1), 8);
    assert_eq!(peer.checksum(&[], 1), 1);
}

#[test]
#[should_panic(expected = "`selected` is a routine of kernel `checksum`, but was called")]
fn a_routine_of_another_kernel_is_refused() {
    Routine::selected(Kernel::Checksum).fill(&mut [0; 4], 1);
}

#[test]
#[should_panic(expected = "differ in length")]
fn routines_refuse_to_copy_between_lengths() {
    Routine::selected(Kernel::Copy).copy(&mut [0; 4], &[0; 5]);
}
