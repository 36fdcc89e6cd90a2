// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU affinity of threads.
//!
//! Masks are arrays of machine words, as long as needed, rather than `cpu_set_t`, whose 1024 bits
//! are too few for large machines. The kernel numbers bits from the least significant bit of the
//! first word, in the machine's byte order (sched_setaffinity(2), "C library/kernel differences").

use crate::Error;
use std::mem::size_of_val;

/// One word of a CPU mask, the kernel's `unsigned long`.
type Word = libc::c_ulong;

const WORD_BITS: u32 = Word::BITS;

/// Maximum mask length in CPUs, well above any kernel's NR_CPUS: the largest value in the kernel's
/// Kconfig files is 8192, on x86 and POWER.
const MAX_CPUS: u32 = 1 << 16;

/// Pins only the calling thread to logical CPU `cpu`. Threads that it starts later inherit the
/// pinning. On return, the thread is running on that CPU.
///
/// # Errors
/// Returns an error if the CPU does not exist, is offline, or is not among the CPUs that a
/// container or parent process allows (call [`allowed_cpus`] beforehand to find out).
pub fn pin_current_thread(cpu: u32) -> Result<(), Error> {
    allow_current_thread(&[cpu])
}

/// Restricts only the calling thread to the given logical CPUs, ignoring CPUs that do not exist or
/// are not allowed. Threads that it starts later inherit the restriction.
///
/// # Errors
/// Returns an error if none of the given CPUs exists, is online and is allowed.
pub fn allow_current_thread(cpus: &[u32]) -> Result<(), Error> {
    let advice = "choose a CPU from Cpus_allowed_list in /proc/self/status";
    let value = || match cpus {
        [cpu] => format!("cpu {cpu}"),
        cpus => format!("cpus {cpus:?}"),
    };
    let last = cpus.iter().copied().max().unwrap_or(0);
    if last >= MAX_CPUS {
        let errno = libc::EINVAL;
        return Err(Error::Call { call: "sched_setaffinity", value: value(), errno, advice });
    }
    let mut mask: Vec<Word> = vec![0; (last / WORD_BITS + 1) as usize];
    for cpu in cpus {
        mask[(cpu / WORD_BITS) as usize] |= 1 << (cpu % WORD_BITS);
    }
    // SAFETY: the kernel reads no more bytes than `mask` has, and `mask` outlives the call.
    let status =
        unsafe { libc::sched_setaffinity(0, size_of_val(&mask[..]), mask.as_ptr().cast()) };
    match status {
        0 => Ok(()),
        _ => Err(Error::last("sched_setaffinity", value(), advice)),
    }
}

/// Returns the logical CPUs that the calling thread may run on, in ascending order; there is at
/// least one. A pinned thread sees only its own CPU, so call this before pinning.
///
/// # Errors
/// Returns an error if a seccomp filter forbids the call.
pub fn allowed_cpus() -> Result<Vec<u32>, Error> {
    // The kernel rejects masks shorter than its own with EINVAL; double the length until it does
    // not.
    let mut bits = 1024;
    loop {
        let mut mask: Vec<Word> = vec![0; (bits / WORD_BITS) as usize];
        // SAFETY: the kernel writes no more bytes than `mask` has.
        let status =
            unsafe { libc::sched_getaffinity(0, size_of_val(&mask[..]), mask.as_mut_ptr().cast()) };
        if status >= 0 {
            return Ok(set_bits(&mask));
        }
        let advice = "allow sched_getaffinity in this sandbox";
        let error = Error::last("sched_getaffinity", format!("mask of {bits} CPUs"), advice);
        if bits >= MAX_CPUS || !matches!(error, Error::Call { errno: libc::EINVAL, .. }) {
            return Err(error);
        }
        bits *= 2;
    }
}

fn set_bits(mask: &[Word]) -> Vec<u32> {
    let of_word = |(i, word): (usize, &Word)| {
        let (first, word) = (i as u32 * WORD_BITS, *word);
        (0..WORD_BITS).filter(move |bit| word >> bit & 1 == 1).map(move |bit| first + bit)
    };
    mask.iter().enumerate().flat_map(of_word).collect()
}

/// Returns the logical CPU that the calling thread is running on. Unless the thread is pinned, it
/// may already have moved to another CPU.
///
/// # Errors
/// Returns an error if the kernel does not have getcpu(2).
pub fn current_cpu() -> Result<u32, Error> {
    // SAFETY: the call takes no arguments and touches no memory.
    let cpu = unsafe { libc::sched_getcpu() };
    let advice = "pin the thread instead";
    u32::try_from(cpu).map_err(|_| Error::last("sched_getcpu", String::new(), advice))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_pinned_thread_runs_on_its_cpu() {
        for cpu in allowed_cpus().unwrap() {
            let seen = std::thread::spawn(move || {
                pin_current_thread(cpu).unwrap();
                (current_cpu().unwrap(), allowed_cpus().unwrap())
            });
            assert_eq!(seen.join().unwrap(), (cpu, vec![cpu]));
        }
    }

    #[test]
    fn agrees_with_the_kernels_own_list() {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let list = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).unwrap();
        let mut expected = Vec::new();
        for range in list.trim().split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            expected.extend(first.parse::<u32>().unwrap()..=last.parse().unwrap());
        }
        assert_eq!(allowed_cpus().unwrap(), expected);
    }

    #[test]
    fn a_cpu_that_is_not_there_is_named() {
        for cpu in [MAX_CPUS - 1, MAX_CPUS, u32::MAX] {
            let error = pin_current_thread(cpu).unwrap_err();
            assert!(matches!(error, Error::Call { errno: libc::EINVAL, .. }), "{error}");
            assert!(error.to_string().contains(&format!("cpu {cpu}")), "{error}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        #[test]
        fn bits_are_numbered_across_words(cpus in prop::collection::btree_set(0u32..300, 0..40)) {
            let mut mask = vec![0; 300usize.div_ceil(WORD_BITS as usize)];
            for cpu in &cpus {
                mask[(cpu / WORD_BITS) as usize] |= 1 << (cpu % WORD_BITS);
            }
            prop_assert_eq!(set_bits(&mask).into_iter().collect::<BTreeSet<_>>(), cpus);
        }
    }
}
