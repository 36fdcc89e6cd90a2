// SPDX-License-Identifier: MIT OR Apache-2.0
//! External routines with our signatures. The only module with `unsafe` code.
//!
//! An unavailable peer stays in the list, with instructions for installing it. Checksums from peers
//! that return 16 bits are added to the caller's sum; this costs two or three instructions, which
//! their usual callers need as well.

use crate::check::Answer;
use linerate_kernels::Kernel;
#[cfg(peer_steps)]
use linerate_kernels::bench::ChecksumFn;
use linerate_kernels::bench::{Role, Routine};

/// An external routine.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    /// Package and version.
    pub(crate) source: String,
    pub(crate) kernel: Kernel,
    /// The routine, or why it is missing and how to install it.
    pub(crate) routine: Result<Routine, String>,
    /// What the routine returns.
    pub(crate) answer: Answer,
}

impl Peer {
    fn checksum(name: &'static str, source: &str, routine: Result<Routine, String>) -> Self {
        let (source, kernel) = (source.to_owned(), Kernel::Checksum);
        Self { name, source, kernel, routine, answer: Answer::Sum }
    }
}

/// Returns all peers, including unavailable ones.
pub(crate) fn peers() -> Vec<Peer> {
    let mut all = vec![masked_loop(), two_passes()];
    all.extend(crates());
    all.push(dpdk());
    all.extend(lwip());
    all
}

/// Name of the masked loop.
pub(crate) const MASKED_LOOP: &str = "masked_loop_avx512";

#[cfg(peer_masked_loop)]
fn masked_loop() -> Peer {
    unsafe extern "C" {
        fn peer_masked_loop_avx512(src: *const u8, bytes: usize, sum: u32) -> u32;
    }
    let routine = match has_features(&["avx512f", "avx512bw", "bmi2"]) {
        true => {
            // SAFETY: the comment at the top of the C file states what the routine reads; the line
            // above checks that it can run here.
            Ok(unsafe { Routine::checksum_from(MASKED_LOOP, Role::Peer, peer_masked_loop_avx512) })
        }
        false => {
            Err("this processor does not support all of AVX-512F, AVX-512BW and BMI2".to_owned())
        }
    };
    Peer::checksum(MASKED_LOOP, env!("PEER_MASKED_LOOP_SOURCE"), routine)
}

#[cfg(not(peer_masked_loop))]
fn masked_loop() -> Peer {
    let reason = env!("PEER_MASKED_LOOP_REASON").to_owned();
    Peer::checksum(MASKED_LOOP, "our own: one loop with a masked tail", Err(reason))
}

/// Returns loops that each contain a part of the checksum's inner loop: the first only its loads,
/// the last two the whole loop with an extra instruction. Empty if this CPU does not support them.
/// Lengths must be multiples of 512.
#[cfg(peer_steps)]
pub(crate) fn steps() -> Vec<Routine> {
    unsafe extern "C" {
        fn peer_steps_load(src: *const u8, bytes: usize, sum: u32) -> u32;
        fn peer_steps_xor(src: *const u8, bytes: usize, sum: u32) -> u32;
        fn peer_steps_dot(src: *const u8, bytes: usize, sum: u32) -> u32;
        fn peer_steps_sum(src: *const u8, bytes: usize, sum: u32) -> u32;
        fn peer_steps_sum_scalar(src: *const u8, bytes: usize, sum: u32) -> u32;
        fn peer_steps_sum_vector(src: *const u8, bytes: usize, sum: u32) -> u32;
    }
    let all: [(&str, ChecksumFn); 6] = [
        ("load", peer_steps_load),
        ("load, xor", peer_steps_xor),
        ("load, dot product", peer_steps_dot),
        ("load, xor, dot product", peer_steps_sum),
        ("... and a scalar addition", peer_steps_sum_scalar),
        ("... and a vector instruction", peer_steps_sum_vector),
    ];
    if !has_features(&["avx512f", "avx512bw", "avx512vnni"]) {
        return Vec::new();
    }
    // SAFETY: the comment at the top of the C file states what the routines read; the line above
    // checks that they can run here.
    all.map(|(name, step)| unsafe { Routine::checksum_from(name, Role::Bound, step) }).to_vec()
}

#[cfg(not(peer_steps))]
pub(crate) fn steps() -> Vec<Routine> {
    Vec::new()
}

#[cfg(all(target_arch = "x86_64", any(peer_masked_loop, peer_steps, peer_dpdk)))]
fn has_features(features: &[&str]) -> bool {
    features.iter().all(|feature| match *feature {
        "sse3" => is_x86_feature_detected!("sse3"),
        "ssse3" => is_x86_feature_detected!("ssse3"),
        "sse4.1" => is_x86_feature_detected!("sse4.1"),
        "sse4.2" => is_x86_feature_detected!("sse4.2"),
        "popcnt" => is_x86_feature_detected!("popcnt"),
        "avx" => is_x86_feature_detected!("avx"),
        "avx2" => is_x86_feature_detected!("avx2"),
        "fma" => is_x86_feature_detected!("fma"),
        "bmi" => is_x86_feature_detected!("bmi1"),
        "bmi2" => is_x86_feature_detected!("bmi2"),
        "avx512f" => is_x86_feature_detected!("avx512f"),
        "avx512bw" => is_x86_feature_detected!("avx512bw"),
        "avx512dq" => is_x86_feature_detected!("avx512dq"),
        "avx512vl" => is_x86_feature_detected!("avx512vl"),
        "avx512vnni" => is_x86_feature_detected!("avx512vnni"),
        _ => false,
    })
}

/// Returns a peer that copies and then sums, as in a program that has a fast routine for each step
/// but no combined routine.
fn two_passes() -> Peer {
    const NAME: &str = "memcpy+checksum";
    unsafe extern "C" fn copy_checksum(
        dst: *mut u8,
        src: *const u8,
        bytes: usize,
        sum: u32,
    ) -> u32 {
        // SAFETY: the caller guarantees that both ranges have this many bytes and do not overlap.
        let copied = unsafe {
            std::ptr::copy_nonoverlapping(src, dst, bytes);
            std::slice::from_raw_parts(dst, bytes)
        };
        let sum = linerate_kernels::Sum::from_raw(sum);
        linerate_kernels::checksum::partial(copied, sum).raw()
    }
    // SAFETY: the routine touches only the two ranges, any processor can run it, and nothing in it
    // unwinds.
    let routine = unsafe { Routine::copy_checksum_from(NAME, Role::Peer, copy_checksum) };
    Peer {
        name: NAME,
        source: format!("{} followed by the selected checksum", c_library()),
        kernel: Kernel::CopyChecksum,
        routine: Ok(routine),
        answer: Answer::Sum,
    }
}

/// Returns the name and version of the C library whose `memcpy` and `memset` are bounds.
pub(crate) fn c_library() -> String {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: returns a string constant of the library.
        let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
        format!("glibc {}", version.to_string_lossy())
    }
    #[cfg(not(target_env = "gnu"))]
    "the C library".to_owned()
}

/// Name and version of the peer internet-checksum, as in `Cargo.lock`; verified by a test.
const INTERNET_CHECKSUM: &str = "internet-checksum 0.2.1";
/// Name and version of the peer smoltcp, as in `Cargo.lock`; verified by a test.
const SMOLTCP: &str = "smoltcp 0.14.0";

#[cfg(feature = "peers")]
fn crates() -> [Peer; 2] {
    use linerate_kernels::Sum;
    use std::slice::from_raw_parts;

    unsafe extern "C" fn internet_checksum(src: *const u8, bytes: usize, sum: u32) -> u32 {
        // SAFETY: the caller guarantees that this many bytes are readable.
        let bytes = unsafe { from_raw_parts(src, bytes) };
        let checksum = u16::from_ne_bytes(internet_checksum::checksum(bytes));
        (Sum::from_raw(sum) + Sum::from_raw(u32::from(!checksum))).raw()
    }
    unsafe extern "C" fn smoltcp(src: *const u8, bytes: usize, sum: u32) -> u32 {
        // SAFETY: the caller guarantees that this many bytes are readable.
        let bytes = unsafe { from_raw_parts(src, bytes) };
        let folded = smoltcp::wire::checksum::data(bytes);
        (Sum::from_raw(sum) + Sum::from_raw(u32::from(folded.to_be()))).raw()
    }
    // SAFETY: each routine reads the slice that it makes, and any processor can run it. With
    // SIZE_MAX bytes or fewer, it does not overflow, so nothing in it unwinds.
    let sum = unsafe { Routine::checksum_from("internet-checksum", Role::Peer, internet_checksum) };
    // SAFETY: as above.
    let data = unsafe { Routine::checksum_from("smoltcp", Role::Peer, smoltcp) };
    [
        Peer::checksum("internet-checksum", INTERNET_CHECKSUM, Ok(sum)),
        Peer::checksum("smoltcp", &format!("{SMOLTCP}, wire::checksum::data"), Ok(data)),
    ]
}

#[cfg(not(feature = "peers"))]
fn crates() -> [Peer; 2] {
    let without = || Err("built without the feature `peers`".to_owned());
    [
        Peer::checksum("internet-checksum", INTERNET_CHECKSUM, without()),
        Peer::checksum("smoltcp", SMOLTCP, without()),
    ]
}

#[cfg(peer_dpdk)]
fn dpdk() -> Peer {
    /// Processor features, in the bit order of `peer_dpdk_needs`.
    const NEEDS: [&str; 14] = [
        "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "avx", "avx2", "fma", "bmi", "bmi2",
        "avx512f", "avx512bw", "avx512dq", "avx512vl",
    ];
    unsafe extern "C" {
        fn peer_dpdk(src: *const u8, bytes: usize, sum: u32) -> u32;
        static peer_dpdk_needs: u32;
    }
    // SAFETY: a constant of the C file; reading it runs none of its code.
    let needs = unsafe { peer_dpdk_needs };
    let needs = NEEDS.iter().enumerate().filter(|(bit, _)| needs >> bit & 1 == 1);
    let needs: Vec<&str> = needs.map(|(_, feature)| *feature).collect();
    let routine = match has_features(&needs) {
        // SAFETY: rte_raw_cksum reads only its input; the line above checks that it can run here.
        true => Ok(unsafe { Routine::checksum_from("dpdk", Role::Peer, peer_dpdk) }),
        false => Err(format!("it was compiled for a processor with {}", needs.join(", "))),
    };
    Peer::checksum("dpdk", env!("PEER_DPDK_SOURCE"), routine)
}

#[cfg(not(peer_dpdk))]
fn dpdk() -> Peer {
    let reason = env!("PEER_DPDK_REASON").to_owned();
    Peer::checksum("dpdk", "DPDK, rte_ip.h", Err(reason))
}

#[cfg(peer_lwip)]
fn lwip() -> [Peer; 3] {
    use linerate_kernels::bench::ChecksumFn;

    unsafe extern "C" {
        fn peer_lwip1(src: *const u8, bytes: usize, sum: u32) -> u32;
        fn peer_lwip2(src: *const u8, bytes: usize, sum: u32) -> u32;
        fn peer_lwip3(src: *const u8, bytes: usize, sum: u32) -> u32;
    }
    let algorithms: [(&str, ChecksumFn); 3] =
        [("lwip1", peer_lwip1), ("lwip2", peer_lwip2), ("lwip3", peer_lwip3)];
    algorithms.map(|(name, function)| {
        // SAFETY: plain C that reads only its input, compiled for any processor.
        let routine = unsafe { Routine::checksum_from(name, Role::Peer, function) };
        Peer::checksum(name, env!("PEER_LWIP_SOURCE"), Ok(routine))
    })
}

#[cfg(not(peer_lwip))]
fn lwip() -> [Peer; 3] {
    let reason = env!("PEER_LWIP_REASON");
    ["lwip1", "lwip2", "lwip3"]
        .map(|name| Peer::checksum(name, "lwIP, inet_chksum.c", Err(reason.to_owned())))
}

/// Returns a test routine that only inspects its arguments and copies nothing.
#[cfg(test)]
pub(crate) fn copy_of(look: extern "C" fn(*mut u8, *const u8, usize) -> *mut u8) -> Routine {
    // SAFETY: a safe function, which can only inspect its pointers.
    unsafe { Routine::copy_from("look", Role::Peer, look) }
}

/// Returns routines with faults like those found in peers, and the resulting messages.
#[cfg(test)]
pub(crate) fn faulty() -> Vec<(Routine, Answer, &'static str)> {
    unsafe extern "C" fn sum_without_end(src: *const u8, bytes: usize, sum: u32) -> u32 {
        let bytes = bytes - usize::from(bytes > 1000);
        // SAFETY: the caller guarantees that this many bytes are readable.
        let bytes = unsafe { std::slice::from_raw_parts(src, bytes) };
        let sum = linerate_kernels::Sum::from_raw(sum);
        linerate_kernels::checksum::partial(bytes, sum).raw()
    }
    unsafe extern "C" fn sum_without_beginning(src: *const u8, bytes: usize, _sum: u32) -> u32 {
        // SAFETY: the arguments are passed through, with at most one byte fewer.
        unsafe { sum_without_end(src, bytes, 0) }
    }
    unsafe extern "C" fn copy_without_end(dst: *mut u8, src: *const u8, bytes: usize) -> *mut u8 {
        // SAFETY: the caller guarantees that both ranges have this many bytes and do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(src, dst, bytes - usize::from(bytes > 100)) };
        dst
    }
    const PEER: Role = Role::Peer;
    // SAFETY: all three access only what they are passed, and do not unwind.
    unsafe {
        vec![
            (Routine::checksum_from("end", PEER, sum_without_end), Answer::Sum, "1023 bytes"),
            (Routine::checksum_from("beginning", PEER, sum_without_beginning), Answer::Sum, "sum"),
            (Routine::copy_from("copy", PEER, copy_without_end), Answer::Sum, "byte 100 is 0x3c"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_lock_file() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock");
        let lock = std::fs::read_to_string(file).expect("a workspace has a lock file");
        for peer in [INTERNET_CHECKSUM, SMOLTCP] {
            let (name, version) = peer.split_once(' ').expect("a name and a version");
            let entry = format!("name = \"{name}\"\nversion = \"{version}\"\n");
            assert!(lock.contains(&entry), "{peer} is not what Cargo.lock has");
        }
    }

    #[test]
    fn peers_have_names_of_their_own_and_reasons_when_absent() {
        let peers = peers();
        for (index, peer) in peers.iter().enumerate() {
            assert!(peers[..index].iter().all(|other| other.name != peer.name), "{}", peer.name);
            match &peer.routine {
                Ok(routine) => {
                    assert_eq!((routine.name(), routine.role()), (peer.name, Role::Peer));
                    assert_eq!(routine.kernel(), peer.kernel);
                }
                Err(reason) => {
                    assert!(!reason.is_empty());
                    println!("SKIP: {}: {reason}", peer.name);
                }
            }
        }
    }
}
