// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups of functions that point to a cause: cost classes of [`crate::classes`], or parts of them.

use crate::classes::{class_and_part, class_of_file};
use linerate_record::profile::CostClass;
use linerate_record::why::FunctionTime;

/// A group of functions that points to one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Kernel checksums.
    Checksum,
    /// Copies between user and kernel space.
    KernelCopy,
    /// Copies within user space.
    UserCopy,
    /// Waiting for a kernel lock.
    KernelLock,
    /// User-space locks.
    UserLock,
    /// Functions of user-space locks that mostly run while another thread holds the lock.
    UserLockWait,
    /// nftables and iptables rules.
    Firewall,
    /// Ciphers and hashes that do not use the CPU's crypto instructions.
    SoftwareCrypto,
    /// Page faults, and mapping and unmapping memory.
    PageFault,
    /// Garbage collectors.
    GarbageCollection,
    /// Functions that enter tracing programs, which tools such as bpftrace attach to kernel
    /// functions.
    ProbeEntry,
    /// Functions called only by tracing programs (bpftrace and others), mostly to record stack
    /// traces.
    Probe,
}

impl Group {
    /// Returns whether the group consists of kernel functions, which only kernel samples show.
    pub fn is_kernel(self) -> bool {
        !matches!(
            self,
            Self::UserCopy
                | Self::UserLock
                | Self::UserLockWait
                | Self::SoftwareCrypto
                | Self::GarbageCollection
        )
    }

    /// Returns the group's cost class and, if the group is only part of the class, which part.
    fn kind(self) -> (CostClass, Option<&'static str>) {
        match self {
            Self::Checksum => (CostClass::Checksum, None),
            Self::KernelCopy => (CostClass::Copy, Some("user_memory")),
            Self::UserCopy => (CostClass::Copy, None),
            Self::KernelLock | Self::UserLockWait => (CostClass::Lock, Some("wait")),
            Self::UserLock => (CostClass::Lock, None),
            Self::Firewall => (CostClass::Filter, Some("rules")),
            Self::SoftwareCrypto => (CostClass::Crypto, Some("software")),
            Self::PageFault => (CostClass::PageFault, None),
            Self::GarbageCollection => (CostClass::Allocation, Some("gc")),
            Self::ProbeEntry => (CostClass::Kernel, Some("probe_entry")),
            Self::Probe => (CostClass::Kernel, Some("probe")),
        }
    }

    /// Returns whether a sampled function belongs to the group.
    pub fn holds(self, function: &FunctionTime) -> bool {
        let is_of_kernel = is_of_kernel(function);
        let (class, part) = class_and_part(&function.name, file_name(function));
        let is_part = self == Self::UserLock || part == self.kind().1;
        is_of_kernel == self.is_kernel() && class == self.kind().0 && is_part
    }
}

/// File name that stands for the kernel.
const KERNEL: &str = "kernel";

/// Returns the name of a function's file, without its directory.
pub(super) fn file_name(function: &FunctionTime) -> &str {
    function.file.rsplit('/').next().unwrap_or_default()
}

/// Returns whether a function belongs to the kernel.
pub(super) fn is_of_kernel(function: &FunctionTime) -> bool {
    function.file == KERNEL
}

/// Returns the part of its cost class to which a function belongs, if the class has parts.
pub(super) fn part(function: &FunctionTime) -> Option<&'static str> {
    class_and_part(&function.name, file_name(function)).1
}

/// Returns whether a function belongs to a crypto library, judged by its file.
pub(super) fn is_of_crypto_library(function: &FunctionTime) -> bool {
    class_of_file(file_name(function)) == Some(CostClass::Crypto)
}

/// Returns whether a function is in a crypto library, or its name is that of a public-key
/// operation, as in a TLS handshake. Ciphers and hashes also do other work.
pub(super) fn may_be_handshake(function: &FunctionTime) -> bool {
    let public_key = (CostClass::Crypto, Some("public_key"));
    let file = file_name(function);
    is_of_crypto_library(function)
        || (file != KERNEL && class_and_part(&function.name, file) == public_key)
}

/// Returns whether a function's name is that of a public-key operation (`Some(true)`), or of a hash
/// or cipher (`Some(false)`); `None` for other names. The file does not matter.
pub(super) fn is_public_key(function: &FunctionTime) -> Option<bool> {
    match class_and_part(&function.name, "") {
        (CostClass::Crypto, part) if !is_of_kernel(function) => Some(part == Some("public_key")),
        _ => None,
    }
}

/// Returns whether it is known what a function does: its name is known, or its file is a library
/// with a single purpose.
pub(super) fn is_known(function: &FunctionTime) -> bool {
    !is_nameless(function) || class_of_file(file_name(function)).is_some()
}

/// Returns whether a function is the program's own work rather than work of a known kind, and has a
/// name.
pub(super) fn is_own_work(function: &FunctionTime) -> bool {
    let file = file_name(function);
    let is_named = !is_nameless(function) && !function.name.starts_with('[');
    let is_library = file.contains(".so") && class_of_file(file).is_none();
    let is_work = class_and_part(&function.name, file).0 == CostClass::Program;
    is_named && is_work && !is_library && !is_of_kernel(function)
}

/// Returns whether a function has no symbol and is named by file and offset.
pub(super) fn is_nameless(function: &FunctionTime) -> bool {
    function.name.contains("+0x")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classes::class_of;

    /// Functions that pointed to each planted cause in the `why` benchmark.
    #[test]
    fn causes_show_in_the_functions_of_their_group() {
        let real: [(Group, &str, &[&str]); 12] = [
            (Group::Checksum, "kernel", &["csum_partial", "__skb_checksum", "do_csum"]),
            (Group::KernelCopy, "kernel", &["_copy_to_iter", "rep_movs_alternative"]),
            (Group::UserCopy, "libc.so.6", &["__memmove_avx_unaligned_erms"]),
            (
                Group::KernelLock,
                "kernel",
                &["native_queued_spin_lock_slowpath", "rwsem_optimistic_spin", "osq_lock"],
            ),
            (Group::UserLock, "libc.so.6", &["___pthread_mutex_lock", "__lll_lock_wait"]),
            (Group::UserLockWait, "server", &["sync.(*Mutex).lockSlow", "pthread_spin_lock"]),
            (Group::Firewall, "kernel", &["nft_do_chain", "ipt_do_table", "nft_meta_get_eval"]),
            (Group::PageFault, "kernel", &["clear_page_erms", "folio_zero_user"]),
            (
                Group::GarbageCollection,
                "server",
                &[
                    "runtime.scanObjectsSmall",
                    "internal/runtime/gc/scan.scanSpanPackedAVX512.abi0",
                    "runtime.gcDrain",
                    "v8::internal::Scavenger::Process(v8::JobDelegate*)",
                ],
            ),
            (
                Group::ProbeEntry,
                "kernel",
                &["trace_call_bpf", "bpf_trace_run2", "kprobe_ftrace_handler"],
            ),
            (
                Group::Probe,
                "kernel",
                &["__bpf_get_stackid", "is_ftrace_trampoline", "orc_find.part.0"],
            ),
            (Group::SoftwareCrypto, "libcrypto.so.3", &["vpaes_encrypt", "AES_encrypt"]),
        ];
        for (group, file, names) in real {
            for name in names {
                let function = FunctionTime { name: (*name).to_owned(), ..function(file) };
                assert!(group.holds(&function), "{name}");
                assert_eq!(class_of(name, file), group.kind().0, "{name}");
            }
        }
        let mutex = FunctionTime { name: "pthread_mutex_lock".to_owned(), ..function("libc.so.6") };
        assert!(!Group::UserLockWait.holds(&mutex));
        // These also run without contention and do not indicate waiting.
        for name in ["_raw_spin_lock", "mutex_lock", "nf_conntrack_in", "crc32c_x86_3way"] {
            let function = FunctionTime { name: name.to_owned(), ..function(KERNEL) };
            let groups = [Group::KernelLock, Group::Firewall, Group::Checksum];
            assert!(!groups.iter().any(|group| group.holds(&function)), "{name}");
        }
    }

    #[test]
    fn libraries_of_ciphers_are_known_by_their_file() {
        for (file, is_one) in [
            ("/usr/lib/x86_64-linux-gnu/libcrypto.so.3", true),
            ("libgcrypt.so.20", true),
            ("libc.so.6", false),
            ("kernel", false),
        ] {
            assert_eq!(is_of_crypto_library(&function(file)), is_one, "{file}");
        }
    }

    fn function(file: &str) -> FunctionTime {
        FunctionTime { name: String::new(), file: file.to_owned(), share: 0.5, is_polling: None }
    }
}
