/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Work of tasks and interrupts: a packet is some scalar work, representing a protocol stack, and
 * one call that copies and sums it, by the kernels of native/. Its sum is compared with the known
 * one. Protocols and uncached memory are not modelled.
 */
#include <linerate/checksum.h>

#include "scheme.h"

/* Longest packet; the maximum added to its address; and the minimum length for vectors. */
enum { MOST_BYTES = 65536, MOST_OFFSET = 64, FEWEST = 96 };

/* By their names, for which of them runs is the scheme's to say. */
uint32_t lr_copy_csum_partial_ppc(void *dst, const void *src, size_t bytes, uint32_t sum);
uint32_t lr_copy_csum_partial_altivec(void *dst, const void *src, size_t bytes, uint32_t sum);

static uint8_t source[MOST_BYTES + MOST_OFFSET] __attribute__((aligned(64)));
/* The sum of all words before one. */
static uint32_t sums[(MOST_BYTES + MOST_OFFSET) / 2 + 1];
static uint8_t destinations[MOST_TASKS][MOST_BYTES + MOST_OFFSET] __attribute__((aligned(64)));
/* Shared by all, since it is never read. */
static uint8_t interrupt_destination[2048] __attribute__((aligned(64)));
static uint32_t sequence;
uint32_t last_packet_at;

void work_prepare(void)
{
	for (uint32_t i = 0; i < sizeof source; i++)
		source[i] = (uint8_t)random_below(256);
	for (uint32_t i = 0; i < sizeof source; i += 2)
		sums[i / 2 + 1] = sums[i / 2] + (uint32_t)(source[i] << 8 | source[i + 1]);
}

/* Bytes of a packet: "Enhanced TCP/IP Performance with AltiVec", benchmark results. */
static uint32_t bytes_of(uint32_t number)
{
	switch (SETTINGS->pattern) {
	case PATTERN_BULK:
		return 1460;
	case PATTERN_INTERACTIVE:
		return 1 + number % 2;
	case PATTERN_JUMBO:
		return 8000;
	case PATTERN_MIXED: {
		/* Simple IMIX: packets of 40, 576 and 1500 bytes at 7:4:1, here in one round. */
		static const uint16_t round[12] = { 40,	 576, 40, 40, 1500, 40,
						    576, 40,  40, 576, 40,  576 };
		return round[number % 12];
	}
	case PATTERN_RESPONSE:
		/* Connections without data: headers. */
		return 40;
	default:
		return SETTINGS->bytes;
	}
}

static HARNESS void judge(uint32_t offset, uint32_t bytes, uint32_t sum)
{
	uint32_t known = sums[(offset + bytes) / 2] - sums[offset / 2];

	if (bytes % 2)
		known += (uint32_t)source[offset + bytes - 1] << 8;
	/* Below 65536 words of 16 bits: no carry is lost. */
	COUNT(wrong, lr_csum_fold(known) != lr_csum_fold(sum));
	COUNT(bytes, bytes);
	COUNT(packets, 1);
}

static void follow_path(void)
{
	for (uint32_t turn = SETTINGS->path; turn; turn--)
		__asm__ volatile("");
}

static void packet(struct task *task)
{
	const uint32_t number = __atomic_fetch_add(&sequence, 1, __ATOMIC_RELAXED);
	const uint32_t bytes = bytes_of(number), offset = number * 2 % MOST_OFFSET;
	uint8_t *const to = destinations[task->number] + number % 16;
	uint32_t sum;

	follow_path();
	if (bytes >= FEWEST && scheme_enter(task)) {
		section_open(&task->context);
		if (SETTINGS->mode == MODE_SLEEP)
			call_kernel(CALL_YIELD);
		sum = lr_copy_csum_partial_altivec(to, source + offset, bytes, 0);
		section_close(&task->context);
		scheme_leave(task);
	} else {
		COUNT(refused, bytes >= FEWEST);
		sum = lr_copy_csum_partial_ppc(to, source + offset, bytes, 0);
	}
	judge(offset, bytes, sum);
	last_packet_at = timebase();
}

/* Below all other priorities, and without vectors. */
static __attribute__((noreturn, noinline, section(".text.background"))) void background(void)
{
	for (;;)
		__asm__ volatile("");
}

void task_main(struct task *task)
{
	if (!task->number)
		background();
	for (uint32_t packets = 0; !SETTINGS->life || packets < SETTINGS->life; packets++) {
		packet(task);
		if (task->is_busy) {
			if (SETTINGS->mode >= MODE_YIELD)
				call_kernel(CALL_YIELD);
			continue;
		}
		/* It is one packet less for the kernel, which knows whether there are more. */
		if (packets + 1 != SETTINGS->life)
			call_kernel(CALL_WAIT);
	}
	call_kernel(CALL_END);
	__builtin_unreachable();
}

/* The work of an interrupt that uses vectors itself, interrupts let in. */
void interrupt_work(struct context *context)
{
	const uint32_t bytes = 256 + random_below(1024), offset = bytes * 2 % MOST_OFFSET;
	uint8_t *const to = interrupt_destination + bytes % 16;
	uint32_t sum;

	if (scheme_interrupt_enter(context)) {
		section_open(context);
		sum = lr_copy_csum_partial_altivec(to, source + offset, bytes, 0);
		section_close(context);
		scheme_interrupt_leave(context);
	} else {
		sum = lr_copy_csum_partial_ppc(to, source + offset, bytes, 0);
	}
	judge(offset, bytes, sum);
}

void image_main(void);
void image_main(void)
{
	machine_start();
	work_prepare();
	kernel_start();
}
