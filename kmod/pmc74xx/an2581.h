/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The 26 events that AN2581, "AltiVec, multiprocessing", selects on an MPC7400: E(name, code), the
 * counter in bits 8 to 10 of the code and the selection below, as in native/pmu/events/mpc74xx.h.
 * The MPC7400 and MPC7410 number their events otherwise than their successors, and Linux has no
 * driver for them. Names are those of the successors' table with the counter behind them.
 */
#ifndef LINERATE_KMOD_AN2581_H
#define LINERATE_KMOD_AN2581_H

#define AN2581_EVENTS(E) \
	E(PM_CYC_1, 0x101) E(PM_L1_HIT_1, 0x118) E(PM_INST_DISP_1, 0x104) \
	E(PM_L1_ICACHE_MISS_1, 0x120) E(PM_L2_ICACHE_MISS_1, 0x122) \
	E(PM_LD_MISS_EXCEED_L1_CYC_1, 0x10b) E(PM_ST_CMPL_1, 0x115) \
	E(PM_ALTIVEC_LD_CMPL_1, 0x130) E(PM_DISP_STALL_BRANCH_1, 0x10d) E(PM_BIU_STALL_1, 0x125) \
	E(PM_CYC_2, 0x201) E(PM_INST_CMPL_2, 0x202) E(PM_ITLB_MISS_2, 0x206) \
	E(PM_L1_ICACHE_RELOAD_2, 0x219) E(PM_LD_CMPL_2, 0x20b) E(PM_L2_DCACHE_MISS_2, 0x21a) \
	E(PM_L1_DCACHE_MISS_2, 0x211) E(PM_SNOOP_HIT_2, 0x225) \
	E(PM_CYC_3, 0x301) E(PM_INST_CMPL_3, 0x302) E(PM_LR_CTR_STALL_3, 0x30f) \
	E(PM_BUS_SNOOP_3, 0x31a) E(PM_L2_SNOOP_HIT_3, 0x31b) \
	E(PM_CYC_4, 0x401) E(PM_INST_CMPL_4, 0x402) E(PM_BR_FETCH_STALL_4, 0x40e)

#endif
