// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classifies functions by kind of work, by matching their names and files against
//! data/cost-classes.txt.

use linerate_record::profile::CostClass;
use std::sync::LazyLock;

const LIST: &str = include_str!("../data/cost-classes.txt");
/// File name that stands for the kernel.
const KERNEL: &str = "kernel";
/// Suffixes that compilers append when outlining or cloning functions.
const COMPILED: [&str; 7] = [".constprop", ".isra", ".part", ".cold", ".lto_priv", ".llvm", "@@"];

/// A line of data/cost-classes.txt.
struct Rule {
    class: CostClass,
    /// Subdivision of the class, if any.
    part: Option<&'static str>,
    file: File,
    patterns: Vec<Pattern>,
}

/// The file that a function must belong to for the rule to apply.
enum File {
    Kernel,
    User,
    Named(&'static str),
}

enum Pattern {
    Whole(&'static str),
    Begins(&'static str),
    Ends(&'static str),
}

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| LIST.lines().filter_map(rule).collect());

/// Returns the kind of work done by the function `name` in `file`.
pub fn class_of(name: &str, file: &str) -> CostClass {
    class_and_part(name, file).0
}

/// Returns the cost class of the function `name` in `file`, and its subdivision if the list has
/// one.
pub fn class_and_part(name: &str, file: &str) -> (CostClass, Option<&'static str>) {
    let name = COMPILED.iter().fold(name, |name, end| name.split(end).next().unwrap_or(name));
    let holds = |rule: &&Rule| rule.file.holds(file) && rule.patterns.iter().any(|p| p.holds(name));
    let other = if file == KERNEL { CostClass::Kernel } else { CostClass::Program };
    RULES.iter().find(holds).map_or((other, None), |rule| (rule.class, rule.part))
}

/// Returns the kind of work to which the list assigns an entire file, such as a crypto library;
/// `None` for other files.
pub fn class_of_file(file: &str) -> Option<CostClass> {
    let is_named = |rule: &&Rule| matches!(rule.file, File::Named(_)) && rule.file.holds(file);
    RULES.iter().find(is_named).map(|rule| rule.class)
}

impl File {
    fn holds(&self, file: &str) -> bool {
        match self {
            Self::Kernel => file == KERNEL,
            Self::User => file != KERNEL,
            Self::Named(begin) => file.starts_with(begin),
        }
    }
}

impl Pattern {
    fn holds(&self, name: &str) -> bool {
        match self {
            Self::Whole(whole) => name == *whole,
            Self::Begins(begin) => begins(name, begin),
            Self::Ends(end) => name.ends_with(end),
        }
    }
}

/// Returns whether a name starts with `pattern`, in which `?` matches any character.
fn begins(name: &str, pattern: &str) -> bool {
    let mut name = name.chars();
    pattern.chars().all(|wanted| name.next().is_some_and(|c| wanted == '?' || wanted == c))
}

/// Parses a line of the list; `None` for empty lines and comments.
fn rule(line: &'static str) -> Option<Rule> {
    let mut words = line.split_whitespace().take_while(|word| !word.starts_with('#'));
    let kind = words.next()?;
    let (class, part) =
        kind.split_once('/').map_or((kind, None), |(kind, part)| (kind, Some(part)));
    let class = CostClass::ALL.into_iter().find(|one| one.name() == class)?;
    let file = match words.next()? {
        KERNEL => File::Kernel,
        "user" => File::User,
        name => File::Named(name),
    };
    let pattern = |word: &'static str| match (word.strip_prefix('*'), word.strip_suffix('*')) {
        (_, Some(begin)) => Pattern::Begins(begin.trim_start_matches('*')),
        (Some(end), None) => Pattern::Ends(end),
        (None, None) => Pattern::Whole(word),
    };
    Some(Rule { class, part, file, patterns: words.map(pattern).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use CostClass::*;

    #[test]
    fn every_line_of_the_list_is_a_rule() {
        let lines = LIST.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        for line in lines {
            let rule = rule(line).unwrap_or_else(|| panic!("{line}"));
            assert!(!rule.patterns.is_empty(), "{line}");
        }
        let has_rule = |class: &CostClass| RULES.iter().any(|rule| rule.class == *class);
        assert!(CostClass::ALL.iter().all(|class| *class == Program || has_rule(class)));
    }

    /// Names from /proc/kallsyms of Linux 6.18 and 6.1.
    #[test]
    fn functions_of_the_kernel_have_their_kind() {
        let real: [(CostClass, &[&str]); 17] = [
            (Copy, &["_copy_to_iter", "rep_movs_alternative", "copyout", "_copy_from_user"]),
            (Copy, &["copy_page_to_iter", "copy_page_from_iter", "copy_page_from_iter_atomic"]),
            (Checksum, &["csum_partial", "skb_checksum", "csum_partial_copy_generic", "do_csum"]),
            (Allocation, &["kmem_cache_free", "kmem_cache_alloc_noprof", "__slab_alloc.isra.0"]),
            (Allocation, &["skb_release_data", "get_page_from_freelist", "page_pool_put_page"]),
            (Lock, &["native_queued_spin_lock_slowpath", "_raw_spin_lock_bh", "futex_wake"]),
            (SystemCallEntry, &["entry_SYSCALL_64_after_hwframe", "do_syscall_64", "x64_sys_call"]),
            (PageFault, &["clear_page_erms", "asm_exc_page_fault", "filemap_map_pages"]),
            (PageFault, &["copy_page", "copy_page_rep", "copy_page_range"]),
            (
                Filter,
                &["nft_do_chain", "nf_conntrack_in", "__nf_conntrack_find_get", "nf_hook_slow"],
            ),
            (
                Segmentation,
                &["skb_segment", "dev_gro_receive", "tcp_gso_segment", "napi_gro_complete"],
            ),
            (Filter, &["tcp_mt", "comment_mt", "conntrack_mt_v3", "tproxy_tg4_v1", "log_tg"]),
            (Crypto, &["aes_gcm_enc_update_vaes_avx512", "chacha_2block_xor_avx512vl"]),
            (Driver, &["virtnet_poll", "veth_xmit", "__netif_receive_skb_core.constprop.0"]),
            (Scheduler, &["__schedule", "try_to_wake_up", "finish_task_switch.isra.0"]),
            (Polling, &["do_epoll_wait", "ep_poll", "sk_busy_loop_end"]),
            (Idle, &["pv_native_safe_halt", "default_idle"]),
        ];
        for (class, names) in real {
            for name in names {
                assert_eq!(class_of(name, "kernel"), class, "{name}");
            }
        }
        for name in ["tcp_ack", "vfs_read", "udp_recvmsg", "_raw_spin_unlock_irqrestore"] {
            assert_eq!(class_of(name, "kernel"), Kernel, "{name}");
        }
    }

    /// Names from glibc, libcrypto, DPDK, Go and Rust.
    #[test]
    fn functions_of_libraries_have_their_kind() {
        let real = [
            ("__memcpy_avx512_unaligned_erms", "libc.so.6", Copy),
            ("runtime.memmove", "wireguard-go", Copy),
            ("_int_malloc", "libc.so.6", Allocation),
            ("cfree@@GLIBC_2.2.5", "libc.so.6", Allocation),
            ("runtime.mallocgc", "caddy", Allocation),
            ("___pthread_mutex_lock", "libc.so.6", Lock),
            ("aesni_ctr32_encrypt_blocks", "libcrypto.so.3", Crypto),
            ("libcrypto.so.3+0x1a2b0", "libcrypto.so.3", Crypto),
            ("golang.org/x/crypto/chacha20poly1305.(*chacha20poly1305).seal", "wg", Crypto),
            ("crypto/internal/fips140/bigmod.addMulVVW2048", "server", Crypto),
            ("vendor/golang.org/x/crypto/chacha20poly1305.chacha20Poly1305Open", "server", Crypto),
            ("bn_sqr8x_internal", "node", Crypto),
            ("ecp_nistz256_point_double", "haproxy", Crypto),
            ("bnxt_main", "router", Program),
            ("rte_pktmbuf_free", "librte_mbuf.so.23", Allocation),
            ("eth_af_packet_rx", "librte_net_af_packet.so.23", Polling),
            ("eth_af_packet_tx", "librte_net_af_packet.so.23", Driver),
            ("pthread_spin_lock", "libc.so.6", Lock),
            ("tokio::runtime::scheduler::multi_thread::worker::Context::run", "proxy", Scheduler),
            ("operator new(unsigned long)", "libstdc++.so.6", Allocation),
            ("operator delete(void*, unsigned long)", "libstdc++.so.6", Allocation),
            ("operator==(Route const&, Route const&)", "router", Program),
            ("std::mutex::lock()", "router", Lock),
            ("main", "loops", Program),
            ("dpdk-testpmd+0x7cd00", "dpdk-testpmd", Program),
            // A kernel function name has no special meaning in a program.
            ("nf_hook_slow", "loops", Program),
        ];
        for (name, file, class) in real {
            assert_eq!(class_of(name, file), class, "{name}");
        }
    }
}
