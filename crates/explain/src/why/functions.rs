// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups of functions that indicate a cause. The names are those of the kernel (6.1 to 6.18) and
//! of libraries as shipped by Debian, matched by prefix.

use linerate_record::why::FunctionTime;

/// A group of functions that indicates one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Kernel checksums.
    Checksum,
    /// Copies between user and kernel space.
    KernelCopy,
    /// Copies within user space.
    UserCopy,
    /// Software segmentation.
    Segmentation,
    /// Page faults.
    PageFault,
    /// System call entry and exit.
    SystemCallEntry,
    /// Waiting for a kernel lock.
    KernelLock,
    /// User-space locks.
    UserLock,
    /// nftables and iptables rules.
    Firewall,
    /// Ciphers and hashes without hardware instructions.
    SoftwareCrypto,
}

/// Software implementations of ciphers in OpenSSL, BoringSSL and Go.
const SOFTWARE_CIPHERS: &[&str] = &[
    "AES_encrypt",
    "AES_decrypt",
    "_x86_64_AES_",
    "gcm_ghash_4bit",
    "gcm_gmult_4bit",
    "vpaes_",
    "bsaes_",
    "aes_nohw_",
    "gcm_ghash_nohw",
    "crypto/aes.encryptBlockGeneric",
    "golang.org/x/crypto/chacha20.(*Cipher).xorKeyStreamBlocksGeneric",
    "golang.org/x/crypto/poly1305.updateGeneric",
];

impl Group {
    /// Whether these are kernel functions, which require kernel samples.
    pub fn is_kernel(self) -> bool {
        !matches!(self, Self::UserCopy | Self::UserLock | Self::SoftwareCrypto)
    }

    /// Name prefixes of the group's functions.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Checksum => &[
                "csum_partial",
                "do_csum",
                "__skb_checksum",
                "skb_checksum",
                "skb_copy_and_csum",
                "csum_and_copy",
            ],
            Self::KernelCopy => &[
                "_copy_to_iter",
                "_copy_from_iter",
                "copy_user_",
                "rep_movs_alternative",
                "copyin",
                "copyout",
                "__copy_user",
                "_copy_from_user",
                "_copy_to_user",
                "skb_copy_datagram",
            ],
            Self::UserCopy => {
                &["__memcpy_", "memcpy", "__memmove_", "memmove", "rte_memcpy", "rte_mov"]
            }
            Self::Segmentation => {
                &["skb_segment", "__skb_gso_segment", "skb_mac_gso_segment", "validate_xmit_skb"]
            }
            Self::PageFault => &[
                "asm_exc_page_fault",
                "exc_page_fault",
                "do_user_addr_fault",
                "handle_mm_fault",
                "__handle_mm_fault",
                "do_anonymous_page",
                "clear_page",
                "unmap_page_range",
                "zap_pte_range",
            ],
            Self::SystemCallEntry => {
                &["entry_SYSCALL_64", "do_syscall_64", "syscall_", "__x64_sys_", "x64_sys_call"]
            }
            Self::KernelLock => &[
                "native_queued_spin_lock_slowpath",
                "__pv_queued_spin_lock_slowpath",
                "queued_spin_lock_slowpath",
                "osq_lock",
                "rwsem_",
                "mutex_spin_on_owner",
            ],
            Self::UserLock => &[
                "pthread_mutex_lock",
                "___pthread_mutex_lock",
                "__pthread_mutex_lock",
                "__lll_lock_wait",
                "pthread_spin_lock",
                "pthread_rwlock",
                "__pthread_rwlock",
                "rte_spinlock_lock",
            ],
            Self::Firewall => &["nft_", "__nft_", "ipt_do_table", "ip6t_do_table"],
            Self::SoftwareCrypto => SOFTWARE_CIPHERS,
        }
    }

    /// Whether a sampled function belongs to the group.
    pub fn holds(self, function: &FunctionTime) -> bool {
        let is_of_kernel = function.file == KERNEL;
        is_of_kernel == self.is_kernel()
            && self.names().iter().any(|name| function.name.starts_with(name))
    }
}

/// File name used for kernel functions.
const KERNEL: &str = "kernel";

/// Crypto libraries.
const CRYPTO_LIBRARIES: [&str; 6] =
    ["libcrypto", "libgcrypt", "libnettle", "libsodium", "libmbedcrypto", "libwolfssl"];

/// Whether a function belongs to a crypto library, by its file.
pub(super) fn is_of_crypto_library(function: &FunctionTime) -> bool {
    let file = function.file.rsplit('/').next().unwrap_or_default();
    CRYPTO_LIBRARIES.iter().any(|library| file.starts_with(library))
}

/// Whether a function has no symbol: it is then named by file and offset.
pub(super) fn is_nameless(function: &FunctionTime) -> bool {
    function.name.contains("+0x")
}
