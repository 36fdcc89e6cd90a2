/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Events: ARMv8 and ARMv9, the events of PMUv3 that all cores share. Name, what a counter takes,
 * prose.
 *
 * Source: Arm Architecture Reference Manual for A-profile, ARM DDI 0487, chapter D13 (The
 * Performance Monitors Extension).
 *
 * Written by `cargo xtask events`; the place to change is
 * crates/counters/data/events/armv8.toml.
 */
#ifndef LINERATE_PMU_EVENTS_ARMV8_H
#define LINERATE_PMU_EVENTS_ARMV8_H

/* E(name, code, prose) for each event. */
#define LR_ARMV8_EVENTS(E) \
	E(CPU_CYCLES, 0x011, \
	  "Cycles of the core's own clock, which changes with frequency, while it was not " \
	  "halted.") \
	E(INST_RETIRED, 0x008, \
	  "Instructions that were executed to the end. Those begun and thrown away do not " \
	  "count.") \
	E(BR_RETIRED, 0x021, \
	  "Branches that were executed to the end, taken or not.") \
	E(PC_WRITE_RETIRED, 0x00c, \
	  "Changes of the program counter by software: branches that were taken. Those not " \
	  "taken are missing; this core has no event for all.") \
	E(BR_MIS_PRED_RETIRED, 0x022, \
	  "Branches whose direction or target was predicted wrongly.") \
	E(BR_MIS_PRED, 0x010, \
	  "Branches mispredicted or not predicted at all, those on a wrong path included.") \
	E(BR_PRED, 0x012, \
	  "Branches that the predictor could have predicted, those on a wrong path included.") \
	E(BR_IMMED_RETIRED, 0x00d, \
	  "Branches to a fixed address executed to the end, taken or not.") \
	E(BR_RETURN_RETIRED, 0x00e, \
	  "Returns executed to the end, if taken.") \
	E(LD_RETIRED, 0x006, \
	  "Instructions that read memory, executed to the end. One that reads several " \
	  "registers counts once.") \
	E(ST_RETIRED, 0x007, \
	  "Instructions that write memory, executed to the end. One that writes several " \
	  "registers counts once.") \
	E(MEM_ACCESS, 0x013, \
	  "Data accesses of loads and stores, those on a wrong path included; one instruction " \
	  "may make several.") \
	E(UNALIGNED_LDST_RETIRED, 0x00f, \
	  "Loads and stores at unaligned addresses, executed to the end.") \
	E(L1D_CACHE, 0x004, \
	  "Reads and writes that looked up the data cache. An instruction may look it up more " \
	  "than once.") \
	E(L1D_CACHE_REFILL, 0x003, \
	  "Accesses that brought a line into the data cache; on most cores prefetches by " \
	  "hardware are not in it. Writes that stream past the cache do not count.") \
	E(L1D_CACHE_WB, 0x015, \
	  "Lines written back from the data cache.") \
	E(L1D_CACHE_ALLOCATE, 0x01f, \
	  "Lines taken into the data cache without reading them: whole lines were written.") \
	E(L1D_CACHE_LMISS_RD, 0x039, \
	  "Reads that missed in the data cache and had to wait longer for it.") \
	E(L1I_CACHE, 0x014, \
	  "Fetches that looked up the instruction cache, several instructions at once.") \
	E(L1I_CACHE_REFILL, 0x001, \
	  "Fetches that brought a line into the instruction cache, those on a wrong path " \
	  "included.") \
	E(L2D_CACHE, 0x016, \
	  "Accesses of this core to the second-level cache. Where cores share it, only those " \
	  "of this core count.") \
	E(L2D_CACHE_REFILL, 0x017, \
	  "Accesses of this core that brought a line into the second-level cache.") \
	E(L2D_CACHE_WB, 0x018, \
	  "Lines written back from the second-level cache.") \
	E(L2D_CACHE_ALLOCATE, 0x020, \
	  "Lines taken into the second-level cache without reading them.") \
	E(L2I_CACHE, 0x027, \
	  "Fetches that looked up the second-level cache.") \
	E(L2I_CACHE_REFILL, 0x028, \
	  "Fetches that brought a line into the second-level cache.") \
	E(L3D_CACHE, 0x02b, \
	  "Accesses of this core to the third-level cache.") \
	E(L3D_CACHE_REFILL, 0x02a, \
	  "Accesses of this core that brought a line into the third-level cache.") \
	E(L3D_CACHE_ALLOCATE, 0x029, \
	  "Lines taken into the third-level cache without reading them.") \
	E(L3D_CACHE_WB, 0x02c, \
	  "Lines written back from the third-level cache.") \
	E(LL_CACHE_RD, 0x036, \
	  "Reads of this core that looked up the last level of cache, whichever that is. " \
	  "Writes are not in it.") \
	E(LL_CACHE_MISS_RD, 0x037, \
	  "Reads of this core that the last level of cache could not serve. Writes are not in " \
	  "it.") \
	E(LL_CACHE, 0x032, \
	  "Accesses of this core to the last level of cache.") \
	E(LL_CACHE_MISS, 0x033, \
	  "Accesses of this core that the last level of cache could not serve.") \
	E(REMOTE_ACCESS, 0x031, \
	  "Accesses served by another socket.") \
	E(REMOTE_ACCESS_RD, 0x038, \
	  "Reads served by another socket.") \
	E(L1D_TLB_REFILL, 0x005, \
	  "Data addresses that had to be fetched into the first level of the data TLB; the " \
	  "second level serves most.") \
	E(L1I_TLB_REFILL, 0x002, \
	  "Instruction addresses that had to be fetched into the first level of the " \
	  "instruction TLB; the second level serves most.") \
	E(L1D_TLB, 0x025, \
	  "Look-ups of the first level of the data TLB.") \
	E(L1I_TLB, 0x026, \
	  "Look-ups of the first level of the instruction TLB.") \
	E(L2D_TLB_REFILL, 0x02d, \
	  "Addresses that were not in the second level of the TLB, which most cores share " \
	  "between data and instructions: walks of the page table.") \
	E(DTLB_WALK, 0x034, \
	  "Data addresses that cost a walk of the page table. Walks for instructions are in " \
	  "itlb_walk.") \
	E(ITLB_WALK, 0x035, \
	  "Instruction addresses that cost a walk of the page table.") \
	E(L2D_TLB, 0x02f, \
	  "Look-ups of the second level of the TLB, by data or by both.") \
	E(L2I_TLB_REFILL, 0x02e, \
	  "Instruction addresses that were not in the second level of the TLB.") \
	E(L2I_TLB, 0x030, \
	  "Look-ups of the second level of the instruction TLB.") \
	E(STALL_FRONTEND, 0x023, \
	  "Cycles in which nothing was sent to execution because the front end had nothing.") \
	E(STALL_BACKEND, 0x024, \
	  "Cycles in which nothing was sent to execution because the back end could not take " \
	  "it.") \
	E(STALL, 0x03c, \
	  "Cycles in which nothing was sent to execution.") \
	E(STALL_SLOT, 0x03f, \
	  "Slots in which nothing was sent to execution; a cycle has several.") \
	E(STALL_SLOT_FRONTEND, 0x03e, \
	  "Slots left empty by the front end.") \
	E(STALL_SLOT_BACKEND, 0x03d, \
	  "Slots left empty because of the back end.") \
	E(OP_RETIRED, 0x03a, \
	  "Operations, into which instructions are split, executed to the end.") \
	E(OP_SPEC, 0x03b, \
	  "Operations executed, those on a wrong path included.") \
	E(INST_SPEC, 0x01b, \
	  "Instructions executed, those on a wrong path included.") \
	E(EXC_TAKEN, 0x009, \
	  "Exceptions taken: faults, system calls and interrupts.") \
	E(EXC_RETURN, 0x00a, \
	  "Returns from exceptions.") \
	E(BUS_CYCLES, 0x01d, \
	  "Cycles of the bus or interconnect that the core is attached to.") \
	E(BUS_ACCESS, 0x019, \
	  "Beats of reads and writes between the core and what is outside it.") \
	E(MEMORY_ERROR, 0x01a, \
	  "Errors found in the core's memories, corrected ones included.") \
	E(TTBR_WRITE_RETIRED, 0x01c, \
	  "Writes of the base of the page table: about one for each switch to another process.") \
	E(CID_WRITE_RETIRED, 0x00b, \
	  "Writes of the context identifier.") \
	E(SW_INCR, 0x000, \
	  "Writes of the software increment register: an event that a program makes itself.")

/* LR_ARMV8_ and the name: the code. */
#define LR_ARMV8_CODE(name, code, prose) LR_ARMV8_##name = code,
enum lr_armv8_event { LR_ARMV8_EVENTS(LR_ARMV8_CODE) };
#undef LR_ARMV8_CODE

#endif
