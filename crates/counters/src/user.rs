// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a thread's counters from user mode, without system calls.
//!
//! For each event, the kernel maintains a page with the hardware counter that the event is on and
//! the offset to add to it (`perf_event_mmap_page` in the kernel's `linux/perf_event.h`). The
//! kernel changes the page only on the processor that runs this thread, so a reader detects every
//! change by a sequence number and retries:
//!
//! ```text
//! do  before  = sequence
//!     count   = offset + sign extension of counter[index - 1] from its width
//!     enabled = enabled so far + time since the kernel's last update; running likewise
//! while sequence != before
//! ```
//!
//! A read returns `None` if the event is currently not on a counter, or if the kernel or the
//! processor does not allow user-mode reads. In this case, call [`perf::Event::read`].
//!
//! Reads are not ordered with the code around them. A counter may be read some tens of cycles
//! earlier or later than program order implies, as with [`ticks`](linerate_machine::ticks).

use linerate_linux::perf::{self, Page, PageFields, Request};
use std::io;
use std::marker::PhantomData;

/// An event of the calling thread, which only that thread can read.
///
/// For an event of another thread, the values are meaningless.
#[derive(Debug)]
pub struct UserCounter {
    page: Page,
    stays_in_its_thread: PhantomData<*const ()>,
}

/// Count and times read from a [`UserCounter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserReading {
    /// Count since the event was opened.
    pub count: u64,
    /// Enabled and running times; `None` if the kernel provides no clock for them.
    pub times: Option<Times>,
}

/// An event's enabled and running times up to now, as in [`perf::Reading`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Time during which the event was enabled and its thread running, in ns.
    pub enabled_ns: u64,
    /// Time during which the event was on a counter, in ns.
    pub running_ns: u64,
}

/// Returns `request` with user-mode reads enabled where the kernel requires that: bit 1 of
/// `config1` on arm64 (Documentation/arch/arm64/perf.rst). The event then stays on one counter,
/// which the kernel extends to 64 bits. If `kernel.perf_user_access` is off, the event still opens,
/// but [`UserCounter::count`] returns `None`.
#[must_use]
pub fn with_user_access(request: Request) -> Request {
    let mut request = request;
    if cfg!(target_arch = "aarch64") {
        request.selector.config1 |= 0b10;
    }
    request
}

impl UserCounter {
    /// Maps the kernel's page for `event`, which must count the calling thread.
    ///
    /// # Errors
    /// Returns the error from mmap(2), such as EPERM if too much memory is already locked.
    pub fn map(event: &perf::Event) -> io::Result<Self> {
        Ok(Self { page: event.map()?, stays_in_its_thread: PhantomData })
    }

    /// Returns the count since the event was opened; `None` if reading it requires a system call.
    #[inline]
    pub fn count(&self) -> Option<u64> {
        settled(&self.page, |fields| count(fields, &Processor))?
    }

    /// Returns the time, in ns, that the event was enabled but not on a counter, up to the last
    /// time it was scheduled.
    #[inline]
    pub fn lost_ns(&self) -> u64 {
        let PageFields { enabled_ns, running_ns, .. } = self.page.fields();
        // The kernel may change the page between the two reads. The result is still right, because
        // the enabled time was read first.
        enabled_ns.saturating_sub(running_ns)
    }

    /// Returns the count like [`UserCounter::count`], with the times that reveal whether the event
    /// lost its counter.
    #[inline]
    pub fn read(&self) -> Option<UserReading> {
        settled(&self.page, |fields| {
            let count = count(fields, &Processor)?;
            Some(UserReading { count, times: times(fields, &Processor) })
        })?
    }
}

/// The kernel's page for an event, accessed step by step as the kernel's protocol requires. Tests
/// use a synthetic page.
trait KernelPage {
    fn sequence(&self) -> u32;
    fn fields(&self) -> PageFields;
}

impl KernelPage for Page {
    #[inline]
    fn sequence(&self) -> u32 {
        Page::sequence(self)
    }

    #[inline]
    fn fields(&self) -> PageFields {
        Page::fields(self)
    }
}

/// User-mode access to the PMU; simulated in tests.
trait Registers {
    /// Reads the hardware counter that the page identifies by `index`; `None` if it is not
    /// accessible.
    fn counter(&self, index: u32) -> Option<u64>;
    /// Returns the clock that the page's `time` fields refer to, in ticks.
    fn ticks(&self) -> u64;
}

/// Maximum number of attempts to read a page consistently. A healthy system needs fewer. If all of
/// them fail, the counter is read through the kernel, which always works.
const ATTEMPTS: u32 = 64;

/// Returns the result of `read`, which is retried until the fields do not change during the read;
/// `None` if they changed in every attempt.
#[inline]
fn settled<T>(page: &impl KernelPage, mut read: impl FnMut(&PageFields) -> T) -> Option<T> {
    for _ in 0..ATTEMPTS {
        let before = page.sequence();
        let result = read(&page.fields());
        if page.sequence() == before && before & 1 == 0 {
            return Some(result);
        }
    }
    None
}

#[inline]
fn count(fields: &PageFields, registers: &impl Registers) -> Option<u64> {
    if !fields.can_read_counter || fields.index == 0 || !(1..=64).contains(&fields.width) {
        return None;
    }
    let unused = 64 - u32::from(fields.width);
    // Shifting up and down again sign-extends: the kernel starts counters below 0.
    let counter = (registers.counter(fields.index)? << unused) as i64 >> unused;
    Some(fields.offset.wrapping_add(counter) as u64)
}

fn times(fields: &PageFields, registers: &impl Registers) -> Option<Times> {
    if !fields.can_read_time || fields.time_shift >= 64 {
        return None;
    }
    let mut ticks = registers.ticks();
    if fields.is_time_short {
        let since = ticks.wrapping_sub(fields.time_cycles) & fields.time_mask;
        ticks = fields.time_cycles.wrapping_add(since);
    }
    // The product is computed in two parts because ticks * mult may need more than 64 bits, and
    // modulo 2^64 because `time_offset` may represent a negative number.
    let mult = u64::from(fields.time_mult);
    let (whole, rest) = (ticks >> fields.time_shift, ticks & ((1 << fields.time_shift) - 1));
    let since_ns = fields
        .time_offset
        .wrapping_add(whole.wrapping_mul(mult))
        .wrapping_add(rest.wrapping_mul(mult) >> fields.time_shift);
    let on_counter = if fields.index == 0 { 0 } else { since_ns };
    Some(Times {
        enabled_ns: fields.enabled_ns.wrapping_add(since_ns),
        running_ns: fields.running_ns.wrapping_add(on_counter),
    })
}

/// This processor's PMU and clock.
struct Processor;

#[cfg(target_arch = "x86_64")]
impl Registers for Processor {
    #[inline]
    fn counter(&self, index: u32) -> Option<u64> {
        let (low, high): (u32, u32);
        // SAFETY: RDPMC only reads a register; the kernel's page, which contained this counter's
        // index, permits user-mode reads (`can_read_counter`).
        unsafe {
            std::arch::asm!("rdpmc", in("ecx") index - 1, out("eax") low, out("edx") high,
                            options(nostack, preserves_flags));
        }
        Some(u64::from(high) << 32 | u64::from(low))
    }

    #[inline]
    fn ticks(&self) -> u64 {
        linerate_machine::ticks::ticks()
    }
}

/// Reads counter register `$index`. Every register needs its own `mrs`, because register numbers
/// are part of the instruction.
#[cfg(target_arch = "aarch64")]
macro_rules! counter_register {
    ($index:expr, $($number:literal $name:literal),+) => {
        match $index {
            $($number => {
                let value: u64;
                // SAFETY: MRS only reads a register; the kernel's page, which contained this
                // counter's index, permits user-mode reads (`can_read_counter`).
                unsafe {
                    std::arch::asm!(concat!("mrs {}, ", $name), out(reg) value,
                                    options(nostack, preserves_flags));
                }
                Some(value)
            })+
            _ => None,
        }
    };
}

#[cfg(target_arch = "aarch64")]
impl Registers for Processor {
    #[inline]
    fn counter(&self, index: u32) -> Option<u64> {
        counter_register!(
            index, 1 "pmevcntr0_el0", 2 "pmevcntr1_el0", 3 "pmevcntr2_el0", 4 "pmevcntr3_el0",
            5 "pmevcntr4_el0", 6 "pmevcntr5_el0", 7 "pmevcntr6_el0", 8 "pmevcntr7_el0",
            9 "pmevcntr8_el0", 10 "pmevcntr9_el0", 11 "pmevcntr10_el0", 12 "pmevcntr11_el0",
            13 "pmevcntr12_el0", 14 "pmevcntr13_el0", 15 "pmevcntr14_el0", 16 "pmevcntr15_el0",
            17 "pmevcntr16_el0", 18 "pmevcntr17_el0", 19 "pmevcntr18_el0", 20 "pmevcntr19_el0",
            21 "pmevcntr20_el0", 22 "pmevcntr21_el0", 23 "pmevcntr22_el0", 24 "pmevcntr23_el0",
            25 "pmevcntr24_el0", 26 "pmevcntr25_el0", 27 "pmevcntr26_el0", 28 "pmevcntr27_el0",
            29 "pmevcntr28_el0", 30 "pmevcntr29_el0", 31 "pmevcntr30_el0", 32 "pmccntr_el0"
        )
    }

    #[inline]
    fn ticks(&self) -> u64 {
        linerate_machine::ticks::ticks()
    }
}

/// Fallback for other architectures: counters are read through the kernel, because the kernel does
/// not support user-mode reads there or this module does not enable them yet.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
impl Registers for Processor {
    fn counter(&self, _index: u32) -> Option<u64> {
        None
    }

    fn ticks(&self) -> u64 {
        linerate_machine::ticks::ticks()
    }
}

#[cfg(test)]
mod tests;
