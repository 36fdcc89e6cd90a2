// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel memory management: mappings with a choice of page size, and a process's memory limits.

use crate::Error;
use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

/// A private mapping: zeroed, writable, backed by pages once touched. Unmapped on drop.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: only this value refers to the memory, which is not tied to a thread.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives no access to the memory, only its address.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` bytes, rounded up to whole pages. No page is allocated or reserved yet, and
    /// other processes may use up the memory before it is touched, so do not map more than is free.
    ///
    /// # Errors
    /// Returns an error if `bytes` is 0, or exceeds the process's address space or the limit on it.
    pub fn new(bytes: usize) -> Result<Self, Error> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        match NonNull::new(start.cast::<u8>()) {
            Some(address) if start != libc::MAP_FAILED => Ok(Self { start: address, bytes }),
            _ => {
                let advice = "request less memory, or raise the limit: ulimit -v, ulimit -d";
                Err(Error::last("mmap", format!("{bytes} bytes"), advice))
            }
        }
    }

    /// Returns the page-aligned address of the first byte. The memory is valid for as long as
    /// `self` is.
    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes a zero to the start of every page. The first write to a page is a page fault, in
    /// which the kernel allocates it.
    pub fn touch(&mut self) {
        for at in (0..self.bytes).step_by(page_bytes()) {
            // SAFETY: within the mapping, which is exclusively borrowed; any byte may be written.
            unsafe { self.start.as_ptr().add(at).write_volatile(0) };
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made; the documentation of `start` limits the use
        // of addresses to its lifetime. A failure would only leave the memory mapped.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Memory that a socket shares with the kernel. Unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Shared {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory is not tied to a thread.
unsafe impl Send for Shared {}

impl Shared {
    /// Maps `bytes` bytes of the memory that a socket offers at `offset`.
    ///
    /// # Errors
    /// Returns an error if the socket has no such memory, or if the process is not permitted to map
    /// it.
    pub(crate) fn of_socket(socket: &OwnedFd, bytes: usize, offset: i64) -> Result<Self, Error> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                protection,
                flags,
                socket.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        match NonNull::new(start.cast::<u8>()) {
            Some(address) if start != libc::MAP_FAILED => Ok(Self { start: address, bytes }),
            _ => Err(Error::last("mmap", format!("{bytes}-byte socket mapping"), "free memory")),
        }
    }

    /// Returns the 32-bit number at offset `at`, which must be a multiple of 4.
    ///
    /// # Panics
    /// Panics if the number is not aligned or not within the memory.
    #[inline]
    pub(crate) fn atomic(&self, at: usize) -> &AtomicU32 {
        assert!(
            at % 4 == 0 && at + 4 <= self.bytes,
            "offset {at} is unaligned, or outside the {} mapped bytes",
            self.bytes
        );
        // SAFETY: aligned and within the mapping, by the assertion; the mapping lasts as long as
        // `self`.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    /// Returns the `length` bytes at offset `at`.
    ///
    /// # Safety
    /// The kernel must not write to these bytes while the result is in use.
    ///
    /// # Panics
    /// Panics if the bytes are not within the memory.
    #[inline]
    pub(crate) unsafe fn bytes(&self, at: usize, length: usize) -> &[u8] {
        assert!(
            at <= self.bytes && length <= self.bytes - at,
            "{length} bytes at offset {at} exceed the {} mapped bytes",
            self.bytes
        );
        // SAFETY: within the mapping, by the assertion; unwritten, by the caller's contract.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(at), length) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `of_socket` made; references to it borrow `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Creates an in-memory file with the given `content`, positioned at its start. The file has no
/// path. Each call creates a separate file, even for equal content. The file disappears once it is
/// no longer open or mapped anywhere.
///
/// # Errors
/// Returns an error if the process has too many open files, or if there is no memory for the
/// content.
pub fn file_in_memory(content: &[u8]) -> Result<File, Error> {
    let advice = "close files, raise the open-file limit (ulimit -n), or free memory";
    // SAFETY: the name is a NUL-terminated constant, and the flags are valid for the call.
    let descriptor = unsafe { libc::memfd_create(c"linerate".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(Error::last("memfd_create", "linerate".into(), advice));
    }
    // SAFETY: the descriptor is new, and nothing else owns it.
    let mut file = File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
    match file.write_all(content).and_then(|()| file.rewind()) {
        Ok(()) => Ok(file),
        Err(_) => Err(Error::last("write", format!("{} bytes", content.len()), advice)),
    }
}

/// Requests huge pages for `bytes` bytes from `start`, a multiple of the page size. A refusal
/// affects only speed. Even a granted request may have no effect, because a page gets its size when
/// first touched.
///
/// # Errors
/// Returns an error if `start` is not a multiple of the page size, or if the kernel has no huge
/// pages.
pub fn advise_huge_pages(start: *mut u8, bytes: usize) -> Result<(), Error> {
    // SAFETY: MADV_HUGEPAGE changes no content; the kernel rejects ranges that are not mapped.
    match unsafe { libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE) } {
        0 => Ok(()),
        _ => Err(Error::last(
            "madvise",
            format!("MADV_HUGEPAGE, {bytes} bytes"),
            "align the range to page boundaries, or continue without huge pages if the kernel \
             does not support them",
        )),
    }
}

/// Requests small pages for `bytes` bytes from `start`, a multiple of the page size, even with
/// transparent huge pages. As with [`advise_huge_pages`], call this before the first touch.
///
/// # Errors
/// Returns an error if `start` is not a multiple of the page size, or if the kernel has no huge
/// pages, in which case all pages are small.
pub fn advise_small_pages(start: *mut u8, bytes: usize) -> Result<(), Error> {
    // SAFETY: MADV_NOHUGEPAGE changes no content; the kernel rejects ranges that are not mapped.
    match unsafe { libc::madvise(start.cast(), bytes, libc::MADV_NOHUGEPAGE) } {
        0 => Ok(()),
        _ => Err(Error::last(
            "madvise",
            format!("MADV_NOHUGEPAGE, {bytes} bytes"),
            "align the range to page boundaries, or continue without huge pages if the kernel \
             does not support them",
        )),
    }
}

/// Returns the smallest page size in bytes.
pub fn page_bytes() -> usize {
    // SAFETY: no memory is passed.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    // POSIX requires a value of at least 1. The fallback, 4096, is right for nearly every Linux
    // system.
    usize::try_from(bytes).ok().filter(|bytes| bytes.is_power_of_two()).unwrap_or(4096)
}

/// This process's memory limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Address space limit in bytes (`ulimit -v`); `None` if unlimited.
    pub address_space: Option<u64>,
    /// Private memory limit in bytes (`ulimit -d`); `None` if unlimited.
    pub data: Option<u64>,
}

/// Returns this process's limits (getrlimit(2)). Limits that cannot be read are returned as `None`;
/// the kernel still enforces them when memory is mapped.
pub fn memory_limits() -> MemoryLimits {
    MemoryLimits { address_space: limit(libc::RLIMIT_AS), data: limit(libc::RLIMIT_DATA) }
}

#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

fn limit(resource: Resource) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for writing during the call.
    let status = unsafe { libc::getrlimit(resource, &mut limit) };
    #[allow(clippy::useless_conversion, reason = "narrower than 64 bits on some 32-bit targets")]
    (status == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then(|| u64::from(limit.rlim_cur))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_that_begins_within_a_page_is_refused() {
        let mut bytes = vec![0_u8; 3 << 20];
        let within = bytes.as_ptr().align_offset(4096) + 16;
        for advise in [advise_huge_pages, advise_small_pages] {
            let error = advise(bytes[within..].as_mut_ptr(), 2 << 20);
            assert!(matches!(error, Err(Error::Call { errno: libc::EINVAL, .. })), "{error:?}");
        }
    }

    #[test]
    fn touched_pages_are_in_memory() {
        let page = page_bytes();
        let mut mapping = Mapping::new(64 * page).unwrap();
        advise_small_pages(mapping.start(), mapping.bytes()).ok();
        let resident = |mapping: &Mapping| {
            let mut pages = [0_u8; 64];
            // SAFETY: the result has a byte for each of the 64 pages.
            let status = unsafe {
                libc::mincore(mapping.start().cast(), mapping.bytes(), pages.as_mut_ptr())
            };
            assert_eq!(status, 0);
            pages.iter().filter(|page| **page & 1 == 1).count()
        };
        assert_eq!(resident(&mapping), 0);
        mapping.touch();
        assert_eq!(resident(&mapping), 64);
    }

    #[test]
    fn files_in_memory_hold_what_was_given_and_are_not_one() {
        use std::io::Read;
        use std::os::unix::fs::MetadataExt;
        let files = [b"one".as_slice(), b"one", b""].map(|text| file_in_memory(text).unwrap());
        let inodes = files.each_ref().map(|file| file.metadata().unwrap().ino());
        assert!(inodes[0] != inodes[1]);
        let read = files.map(|mut file| {
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            text
        });
        assert_eq!(read, ["one", "one", ""]);
    }

    /// Returns whether `address` is within one of the mappings that the kernel lists.
    fn is_mapped(address: usize) -> bool {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().any(|line| {
            let (start, rest) = line.split_once('-').unwrap();
            let end = rest.split(' ').next().unwrap();
            let number = |text| usize::from_str_radix(text, 16).unwrap();
            (number(start)..number(end)).contains(&address)
        })
    }

    /// Between the drop and the check, another thread may map memory at the same address, so it is
    /// enough that one of several addresses is unmapped.
    #[test]
    fn a_mapping_is_there_until_it_is_dropped() {
        let is_gone = |_| {
            let mapping = Mapping::new(1 << 22).unwrap();
            let last = mapping.start() as usize + mapping.bytes() - 1;
            assert!(is_mapped(mapping.start() as usize) && is_mapped(last));
            drop(mapping);
            !is_mapped(last)
        };
        assert!((0..10).any(is_gone));
    }

    #[test]
    fn more_than_there_are_addresses_is_refused() {
        for bytes in [0, usize::MAX / 2, usize::MAX & !0xffff] {
            let error = Mapping::new(bytes).unwrap_err();
            assert!(matches!(error, Error::Call { call: "mmap", .. }), "{error:?}");
            assert!(error.to_string().contains(&bytes.to_string()), "{error}");
        }
    }

    #[test]
    fn pages_are_as_large_as_the_kernel_says() {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let line = smaps.lines().find_map(|line| line.strip_prefix("KernelPageSize:")).unwrap();
        let kib: usize = line.trim().strip_suffix(" kB").unwrap().parse().unwrap();
        assert_eq!(page_bytes(), kib << 10);
    }

    #[test]
    fn limits_are_what_proc_says() {
        let text = std::fs::read_to_string("/proc/self/limits").unwrap();
        let soft = |name| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().next().unwrap().parse().ok()
        };
        let expected =
            MemoryLimits { address_space: soft("Max address space"), data: soft("Max data size") };
        assert_eq!(memory_limits(), expected);
    }
}
