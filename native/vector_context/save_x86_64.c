/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Saves and restores all vector registers of x86-64: those enabled by the operating system in XCR0,
 * which are XMM, the upper halves of YMM, opmasks, and ZMM. XSAVE saves them in the standard
 * format, whose size CPUID reports. Without XSAVE only XMM registers exist. Not saved: x87 and MMX,
 * AMX, and protection keys, which are not vector registers.
 *
 * CPUID is executed at the first save and the result cached, since it is slow and, in a guest, even
 * slower.
 */
#include "../kernels/no_vectors.h"

#include <linerate/vector_context.h>

#if defined(__x86_64__)

#include <cpuid.h>

/* Bits of XCR0: XMM, YMM, opmask, ZMM's upper halves, ZMM16 to 31 (Intel SDM volume 1, 13.1). */
#define COMPONENTS 0xe6u
#define ECX1_OSXSAVE (1u << 27)

/*
 * Mask of components for XSAVE; NONE without XSAVE; TOO_LARGE if the area has no room for the
 * registers.
 */
enum { UNKNOWN = 0, NONE = 1, TOO_LARGE = 1 << 8 };

_Static_assert(LR_VEC_AREA_BYTES % 64 == 0, "XSAVE takes areas of whole lines");

static unsigned asked(void)
{
	unsigned a, b, c, d, low, high;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & ECX1_OSXSAVE))
		return NONE;
	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	low &= COMPONENTS;
	for (unsigned component = 2; component < 8; component++) {
		if (!(low >> component & 1))
			continue;
		__cpuid_count(0xd, component, a, b, c, d);
		if (a + b > LR_VEC_AREA_BYTES)
			return TOO_LARGE;
	}
	return low;
}

static unsigned components(void)
{
	static unsigned known;
	unsigned now = __atomic_load_n(&known, __ATOMIC_RELAXED);
	if (now == UNKNOWN) {
		now = asked();
		__atomic_store_n(&known, now, __ATOMIC_RELAXED);
	}
	return now;
}

#define ALL_XMM(first, second)                                                                     \
	".irp v,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"                                         \
	"movups " first "," second "\n\t.endr\n\t"

int lr_vec_save(struct lr_vec_area *area)
{
	const unsigned which = components();
	if (which == TOO_LARGE)
		return 0;
	if (which == NONE) {
		__asm__ volatile(ALL_XMM("%%xmm\\v", "16*\\v(%0)") "stmxcsr 256(%0)"
				 :
				 : "r"(area->bytes)
				 : "memory");
		return 1;
	}
	/* Clears the header after the legacy region: XRSTOR requires its bytes 16 to 63 to be 0. */
	__asm__ volatile(".irp w,0,8,16,24,32,40,48,56\n\tmovq $0,512+\\w(%0)\n\t.endr\n\t"
			 "xsave64 (%0)"
			 :
			 : "r"(area->bytes), "a"(which), "d"(0)
			 : "memory");
	return 1;
}

void lr_vec_restore(const struct lr_vec_area *area)
{
	const unsigned which = components();
	if (which == NONE)
		__asm__ volatile(ALL_XMM("16*\\v(%0)", "%%xmm\\v") "ldmxcsr 256(%0)"
				 :
				 : "r"(area->bytes)
				 : "memory");
	else
		__asm__ volatile("xrstor64 (%0)"
				 :
				 : "r"(area->bytes), "a"(which), "d"(0)
				 : "memory");
}

#endif

#include "../kernels/no_vectors_end.h"
