// SPDX-License-Identifier: MIT OR Apache-2.0
//! Perf event samples: the ring that the kernel writes them to, and their contents.
//!
//! Every sample has the instruction address, process, thread, time and CPU and, if requested, the
//! event's count, the call chain, the raw tracepoint record or the user-mode registers.

mod processes;
mod sized;

pub use processes::{Change, Mapped};

use crate::perf::{
    self, Event, OpenError, Request, Target, bit_fields, request_number, request_with_number,
    request_with_pointer,
};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sampling options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Number of events per sample; for clock events, nanoseconds.
    pub period: u64,
    /// Optional sample fields.
    pub fields: Fields,
    /// Exclude idle CPUs.
    pub skips_idle: bool,
}

/// Optional sample fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// Include the event's count at the time of the sample.
    pub has_count: bool,
    /// Include the raw tracepoint record.
    pub is_raw: bool,
    /// Include the user-mode registers. x86-64 only; on other architectures, the kernel refuses the
    /// event.
    pub has_registers: bool,
    /// Include the call chain, which in user mode follows frame pointers.
    pub has_chain: bool,
    /// User stack bytes to copy, from the stack pointer up: a multiple of 8, or 0 for none.
    pub stack_bytes: u32,
}

impl Fields {
    /// The raw tracepoint record, which starts with the tracepoint ID.
    pub const TRACEPOINT: Self = Self {
        has_count: false,
        is_raw: true,
        has_registers: false,
        has_chain: false,
        stack_bytes: 0,
    };

    /// Returns the fields requested by [`open_chains`], including the registers needed for
    /// unwinding if the stack is copied.
    pub const fn chains(stack_bytes: u32) -> Self {
        let has_registers = cfg!(target_arch = "x86_64");
        Self { has_count: false, is_raw: false, has_registers, has_chain: true, stack_bytes }
    }
}

/// Sampling rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// Number of events per sample; for clock events, nanoseconds.
    Events(u64),
    /// Samples per second of running time; the kernel adapts the period.
    PerSecond(u64),
}

/// Sampled user-mode registers: rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8 to r15.
pub type Registers = [u64; 16];

/// Mask of `PERF_REG_X86_*` numbers: the first eight, the instruction pointer, and 16 to 23. The
/// flags and segment registers in between are excluded.
const USER_REGISTER_NUMBERS: u64 = 0x00ff_01ff;
/// Index of the instruction pointer among the sampled registers.
const IP_PLACE: usize = 8;
/// `PERF_SAMPLE_REGS_ABI_NONE`.
const ABI_NONE: u64 = 0;
/// `PERF_SAMPLE_REGS_ABI_64`.
const ABI_64: u64 = 2;

const IP: u64 = 1;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const COUNT: u64 = 1 << 4;
const CHAIN: u64 = 1 << 5;
const CPU: u64 = 1 << 7;
const RAW: u64 = 1 << 10;
const USER_REGISTERS: u64 = 1 << 12;
const USER_STACK: u64 = 0x2000;
/// Bit number of `exclude_idle` in `perf_event_attr`.
const EXCLUDE_IDLE: u32 = 7;
/// Bit number of `watermark` in `perf_event_attr`.
const WATERMARK: u32 = 14;
/// Bit numbers of `mmap`, `comm`, `freq`, `task`, `sample_id_all`, `mmap2` and `comm_exec`.
const MMAP: u32 = 8;
const COMM: u32 = 9;
const FREQUENCY: u32 = 10;
const TASK: u32 = 13;
const SAMPLE_ID_ALL: u32 = 18;
const MMAP2: u32 = 23;
const COMM_EXEC: u32 = 24;
/// Bit number of `use_clockid` in `perf_event_attr`.
const USE_CLOCK: u32 = 25;

/// Opens a sampled event without a ring; use [`Ring::map`] or [`Event::write_to`].
///
/// # Errors
/// Returns an error in the same cases as [`perf::open`].
pub fn open(request: &Request, sampling: &Sampling, target: Target) -> Result<Event, OpenError> {
    let mut attributes = request.attributes();
    attributes.sample_period = sampling.period;
    choose_fields(&mut attributes, sampling.fields);
    // No reader sleeps on the ring, so a wake-up is requested only when it is full, which is rare.
    attributes.flags |= bit_fields(&[(true, WATERMARK), (sampling.skips_idle, EXCLUDE_IDLE)]);
    attributes.wakeup_events = i32::MAX as u32;
    perf::open_with(&attributes, target, None)
}

fn choose_fields(attributes: &mut perf::Attributes, fields: Fields) {
    let Fields { has_count, is_raw, has_registers, has_chain, stack_bytes } = fields;
    attributes.sample_type = IP | TID | TIME | CPU;
    attributes.sample_type |= if has_count { COUNT } else { 0 };
    attributes.sample_type |= if has_chain { CHAIN } else { 0 };
    attributes.sample_type |= if is_raw { RAW } else { 0 };
    if has_registers {
        attributes.sample_type |= USER_REGISTERS;
        attributes.sample_registers = USER_REGISTER_NUMBERS;
    }
    if stack_bytes > 0 {
        attributes.sample_type |= USER_STACK;
        attributes.sample_stack_bytes = stack_bytes;
    }
}

/// Opens an event that samples a thread while it runs on `cpu`, with call chains and stack copies
/// ([`Fields::chains`]). With `request.inherit`, the threads and processes that it creates are
/// sampled too. Without a thread, the event samples whatever runs on `cpu`, except the idle thread,
/// and must not be inherited; this requires root or CAP_PERFMON. The event's ring also receives the
/// mappings, names and starts of the processes ([`Record::Process`]). Samples and these records can
/// be redirected to the ring of another event on the same CPU ([`Event::write_to`]).
///
/// # Errors
/// Returns an error in the same cases as [`perf::open`].
pub fn open_chains(
    request: &Request,
    every: Every,
    stack_bytes: u32,
    (thread, cpu): (Option<u32>, u32),
) -> Result<Event, OpenError> {
    let mut attributes = request.attributes();
    let is_frequency = matches!(every, Every::PerSecond(_));
    let (Every::Events(number) | Every::PerSecond(number)) = every;
    attributes.sample_period = number;
    choose_fields(&mut attributes, Fields::chains(stack_bytes));
    let always = [MMAP, COMM, TASK, WATERMARK, SAMPLE_ID_ALL, MMAP2, COMM_EXEC];
    attributes.flags |= bit_fields(&always.map(|bit| (true, bit)));
    let skips_idle = thread.is_none();
    attributes.flags |=
        bit_fields(&[(is_frequency, FREQUENCY), (true, USE_CLOCK), (skips_idle, EXCLUDE_IDLE)]);
    attributes.clock = libc::CLOCK_MONOTONIC_RAW;
    attributes.wakeup_events = i32::MAX as u32;
    let thread = thread.map_or(-1, |thread| thread as libc::pid_t);
    perf::open_at(&attributes, (thread, cpu as libc::c_int), None)
}

const SET_PERIOD: u64 = request_with_number(4);
const SET_OUTPUT: u64 = request_number(5);
const SET_FILTER: u64 = request_with_pointer(6);

impl Event {
    /// Changes the sampling period or rate.
    ///
    /// # Errors
    /// Returns the error from ioctl(2).
    pub fn set_every(&self, every: Every) -> io::Result<()> {
        let (Every::Events(number) | Every::PerSecond(number)) = every;
        let event = self.as_fd().as_raw_fd();
        // SAFETY: the kernel reads the number during the call.
        let status = unsafe { libc::ioctl(event, SET_PERIOD as libc::Ioctl, &raw const number) };
        if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Redirects this event's samples to the ring of another event on the same CPU.
    ///
    /// # Errors
    /// Returns the error from ioctl(2): EINVAL for an event on another CPU.
    pub fn write_to(&self, owner: &Self) -> io::Result<()> {
        let (event, owner) = (self.as_fd().as_raw_fd(), owner.as_fd().as_raw_fd());
        // SAFETY: this request takes a descriptor, which `owner` keeps open during the call.
        let status = unsafe { libc::ioctl(event, SET_OUTPUT as libc::Ioctl, owner) };
        if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Sets a filter on a tracepoint's fields, such as `reason == 6` or `id == 1`.
    ///
    /// # Errors
    /// Returns the error from ioctl(2): EINVAL for a field that the tracepoint does not have.
    pub fn filter(&self, filter: &CStr) -> io::Result<()> {
        let event = self.as_fd().as_raw_fd();
        // SAFETY: the kernel reads the NUL-terminated text during the call.
        let status = unsafe { libc::ioctl(event, SET_FILTER as libc::Ioctl, filter.as_ptr()) };
        if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// A ring record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A sample of a counting event.
    Sample(Sample<'a>),
    /// Number of records lost because the ring was full.
    Lost(u64),
    /// The kernel throttled sampling for the rest of a timer tick.
    Throttled,
    /// A process event.
    Process(Change<'a>),
    /// Any other record; holds its type.
    Other(u32),
}

/// A sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample<'a> {
    /// Instruction address.
    pub ip: u64,
    /// Whether `ip` is in the kernel.
    pub is_kernel: bool,
    /// Process ID.
    pub pid: u32,
    /// Thread ID.
    pub tid: u32,
    /// Kernel clock, in nanoseconds.
    pub time_ns: u64,
    /// Logical CPU on which the thread ran.
    pub cpu: u32,
    /// Events counted since the event was opened, if requested. The kernel reads the count in the
    /// interrupt, so it includes events that occurred after the overflow.
    pub count: Option<u64>,
    /// Tracepoint record; empty if not requested.
    pub raw: &'a [u8],
    /// User-mode registers, if requested and the thread is 64-bit. For a sample in the kernel, as
    /// they were at kernel entry.
    pub registers: Option<Registers>,
    /// User-mode instruction pointer, if registers are present.
    pub user_ip: u64,
    /// User stack from the stack pointer up, as much as the kernel copied; empty if not requested,
    /// or if the thread has none.
    pub stack: &'a [u8],
    /// Call chain as written by the kernel; empty if not requested.
    chain: &'a [u8],
}

/// Call chain words from this value up are context markers, not addresses.
const CONTEXTS: u64 = -4095_i64 as u64;
/// `PERF_CONTEXT_KERNEL`.
const CONTEXT_KERNEL: u64 = -128_i64 as u64;

impl Sample<'_> {
    /// Iterates over the call chain, innermost first. Yields each address, and whether it is in the
    /// kernel. All but the first are return addresses.
    pub fn chain(&self) -> impl Iterator<Item = (u64, bool)> {
        let words = self.chain.chunks_exact(8).filter_map(|bytes| word(bytes, 0));
        let mut is_kernel = self.is_kernel;
        words.filter_map(move |word| {
            if word >= CONTEXTS {
                is_kernel = word == CONTEXT_KERNEL;
                return None;
            }
            Some((word, is_kernel))
        })
    }
}

const LOST: u32 = 2;
const THROTTLE: u32 = 5;
const SAMPLE: u32 = 9;
const LOST_SAMPLES: u32 = 13;
/// `PERF_RECORD_MISC_CPUMODE_MASK`, and its value for kernel mode.
const MODE_MASK: u16 = 7;
const MODE_KERNEL: u16 = 1;

/// Iterates over the records in `bytes`, up to the first with an invalid length. A truncated sample
/// becomes [`Record::Other`].
pub fn records(bytes: &[u8], fields: Fields) -> impl Iterator<Item = Record<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let size = usize::from(u16::from_ne_bytes(array(rest, 6)?));
        let kind = u32::from_ne_bytes(array(rest, 0)?);
        let misc = u16::from_ne_bytes(array(rest, 4)?);
        let body = rest.get(8..size)?;
        rest = &rest[size..];
        Some(record(kind, misc, body, fields).unwrap_or(Record::Other(kind)))
    })
}

fn record(kind: u32, misc: u16, body: &[u8], fields: Fields) -> Option<Record<'_>> {
    match kind {
        SAMPLE => Some(Record::Sample(sample(misc, body, fields)?)),
        LOST => Some(Record::Lost(word(body, 8)?)),
        LOST_SAMPLES => Some(Record::Lost(word(body, 0)?)),
        THROTTLE => Some(Record::Throttled),
        _ => processes::change(kind, misc, body).map(Record::Process),
    }
}

/// Parses a sample's fields in the order of perf_event_open(2): address, process, thread, time,
/// CPU, count, call chain, raw record, registers, stack.
fn sample(misc: u16, body: &[u8], fields: Fields) -> Option<Sample<'_>> {
    let (mut raw, mut chain): (&[u8], &[u8]) = (&[], &[]);
    let mut end = 32;
    let mut count = None;
    if fields.has_count {
        // As in `Event::read`: number of values, time enabled, time running, values.
        let values = usize::try_from(word(body, end)?).ok()?;
        count = Some(word(body, end + 24)?);
        end = values.checked_mul(8)?.checked_add(end + 24)?;
        body.get(..end)?;
    }
    if fields.has_chain {
        let bytes = usize::try_from(word(body, end)?).ok()?.checked_mul(8)?;
        let from = end + 8;
        chain = body.get(from..from.checked_add(bytes)?)?;
        end = from + bytes;
    }
    if fields.is_raw {
        let bytes = half(body, end)? as usize;
        let from = end + 4;
        raw = body.get(from..from.checked_add(bytes)?)?;
        end = (from + bytes).next_multiple_of(8);
    }
    let mut of_user = None;
    if fields.has_registers {
        let (registers, bytes) = registers(body, end)?;
        of_user = registers;
        end += bytes;
    }
    let stack = if fields.stack_bytes > 0 { stack(body, end)? } else { &[] };
    Some(Sample {
        ip: word(body, 0)?,
        is_kernel: misc & MODE_MASK == MODE_KERNEL,
        pid: half(body, 8)?,
        tid: half(body, 12)?,
        time_ns: word(body, 16)?,
        cpu: half(body, 24)?,
        count,
        raw,
        registers: of_user.map(|(registers, _)| registers),
        user_ip: of_user.map_or(0, |(_, ip)| ip),
        stack,
        chain,
    })
}

/// Parses the registers at `at`, including the instruction pointer, and returns them with their
/// size in bytes. The inner value is `None` for kernel threads and 32-bit threads.
fn registers(body: &[u8], at: usize) -> Option<(Option<(Registers, u64)>, usize)> {
    const NUMBER: usize = USER_REGISTER_NUMBERS.count_ones() as usize;
    let kind = word(body, at)?;
    if kind == ABI_NONE {
        return Some((None, 8));
    }
    let mut registers = Registers::default();
    for (number, register) in registers.iter_mut().enumerate() {
        let place = if number < IP_PLACE { number } else { number + 1 };
        *register = word(body, at + 8 * (place + 1))?;
    }
    let ip = word(body, at + 8 * (IP_PLACE + 1))?;
    Some(((kind == ABI_64).then_some((registers, ip)), 8 * (1 + NUMBER)))
}

/// Parses the stack at `at`: its size, its bytes, and the number of bytes that the kernel copied.
fn stack(body: &[u8], at: usize) -> Option<&[u8]> {
    let room = usize::try_from(word(body, at)?).ok()?;
    if room == 0 {
        return Some(&[]);
    }
    let from = at.checked_add(8)?;
    let bytes = body.get(from..from.checked_add(room)?)?;
    let copied = usize::try_from(word(body, from + room)?).ok()?;
    bytes.get(..copied)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_ne_bytes)
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_ne_bytes)
}

/// Ring that the kernel writes an event's samples to. When it is full, further samples are dropped
/// and counted as [`Record::Lost`].
#[derive(Debug)]
pub struct Ring {
    start: NonNull<u8>,
    bytes: usize,
    data_offset: usize,
    data_bytes: usize,
    fields: Fields,
    /// Records of the last [`Ring::drain`], copied to contiguous memory.
    copy: Vec<u8>,
}

// SAFETY: the mapping belongs to the process rather than to a thread.
unsafe impl Send for Ring {}

/// Offsets in `perf_event_mmap_page`.
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

impl Ring {
    /// Gives `event` a ring of `pages` pages, a power of two. `fields` must be the fields that the
    /// event was opened with. The memory is locked, and counts towards kernel.perf_event_mlock_kb
    /// for unprivileged users.
    ///
    /// # Errors
    /// Returns the error from mmap(2): EPERM if no more memory may be locked.
    pub fn map(event: &Event, pages: usize, fields: Fields) -> io::Result<Self> {
        let page = crate::page_bytes();
        let data_bytes = page * pages.next_power_of_two();
        let bytes = page + data_bytes;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let file = event.as_fd().as_raw_fd();
        // SAFETY: a new mapping at an address chosen by the kernel replaces no existing one.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, file, 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes, data_offset: page, data_bytes, fields, copy: Vec::new() })
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: both positions are aligned words in the first page of the mapping, which is valid
        // as long as `self` is.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(offset).cast()) }
    }

    /// Passes all records written since the last call to `each`.
    pub fn drain(&mut self, each: impl FnMut(Record<'_>)) {
        // Pairs with the kernel's store to the head after it has written the records.
        let head = self.position(DATA_HEAD).load(Ordering::Acquire);
        // Only this side writes the tail.
        let tail = self.position(DATA_TAIL).load(Ordering::Relaxed);
        self.copy.clear();
        for (from, bytes) in pieces(tail, head, self.data_bytes) {
            // SAFETY: the kernel writes nothing between tail and head, and `pieces` stays within
            // the data.
            let piece = unsafe {
                let data = self.start.as_ptr().add(self.data_offset);
                std::slice::from_raw_parts(data.add(from), bytes)
            };
            self.copy.extend_from_slice(piece);
        }
        // Pairs with the kernel's load of the tail before it overwrites the records.
        self.position(DATA_TAIL).store(head, Ordering::Release);
        records(&self.copy, self.fields).for_each(each);
    }
}

/// Returns the byte ranges (offset, length) from position `tail` to `head` in a ring of `size`
/// bytes, a power of two. The second range is empty unless the data wraps around. Both ranges are
/// empty if the distance exceeds the ring size, in which case the positions are invalid.
fn pieces(tail: u64, head: u64, size: usize) -> [(usize, usize); 2] {
    let length = usize::try_from(head.wrapping_sub(tail)).unwrap_or(usize::MAX);
    if length > size {
        return [(0, 0); 2];
    }
    let from = (tail % size as u64) as usize;
    let first = length.min(size - from);
    [(from, first), (0, length - first)]
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping was created by `Ring::map` with this length, and nothing uses it
        // after `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests;
