/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The register accesses of apb.h, to be compared with apb.txt. */
#include "../apb.h"

#define O(name, number) \
	uint32_t read_##name(const volatile void *pmu); \
	uint32_t read_##name(const volatile void *pmu) \
	{ \
		return lr_apb_read_##name(pmu); \
	}
#define W(name, number) \
	void write_##name(volatile void *pmu, uint32_t value); \
	void write_##name(volatile void *pmu, uint32_t value) \
	{ \
		lr_apb_write_##name(pmu, value); \
	}
#define R(name, number) O(name, number) W(name, number)
LR_APB_REGISTERS(R, O, W)
