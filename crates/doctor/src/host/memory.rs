// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks for huge pages, with which the TLB can cover a data plane's buffers.

use super::Host;
use super::layout::binary;
use linerate_record::doctor::{Observation, Section};

const DATA_PLANE: Section = Section::DataPlane;

pub(super) fn observe(host: &Host) -> Vec<Observation> {
    let pools = pools(host);
    let always = [Some(reserved(host, &pools)), nodes(host, &pools), Some(transparent(host))];
    always.into_iter().flatten().collect()
}

const SIZES: &str = "sys/kernel/mm/hugepages";

/// The kernel's pool of huge pages of a given size.
struct Pool {
    bytes: u64,
    free: u64,
    all: u64,
}

fn pools(host: &Host) -> Vec<Pool> {
    let pool = |name: String| {
        let size = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<u64>().ok()?;
        let pages = |file: &str| host.root.number::<u64>(&format!("{SIZES}/{name}/{file}"));
        let (free, all) = (pages("free_hugepages")?, pages("nr_hugepages")?);
        let bytes = size.checked_mul(1024).filter(|bytes| *bytes > 0)?;
        Some(Pool { bytes, free, all })
    };
    let mut pools: Vec<Pool> = host.root.names(SIZES).into_iter().filter_map(pool).collect();
    pools.sort_unstable_by_key(|pool| pool.bytes);
    pools
}

impl Pool {
    /// Returns the name of the pool's directory below the huge page directory of the machine or of
    /// a NUMA node.
    fn folder(&self) -> String {
        format!("hugepages-{}kB", self.bytes / 1024)
    }
}

/// Returns the pool of the default huge page size. A program gets pages of this size unless it
/// requests another one. ARM also supports huge pages that are smaller than the default.
fn usual<'a>(host: &Host, pools: &'a [Pool]) -> Option<&'a Pool> {
    let size = meminfo(host, "Hugepagesize:");
    pools.iter().find(|pool| size == Some(pool.bytes)).or(pools.first())
}

/// Returns a size from /proc/meminfo, in bytes.
fn meminfo(host: &Host, key: &str) -> Option<u64> {
    let text = host.root.text("proc/meminfo")?;
    let size = text.lines().find_map(|line| line.strip_prefix(key))?;
    size.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Checks the huge pages reserved for programs that request them explicitly, such as DPDK
/// applications.
fn reserved(host: &Host, pools: &[Pool]) -> Observation {
    let Some(usual) = usual(host, pools) else {
        let sentence = "this kernel has no huge page pools";
        return DATA_PLANE.unknown("huge_pages", sentence);
    };
    let each = |pool: &Pool| format!("{} of {} ({})", pool.free, pool.all, binary(pool.bytes));
    let value = pools.iter().map(each).collect::<Vec<_>>().join(", ");
    if pools.iter().any(|pool| pool.free > 0) {
        let sentence = "huge pages are free for programs that allocate them explicitly, such as \
                        DPDK applications";
        return DATA_PLANE.good("huge_pages", value, sentence);
    }
    let file = format!("/{SIZES}/{}/nr_hugepages", usual.folder());
    let sentence = "no huge pages are free for programs that allocate them explicitly, such as \
                    DPDK applications (linerate needs none)";
    let fix = more_pages(host, usual)
        .map(|pages| format!("echo {} | sudo tee {file}", usual.all.saturating_add(pages)));
    DATA_PLANE.advice("huge_pages", value, sentence, fix)
}

/// Returns the number of huge pages to reserve in addition to the existing ones: 1 GiB in total, as
/// in DPDK's examples, but at most a quarter of the available memory, since reserved memory is
/// unavailable to other programs. `None` if this is less than a page, or if the available memory is
/// unknown.
fn more_pages(host: &Host, pool: &Pool) -> Option<u64> {
    let bytes = (meminfo(host, "MemAvailable:")? / 4).min(1 << 30);
    Some(bytes / pool.bytes).filter(|pages| *pages > 0)
}

/// Checks the distribution of the default huge pages over NUMA nodes. Returns no observation if
/// there is only one node, or if no page is free.
fn nodes(host: &Host, pools: &[Pool]) -> Option<Observation> {
    let usual = usual(host, pools).filter(|pool| pool.free > 0)?;
    let nodes = host.nodes();
    if nodes.len() < 2 {
        return None;
    }
    let file = |node: &str, file: &str| {
        format!("sys/devices/system/node/{node}/hugepages/{}/{file}", usual.folder())
    };
    let free = |node: &String| host.root.number::<u64>(&file(node, "free_hugepages"));
    let free: Vec<u64> = nodes.iter().map(free).collect::<Option<_>>()?;
    let each = free.iter().zip(&nodes).map(|(free, node)| format!("{free} on {node}"));
    let value = each.collect::<Vec<_>>().join(", ");
    let Some(empty) = free.iter().position(|free| *free == 0) else {
        let sentence = "every node has free huge pages, so buffers can be local to their NIC";
        return Some(DATA_PLANE.good("huge_pages_by_node", value, sentence));
    };
    let sentence =
        format!("{} has no free huge pages, so buffers for its NICs are remote", nodes[empty]);
    let target = file(&nodes[empty], "nr_hugepages");
    let fix = more_pages(host, usual).map(|pages| {
        let all = host.root.number::<u64>(&target).unwrap_or(0).saturating_add(pages);
        format!("echo {all} | sudo tee /{target}")
    });
    Some(DATA_PLANE.advice("huge_pages_by_node", value, &sentence, fix))
}

const TRANSPARENT: &str = "sys/kernel/mm/transparent_hugepage/enabled";

/// Checks transparent huge pages. The file contains the modes, such as `always [madvise] never`,
/// with the selected one in brackets.
fn transparent(host: &Host) -> Observation {
    let text = host.root.text(TRANSPARENT).unwrap_or_default();
    let chosen = text.split(' ').find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    match chosen {
        Some(chosen @ ("always" | "madvise")) => DATA_PLANE.good(
            "transparent_huge_pages",
            chosen,
            "buffers that request huge pages, as linerate's do, get them",
        ),
        Some(chosen) => DATA_PLANE.advice(
            "transparent_huge_pages",
            chosen,
            "buffers use small pages, which causes more TLB misses",
            Some(format!("echo madvise | sudo tee /{TRANSPARENT}")),
        ),
        None => DATA_PLANE.unknown(
            "transparent_huge_pages",
            "this kernel has no transparent huge pages, or does not report them",
        ),
    }
}
