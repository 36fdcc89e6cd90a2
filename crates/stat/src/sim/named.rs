// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processors whose caches and TLBs are known.
//!
//! Sources: ARM DDI 0301H (ARM1176JZF-S; the L2 of the BCM2835 serves its graphics processor), DDI
//! 0464F (Cortex-A7), DDI 0500J (Cortex-A53), 100095 (Cortex-A72), each with the sizes of the named
//! chip; MPC7450 RISC Microprocessor Family Reference Manual, chapters 3 and 5; OpenSPARC T1 and T2
//! Microarchitecture Specifications; AMD 58455 (Software Optimization Guide for Zen 5), chapter 2.
//! Pseudo-LRU is simulated as LRU.

use linerate_record::stat::{CacheShape, Contents, Replacement, Writes};

use Contents::{Any, Inclusive, Victim};
use Replacement::{Fifo, Lru, Random};

/// A processor whose caches and TLBs are known.
pub(super) struct Named {
    pub(super) name: &'static str,
    /// Alternative name of the processor.
    pub(super) alias: Option<&'static str>,
    pub(super) prose: &'static str,
    /// Cache levels: L1I, L1D, then those beyond L1.
    pub(super) levels: &'static [Level],
    pub(super) writes: Writes,
    pub(super) tlbs: &'static [Tlb],
    pub(super) page_bytes: u64,
    /// An emulator that supports this processor, and its name for the processor.
    pub(super) processor: Option<(&'static str, &'static str)>,
    /// How every simulation of the processor differs from the hardware.
    pub(super) note: &'static str,
    /// Additional differences if all caches are simulated with LRU and write-allocate.
    pub(super) simple_note: &'static str,
}

/// A cache: its shape, replacement policy and inclusion policy.
pub(super) struct Level(pub(super) CacheShape, pub(super) Replacement, pub(super) Contents);

/// A TLB: its name, number of entries, entries per set, and replacement policy.
pub(super) struct Tlb(
    pub(super) &'static str,
    pub(super) u32,
    pub(super) u32,
    pub(super) Replacement,
);

pub(super) const fn shape(kilobytes: u64, ways: u32, line_bytes: u32) -> CacheShape {
    CacheShape { bytes: kilobytes << 10, ways, line_bytes }
}

const ITLB: &str = "ITLB";
const DTLB: &str = "DTLB";
const TLB2: &str = "TLB2";

pub(super) static NAMED: [Named; 8] = [
    Named {
        name: "arm1176",
        alias: None,
        prose: "ARM1176JZF-S in the BCM2835 (Raspberry Pi)",
        levels: &[Level(shape(16, 4, 32), Random, Any), Level(shape(16, 4, 32), Random, Any)],
        writes: Writes::Around,
        tlbs: &[Tlb(ITLB, 10, 10, Fifo), Tlb(DTLB, 10, 10, Fifo), Tlb(TLB2, 64, 2, Lru)],
        page_bytes: 4096,
        processor: Some(("qemu-arm", "arm1176")),
        note: "",
        simple_note: "a real ARM1176 does not allocate on a write miss",
    },
    Named {
        name: "cortex_a7",
        alias: None,
        prose: "Cortex-A7 in the BCM2836 (Raspberry Pi 2)",
        levels: &[
            Level(shape(32, 2, 32), Random, Any),
            Level(shape(32, 4, 64), Random, Any),
            Level(shape(512, 8, 64), Random, Any),
        ],
        writes: Writes::Allocate,
        tlbs: &[Tlb(ITLB, 10, 10, Lru), Tlb(DTLB, 10, 10, Lru), Tlb(TLB2, 256, 2, Lru)],
        page_bytes: 4096,
        processor: Some(("qemu-arm", "cortex-a7")),
        note: "",
        simple_note: "",
    },
    Named {
        name: "cortex_a53",
        alias: None,
        prose: "Cortex-A53 in the BCM2837 (Raspberry Pi 3)",
        levels: &[
            Level(shape(32, 2, 64), Random, Any),
            Level(shape(32, 4, 64), Random, Any),
            Level(shape(512, 16, 64), Random, Any),
        ],
        writes: Writes::Allocate,
        tlbs: &[Tlb(ITLB, 10, 10, Lru), Tlb(DTLB, 10, 10, Lru), Tlb(TLB2, 512, 4, Lru)],
        page_bytes: 4096,
        processor: Some(("qemu-aarch64", "cortex-a53")),
        note: "",
        simple_note: "",
    },
    Named {
        name: "cortex_a72",
        alias: None,
        prose: "Cortex-A72 in the BCM2711 (Raspberry Pi 4)",
        levels: &[
            Level(shape(48, 3, 64), Lru, Any),
            Level(shape(32, 2, 64), Lru, Any),
            Level(shape(1024, 16, 64), Lru, Inclusive),
        ],
        writes: Writes::Allocate,
        tlbs: &[Tlb(ITLB, 48, 48, Lru), Tlb(DTLB, 32, 32, Lru), Tlb(TLB2, 1024, 4, Lru)],
        page_bytes: 4096,
        processor: Some(("qemu-aarch64", "cortex-a72")),
        note: "",
        simple_note: "",
    },
    Named {
        name: "g4",
        alias: None,
        prose: "MPC7455, a PowerPC G4, without its L3",
        levels: &[
            Level(shape(32, 8, 32), Lru, Any),
            Level(shape(32, 8, 32), Lru, Any),
            Level(shape(256, 8, 32), Lru, Any),
        ],
        writes: Writes::Allocate,
        tlbs: &[Tlb(ITLB, 128, 2, Lru), Tlb(DTLB, 128, 2, Lru)],
        page_bytes: 4096,
        processor: Some(("qemu-ppc", "7455")),
        note: "L2 lines have two 32-byte sectors that are filled separately; each sector is \
               simulated as a line",
        simple_note: "",
    },
    Named {
        name: "ultrasparc_t1",
        alias: Some("t1"),
        prose: "one core of an UltraSPARC T1, with the whole L2",
        levels: &[
            Level(shape(16, 4, 32), Random, Any),
            Level(shape(8, 4, 16), Random, Any),
            Level(shape(3 << 10, 12, 64), Lru, Inclusive),
        ],
        writes: Writes::Through,
        tlbs: &[Tlb(ITLB, 64, 64, Lru), Tlb(DTLB, 64, 64, Lru)],
        page_bytes: 8192,
        processor: None,
        note: "",
        simple_note: "a real UltraSPARC has a write-through L1",
    },
    Named {
        name: "ultrasparc_t2",
        alias: Some("t2"),
        prose: "one core of an UltraSPARC T2, with the whole L2",
        levels: &[
            Level(shape(16, 8, 32), Random, Any),
            Level(shape(8, 4, 16), Random, Any),
            Level(shape(4 << 10, 16, 64), Lru, Inclusive),
        ],
        writes: Writes::Through,
        tlbs: &[Tlb(ITLB, 64, 64, Lru), Tlb(DTLB, 128, 128, Lru)],
        page_bytes: 8192,
        processor: None,
        note: "",
        simple_note: "a real UltraSPARC has a write-through L1",
    },
    Named {
        name: "zen5",
        alias: None,
        prose: "one core of a Zen 5, with an L3 of 32 MiB",
        levels: &[
            Level(shape(32, 8, 64), Lru, Any),
            Level(shape(48, 12, 64), Lru, Any),
            Level(shape(1024, 16, 64), Lru, Inclusive),
            Level(shape(32 << 10, 16, 64), Lru, Victim),
        ],
        writes: Writes::Allocate,
        tlbs: &[Tlb(ITLB, 64, 64, Lru), Tlb(DTLB, 96, 96, Lru), Tlb(TLB2, 4096, 16, Lru)],
        page_bytes: 4096,
        processor: None,
        note: "the simulated second-level TLB is shared by instructions and data; a Zen 5 has one \
               for each",
        simple_note: "",
    },
];
