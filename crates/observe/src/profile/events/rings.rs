// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sizes of the rings.
//!
//! The kernel limits the memory that an unprivileged user may lock for all rings together: to
//! kernel.perf_event_mlock_kb for each online CPU, plus RLIMIT_MEMLOCK. If each ring took as much
//! as is left, the last CPUs would get no ring, or one too small to hold their samples until they
//! are read. All rings therefore have the same size, the largest that the limit allows.

use std::io;

/// Maximum size of a ring. Together with the ring's header page, this is all the memory per CPU
/// that a user may lock by default.
const RING_BYTES: usize = 512 << 10;
/// Maximum size of a ring if stacks are copied.
const STACK_RING_BYTES: usize = 4 << 20;
/// Maximum size of all rings together if stacks are copied, unless this is less than
/// [`RING_BYTES`] for each of them.
const ALL_STACK_BYTES: usize = 32 << 20;

/// Returns the number of pages per ring to try first, a power of two.
pub(super) fn pages(stack_bytes: u32, cpus: usize, page_bytes: usize) -> usize {
    let bytes = match stack_bytes {
        0 => RING_BYTES,
        _ => (ALL_STACK_BYTES / cpus.max(1)).clamp(RING_BYTES, STACK_RING_BYTES),
    };
    1 << (bytes / page_bytes.max(1)).max(1).ilog2()
}

/// Calls `map` for each owner with the same number of pages. Starts with `pages`, and halves it
/// until all rings fit.
///
/// # Errors
///
/// Returns the error of `map` if not even rings of one page fit.
pub(super) fn map<O, R>(
    owners: impl Iterator<Item = O> + Clone,
    mut pages: usize,
    map: impl Fn(O, usize) -> io::Result<R>,
) -> io::Result<Vec<R>> {
    loop {
        // The rings that were mapped are dropped if a later one does not fit.
        let mapped: io::Result<Vec<R>> = owners.clone().map(|owner| map(owner, pages)).collect();
        match mapped {
            Err(_) if pages > 1 => pages /= 2,
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const PAGE: usize = 4096;

    /// A ring that returns its memory when it is dropped.
    struct Locked<'a>(&'a Cell<usize>, usize);

    impl Drop for Locked<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + self.1);
        }
    }

    /// Returns the pages of each ring if a user may lock `kib` in addition to 516 KiB per CPU.
    fn mapped(cpus: usize, kib: usize, page_bytes: usize) -> io::Result<Vec<usize>> {
        let left = &Cell::new(((512 << 10) + page_bytes) * cpus + (kib << 10));
        let map_one = |_, pages: usize| {
            let bytes = (pages + 1) * page_bytes;
            let rest = left.get().checked_sub(bytes);
            left.set(rest.ok_or(io::ErrorKind::PermissionDenied)?);
            Ok((pages, Locked(left, bytes)))
        };
        let rings = map(0..cpus, pages(8192, cpus, page_bytes), map_one)?;
        Ok(rings.iter().map(|(pages, _)| *pages).collect())
    }

    #[test]
    fn all_cpus_get_rings_of_one_size_within_the_limit() {
        for cpus in [1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128] {
            for kib in [64, 8192] {
                for page_bytes in [PAGE, 16 * PAGE] {
                    let rings = mapped(cpus, kib, page_bytes).unwrap();
                    assert_eq!(rings, vec![rings[0]; cpus]);
                    // Without more memory, each CPU has what the kernel allows per CPU.
                    assert!(rings[0] * page_bytes >= 512 << 10, "{cpus} {kib} {rings:?}");
                }
            }
        }
        assert_eq!(mapped(8, 8192, PAGE).unwrap(), [256; 8]);
    }

    #[test]
    fn rings_are_no_larger_than_the_kernel_allows_per_cpu() {
        assert_eq!((pages(0, 8, PAGE), pages(0, 8, 16 * PAGE)), (128, 8));
        assert_eq!((pages(8192, 2, PAGE), pages(8192, 12, PAGE)), (1024, 512));
    }

    #[test]
    fn too_little_memory_for_one_page_each_is_an_error() {
        let full = |_, _| Err::<(), _>(io::ErrorKind::PermissionDenied.into());
        assert!(map(0..4, 128, full).is_err());
    }
}
