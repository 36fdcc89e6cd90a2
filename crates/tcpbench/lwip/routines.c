/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sums and copies with the routines that the program has set, and statistics of their calls. */
#include "parts.h"

#include <linerate/checksum.h>

#include <string.h>

u16_t lwip_standard_chksum(const void *src, int bytes);

static uint32_t own_checksum(const void *src, size_t bytes, uint32_t sum)
{
	return lr_csum_add(sum, lwip_standard_chksum(src, (int)bytes));
}

static uint32_t own_copy_checksum(void *dst, const void *src, size_t bytes, uint32_t sum)
{
	memcpy(dst, src, bytes);
	return own_checksum(dst, bytes, sum);
}

static struct lr_lwip_routines routines = { own_checksum, memcpy, own_copy_checksum, 0 };
int lr_are_sums_off;

static struct lr_lwip_watch watch;
static int is_watched;
/* One per routine, in the order of activities, then one for inline sums. */
static struct lr_lwip_tally tallies[LR_LWIP_COPY_CHECKSUM + 1];
#define INLINE_TALLY LR_LWIP_COPY_CHECKSUM

static uint64_t enter(uint8_t activity)
{
	if (watch.activity)
		__atomic_store_n(watch.activity, activity, __ATOMIC_RELAXED);
	return watch.ticks ? watch.ticks() : 0;
}

static void leave(unsigned which, const void *src, size_t bytes, uint64_t before)
{
	if (watch.ticks) {
		const uint64_t ticks = watch.ticks() - before;
		struct lr_lwip_tally *const tally = &tallies[which];
		size_t length = 0;

		while (bytes >> length && length < LR_LWIP_LENGTHS - 1)
			length++;
		tally->calls++;
		tally->bytes += bytes;
		tally->ticks += ticks;
		tally->lengths[length]++;
		tally->alignments[(uintptr_t)src % 64 / 8]++;
	}
	if (watch.activity)
		__atomic_store_n(watch.activity, LR_LWIP_NONE, __ATOMIC_RELAXED);
}

/*
 * Returns whether data is short enough to sum inline: it may be a header that was just written,
 * where wider loads would defeat store forwarding.
 */
static int is_inline(size_t bytes)
{
	return bytes <= routines.inline_bytes && bytes % 4 == 0;
}

static uint32_t summed(const void *src, size_t bytes)
{
	if (is_inline(bytes))
		return lr_csum_header(src, bytes / 4, 0);
	return routines.checksum(src, bytes, 0);
}

uint16_t lr_plugin_chksum(const void *src, int bytes)
{
	if (!is_watched)
		return lr_csum_fold(summed(src, (size_t)bytes));
	const uint64_t before = enter(LR_LWIP_CHECKSUM);
	const uint32_t sum = summed(src, (size_t)bytes);
	leave(is_inline((size_t)bytes) ? INLINE_TALLY : LR_LWIP_CHECKSUM - 1, src, (size_t)bytes,
	      before);
	return lr_csum_fold(sum);
}

uint16_t lr_plugin_chksum_copy(void *dst, const void *src, uint16_t bytes)
{
	if (lr_are_sums_off) {
		lr_plugin_copy(dst, src, bytes);
		return 0;
	}
	if (!routines.copy_checksum) {
		lr_plugin_copy(dst, src, bytes);
		return lr_plugin_chksum(dst, bytes);
	}
	if (!is_watched)
		return lr_csum_fold(routines.copy_checksum(dst, src, bytes, 0));
	const uint64_t before = enter(LR_LWIP_COPY_CHECKSUM);
	const uint32_t sum = routines.copy_checksum(dst, src, bytes, 0);
	leave(LR_LWIP_COPY_CHECKSUM - 1, src, bytes, before);
	return lr_csum_fold(sum);
}

void *lr_plugin_copy(void *dst, const void *src, size_t bytes)
{
	if (!is_watched)
		return routines.copy(dst, src, bytes);
	const uint64_t before = enter(LR_LWIP_COPY);
	routines.copy(dst, src, bytes);
	leave(LR_LWIP_COPY - 1, src, bytes, before);
	return dst;
}

void lr_use(const struct lr_lwip_routines *named)
{
	routines = *named;
	if (!routines.copy)
		routines.copy = memcpy;
	if (routines.checksum)
		return;
	routines.checksum = own_checksum;
	routines.copy_checksum = own_copy_checksum;
}

void lr_set_watch(const struct lr_lwip_watch *named)
{
	watch = *named;
	is_watched = watch.ticks || watch.activity;
	if (watch.ticks)
		memset(tallies, 0, sizeof tallies);
}

const struct lr_lwip_tally *lr_tallies(void)
{
	return tallies;
}
