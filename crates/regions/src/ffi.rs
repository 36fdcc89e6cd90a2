// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C interface, documented in `include/linerate/regions.h`.
//!
//! There is one set of regions per process, configured through the environment, and one [`Thread`]
//! per thread that enters a region. Nothing here panics, because a panic must not unwind into C.

use crate::regions::{Options, Regions};
use crate::sampler::{DumpRequest, Sampler, Schedule};
use crate::thread::Thread;
use crate::tree::Region;
use std::cell::OnceCell;
use std::cell::UnsafeCell;
use std::ffi::{CStr, OsStr, c_char, c_int};
use std::num::{NonZeroU32, NonZeroU64};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static REGIONS: OnceLock<Regions> = OnceLock::new();

/// Whether this process was forked from one that was counting. If so, the counters that it
/// inherited still count the parent.
static IS_FORKED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static THREAD: OnceCell<Thread> = const { OnceCell::new() };
}

fn regions() -> &'static Regions {
    REGIONS.get_or_init(|| {
        // SAFETY: both functions exist as long as this library, take no arguments and return
        // nothing.
        unsafe {
            libc::atexit(write_at_exit);
            libc::pthread_atfork(None, None, Some(note_fork));
        }
        Regions::new(&Options::from_environment())
    })
}

extern "C" fn note_fork() {
    IS_FORKED.store(true, Relaxed);
}

extern "C" fn write_at_exit() {
    if IS_FORKED.load(Relaxed) {
        return;
    }
    if let Err(error) = regions().finish() {
        eprintln!("linerate_regions: {error}");
    }
}

/// Calls `f` with the calling thread's regions. Does nothing in a forked child or an exiting
/// thread.
#[inline]
fn with_thread(f: impl FnOnce(&Thread)) {
    if IS_FORKED.load(Relaxed) {
        return;
    }
    // An error means that the thread is exiting and its `Thread` is gone.
    let _ = THREAD.try_with(|cell| match cell.get() {
        Some(thread) => f(thread),
        None => f(first_of_thread(cell)),
    });
}

/// Opens the calling thread's counters, and calibrates the measurement overhead by calling the C
/// functions as the program does.
#[cold]
fn first_of_thread(cell: &OnceCell<Thread>) -> &Thread {
    let thread = cell.get_or_init(|| regions().uncalibrated_thread());
    thread.calibrate(|| {
        lr_region_enter(Region::CALIBRATION.0);
        lr_region_leave(Region::CALIBRATION.0);
    });
    thread
}

/// Returns the region named `name`, creating it if necessary (see the C header).
///
/// # Safety
/// `name` must be null or point to a NUL-terminated string.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn lr_region(name: *const c_char) -> u32 {
    // A forked child must not take any lock: another thread may have held it at the time of the
    // fork.
    if name.is_null() || IS_FORKED.load(Relaxed) {
        return Region::OUTSIDE.0;
    }
    // SAFETY: the caller ensures that the string is NUL-terminated; it is not null.
    let name = unsafe { CStr::from_ptr(name) };
    regions().region(&name.to_string_lossy()).0
}

/// Enters a region (see the C header).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn lr_region_enter(region: u32) {
    with_thread(|thread| {
        if Region(region) != Region::OUTSIDE {
            thread.begin(Region(region));
        }
    });
}

/// Leaves a region's innermost visit; returns -1 if the region is not open (see the C header).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn lr_region_leave(region: u32) -> c_int {
    let mut was_open = false;
    with_thread(|thread| was_open = thread.leave(Region(region)));
    if was_open { 0 } else { -1 }
}

/// Adds units of work to the innermost open region (see the C header).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn lr_region_add_units(units: u64) {
    with_thread(|thread| thread.add_units(units));
}

/// Writes the record to a file; returns 0 or an errno.h error number (see the C header).
///
/// # Safety
/// `file` must be null or point to a NUL-terminated string.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn lr_regions_write(file: *const c_char) -> c_int {
    if file.is_null() {
        return libc::EINVAL;
    }
    if IS_FORKED.load(Relaxed) {
        return libc::ECHILD;
    }
    // SAFETY: the caller ensures that the string is NUL-terminated; it is not null.
    let file = unsafe { CStr::from_ptr(file) };
    let file = Path::new(OsStr::from_bytes(file.to_bytes()));
    match regions().write(file) {
        Ok(()) => 0,
        Err(crate::WriteError::File { error, .. }) => error.raw_os_error().unwrap_or(libc::EIO),
        Err(crate::WriteError::Record(_)) => libc::EIO,
    }
}

/// Creates a sampler; returns null if an argument is invalid (see the C header).
///
/// # Safety
/// `name` and `sets` must each be null or point to a NUL-terminated string.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn lr_sampler_new(
    name: *const c_char,
    sets: *const c_char,
    every: u64,
    rounds: u32,
) -> *mut OfC {
    let (Some(every), Some(rounds)) = (NonZeroU64::new(every), NonZeroU32::new(rounds)) else {
        return std::ptr::null_mut();
    };
    if name.is_null() || sets.is_null() || IS_FORKED.load(Relaxed) {
        return std::ptr::null_mut();
    }
    // SAFETY: the caller ensures that both are NUL-terminated; neither is null.
    let (name, sets) = unsafe { (CStr::from_ptr(name), CStr::from_ptr(sets)) };
    let words = |text: &str, separator| {
        let words = text.split(separator).map(str::trim).filter(|word| !word.is_empty());
        words.map(str::to_owned).collect::<Vec<String>>()
    };
    let sets = words(&sets.to_string_lossy(), ';').iter().map(|set| words(set, ',')).collect();
    let seed = linerate_machine::ticks::ticks();
    let schedule = Schedule { sets, every, rounds, seed };
    let sampler = Sampler::new(regions(), &name.to_string_lossy(), schedule);
    let request = sampler.dump_request();
    Box::into_raw(Box::new(OfC { sampler: UnsafeCell::new(sampler), request }))
}

/// A sampler as passed to C. It is used by one thread, but any thread may request a dump.
pub(crate) struct OfC {
    sampler: UnsafeCell<Sampler>,
    request: DumpRequest,
}

/// Passes the sampler behind a C pointer to `then` and returns the result; `None` if the pointer is
/// null.
///
/// # Safety
/// `sampler` must be null, or have been returned by [`lr_sampler_new`] on this thread and not
/// freed.
unsafe fn with<T>(sampler: *const OfC, then: impl FnOnce(&mut Sampler) -> T) -> Option<T> {
    // SAFETY: the caller ensures that it is null or live.
    let of_c = unsafe { sampler.as_ref() }?;
    // SAFETY: the caller ensures that no other thread gets here, and `then` calls none of these
    // functions.
    Some(then(unsafe { &mut *of_c.sampler.get() }))
}

/// Starts a sampler's first slice (see the C header).
///
/// # Safety
/// `sampler` must be null, or have been returned by [`lr_sampler_new`] on this thread and not
/// freed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn lr_sampler_start(sampler: *const OfC, packets: u64) {
    // SAFETY: the caller upholds the contract of this function.
    unsafe { with(sampler, |sampler| sampler.start(packets)) };
}

/// Updates a sampler's packet count; returns 1 if the sampler is full, otherwise 0 (see the C
/// header).
///
/// # Safety
/// `sampler` must be null, or have been returned by [`lr_sampler_new`] on this thread and not
/// freed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn lr_sampler_update(sampler: *const OfC, packets: u64) -> c_int {
    // SAFETY: the caller upholds the contract of this function.
    unsafe { with(sampler, |sampler| sampler.update(packets)) }.unwrap_or(false).into()
}

/// Adds a sampler's results to the record, and restarts sampling (see the C header).
///
/// # Safety
/// `sampler` must be null, or have been returned by [`lr_sampler_new`] on this thread and not
/// freed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn lr_sampler_dump(sampler: *const OfC) {
    // SAFETY: the caller upholds the contract of this function.
    unsafe { with(sampler, Sampler::dump) };
}

/// Requests a dump from a sampler on any thread (see the C header).
///
/// # Safety
/// `sampler` must be null, or have been returned by [`lr_sampler_new`] on any thread, and must not
/// be freed before this returns.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn lr_sampler_request_dump(sampler: *const OfC) {
    // SAFETY: the caller ensures that it is null or live.
    if let Some(of_c) = unsafe { sampler.as_ref() } {
        of_c.request.dump();
    }
}

/// Frees a sampler (see the C header).
///
/// # Safety
/// `sampler` must be null, or have been returned by [`lr_sampler_new`] on this thread and not
/// freed. It must not be used afterwards.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn lr_sampler_free(sampler: *mut OfC) {
    if !sampler.is_null() {
        // SAFETY: it comes from `Box::into_raw`, and the caller ensures that this is its last use.
        drop(unsafe { Box::from_raw(sampler) });
    }
}
