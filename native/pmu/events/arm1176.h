/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Events: ARM1176JZF-S (Raspberry Pi 1 and Zero). Name, what a counter takes, prose.
 *
 * Source: ARM1176JZF-S Technical Reference Manual, ARM DDI 0301, c15 Performance Monitor Control
 * Register.
 *
 * Written by `cargo xtask events`; the place to change is
 * crates/counters/data/events/arm1176.toml.
 */
#ifndef LINERATE_PMU_EVENTS_ARM1176_H
#define LINERATE_PMU_EVENTS_ARM1176_H

/* E(name, code, prose) for each event. */
#define LR_ARM1176_EVENTS(E) \
	E(CPU_CYCLES, 0x0ff, \
	  "Core cycles, on the counter kept for them: always on, in addition to two other " \
	  "events.") \
	E(INSTR_EXEC, 0x007, \
	  "Instructions executed. Those whose condition failed count too: nearly every ARM " \
	  "instruction can have one.") \
	E(BR_EXEC, 0x005, \
	  "Branch instructions executed, whether or not they changed the flow. Writing the " \
	  "program counter by other instructions is in sw_pc_change.") \
	E(BR_MISPREDICT, 0x006, \
	  "Branches whose direction or target was predicted wrongly.") \
	E(IBUF_STALL, 0x001, \
	  "Cycles in which the instruction buffer had no instruction to deliver: a miss of the " \
	  "instruction cache or of the instruction MicroTLB.") \
	E(DCACHE_ACCESS_CACHEABLE, 0x009, \
	  "Accesses to the data cache at cacheable addresses that do not follow the previous " \
	  "one in the same line. Sequential accesses do not count: this is neither the loads " \
	  "and stores of a program nor a base for a plain miss ratio, and code that walks " \
	  "memory in order shows fewer accesses for the same work. (Linux's driver calls it a " \
	  "hit; the manual does not.)") \
	E(DCACHE_ACCESS, 0x00a, \
	  "As dcache_access_cacheable, at addresses that are not cacheable too.") \
	E(DCACHE_MISS, 0x00b, \
	  "Misses of the 16 KiB data cache.") \
	E(DCACHE_WBACK, 0x00c, \
	  "Half lines of four words written back from the data cache.") \
	E(ICACHE_MISS, 0x000, \
	  "Misses of the 16 KiB instruction cache at cacheable addresses, fetches on a wrong " \
	  "path included.") \
	E(DTLB_MISS, 0x004, \
	  "Data addresses that were not in the data MicroTLB of ten pages (40 KiB). The main " \
	  "TLB serves most of them within a few cycles.") \
	E(ITLB_MISS, 0x003, \
	  "Instruction addresses that were not in the instruction MicroTLB of ten pages.") \
	E(MAIN_TLB_MISS, 0x00f, \
	  "Addresses, of data and instructions, that were not in the main TLB of 64 + 8 pages " \
	  "(288 KiB) and cost a walk of the page table: at least one more read of memory.") \
	E(DDEP_STALL, 0x002, \
	  "Cycles stalled because an instruction waited for the result of another.") \
	E(LSU_FULL_STALL, 0x011, \
	  "Cycles stalled because the queue of the load/store unit was full.") \
	E(EXPL_D_ACCESS, 0x010, \
	  "Data accesses that went out to memory: line fills, accesses that are not cacheable, " \
	  "writes through.") \
	E(SW_PC_CHANGE, 0x00d, \
	  "Changes of the program counter by software without a change of mode.") \
	E(WBUF_DRAINED, 0x012, \
	  "Drains of the write buffer by a barrier or a strongly ordered access.") \
	E(ETMEXTOUT_0, 0x020, \
	  "Cycles in which the trace unit raised its output 0.") \
	E(ETMEXTOUT_1, 0x021, \
	  "Cycles in which the trace unit raised its output 1.") \
	E(ETMEXTOUT, 0x022, \
	  "As etmextout_0 and etmextout_1 together; a cycle with both counts twice.") \
	E(PROC_CALL_EXEC, 0x023, \
	  "Calls executed: branches that leave a return address in the link register.") \
	E(PROC_RET_EXEC, 0x024, \
	  "Returns executed.") \
	E(PROC_RET_EXEC_PRED, 0x025, \
	  "Returns executed whose target was predicted.") \
	E(PROC_RET_EXEC_PRED_INCORRECT, 0x026, \
	  "Returns executed whose target was predicted wrongly.")

/* LR_ARM1176_ and the name: the code. */
#define LR_ARM1176_CODE(name, code, prose) LR_ARM1176_##name = code,
enum lr_arm1176_event { LR_ARM1176_EVENTS(LR_ARM1176_CODE) };
#undef LR_ARM1176_CODE

#endif
