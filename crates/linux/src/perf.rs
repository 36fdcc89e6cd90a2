// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel counters: perf_event_open(2), and operations on its descriptors.
//!
//! Every event, grouped or not, is opened with the read format "group, time enabled, time running",
//! so that all are read in the same way. Before Linux 4.13, inherited events cannot have this
//! format: single ones are then opened without "group". Sampling is in `sample`; the meaning of
//! events is defined by `counters`.

mod page;

pub use page::{Page, PageFields};

use std::fmt;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// The kernel's event selector: `type` and the three `config` words in `perf_event_attr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Selector {
    /// `PERF_TYPE_*`, or the number in a PMU's `type` file under /sys/bus/event_source/devices.
    pub kind: u32,
    /// Event number within this type.
    pub config: u64,
    /// Additional configuration, if the type uses it.
    pub config1: u64,
    /// Additional configuration, if the type uses it.
    pub config2: u64,
}

impl Selector {
    /// Selects an event without additional configuration.
    pub const fn new(kind: u32, config: u64) -> Self {
        Self { kind, config, config1: 0, config2: 0 }
    }
}

/// `PERF_TYPE_HARDWARE`: the kernel's generalised hardware events.
pub const HARDWARE: u32 = 0;
/// `PERF_TYPE_SOFTWARE`: the kernel's software events.
pub const SOFTWARE: u32 = 1;
/// `PERF_TYPE_TRACEPOINT`: tracepoints.
pub const TRACEPOINT: u32 = 2;
/// `PERF_TYPE_HW_CACHE`: the kernel's generalised cache events.
pub const HW_CACHE: u32 = 3;
/// `PERF_TYPE_RAW`: the processor's own event codes.
pub const RAW: u32 = 4;

/// Counting options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Event to count.
    pub selector: Selector,
    /// Exclude user mode.
    pub exclude_user: bool,
    /// Exclude kernel mode.
    pub exclude_kernel: bool,
    /// Exclude the hypervisor.
    pub exclude_hypervisor: bool,
    /// Also count in threads and processes that the target creates.
    pub inherit: bool,
    /// Start disabled.
    pub disabled: bool,
    /// Enable the event when the target calls execve(2).
    pub enable_on_exec: bool,
    /// Keep the event on a counter at all times, without multiplexing. Only for group leaders.
    pub pinned: bool,
}

impl Request {
    /// Creates a request that counts in user and kernel mode, is not inherited, and starts
    /// disabled.
    pub const fn new(selector: Selector) -> Self {
        Self {
            selector,
            exclude_user: false,
            exclude_kernel: false,
            exclude_hypervisor: true,
            inherit: false,
            disabled: true,
            enable_on_exec: false,
            pinned: false,
        }
    }

    /// Returns the flag bits in `perf_event_attr` order, lowest first.
    fn flags(&self) -> u64 {
        let bits = [
            (self.disabled, 0),
            (self.inherit, INHERIT),
            (self.pinned, 2),
            (self.exclude_user, 4),
            (self.exclude_kernel, 5),
            (self.exclude_hypervisor, 6),
            (self.enable_on_exec, 12),
        ];
        bit_fields(&bits)
    }

    /// Returns the attributes for counting without sampling.
    pub(crate) fn attributes(&self) -> Attributes {
        Attributes {
            kind: self.selector.kind,
            size: size_of::<Attributes>() as u32,
            config: self.selector.config,
            config1: self.selector.config1,
            config2: self.selector.config2,
            read_format: TIME_ENABLED | TIME_RUNNING | GROUP,
            flags: self.flags(),
            ..Attributes::default()
        }
    }
}

/// Packs `perf_event_attr` bits, each given with its number in C's bit-field order.
pub(crate) fn bit_fields(bits: &[(bool, u32)]) -> u64 {
    let flags = bits.iter().fold(0, |flags, &(set, bit)| flags | u64::from(set) << bit);
    // On big-endian machines, C lays bit-fields out from the most significant bit.
    if cfg!(target_endian = "big") { flags.reverse_bits() } else { flags }
}

/// Where to count: in one thread, or in all threads on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The calling thread, on any CPU.
    CurrentThread,
    /// A thread by its ID (a PID is the ID of the main thread), on any CPU.
    Thread(u32),
    /// All threads on a logical CPU.
    Cpu(u32),
}

/// The kernel refused an event. `counters` determines why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenError {
    /// The error number, as in errno(3).
    pub errno: i32,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "perf_event_open: {}", crate::errno::meaning(self.errno))
    }
}

impl std::error::Error for OpenError {}

/// The start of `perf_event_attr`, up to version 3 (Linux 3.7); the kernel treats later fields as
/// 0.
#[repr(C)]
#[derive(Clone, Default)]
pub(crate) struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    pub(crate) sample_period: u64,
    pub(crate) sample_type: u64,
    read_format: u64,
    pub(crate) flags: u64,
    /// Wake-up threshold, in bytes if the `watermark` bit is set in `flags`.
    pub(crate) wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    /// Mask of the user-mode registers to sample.
    pub(crate) sample_registers: u64,
    /// User-mode stack bytes per sample.
    pub(crate) sample_stack_bytes: u32,
    /// Clock of the samples, if `use_clockid` is set in `flags`.
    pub(crate) clock: i32,
}

const TIME_ENABLED: u64 = 1;
const TIME_RUNNING: u64 = 2;
const GROUP: u64 = 8;
/// Bit number of `inherit` in `perf_event_attr`.
const INHERIT: u32 = 1;

/// A kernel event, alone or in a group. Closed on drop.
#[derive(Debug)]
pub struct Event {
    file: OwnedFd,
    /// Whether the read format includes the group.
    has_group: bool,
}

/// Opens an event. With a `leader`, the event joins its group: a group is scheduled onto the
/// counters as a whole or not at all, and an enabled member starts and stops with its leader.
/// Descriptors are closed on exec.
///
/// # Errors
/// Returns [`OpenError`] with the kernel's error number.
pub fn open(request: &Request, target: Target, leader: Option<&Event>) -> Result<Event, OpenError> {
    open_with(&request.attributes(), target, leader)
}

/// Like [`open`], but with arbitrary attributes.
pub(crate) fn open_with(
    attributes: &Attributes,
    target: Target,
    leader: Option<&Event>,
) -> Result<Event, OpenError> {
    let at = match target {
        Target::CurrentThread => (0, -1),
        Target::Thread(id) => (id as libc::pid_t, -1),
        Target::Cpu(cpu) => (-1, cpu as libc::c_int),
    };
    open_at(attributes, at, leader)
}

/// Like [`open_with`], but takes thread and CPU numbers; -1 for any.
pub(crate) fn open_at(
    attributes: &Attributes,
    at: (libc::pid_t, libc::c_int),
    leader: Option<&Event>,
) -> Result<Event, OpenError> {
    let opened = call(attributes, at, leader);
    let is_inherited = attributes.flags & bit_fields(&[(true, INHERIT)]) != 0;
    match opened {
        Err(OpenError { errno: libc::EINVAL }) if is_inherited && leader.is_none() => {
            let alone =
                Attributes { read_format: TIME_ENABLED | TIME_RUNNING, ..attributes.clone() };
            call(&alone, at, None)
        }
        opened => opened,
    }
}

/// Calls perf_event_open(2).
fn call(
    attributes: &Attributes,
    (thread, cpu): (libc::pid_t, libc::c_int),
    leader: Option<&Event>,
) -> Result<Event, OpenError> {
    let leader = leader.map_or(-1, |event| event.file.as_raw_fd());
    let close_on_exec: libc::c_ulong = 8;
    let number = loop {
        // SAFETY: `attributes` is readable during the call for the length that it states.
        let number = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const *attributes,
                thread,
                cpu,
                leader,
                close_on_exec,
            )
        };
        let errno = io::Error::last_os_error().raw_os_error().unwrap_or(0);
        match number {
            0.. => break number,
            // A signal arrived while the target was in execve(2).
            _ if errno == libc::EINTR => {}
            _ => return Err(OpenError { errno }),
        }
    };
    // SAFETY: the kernel has just opened this descriptor, and nothing else owns it.
    let file = unsafe { OwnedFd::from_raw_fd(number as libc::c_int) };
    Ok(Event { file, has_group: attributes.read_format & GROUP != 0 })
}

/// Maximum number of events per read: more than any processor has counters, with room for software
/// events.
pub const GROUP_MAX: usize = 32;

/// A group's counts, accumulated since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Time during which the group was enabled and its target running, in ns.
    pub enabled_ns: u64,
    /// Time during which the group was on the counters, in ns; less than `enabled_ns` if
    /// multiplexed.
    pub running_ns: u64,
    len: usize,
    values: [u64; GROUP_MAX],
}

impl Reading {
    /// Returns the leader's count, followed by the members' in the order in which they joined.
    pub fn values(&self) -> &[u64] {
        &self.values[..self.len]
    }
}

/// Interprets the words that read(2) returned. With `has_group`: the number of values, the two
/// times, and the values. Otherwise: one value and the two times.
fn reading(words: &[u64], has_group: bool) -> Option<Reading> {
    let mut values = [0; GROUP_MAX];
    let (&[first, enabled_ns, running_ns], rest) = words.split_first_chunk()?;
    if !has_group {
        values[0] = first;
        return Some(Reading { enabled_ns, running_ns, len: 1, values });
    }
    let len = usize::try_from(first).ok().filter(|len| *len <= GROUP_MAX)?;
    values[..len].copy_from_slice(rest.get(..len)?);
    Some(Reading { enabled_ns, running_ns, len, values })
}

const HAS_WIDE_DIRECTIONS: bool = cfg!(any(
    target_arch = "powerpc",
    target_arch = "powerpc64",
    target_arch = "sparc64",
    target_arch = "mips",
    target_arch = "mips64"
));

/// Returns the number of a perf-event ioctl without an argument in memory: `_IO('$', n)`.
pub(crate) const fn request_number(n: u64) -> u64 {
    let direction = if HAS_WIDE_DIRECTIONS { 1 << 29 } else { 0 };
    direction | 0x24 << 8 | n
}

/// Returns the number of a perf-event ioctl that reads memory through a pointer: `_IOW('$', n, char
/// *)`.
pub(crate) const fn request_with_pointer(n: u64) -> u64 {
    let direction = if HAS_WIDE_DIRECTIONS { 4 << 29 } else { 1 << 30 };
    direction | (size_of::<usize>() as u64) << 16 | 0x24 << 8 | n
}

/// Returns the request code of a perf_event ioctl that takes a pointer to a 64-bit value:
/// `_IOW('$', n, __u64)`.
pub(crate) const fn request_with_number(n: u64) -> u64 {
    let direction = if HAS_WIDE_DIRECTIONS { 4 << 29 } else { 1 << 30 };
    direction | 8 << 16 | 0x24 << 8 | n
}

const ENABLE: u64 = request_number(0);
const DISABLE: u64 = request_number(1);
/// Flag that applies an ioctl to every member of the leader's group.
const WHOLE_GROUP: libc::c_ulong = 1;

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Event {
    /// Reads this leader's whole group, or this event alone if it has no group, in one system call.
    /// Includes counts from children that inherited the events.
    ///
    /// # Errors
    /// Returns an error if the group has more than [`GROUP_MAX`] members, or if read(2) fails. A
    /// pinned event that has lost its counter reads as end of file.
    pub fn read(&self) -> io::Result<Reading> {
        let mut words = [0u64; 3 + GROUP_MAX];
        // SAFETY: `words` is writable during the call for the length passed.
        let bytes = unsafe {
            libc::read(self.file.as_raw_fd(), words.as_mut_ptr().cast(), size_of_val(&words))
        };
        if bytes < 0 {
            return Err(io::Error::last_os_error());
        }
        let words = &words[..bytes as usize / size_of::<u64>()];
        reading(words, self.has_group).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Starts this leader's group.
    ///
    /// # Errors
    /// Returns the error from ioctl(2).
    pub fn enable(&self) -> io::Result<()> {
        self.control(ENABLE)
    }

    /// Stops this leader's group, keeping its counts.
    ///
    /// # Errors
    /// Returns the error from ioctl(2).
    pub fn disable(&self) -> io::Result<()> {
        self.control(DISABLE)
    }

    fn control(&self, request: u64) -> io::Result<()> {
        // SAFETY: these requests take a number and do not touch this process's memory.
        let status =
            unsafe { libc::ioctl(self.file.as_raw_fd(), request as libc::Ioctl, WHOLE_GROUP) };
        if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Maps the page that the kernel maintains for this event, so that the event can be read
    /// without a system call.
    ///
    /// # Errors
    /// Returns the error from mmap(2).
    pub fn map(&self) -> io::Result<Page> {
        // SAFETY: the query involves no memory.
        let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        // SAFETY: a new mapping at an address chosen by the kernel replaces no existing one.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ,
                libc::MAP_SHARED,
                self.file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Page { start, bytes })
    }
}

#[cfg(test)]
mod tests;
