/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Detects vector units on architectures where only privileged code may query the processor.
 *
 * Linux passes every process a list of usable features, the auxiliary vector. A program with a C
 * library can read it with getauxval, but in a static program that function is linked only if other
 * code refers to it. A strong reference is not possible here, because the function does not exist
 * on bare metal. It is therefore a weak reference, and if it is missing, the list is read from
 * /proc/self/auxv by inline system calls. These are made only if the program contains the startup
 * symbol of a Linux C library, since in firmware or in a kernel the same instruction has other
 * effects:
 *
 *	declared?		use what the caller declared
 *	getauxval linked?	call it
 *	a Linux C library?	read /proc/self/auxv
 *	otherwise		no vectors
 *
 * A static program with another C library, or without /proc, uses no vectors unless it declares
 * them. x86-64 is not covered here, because any code may use CPUID there (x86_64.c).
 */
#include "no_vectors.h"

#include "processor.h"

/* Set along with the LR_HAS_ bits once they have been detected or declared. */
#define IS_KNOWN (1u << 31)

static unsigned known;

#if defined(__linux__) && !defined(__KERNEL__) &&                                                  \
	(defined(__aarch64__) || defined(__arm__) || defined(__powerpc__))

/* Entries of the auxiliary vector (elf.h). */
#define AT_HWCAP 16
#define AT_HWCAP2 26

extern unsigned long getauxval(unsigned long type) __attribute__((weak));
extern void __libc_start_main(void) __attribute__((weak));

/* Flags of AT_HWCAP and AT_HWCAP2 (asm/hwcap.h, asm/cputable.h), and the numbers of system calls. */
#if defined(__aarch64__)
#define HWCAP_ASIMD (1ul << 1)
#define HWCAP_SVE (1ul << 22)
#define CALL_OPENAT 56
#define CALL_CLOSE 57
#define CALL_READ 63

static unsigned from_hwcap(unsigned long hwcap, unsigned long hwcap2)
{
	(void)hwcap2;
	return (hwcap & HWCAP_ASIMD ? LR_HAS_NEON : 0) | (hwcap & HWCAP_SVE ? LR_HAS_SVE : 0);
}

static long system_call(long number, long a, long b, long c)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory", "cc");
	return x0;
}

#elif defined(__arm__)
#define HWCAP_NEON (1ul << 12)
#define CALL_OPENAT 322
#define CALL_CLOSE 6
#define CALL_READ 3

static unsigned from_hwcap(unsigned long hwcap, unsigned long hwcap2)
{
	(void)hwcap2;
	return hwcap & HWCAP_NEON ? LR_HAS_NEON : 0;
}

/* The number goes into r7, which in Thumb code may be the frame pointer. */
static long system_call(long number, long a, long b, long c)
{
	register long r0 __asm__("r0") = a, r1 __asm__("r1") = b, r2 __asm__("r2") = c;
	__asm__ volatile("mov r12, r7\n\t"
			 "mov r7, %3\n\t"
			 "svc #0\n\t"
			 "mov r7, r12"
			 : "+r"(r0)
			 : "r"(r1), "r"(r2), "r"(number)
			 : "r12", "memory", "cc");
	return r0;
}

#else
#define PPC_FEATURE_HAS_ALTIVEC 0x10000000ul
#define PPC_FEATURE_HAS_VSX 0x00000080ul
#define PPC_FEATURE2_ARCH_2_07 0x80000000ul
#define CALL_OPENAT 286
#define CALL_CLOSE 6
#define CALL_READ 3

static unsigned from_hwcap(unsigned long hwcap, unsigned long hwcap2)
{
	const int is_207 = (hwcap & PPC_FEATURE_HAS_VSX) && (hwcap2 & PPC_FEATURE2_ARCH_2_07);
	return (hwcap & PPC_FEATURE_HAS_ALTIVEC ? LR_HAS_ALTIVEC : 0) | (is_207 ? LR_HAS_VSX : 0);
}

/*
 * On an error, the kernel sets the summary overflow bit of cr0 and returns a positive error number.
 */
static long system_call(long number, long a, long b, long c)
{
	register long r0 __asm__("r0") = number;
	register long r3 __asm__("r3") = a, r4 __asm__("r4") = b, r5 __asm__("r5") = c;
	__asm__ volatile("sc\n\t"
			 "bns+ 0f\n\t"
			 "neg %1, %1\n"
			 "0:"
			 : "+r"(r0), "+r"(r3), "+r"(r4), "+r"(r5)
			 :
			 : "r6", "r7", "r8", "r9", "r10", "r11", "r12", "cr0", "ctr", "xer", "memory");
	return r3;
}
#endif

/* An entry of the auxiliary vector. */
struct entry {
	unsigned long type, value;
};

/*
 * Returns the features found in /proc/self/auxv; none if it cannot be read. Reads a few entries at
 * a time, to use little stack.
 */
static unsigned from_file(void)
{
	static const char path[] = "/proc/self/auxv";
	struct entry entries[8];
	unsigned long hwcap = 0, hwcap2 = 0;
	const long at_cwd = -100, read_only_close_on_exec = 02000000;
	const long file = system_call(CALL_OPENAT, at_cwd, (long)path, read_only_close_on_exec);

	if (file < 0)
		return 0;
	for (;;) {
		const long bytes = system_call(CALL_READ, file, (long)entries, sizeof entries);
		const long count = bytes / (long)sizeof *entries;
		if (count <= 0)
			break;
		for (long i = 0; i < count; i++) {
			if (entries[i].type == AT_HWCAP)
				hwcap = entries[i].value;
			else if (entries[i].type == AT_HWCAP2)
				hwcap2 = entries[i].value;
		}
	}
	system_call(CALL_CLOSE, file, 0, 0);
	return from_hwcap(hwcap, hwcap2);
}

static unsigned found(void)
{
	if (getauxval)
		return from_hwcap(getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
	return __libc_start_main ? from_file() : 0;
}

#else

static unsigned found(void)
{
	return 0;
}
#endif

/* Threads that detect the features at the same time store the same value. */
int lr_processor_runs(unsigned features)
{
	unsigned now = __atomic_load_n(&known, __ATOMIC_RELAXED);
	if (!(now & IS_KNOWN)) {
		now = found() | IS_KNOWN;
		__atomic_store_n(&known, now, __ATOMIC_RELAXED);
	}
	return (now & features) == features ? LR_RUNS_WELL : 0;
}

void lr_processor_tell(unsigned features)
{
	__atomic_store_n(&known, features | IS_KNOWN, __ATOMIC_RELAXED);
}

#include "no_vectors_end.h"
