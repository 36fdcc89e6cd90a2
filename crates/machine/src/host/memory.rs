// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages: large ones keep the translations of a data plane's buffers within reach.

use super::Host;
use super::layout::binary;
use linerate_record::doctor::{Observation, Section};

const DATA_PLANE: Section = Section::DataPlane;

pub(super) fn observe(host: &Host) -> Vec<Observation> {
    vec![reserved(host), transparent(host)]
}

const SIZES: &str = "sys/kernel/mm/hugepages";

/// Huge pages of one size.
struct Pool {
    octets: u64,
    free: u64,
    all: u64,
}

fn pools(host: &Host) -> Vec<Pool> {
    let pool = |name: String| {
        let size = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<u64>().ok()?;
        let pages = |file: &str| host.root.number::<u64>(&format!("{SIZES}/{name}/{file}"));
        let (free, all) = (pages("free_hugepages")?, pages("nr_hugepages")?);
        let octets = size.checked_mul(1024).filter(|octets| *octets > 0)?;
        Some(Pool { octets, free, all })
    };
    let mut pools: Vec<Pool> = host.root.names(SIZES).into_iter().filter_map(pool).collect();
    pools.sort_unstable_by_key(|pool| pool.octets);
    pools
}

/// Whether programs get pages of this pool when they name no size: on ARM there are smaller ones.
fn is_default(host: &Host, pool: &Pool) -> bool {
    let meminfo = host.root.text("proc/meminfo").unwrap_or_default();
    let size = meminfo.lines().find_map(|line| line.strip_prefix("Hugepagesize:"));
    let kib = size.and_then(|size| size.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib == Some(pool.octets / 1024)
}

/// Pages reserved for whoever asks (DPDK and its like do).
fn reserved(host: &Host) -> Observation {
    let pools = pools(host);
    let Some(usual) = pools.iter().find(|pool| is_default(host, pool)).or(pools.first()) else {
        let sentence = "this kernel has no huge pages to reserve";
        return DATA_PLANE.unknown("huge_pages", sentence);
    };
    let each = |pool: &Pool| format!("{} of {} ({})", pool.free, pool.all, binary(pool.octets));
    let value = pools.iter().map(each).collect::<Vec<_>>().join(", ");
    if pools.iter().any(|pool| pool.free > 0) {
        let sentence = "so many are free for programs that ask, as DPDK's do";
        return DATA_PLANE.good("huge_pages", value, sentence);
    }
    // A gibibyte in all, which is what DPDK's examples take.
    let pages = (1u64 << 30).div_ceil(usual.octets).max(1);
    let file = format!("/{SIZES}/hugepages-{}kB/nr_hugepages", usual.octets / 1024);
    let sentence = "none is free for programs that reserve them, as DPDK's do (linerate does not)";
    DATA_PLANE.advice(
        "huge_pages",
        value,
        sentence,
        Some(format!("echo {pages} | sudo tee {file}")),
    )
}

const TRANSPARENT: &str = "sys/kernel/mm/transparent_hugepage/enabled";

/// Pages that the kernel makes huge by itself: `always [madvise] never`, the choice in brackets.
fn transparent(host: &Host) -> Observation {
    let text = host.root.text(TRANSPARENT).unwrap_or_default();
    let chosen = text.split(' ').find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    match chosen {
        Some(chosen @ ("always" | "madvise")) => DATA_PLANE.good(
            "transparent_huge_pages",
            chosen,
            "buffers that ask for huge pages get them, as linerate's do",
        ),
        Some(chosen) => DATA_PLANE.advice(
            "transparent_huge_pages",
            chosen,
            "buffers lie in small pages: large tables miss the TLB more often",
            Some(format!("echo madvise | sudo tee /{TRANSPARENT}")),
        ),
        None => DATA_PLANE.unknown(
            "transparent_huge_pages",
            "this kernel makes no pages huge by itself, or does not say",
        ),
    }
}
