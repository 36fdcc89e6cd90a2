/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Events: MPC7400, 7410 (PowerPC G4). Name, what a counter takes, prose.
 *
 * Source: Apple, Shark User Guide, appendix PPC 7400 (G4) Performance Counter Event List; MPC7400
 * RISC Microprocessor User's Manual, section 11.5, as far as pages of it were at hand; AN2581,
 * whose matrix it holds.
 *
 * Written by `cargo xtask events`; the place to change is
 * native/pmu/events/mpc7400.toml.
 */
#ifndef LINERATE_PMU_EVENTS_MPC7400_H
#define LINERATE_PMU_EVENTS_MPC7400_H

/* E(name, code, prose) for each event. */
#define LR_MPC7400_EVENTS(E) \
	E(PM_CYC, 0x001, \
	  "Cycles of the core's own clock.") \
	E(PM_INST_CMPL, 0x002, \
	  "Instructions completed. Branches that were folded away are not in it.") \
	E(PM_TB_BIT_TRANS, 0x003, \
	  "Changes from 0 to 1 of the bit of the time base that MMCR0 selects.") \
	E(PM_INST_DISP, 0x004, \
	  "Instructions dispatched, those thrown away later included.") \
	E(PM_EIEIO_CMPL, 0x105, \
	  "Instructions eieio completed. (By one source: shark.)") \
	E(PM_ITLB_SEARCH_CYC, 0x106, \
	  "Cycles in which the processor searched the page table for an instruction. (By one " \
	  "source: shark.)") \
	E(PM_VPU_CMPL, 0x107, \
	  "AltiVec permute instructions completed. (By one source: shark.)") \
	E(PM_VSIU_CYC, 0x108, \
	  "Cycles in which a simple AltiVec integer instruction waited for an operand. (By one " \
	  "source: shark.)") \
	E(PM_IABR_MATCH, 0x109, \
	  "Matches of the instruction address breakpoint. (By one source: shark.)") \
	E(PM_DABR_MATCH, 0x10a, \
	  "Matches of the data address breakpoint. (By one source: shark.)") \
	E(PM_LD_MISS_EXCEED_L1, 0x10b, \
	  "Loads that missed in the data cache and took longer than the threshold.") \
	E(PM_BR_UNRESOLVED, 0x10c, \
	  "Branches that were not resolved yet when they were processed.") \
	E(PM_DISP_STALL_BRANCH, 0x10d, \
	  "Cycles in which dispatch waited because a second branch was not resolved.") \
	E(PM_MFVSCR_SYNC_CYC, 0x10e, \
	  "Cycles in which mfvscr waited for the instructions before it.") \
	E(PM_MTVSCR_CMPL, 0x10f, \
	  "Instructions mtvscr completed.") \
	E(PM_MTVRSAVE_CMPL, 0x110, \
	  "Instructions completed that write VRSAVE.") \
	E(PM_VSCR_SAT_SET, 0x111, \
	  "Changes of VSCR[SAT] from 0 to 1: a vector instruction saturated.") \
	E(PM_L1_CLEAN_CASTOUT, 0x112, \
	  "Clean lines thrown out of the data cache into the L2 cache.") \
	E(PM_ITLB_SEARCH_EXCEED, 0x113, \
	  "Searches of the page table for an instruction that took longer than the threshold.") \
	E(PM_DTLB_SEARCH_EXCEED, 0x114, \
	  "Searches of the page table for data that took longer than the threshold. (By one " \
	  "source: shark.)") \
	E(PM_ST_CMPL, 0x115, \
	  "Store instructions completed.") \
	E(PM_L1_DCACHE_LD_HIT, 0x116, \
	  "Loads that hit in the data cache. (By one source: shark.)") \
	E(PM_L1_DCACHE_ST_HIT, 0x117, \
	  "Stores that hit in the data cache. (By one source: shark.)") \
	E(PM_L1_DCACHE_HIT, 0x118, \
	  "Hits of the data cache.") \
	E(PM_L2_TAG_LOOKUP, 0x119, \
	  "Look-ups of the tags of the L2 cache. (By one source: shark.)") \
	E(PM_L2_TAG_ACCESS, 0x11a, \
	  "Accesses to the tags of the L2 cache. (By one source: shark.)") \
	E(PM_BUS_RD_WR, 0x11b, \
	  "Transactions on the bus that were not retried. (By one source: shark.)") \
	E(PM_BUS_TA_SINGLE_RD, 0x11c, \
	  "Acknowledgements (TA) of reads of a single beat. (By one source: shark.)") \
	E(PM_LFQ_RELOAD_HIT, 0x11d, \
	  "Loads that waited in the load fold queue for a line under way, and got it. (By one " \
	  "source: shark.)") \
	E(PM_L1_DCACHE_ST_SHARED, 0x11e, \
	  "Stores that hit a shared line of the data cache. (By one source: shark.)") \
	E(PM_WRITE_THROUGH_ST, 0x11f, \
	  "Stores to pages that are written through. (By one source: shark.)") \
	E(PM_L1_ICACHE_MISS, 0x120, \
	  "Misses of the instruction cache.") \
	E(PM_L2_DCACHE_HIT, 0x121, \
	  "Data accesses that the L2 cache served. (By one source: shark.)") \
	E(PM_L2_ICACHE_MISS, 0x122, \
	  "Fetches that the L2 cache could not serve.") \
	E(PM_L1_CASTOUT_L2_HIT, 0x123, \
	  "Lines thrown out of the data cache that the L2 cache had. (By one source: shark.)") \
	E(PM_L2_ALLOC, 0x124, \
	  "Lines put into the L2 cache. (By one source: shark.)") \
	E(PM_BIU_STALL, 0x125, \
	  "AN2581: stalls of the bus interface; Apple: cycles in which the branch unit waited " \
	  "for a speculated load. Which is right is not known.") \
	E(PM_DST_DISP, 0x126, \
	  "Instructions dispatched that begin a stream of prefetches: dst, dstt, dstst and " \
	  "dststt. (By one source: shark.)") \
	E(PM_DST0_FETCH, 0x127, \
	  "Cache lines fetched for stream 0. (By one source: shark.)") \
	E(PM_DST_REFRESH, 0x128, \
	  "Streams that were restarted while they ran. (By one source: shark.)") \
	E(PM_VTQ_SUSPEND, 0x129, \
	  "Streams suspended because the processor went to another context. (By one source: " \
	  "shark.)") \
	E(PM_SNOOP_REQ, 0x12a, \
	  "Snoops asked for by others on the bus. (By one source: shark.)") \
	E(PM_WOP_PUSH, 0x12b, \
	  "Lines written out in the window of opportunity behind a snoop that was retried. (By " \
	  "one source: shark.)") \
	E(PM_L2_CASTOUT_SNOOP_HIT, 0x12c, \
	  "Snoops that hit a line being thrown out of the L2 cache. (By one source: shark.)") \
	E(PM_INT_LOCAL, 0x12d, \
	  "Interventions: snoops that this processor answered with the data. (By one source: " \
	  "shark.)") \
	E(PM_LFQ_TOUCH_HIT, 0x12e, \
	  "Touches that hit in the load fold queue. (By one source: shark.)") \
	E(PM_L1_QUEUE_SNOOP_HIT, 0x12f, \
	  "Snoops that hit in the queue of operations of the data cache. (By one source: " \
	  "shark.)") \
	E(PM_ALTIVEC_LD_CMPL, 0x130, \
	  "AltiVec loads completed.") \
	E(PM_BR_FALL_THROUGH, 0x205, \
	  "Branches that were not taken.") \
	E(PM_ITLB_MISS, 0x206, \
	  "Instruction addresses that were not in the TLB.") \
	E(PM_VSIU_CMPL, 0x207, \
	  "Simple AltiVec integer instructions completed.") \
	E(PM_VCIU_CYC, 0x208, \
	  "Cycles in which a complex AltiVec integer instruction waited for an operand.") \
	E(PM_PRIV_SWITCH, 0x209, \
	  "Changes between user and supervisor.") \
	E(PM_LWARX_CMPL, 0x20a, \
	  "Loads completed that reserve.") \
	E(PM_LD_CMPL, 0x20b, \
	  "Load instructions completed.") \
	E(PM_SNOOP_SERVICED, 0x20c, \
	  "Snoops answered by the data cache and the L2 cache.") \
	E(PM_L1_DIRTY_CASTOUT, 0x20d, \
	  "Modified lines thrown out of the data cache into the L2 cache.") \
	E(PM_SRU_CMPL, 0x20e, \
	  "Instructions completed of the unit for system registers.") \
	E(PM_L1_DCACHE_LD_MISS, 0x20f, \
	  "Loads that missed in the data cache, those on a wrong path included.") \
	E(PM_L1_DCACHE_ST_MISS, 0x210, \
	  "Stores that missed in the data cache.") \
	E(PM_L1_DCACHE_MISS, 0x211, \
	  "Misses of the data cache.") \
	E(PM_L2_TAG_WRITE, 0x212, \
	  "Writes to the tags of the L2 cache. (By one source: shark.)") \
	E(PM_L2_SRAM_RD_CYC, 0x213, \
	  "Cycles in which the memory of the L2 cache was read. (By one source: shark.)") \
	E(PM_BUS_RETRY, 0x214, \
	  "Transactions of this processor that had to be tried again. (By one source: shark.)") \
	E(PM_BUS_TA_BURST_RD, 0x215, \
	  "Acknowledgements (TA) of reads of several beats. (By one source: shark.)") \
	E(PM_DRT_ST_MERGE, 0x216, \
	  "Stores that missed and were put together with a line under way, in the data reload " \
	  "table. (By one source: shark.)") \
	E(PM_L2_ST_SHARED, 0x217, \
	  "Writes that hit a shared line of the L2 cache. (By one source: shark.)") \
	E(PM_CACHE_INHIBITED_ST, 0x218, \
	  "Stores to pages that are not cacheable. (By one source: shark.)") \
	E(PM_L1_ICACHE_RELOAD, 0x219, \
	  "Lines put into the instruction cache.") \
	E(PM_L2_DCACHE_MISS, 0x21a, \
	  "Data accesses that the L2 cache could not serve.") \
	E(PM_L2_ICACHE_HIT, 0x21b, \
	  "Fetches that the L2 cache served. (By one source: shark.)") \
	E(PM_L1_CASTOUT_L2_MISS, 0x21c, \
	  "Lines thrown out of the data cache that the L2 cache did not have. (By one source: " \
	  "shark.)") \
	E(PM_L2_CASTOUT, 0x21d, \
	  "Sectors thrown out of the L2 cache. (By one source: shark.)") \
	E(PM_VTQ_FETCH_MISS, 0x21e, \
	  "Lines that a stream asked for and that were not in the data cache. (By one source: " \
	  "shark.)") \
	E(PM_DST1_FETCH, 0x21f, \
	  "Cache lines fetched for stream 1. (By one source: shark.)") \
	E(PM_VTQ_FETCH, 0x220, \
	  "Lines that a stream asked for. (By one source: shark.)") \
	E(PM_VTQ_CANCEL, 0x221, \
	  "Streams ended before they were through. (By one source: shark.)") \
	E(PM_VFPU_TRAP, 0x222, \
	  "Traps of the AltiVec floating-point unit. (By one source: shark.)") \
	E(PM_DRT_SNOOP_HIT, 0x223, \
	  "Snoops that hit in the data reload table. (By one source: shark.)") \
	E(PM_INT_MOD, 0x224, \
	  "Interventions with a modified line. (By one source: shark.)") \
	E(PM_SNOOP_HIT, 0x225, \
	  "Snoops that hit.") \
	E(PM_SPEC1_CORRECT, 0x226, \
	  "Speculated branches of the first buffer that were predicted rightly. (By one " \
	  "source: shark.)") \
	E(PM_VTQ_RESUME, 0x227, \
	  "Streams that went on because the processor came back to their context.") \
	E(PM_TLBIE_CMPL, 0x228, \
	  "Instructions completed that invalidate a TLB entry.") \
	E(PM_TLBIE_SNOOP, 0x229, \
	  "Invalidations of TLB entries by others on the bus.") \
	E(PM_BUS_TA, 0x22a, \
	  "Acknowledgements (TA) of reads and writes; Apple: of reads.") \
	E(PM_BR_TAKEN, 0x305, \
	  "Branches that were taken.") \
	E(PM_DTLB_MISS, 0x306, \
	  "Data addresses that were not in the TLB.") \
	E(PM_VCIU_CMPL, 0x307, \
	  "Complex AltiVec integer instructions completed.") \
	E(PM_VFPU_CYC, 0x308, \
	  "Cycles in which an AltiVec floating-point instruction waited for an operand.") \
	E(PM_TLBSYNC_CMPL, 0x30a, \
	  "Instructions tlbsync completed.") \
	E(PM_FPU_CMPL, 0x30b, \
	  "Floating-point instructions completed.") \
	E(PM_STWCX_CMPL, 0x30c, \
	  "Instructions stwcx. completed, which store if the reservation stands.") \
	E(PM_L2_EXT_INT, 0x30d, \
	  "Interventions with data of the L2 cache.") \
	E(PM_SPEC2_CORRECT, 0x30e, \
	  "Speculated branches of the second buffer that were predicted rightly. (By one " \
	  "source: shark.)") \
	E(PM_LR_CTR_STALL, 0x30f, \
	  "Cycles in which the branch unit waited for the link or the counter register.") \
	E(PM_L1_DCACHE_TOUCH_HIT, 0x310, \
	  "Touches that hit in the data cache. (By one source: shark.)") \
	E(PM_L1_DCACHE_OP_CYC, 0x311, \
	  "Cycles that cache instructions took in the data cache. (By one source: shark.)") \
	E(PM_L1_DCACHE_CYC, 0x312, \
	  "Cycles in which the data cache was busy. (By one source: shark.)") \
	E(PM_L2_TAG_SNOOP, 0x313, \
	  "Snoops of the tags of the L2 cache. (By one source: shark.)") \
	E(PM_L2_SRAM_WR_CYC, 0x314, \
	  "Cycles in which the memory of the L2 cache was written. (By one source: shark.)") \
	E(PM_ST_MERGE_32, 0x315, \
	  "Stores that missed and were put together into a whole line. (By one source: shark.)") \
	E(PM_VTQ_DRT_HIT, 0x316, \
	  "Lines that a stream asked for and that were under way, in the data reload table. " \
	  "(By one source: shark.)") \
	E(PM_DST2_FETCH, 0x317, \
	  "Cache lines fetched for stream 2. (By one source: shark.)") \
	E(PM_DSS_CMPL, 0x318, \
	  "Instructions dss completed, which end one stream. (By one source: shark.)") \
	E(PM_BUS_SNOOP, 0x31a, \
	  "AN2581: snoops on the bus; Apple: snoops answered with a retry. Which is right is " \
	  "not known.") \
	E(PM_L2_SNOOP_HIT, 0x31b, \
	  "Snoops that hit in the L2 cache.") \
	E(PM_INT_EXCLUSIVE, 0x31c, \
	  "Interventions with an exclusive line. (By one source: shark.)") \
	E(PM_BUS_TA_SINGLE_WR, 0x31d, \
	  "Acknowledgements (TA) of writes of a single beat. (By one source: shark.)") \
	E(PM_L1_DCACHE_RELOAD, 0x31e, \
	  "Lines put into the data cache. (By one source: shark.)") \
	E(PM_BR_MPRED, 0x405, \
	  "Branches that were predicted wrongly.") \
	E(PM_DTLB_SEARCH_CYC, 0x406, \
	  "Cycles in which the processor searched the page table for data, without searches " \
	  "for streams.") \
	E(PM_VFPU_CMPL, 0x407, \
	  "AltiVec floating-point instructions completed.") \
	E(PM_VPU_CYC, 0x408, \
	  "Cycles in which an AltiVec permute instruction waited for an operand.") \
	E(PM_STWCX_OK, 0x40a, \
	  "Instructions stwcx. that stored.") \
	E(PM_SYNC_CMPL, 0x40b, \
	  "Instructions sync completed.") \
	E(PM_BUS_KILL, 0x40c, \
	  "Transactions on the bus that invalidate a line elsewhere, and were not retried.") \
	E(PM_IU_CMPL, 0x40d, \
	  "Integer instructions completed.") \
	E(PM_BR_FETCH_STALL, 0x40e, \
	  "Cycles in which the branch unit took no new branch, because two were not resolved.") \
	E(PM_L1_DCACHE_TOUCH_MISS, 0x40f, \
	  "Touches that missed in the data cache, those of streams included.") \
	E(PM_L1_EXT_INT_CYC, 0x410, \
	  "Cycles in which the data cache was read for an intervention, two for each.") \
	E(PM_L2_TAG_SNOOP_WR, 0x411, \
	  "Writes to the tags of the L2 cache because of snoops.") \
	E(PM_L2_SRAM_CYC, 0x412, \
	  "Cycles in which the memory of the L2 cache was busy. (By one source: shark.)") \
	E(PM_L1_DCACHE_CASTOUT, 0x413, \
	  "Lines thrown out of the data cache into the L2 cache. (By one source: shark.)") \
	E(PM_VTQ_FETCH_HIT, 0x414, \
	  "Lines that a stream asked for and that were in the data cache. (By one source: " \
	  "shark.)") \
	E(PM_DST3_FETCH, 0x415, \
	  "Cache lines fetched for stream 3. (By one source: shark.)") \
	E(PM_DSSALL_CMPL, 0x416, \
	  "Instructions dssall completed, which end all streams. (By one source: shark.)") \
	E(PM_DATA_SNOOP_HIT, 0x417, \
	  "Snoops that hit in the data cache. (By one source: shark.)") \
	E(PM_INT_SHARED, 0x418, \
	  "Interventions with a shared line. (By one source: shark.)") \
	E(PM_BUS_TA_BURST_WR, 0x419, \
	  "Acknowledgements (TA) of writes of several beats. (By one source: shark.)") \
	E(PM_L1_EXT_INT, 0x41a, \
	  "Interventions with data of the data cache. (By one source: shark.)") \
	E(PM_DST_SEARCH_HIT, 0x41b, \
	  "Searches of the page table for a stream that found the page. (By one source: shark.)")

/* LR_MPC7400_ and the name: the code. */
#define LR_MPC7400_CODE(name, code, prose) LR_MPC7400_##name = code,
enum lr_mpc7400_event { LR_MPC7400_EVENTS(LR_MPC7400_CODE) };
#undef LR_MPC7400_CODE

#endif
