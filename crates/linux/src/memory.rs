// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory from the kernel: mappings, with the requested page size, and the memory limits of a
//! process.

use crate::Error;
use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// A mapping of private memory: zeroed, writable, backed by pages from the first touch on. Unmapped
/// when dropped.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: only this value refers to the memory, which belongs to no thread.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives no access to the memory, only its address.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` bytes, rounded up to whole pages. No page is allocated or reserved yet: the
    /// memory may be gone by the time it is touched, so do not map more than is free.
    ///
    /// # Errors
    /// `bytes` is 0, or exceeds the process's address space or the limit on it.
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

    /// Address of the mapping's first byte, which is the start of a page. The memory is valid for
    /// as long as `self` is.
    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Size of the mapping in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made; the documentation of `start` limits the use
        // of addresses to its lifetime. A failure would only leave the memory mapped.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Creates a file in memory, outside any folder, that holds `content` and is read from its
/// beginning. Each call creates a separate file, even for equal content; the file is gone once
/// nothing has it open or mapped any longer.
///
/// # Errors
/// The process has too many files open, or there is no memory for the content.
pub fn file_in_memory(content: &[u8]) -> Result<File, Error> {
    let advice = "close files or raise ulimit -n; free memory";
    // SAFETY: the name is a NUL-terminated constant, and the flags are valid for the call.
    let descriptor = unsafe { libc::memfd_create(c"linerate".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(Error::last("memfd_create", "linerate".into(), advice));
    }
    // SAFETY: the descriptor is new, and nothing else knows it.
    let mut file = File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
    match file.write_all(content).and_then(|()| file.rewind()) {
        Ok(()) => Ok(file),
        Err(_) => Err(Error::last("write", format!("{} bytes", content.len()), advice)),
    }
}

/// Requests huge pages for `bytes` bytes from `start`, a multiple of the page size. A refusal
/// affects only speed. Even a granted request may have no effect, because pages get their size at
/// the first touch.
///
/// # Errors
/// `start` is not a multiple of the page size, or the kernel has no huge pages.
pub fn advise_huge_pages(start: *mut u8, bytes: usize) -> Result<(), Error> {
    // SAFETY: MADV_HUGEPAGE changes no content; the kernel rejects ranges that are not mapped.
    match unsafe { libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE) } {
        0 => Ok(()),
        _ => Err(Error::last(
            "madvise",
            format!("MADV_HUGEPAGE, {bytes} bytes"),
            "align the range to pages, or continue without huge pages if the kernel has none",
        )),
    }
}

/// Requests small pages for `bytes` bytes from `start`, a multiple of the page size, even with
/// transparent huge pages. As with [`advise_huge_pages`], call it before the first touch.
///
/// # Errors
/// `start` is not a multiple of the page size, or the kernel has no huge pages, in which case all
/// pages are small.
pub fn advise_small_pages(start: *mut u8, bytes: usize) -> Result<(), Error> {
    // SAFETY: MADV_NOHUGEPAGE changes no content; the kernel rejects ranges that are not mapped.
    match unsafe { libc::madvise(start.cast(), bytes, libc::MADV_NOHUGEPAGE) } {
        0 => Ok(()),
        _ => Err(Error::last(
            "madvise",
            format!("MADV_NOHUGEPAGE, {bytes} bytes"),
            "align the range to pages, or continue without huge pages if the kernel has none",
        )),
    }
}

/// Size of the smallest page in bytes.
pub fn page_bytes() -> usize {
    // SAFETY: no memory is passed.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    // POSIX requires a value of at least 1; 4096 is what nearly every Linux system would report.
    usize::try_from(bytes).ok().filter(|bytes| bytes.is_power_of_two()).unwrap_or(4096)
}

/// Memory limits of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Limit on the address space in bytes (`ulimit -v`); `None` if there is no limit.
    pub address_space: Option<u64>,
    /// Limit on private memory in bytes (`ulimit -d`); `None` if there is no limit.
    pub data: Option<u64>,
}

/// The limits of this process (getrlimit(2)). A limit that cannot be read is returned as `None`;
/// the kernel still enforces it when memory is mapped.
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

    /// Whether an address range in the kernel's list of mappings contains `address`.
    fn is_mapped(address: usize) -> bool {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().any(|line| {
            let (start, rest) = line.split_once('-').unwrap();
            let end = rest.split(' ').next().unwrap();
            let number = |text| usize::from_str_radix(text, 16).unwrap();
            (number(start)..number(end)).contains(&address)
        })
    }

    /// Other threads map memory in the meantime, possibly where this mapping was, so it is enough
    /// if one of several mappings stays unmapped.
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
