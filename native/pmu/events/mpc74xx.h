/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Events: MPC7450, 7455, 7447, 7457, 7447A, 7448 (PowerPC G4). Name, what a counter takes, prose.
 *
 * Source: MPC7450 RISC Microprocessor Family Reference Manual, MPC7450UM, chapter 11, by PAPI's
 * list of its tables; also Apple, Shark User Guide, appendix PPC 7450 (G4+) Performance Counter
 * Event List; AN2581 for what the counters showed of TCP.
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
	  "Load instructions completed. An AltiVec load of 16 bytes counts once, as the scalar " \
	  "one of 4 does.") \
	E(PM_ST_CMPL, 0x014, \
	  "Store instructions. An AltiVec store of 16 bytes counts once, as the scalar one of " \
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
	  "Stores to pages that are not cacheable.") \
	E(PM_PMON_EXC, 0x005, \
	  "Interrupts of the performance monitor.") \
	E(PM_EXT_PMON, 0x007, \
	  "Signals of a performance monitor outside the processor.") \
	E(PM_MTVSCR_CMPL, 0x00c, \
	  "Instructions mtvscr completed.") \
	E(PM_MTVRSAVE_CMPL, 0x00d, \
	  "Instructions completed that write VRSAVE.") \
	E(PM_MFVSCR_SYNC_CYC, 0x012, \
	  "Cycles in which mfvscr waited for the instructions before it.") \
	E(PM_VSCR_SAT_SET, 0x013, \
	  "Changes of VSCR[SAT] from 0 to 1: a vector instruction saturated.") \
	E(PM_SPEC1_ACTIVE_CYC, 0x118, \
	  "Cycles with a speculated branch: the first of three buffers for speculation was in " \
	  "use.") \
	E(PM_BRU_STALL_CYC, 0x119, \
	  "Cycles in which the branch unit could not go on.") \
	E(PM_BTIC_HIT, 0x11a, \
	  "Taken branches whose target instructions were in the branch target instruction " \
	  "cache.") \
	E(PM_LINK_STACK_PRED, 0x11b, \
	  "Returns whose target the link stack predicted.") \
	E(PM_GPR_IQ_DISP, 0x11c, \
	  "Instructions dispatched to the issue queue of integer and load/store instructions.") \
	E(PM_DISP_3_CYC, 0x11d, \
	  "Cycles in which three instructions were dispatched.") \
	E(PM_INSTQ_EXCEED_CYC, 0x11e, \
	  "Cycles in which the instruction queue had more entries than the threshold.") \
	E(PM_ALTV_IQ_EXCEED_CYC, 0x11f, \
	  "Cycles in which the issue queue of AltiVec instructions had more entries than the " \
	  "threshold.") \
	E(PM_CMPL_0_CYC, 0x120, \
	  "Cycles in which no instruction was completed.") \
	E(PM_IU2_CMPL, 0x121, \
	  "Instructions completed of the unit for multiplication, division and other complex " \
	  "integer work.") \
	E(PM_EIEIO_CMPL, 0x123, \
	  "Instructions eieio completed.") \
	E(PM_MTSPR_CMPL, 0x124, \
	  "Instructions mtspr completed.") \
	E(PM_SC_CMPL, 0x125, \
	  "System calls: instructions sc completed.") \
	E(PM_LD_MULTI_CMPL, 0x126, \
	  "Loads of several registers completed: lmw, lswi and lswx.") \
	E(PM_ITLB_SEARCH_CYC, 0x127, \
	  "Cycles in which the processor searched the page table for an instruction.") \
	E(PM_DTLB_SEARCH_EXCEED_CYC, 0x128, \
	  "Cycles beyond the threshold in which the processor searched the page table for data.") \
	E(PM_IABR_MATCH, 0x12a, \
	  "Matches of the instruction address breakpoint.") \
	E(PM_LD_MISS_EXCEED_L1_CYC, 0x12b, \
	  "Cycles beyond the threshold that loads took which missed in the data cache.") \
	E(PM_DATA_SNOOP_HIT_MOD, 0x12c, \
	  "Snoops that found a modified line in the data cache.") \
	E(PM_LD_MISS_ALIAS, 0x12d, \
	  "Loads that missed, and had to wait for an earlier access to a like address.") \
	E(PM_LD_MISS_TOUCH_ALIAS, 0x12e, \
	  "Loads that missed, and had to wait for a touch of a like address.") \
	E(PM_TOUCH_ALIAS, 0x12f, \
	  "Touches that met an earlier access to a like address.") \
	E(PM_DATA_SNOOP_HIT_COQ, 0x130, \
	  "Snoops that hit in the castout queue of the data cache.") \
	E(PM_DATA_SNOOP_HIT_CASTOUT, 0x131, \
	  "Snoops that hit a castout of the data cache; Apple adds that they are answered with " \
	  "a retry.") \
	E(PM_DATA_SNOOP_HIT, 0x132, \
	  "Snoops that hit in the data cache.") \
	E(PM_DST_DISP, 0x139, \
	  "Instructions dispatched that begin a stream of prefetches: dst, dstt, dstst and " \
	  "dststt.") \
	E(PM_DST_REFRESH, 0x13a, \
	  "Streams that were restarted while they ran.") \
	E(PM_DST_SEARCH_HIT, 0x13b, \
	  "Searches of the page table for a stream that found the page.") \
	E(PM_DSS_CMPL, 0x13c, \
	  "Instructions dss completed, which end one stream.") \
	E(PM_DST0_FETCH, 0x13d, \
	  "Cache lines fetched for stream 0.") \
	E(PM_VTQ_SUSPEND, 0x13e, \
	  "Streams suspended because the processor went to another context.") \
	E(PM_VTQ_FETCH_HIT, 0x13f, \
	  "Lines that a stream asked for and that were in the data cache.") \
	E(PM_FP_ST_CMPL, 0x141, \
	  "Floating-point stores completed; Apple counts aligned ones only.") \
	E(PM_FPU_RENORM, 0x142, \
	  "Floating-point values that had to be normalized before use.") \
	E(PM_FPU_DENORM, 0x143, \
	  "Floating-point values that had to be made denormal.") \
	E(PM_FP_ST_STALL, 0x144, \
	  "Stalls of the load/store unit because of a floating-point store.") \
	E(PM_LSU_TRUE_ALIAS_STALL, 0x146, \
	  "Stalls of a load or store by an earlier one of the same address.") \
	E(PM_LSU_INDEX_ALIAS_STALL, 0x147, \
	  "Stalls of a load or store by an earlier one whose address has the same index in the " \
	  "cache.") \
	E(PM_LSU_FSQ_ALIAS, 0x148, \
	  "Accesses that met a store not yet completed: in the finished store queue or on the " \
	  "way there (WB0, WB1).") \
	E(PM_LSU_CSQ_ALIAS, 0x149, \
	  "Accesses that met a store in the queue of completed ones.") \
	E(PM_LSU_LD_HIT_CSQ0_ALIAS, 0x14a, \
	  "Loads that hit, and met the line of the oldest completed store.") \
	E(PM_LSU_LD_MISS_CSQ0_ALIAS, 0x14b, \
	  "Loads that missed, and met the line of the oldest completed store.") \
	E(PM_LSU_TOUCH_FSQ_ALIAS, 0x14c, \
	  "Touches that met a store not yet completed.") \
	E(PM_LSU_TOUCH_CSQ_ALIAS, 0x14d, \
	  "Touches that met a store in the queue of completed ones.") \
	E(PM_LSU_LMQ_FULL_STALL, 0x14e, \
	  "Stalls of the load/store unit because the queue of load misses was full.") \
	E(PM_FP_LD_CMPL, 0x14f, \
	  "Floating-point loads completed.") \
	E(PM_FP_LD_SINGLE_CMPL, 0x150, \
	  "Floating-point loads of single precision completed.") \
	E(PM_FP_LD_DOUBLE_CMPL, 0x151, \
	  "Floating-point loads of double precision completed.") \
	E(PM_LSU_RA_LATCH_STALL, 0x152, \
	  "Stalls of the load/store unit because its latch of real addresses was taken.") \
	E(PM_LSU_STQ_ALIAS_STALL, 0x153, \
	  "Stalls of a load by a store of a like address in the store queues.") \
	E(PM_LSU_LMQ_INDEX_ALIAS, 0x154, \
	  "Loads that met a load miss under way with the same index in the cache.") \
	E(PM_LSU_STQ_INDEX_ALIAS, 0x155, \
	  "Loads that met a waiting store with the same index in the cache.") \
	E(PM_LSU_CSQ_FORWARD, 0x156, \
	  "Loads that got their data from a completed store that was not in the cache yet.") \
	E(PM_MISALIGNED_STALL, 0x159, \
	  "Stalls of the load/store unit because of an address that was not aligned.") \
	E(PM_FPSCR_RENAMES_QUARTER, 0x15a, \
	  "Cycles in which a quarter of the renames of FPSCR was in use.") \
	E(PM_FPSCR_RENAMES_HALF, 0x15b, \
	  "Cycles in which half of the renames of FPSCR were in use.") \
	E(PM_FPSCR_RENAMES_THREE_QUARTERS, 0x15c, \
	  "Cycles in which three quarters of the renames of FPSCR were in use.") \
	E(PM_FPSCR_RENAMES_ALL, 0x15d, \
	  "Cycles in which all renames of FPSCR were in use.") \
	E(PM_FPU_DENORM_RESULT, 0x15e, \
	  "Floating-point results that were denormal.") \
	E(PM_FPR_IQ_DISP, 0x218, \
	  "Instructions dispatched to the issue queue of floating-point instructions.") \
	E(PM_LSU_CMPL, 0x219, \
	  "Instructions completed of the load/store unit.") \
	E(PM_ST_MULTI_CMPL, 0x21b, \
	  "Stores of several registers completed: stmw, stswi and stswx.") \
	E(PM_TLBIE_CMPL, 0x21c, \
	  "Instructions tlbie completed.") \
	E(PM_LWARX_CMPL, 0x21d, \
	  "Instructions lwarx completed, which reserve.") \
	E(PM_MFSPR_CMPL, 0x21e, \
	  "Instructions mfspr completed.") \
	E(PM_REFETCH_SERIAL, 0x21f, \
	  "Instructions after which all that follows was fetched again.") \
	E(PM_CQ_EXCEED_CYC, 0x220, \
	  "Cycles in which the completion queue had more entries than the threshold.") \
	E(PM_CMPL_1_CYC, 0x221, \
	  "Cycles in which one instruction was completed.") \
	E(PM_DISP_2_CYC, 0x222, \
	  "Cycles in which two instructions were dispatched.") \
	E(PM_L1_ICACHE_MISS_CYC, 0x224, \
	  "Cycles spent waiting for a miss of the instruction cache.") \
	E(PM_L1_DCACHE_TOUCH_MISS, 0x226, \
	  "Touches that missed in the data cache.") \
	E(PM_L1_DCACHE_TOUCH_MISS_CYC, 0x228, \
	  "Cycles that touches took which missed in the data cache.") \
	E(PM_L1_DCACHE_CYC, 0x229, \
	  "Cycles in which the data cache was busy.") \
	E(PM_DST1_FETCH, 0x22a, \
	  "Cache lines fetched for stream 1.") \
	E(PM_VTQ_CANCEL, 0x22b, \
	  "Streams ended before they were through; Apple: by a branch that had been speculated.") \
	E(PM_VTQ_RESUME, 0x22c, \
	  "Streams that went on because the processor came back to their context.") \
	E(PM_VTQ_FETCH_MISS, 0x22d, \
	  "Lines that a stream asked for and that were not in the data cache.") \
	E(PM_VTQ_FETCH, 0x22e, \
	  "Lines that a stream asked for.") \
	E(PM_TLBIE_SNOOP, 0x22f, \
	  "Invalidations of TLB entries by others on the bus.") \
	E(PM_L1_ICACHE_RELOAD, 0x230, \
	  "Lines put into the instruction cache.") \
	E(PM_L1_DCACHE_RELOAD, 0x231, \
	  "Lines put into the data cache.") \
	E(PM_L1_DCACHE_CASTOUT, 0x232, \
	  "Lines thrown out of the data cache into the L2 cache.") \
	E(PM_ST_MERGE, 0x233, \
	  "Stores put together with another, cached or not.") \
	E(PM_ST_MERGE_32, 0x234, \
	  "Cached stores put together into 32 bytes.") \
	E(PM_DABR_MATCH, 0x235, \
	  "Matches of the data address breakpoint.") \
	E(PM_BR_FALL_THROUGH, 0x236, \
	  "Branches that were not taken.") \
	E(PM_SPEC1_CORRECT, 0x237, \
	  "Speculated branches of the first buffer that were predicted rightly.") \
	E(PM_SPEC2_ACTIVE_CYC, 0x238, \
	  "Cycles in which the second buffer for speculation was in use.") \
	E(PM_BRU_LR_STALL_CYC, 0x239, \
	  "Cycles in which the branch unit waited for the link register.") \
	E(PM_BTIC_MISS, 0x23a, \
	  "Taken branches whose target instructions were not in the branch target instruction " \
	  "cache.") \
	E(PM_LINK_STACK_CORRECT, 0x23b, \
	  "Returns whose target the link stack predicted rightly.") \
	E(PM_FPR_IQ_STALL, 0x23c, \
	  "Stalls of the issue queue of floating-point instructions.") \
	E(PM_PRIV_SWITCH, 0x23d, \
	  "Changes between user and supervisor.") \
	E(PM_FP_ST_SINGLE_CMPL, 0x23e, \
	  "Floating-point stores of single precision completed.") \
	E(PM_CMPL_2_CYC, 0x308, \
	  "Cycles in which two instructions were completed.") \
	E(PM_DISP_1_CYC, 0x309, \
	  "Cycles in which one instruction was dispatched.") \
	E(PM_VR_IQ_DISP, 0x30a, \
	  "Instructions dispatched to the issue queue of AltiVec instructions.") \
	E(PM_VR_IQ_STALL, 0x30b, \
	  "Stalls of the issue queue of AltiVec instructions.") \
	E(PM_GPR_RB_EXCEED_CYC, 0x30c, \
	  "Cycles in which more renames of general registers were in use than the threshold.") \
	E(PM_FPR_IQ_EXCEED_CYC, 0x30d, \
	  "Cycles in which the issue queue of floating-point instructions had more entries " \
	  "than the threshold; Linux is not sure of the threshold.") \
	E(PM_FPU_CMPL, 0x30e, \
	  "Floating-point instructions completed, without loads and stores.") \
	E(PM_STWCX_CMPL, 0x30f, \
	  "Instructions stwcx. completed, which store if the reservation stands.") \
	E(PM_LD_MULTI_PIECE, 0x310, \
	  "Accesses that loads of several registers were taken apart into.") \
	E(PM_ITLB_SEARCH_EXCEED, 0x311, \
	  "Cycles beyond the threshold in which the processor searched the page table for an " \
	  "instruction.") \
	E(PM_L1_ICACHE_MISS_CANCEL, 0x313, \
	  "Misses of the instruction cache that were not wanted any more.") \
	E(PM_L1_DCACHE_OP_HIT, 0x314, \
	  "Cache instructions that hit in the data cache; Apple: dcbf and dcbst.") \
	E(PM_L1_DCACHE_LD_MISS_CYC, 0x315, \
	  "Cycles that loads took which missed in the data cache.") \
	E(PM_L1_DCACHE_PUSH, 0x316, \
	  "Lines that the data cache gave up because others on the bus asked for them.") \
	E(PM_DST2_FETCH, 0x318, \
	  "Cache lines fetched for stream 2.") \
	E(PM_BR_TAKEN, 0x319, \
	  "Branches that were taken.") \
	E(PM_BR_FLUSH, 0x31a, \
	  "Branches that emptied the pipe of what had been fetched behind them.") \
	E(PM_SPEC2_CORRECT, 0x31b, \
	  "Speculated branches of the second buffer that were predicted rightly.") \
	E(PM_SPEC3_ACTIVE_CYC, 0x31c, \
	  "Cycles in which the third buffer for speculation was in use.") \
	E(PM_BRU_CTR_STALL_CYC, 0x31d, \
	  "Cycles in which the branch unit waited for the counter register.") \
	E(PM_BTIC_FAST_HIT, 0x31e, \
	  "Fast hits in the branch target instruction cache.") \
	E(PM_CMPL_3_CYC, 0x40e, \
	  "Cycles in which three instructions were completed.") \
	E(PM_DISP_0_CYC, 0x40f, \
	  "Cycles in which no instruction was dispatched.") \
	E(PM_GPR_IQ_EXCEED_CYC, 0x410, \
	  "Cycles in which the issue queue of integer and load/store instructions had more " \
	  "entries than the threshold.") \
	E(PM_GPR_IQ_STALL, 0x411, \
	  "Stalls of the issue queue of integer and load/store instructions.") \
	E(PM_IU1_CMPL, 0x412, \
	  "Instructions completed of the three units for simple integer work.") \
	E(PM_DSSALL_CMPL, 0x413, \
	  "Instructions dssall completed, which end all streams.") \
	E(PM_TLBSYNC_CMPL, 0x414, \
	  "Instructions tlbsync completed.") \
	E(PM_SYNC_CMPL, 0x415, \
	  "Instructions sync completed.") \
	E(PM_ST_MULTI_PIECE, 0x416, \
	  "Accesses that stores of several registers were taken apart into.") \
	E(PM_DTLB_SEARCH_CYC, 0x417, \
	  "Cycles in which the processor searched the page table for data.") \
	E(PM_SNOOP_RETRY, 0x418, \
	  "Snoops that were answered with a retry.") \
	E(PM_STWCX_OK, 0x419, \
	  "Instructions stwcx. that stored.") \
	E(PM_DST3_FETCH, 0x41a, \
	  "Cache lines fetched for stream 3.") \
	E(PM_SPEC3_CORRECT, 0x41b, \
	  "Speculated branches of the third buffer that were predicted rightly.") \
	E(PM_FP_ST_DOUBLE_CMPL, 0x41e, \
	  "Floating-point stores of double precision completed.") \
	E(PM_L3_ICACHE_MISS, 0x505, \
	  "Fetches that the L3 cache could not serve.") \
	E(PM_L3_DCACHE_MISS, 0x507, \
	  "Data accesses that the L3 cache could not serve.") \
	E(PM_LD_HIT_L2, 0x508, \
	  "Loads that the L2 cache served.") \
	E(PM_ST_HIT_L2, 0x509, \
	  "Stores that the L2 cache served.") \
	E(PM_LD_HIT_L3, 0x50a, \
	  "Loads that the L3 cache served.") \
	E(PM_ST_HIT_L3, 0x50b, \
	  "Stores that the L3 cache served.") \
	E(PM_L2_TOUCH_HIT, 0x50d, \
	  "Touches that the L2 cache served.") \
	E(PM_L3_TOUCH_HIT, 0x50e, \
	  "Touches that the L3 cache served.") \
	E(PM_SNOOP_MOD, 0x510, \
	  "Snoops that found a modified line in one of the caches.") \
	E(PM_SNOOP_VALID, 0x511, \
	  "Snoops that found a line in one of the caches.") \
	E(PM_INT_LOCAL, 0x512, \
	  "Interventions: snoops that this processor answered with the data.") \
	E(PM_L2_CASTOUT, 0x608, \
	  "Lines thrown out of the L2 cache.") \
	E(PM_L3_CASTOUT, 0x609, \
	  "Lines thrown out of the L3 cache.") \
	E(PM_L2SQ_FULL_CYC, 0x60a, \
	  "Cycles in which the queue of the L2 cache for stores and castouts was full.") \
	E(PM_L3SQ_FULL_CYC, 0x60b, \
	  "Cycles in which the queue of the L3 cache for stores and castouts was full.") \
	E(PM_RAQ_FULL_CYC, 0x610, \
	  "Cycles in which the queue RAQ of read addresses was full; Apple: that of the L3 " \
	  "cache.") \
	E(PM_WAQ_FULL_CYC, 0x611, \
	  "Cycles in which the queue WAQ of write addresses was full; Apple: that of the L3 " \
	  "cache.") \
	E(PM_L1_EXT_INT, 0x613, \
	  "Interventions on the bus with data of the L1 cache.") \
	E(PM_L2_EXT_INT, 0x614, \
	  "Interventions on the bus with data of the L2 cache.") \
	E(PM_L3_EXT_INT, 0x615, \
	  "Interventions on the bus with data of the L3 cache.") \
	E(PM_EXT_INT, 0x616, \
	  "Interventions on the bus.") \
	E(PM_EXT_PUSH, 0x617, \
	  "Modified lines written out because others on the bus asked for them.") \
	E(PM_EXT_SNOOP_RETRY, 0x618, \
	  "Snoops of others that were answered with a retry on the bus.") \
	E(PM_DTQ_FULL_CYC, 0x619, \
	  "Cycles in which the queue of data transactions was full.") \
	E(PM_BUS_RETRY, 0x61a, \
	  "Transactions of this processor that had to be tried again.") \
	E(PM_L2_REQ, 0x61b, \
	  "Requests to the L2 cache that were valid.") \
	E(PM_BORDQ_FULL_CYC, 0x61c, \
	  "Cycles in which the queue of reads outstanding on the bus was full.") \
	E(PM_L3_HIT_6, 0x61f, \
	  "Accesses that the L3 cache served, by another selection; what sets it apart from " \
	  "pm_l3_hit is not documented.") \
	E(PM_L3_MISS_6, 0x620, \
	  "Accesses that the L3 cache could not serve, by another selection; what sets it " \
	  "apart from pm_l3_miss is not documented.") \
	E(PM_L3_ICACHE_MISS_6, 0x621, \
	  "Fetches that the L3 cache could not serve, by another selection; what sets it apart " \
	  "from pm_l3_icache_miss is not documented.") \
	E(PM_L3_DCACHE_MISS_6, 0x622, \
	  "Data accesses that the L3 cache could not serve, by another selection; what sets it " \
	  "apart from pm_l3_dcache_miss is not documented.") \
	E(PM_L3_TOUCH_HIT_6, 0x625, \
	  "Touches that the L3 cache served, by another selection; what sets it apart from " \
	  "pm_l3_touch_hit is not documented.") \
	E(PM_BUS_TA_RD, 0x62a, \
	  "Beats of data that came over the bus: acknowledgements (TA) of reads.") \
	E(PM_BUS_TA_WR, 0x62b, \
	  "Beats of data that went over the bus: acknowledgements (TA) of writes.") \
	E(PM_BUS_RD, 0x62c, \
	  "Reads on the bus that were not retried.") \
	E(PM_BUS_WR, 0x62d, \
	  "Writes on the bus that were not retried.") \
	E(PM_BUS_RD_WR, 0x62e, \
	  "Reads and writes on the bus that were not retried.") \
	E(PM_BUS_RETRY_L1, 0x62f, \
	  "Transactions tried again because the L1 cache wanted it.") \
	E(PM_BUS_RETRY_ADJACENT, 0x630, \
	  "Transactions tried again because of the one just before.") \
	E(PM_BUS_RETRY_COLLISION, 0x631, \
	  "Transactions tried again because they met another of the same address.") \
	E(PM_BUS_RETRY_INT, 0x632, \
	  "Transactions tried again to keep the order of interventions.") \
	E(PM_SNOOP_REQ, 0x633, \
	  "Snoops asked for by others on the bus.") \
	E(PM_PREFETCH_REQ, 0x634, \
	  "Lines that the prefetch engine of the L2 cache asked for.") \
	E(PM_PREFETCH_LD_COLLISION, 0x635, \
	  "Prefetches that met a load of the same line.") \
	E(PM_PREFETCH_ST_COLLISION, 0x636, \
	  "Prefetches that met a store to the same line.") \
	E(PM_PREFETCH_IFETCH_COLLISION, 0x637, \
	  "Prefetches that met a fetch of the same line.") \
	E(PM_PREFETCH_COLLISION, 0x638, \
	  "Prefetches that met a load, a store or a fetch of the same line.") \
	E(PM_PREFETCH_FULL, 0x639, \
	  "Times that the prefetch engine was full.")

/* A(name, code) for each further counter with an event of above. */
#define LR_MPC74XX_ALSO(A) \
	A(PM_L1_DCACHE_MISS, 0x317) \
	A(PM_L2_MISS, 0x61d) \
	A(PM_L2_HIT, 0x602) \
	A(PM_L2_DCACHE_MISS, 0x606) \
	A(PM_L2_ICACHE_MISS, 0x604) \
	A(PM_L3_HIT, 0x603) \
	A(PM_L3_MISS, 0x61e) \
	A(PM_SNOOP_RETRY, 0x50f) \
	A(PM_SNOOP_RETRY, 0x60f) \
	A(PM_L3_ICACHE_MISS, 0x605) \
	A(PM_L3_DCACHE_MISS, 0x607) \
	A(PM_LD_HIT_L3, 0x623) \
	A(PM_ST_HIT_L3, 0x624) \
	A(PM_L2_TOUCH_HIT, 0x60d) \
	A(PM_L3_TOUCH_HIT, 0x60e) \
	A(PM_INT_LOCAL, 0x612)

/* LR_MPC74XX_ and the name: the code. */
#define LR_MPC74XX_CODE(name, code, prose) LR_MPC74XX_##name = code,
enum lr_mpc74xx_event { LR_MPC74XX_EVENTS(LR_MPC74XX_CODE) };
#undef LR_MPC74XX_CODE

#endif
