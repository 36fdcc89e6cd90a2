/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Events: Cortex-A7 MPCore (Raspberry Pi 2). Name, what a counter takes, prose.
 *
 * Source: Cortex-A7 MPCore Technical Reference Manual, ARM DDI 0464, chapter 11; ARM Architecture
 * Reference Manual ARMv7, chapter C12.
 *
 * Written by `cargo xtask events`; the place to change is
 * crates/counters/data/events/cortex_a7.toml.
 */
#ifndef LINERATE_PMU_EVENTS_CORTEX_A7_H
#define LINERATE_PMU_EVENTS_CORTEX_A7_H

/* E(name, code, prose) for each event. */
#define LR_CORTEX_A7_EVENTS(E) \
	E(CPU_CYCLES, 0x011, \
	  "Core cycles, on the counter kept for them. 0xff is Linux's number for that counter; " \
	  "the architecture's 0x11 would take one of the other four.") \
	E(INST_RETIRED, 0x008, \
	  "Instructions executed to the end. Those whose condition failed count too.") \
	E(SW_CHANGE_PC, 0x00c, \
	  "Changes of the program counter by software, exceptions left out: branches that were " \
	  "taken. Those not taken are in immediate_branches.") \
	E(IMMEDIATE_BRANCHES, 0x00d, \
	  "Branches to a fixed address executed to the end, taken or not.") \
	E(PROCEDURE_RETURNS, 0x00e, \
	  "Returns executed to the end.") \
	E(BRANCH_MISPRED, 0x010, \
	  "Branches mispredicted or not predicted at all, those on a wrong path included.") \
	E(BRANCH_PRED, 0x012, \
	  "Branches that the predictor could have predicted, those on a wrong path included.") \
	E(DATA_READS, 0x006, \
	  "Load instructions that the load/store unit accepted, those on a wrong path and " \
	  "those aborted included. One that reads several registers counts once.") \
	E(DATA_WRITES, 0x007, \
	  "Store instructions that the load/store unit accepted, those on a wrong path and " \
	  "those aborted included. One that writes several registers counts once.") \
	E(UNALIGNED_LOAD_STORE, 0x00f, \
	  "Loads and stores at unaligned addresses, executed to the end.") \
	E(L1D_CACHE_ACCESS, 0x004, \
	  "Reads and writes that looked up the data cache, reads on a wrong path included. An " \
	  "instruction may look it up more than once.") \
	E(L1D_CACHE_REFILL, 0x003, \
	  "Reads and writes that brought a line into the data cache. Writes that stream past " \
	  "it do not count.") \
	E(L1D_CACHE_EVICTION, 0x015, \
	  "Lines written back from the data cache.") \
	E(L1I_CACHE_ACCESS, 0x014, \
	  "Fetches that looked up the instruction cache, several instructions at once.") \
	E(L1I_CACHE_REFILL, 0x001, \
	  "Fetches that brought a line into the instruction cache, those on a wrong path " \
	  "included.") \
	E(L2D_CACHE_ACCESS, 0x016, \
	  "Accesses of this core to the L2 cache that all cores share.") \
	E(L2D_CACHE_REFILL, 0x017, \
	  "Accesses of this core that brought a line into the shared L2 cache.") \
	E(L2D_CACHE_WB, 0x018, \
	  "Lines written back from the L2 cache.") \
	E(L1D_TLB_REFILL, 0x005, \
	  "Data addresses that had to be fetched into the first level of the TLB.") \
	E(L1I_TLB_REFILL, 0x002, \
	  "Instruction addresses that had to be fetched into the first level of the TLB.") \
	E(EXCEPTION_TAKEN, 0x009, \
	  "Exceptions taken: faults, system calls and interrupts.") \
	E(EXCEPTION_RETURN, 0x00a, \
	  "Returns from exceptions.") \
	E(BUS_CYCLES, 0x01d, \
	  "Cycles of the bus or interconnect that the core is attached to.") \
	E(BUS_ACCESS, 0x019, \
	  "Accesses to the bus, of at most one beat each.") \
	E(BUS_READ_ACCESS, 0x060, \
	  "Reads on the bus.") \
	E(BUS_WRITE_ACCESS, 0x061, \
	  "Writes on the bus.") \
	E(SW_INCR, 0x000, \
	  "Writes of the software increment register: an event that a program makes itself.") \
	E(CID_WRITE_RETIRED, 0x00b, \
	  "Writes of the context identifier: one for each switch to another process.") \
	E(DATA_MEM_ACCESS, 0x013, \
	  "Data accesses, those on a wrong path included.") \
	E(IRQ_EXCEPTION_TAKEN, 0x086, \
	  "Interrupts taken.") \
	E(FIQ_EXCEPTION_TAKEN, 0x087, \
	  "Fast interrupts taken.") \
	E(EXTERNAL_MEMORY_REQUEST, 0x0c0, \
	  "Requests to memory outside the core.") \
	E(NONCACHE_EXTERNAL_MEMORY_REQUEST, 0x0c1, \
	  "Requests to memory outside the core at addresses that are not cacheable.") \
	E(PREFETCH_LINEFILL, 0x0c2, \
	  "Lines that the prefetcher brought into the data cache.") \
	E(PREFETCH_LINEFILL_DROPPED, 0x0c3, \
	  "Lines that the prefetcher asked for and gave up.") \
	E(ENTERING_READ_ALLOC, 0x0c4, \
	  "How often the core began to write past the data cache because whole lines were " \
	  "written.") \
	E(READ_ALLOC, 0x0c5, \
	  "Writing past the data cache: the manual names this mode, and does not say whether " \
	  "cycles or writes are counted.") \
	E(ETM_EXT_OUT_0, 0x0c7, \
	  "Pulses of output 0 of the trace unit.") \
	E(ETM_EXT_OUT_1, 0x0c8, \
	  "Pulses of output 1 of the trace unit.") \
	E(DATA_WRITE_STALL, 0x0c9, \
	  "Writes that stalled the pipeline because the store buffer was full.") \
	E(DATA_SNOOPED, 0x0ca, \
	  "Reads served by the cache of another core of the cluster, neither by the L2 cache " \
	  "nor from outside; each counts once, however many beats it took.")

/* LR_CORTEX_A7_ and the name: the code. */
#define LR_CORTEX_A7_CODE(name, code, prose) LR_CORTEX_A7_##name = code,
enum lr_cortex_a7_event { LR_CORTEX_A7_EVENTS(LR_CORTEX_A7_CODE) };
#undef LR_CORTEX_A7_CODE

#endif
