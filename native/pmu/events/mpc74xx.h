/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Events: MPC7450, 7455, 7447, 7457, 7447A, 7448 (PowerPC G4). Name, what a counter takes, prose.
 *
 * Source: MPC7450 RISC Microprocessor Family Reference Manual, MPC7450UM, chapter 11; AN2581 for
 * what the counters showed of TCP.
 *
 * Written by `cargo xtask events`; the place to change is
 * crates/counters/data/events/mpc74xx.toml.
 */
#ifndef LINERATE_PMU_EVENTS_MPC74XX_H
#define LINERATE_PMU_EVENTS_MPC74XX_H

/* E(name, code, prose) for each event. */
#define LR_MPC74XX_EVENTS(E) \
	E(PM_CYC, 0x001, \
	  "Cycles of the core's own clock, which changes with frequency, while it was not " \
	  "halted.") \
	E(PM_INST_CMPL, 0x002, \
	  "Instructions completed. Branches that were folded away are not in it: see " \
	  "pm_br_folded.") \
	E(PM_BR_CMPL, 0x122, \
	  "Branches completed.") \
	E(PM_BR_MPRED, 0x41c, \
	  "Branches whose direction or target was predicted wrongly.") \
	E(PM_BR_FOLDED, 0x41d, \
	  "Branches folded away: taken out of the stream before they cost a slot.") \
	E(PM_BR_UNRESOLVED, 0x117, \
	  "Branches that were not resolved yet when they were processed.") \
	E(PM_LINK_STACK_MPRED, 0x31f, \
	  "Returns whose target the link stack predicted wrongly.") \
	E(PM_LD_CMPL, 0x21a, \
	  "Load instructions completed. An AltiVec load of 16 octets counts once, as the " \
	  "scalar one of 4 does.") \
	E(PM_ST_CMPL, 0x014, \
	  "Store instructions. An AltiVec store of 16 octets counts once, as the scalar one of " \
	  "4 does.") \
	E(PM_MISALIGNED_LD, 0x157, \
	  "Loads that had to be taken apart because of their alignment.") \
	E(PM_MISALIGNED_ST, 0x158, \
	  "Stores that had to be taken apart because of their alignment.") \
	E(PM_L1_DCACHE_MISS, 0x217, \
	  "Misses of the 32 KiB data cache, loads and stores.") \
	E(PM_L1_DCACHE_LD_MISS, 0x225, \
	  "Loads that missed in the data cache.") \
	E(PM_L1_DCACHE_ST_MISS, 0x227, \
	  "Stores that missed in the data cache.") \
	E(PM_L1_DCACHE_HIT, 0x138, \
	  "Hits of the data cache, loads, stores and touches.") \
	E(PM_L1_DCACHE_LD_HIT, 0x135, \
	  "Loads that hit in the data cache.") \
	E(PM_L1_DCACHE_ST_HIT, 0x137, \
	  "Stores that hit in the data cache.") \
	E(PM_L1_DCACHE_TOUCH_HIT, 0x136, \
	  "Touches (software prefetches) that hit in the data cache.") \
	E(PM_L1_ICACHE_ACCESS, 0x129, \
	  "Accesses to the first-level instruction cache.") \
	E(PM_L1_ICACHE_MISS, 0x015, \
	  "Misses of the 32 KiB instruction cache.") \
	E(PM_L2_MISS, 0x513, \
	  "Accesses that the L2 cache could not serve.") \
	E(PM_L2_HIT, 0x502, \
	  "Accesses that the L2 cache served.") \
	E(PM_L2_DCACHE_MISS, 0x506, \
	  "Data accesses that the L2 cache could not serve.") \
	E(PM_L2_ICACHE_MISS, 0x504, \
	  "Fetches that the L2 cache could not serve.") \
	E(PM_L3_HIT, 0x503, \
	  "Accesses that the L3 cache served. The 7447 and 7448 have none.") \
	E(PM_L3_MISS, 0x514, \
	  "Accesses that the L3 cache could not serve. The 7447 and 7448 have none.") \
	E(PM_DTLB_MISS, 0x312, \
	  "Data addresses that were not in the TLB of 128 entries.") \
	E(PM_ITLB_MISS, 0x223, \
	  "Instruction addresses that were not in the TLB of 128 entries, those on a wrong " \
	  "path left out.") \
	E(PM_INST_DISP, 0x004, \
	  "Instructions dispatched, those thrown away later included.") \
	E(PM_TB_BIT_TRANS, 0x003, \
	  "Changes of the bit of the time base that MMCR0 selects.") \
	E(PM_VPU_CMPL, 0x008, \
	  "AltiVec permute instructions completed.") \
	E(PM_VFPU_CMPL, 0x009, \
	  "AltiVec floating-point instructions completed.") \
	E(PM_VIU1_CMPL, 0x00a, \
	  "Simple AltiVec integer instructions completed.") \
	E(PM_VIU2_CMPL, 0x00b, \
	  "Complex AltiVec integer instructions completed: multiplications and sums across.") \
	E(PM_VPU_CYC, 0x00e, \
	  "Cycles in which an AltiVec permute instruction waited for an operand.") \
	E(PM_VFPU_CYC, 0x00f, \
	  "Cycles in which an AltiVec floating-point instruction waited for an operand.") \
	E(PM_VIU1_CYC, 0x010, \
	  "Cycles in which a simple AltiVec integer instruction waited for an operand.") \
	E(PM_VIU2_CYC, 0x011, \
	  "Cycles in which a complex AltiVec integer instruction waited for an operand.") \
	E(PM_ALTIVEC_LD_CMPL, 0x140, \
	  "AltiVec loads completed.") \
	E(PM_DATA_SNOOP, 0x016, \
	  "Snoops of the data cache by others on the bus.") \
	E(PM_WRITE_THROUGH_ST, 0x133, \
	  "Stores to pages that are written through.") \
	E(PM_CACHE_INHIBITED_ST, 0x134, \
	  "Stores to pages that are not cacheable.")

/* LR_MPC74XX_ and the name: the code. */
#define LR_MPC74XX_CODE(name, code, prose) LR_MPC74XX_##name = code,
enum lr_mpc74xx_event { LR_MPC74XX_EVENTS(LR_MPC74XX_CODE) };
#undef LR_MPC74XX_CODE

#endif
