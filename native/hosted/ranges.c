/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The ranges in which faults are expected: written under a lock, read without one by a signal
 * handler that may have interrupted anything, a writer included.
 *
 * A range is in a slot and does not move while it is registered. A slot has a version, odd while it
 * is written:
 *
 *   write: version odd; first, bytes; version even, two above what it was
 *   read:  version; first, bytes; version again. If it was odd or is another one now, the slot was
 *          written meanwhile: the old range is no longer registered or the new one not yet, so the
 *          slot counts as empty. The slot of a registered range is not written.
 *
 * A reader therefore never waits and reads each slot once. Slots come in chunks, linked when all
 * are taken and never freed.
 */
#include "ranges.h"

#include <linerate/hosted.h>

#if LR_FAULT
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define SLOTS 64

/* Empty if bytes is 0; first is 0 then. */
struct slot {
	/* Cannot wrap during a read: in that time, no slot is written 2^31 times. */
	_Atomic uintptr_t version;
	_Atomic uintptr_t first;
	_Atomic size_t bytes;
};

struct chunk {
	struct slot slots[SLOTS];
	struct chunk *_Atomic next;
};

static struct chunk head;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void write_slot(struct slot *slot, uintptr_t first, size_t bytes)
{
	const uintptr_t version = atomic_load_explicit(&slot->version, memory_order_relaxed);
	atomic_store_explicit(&slot->version, version + 1, memory_order_relaxed);
	/*
	 * Pairs with the fence in holds(): a reader that sees a store below also sees an odd or a
	 * later version.
	 */
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&slot->first, first, memory_order_relaxed);
	atomic_store_explicit(&slot->bytes, bytes, memory_order_relaxed);
	atomic_store_explicit(&slot->version, version + 2, memory_order_release);
}

static int holds(struct slot *slot, uintptr_t address)
{
	const uintptr_t version = atomic_load_explicit(&slot->version, memory_order_acquire);
	const uintptr_t first = atomic_load_explicit(&slot->first, memory_order_relaxed);
	const size_t bytes = atomic_load_explicit(&slot->bytes, memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	return !(version & 1) &&
	       atomic_load_explicit(&slot->version, memory_order_relaxed) == version &&
	       address - first < bytes;
}

/* Pairs with the release in add_chunk: a reader that sees a chunk sees its slots initialized. */
static struct chunk *after(struct chunk *chunk)
{
	return atomic_load_explicit(&chunk->next, memory_order_acquire);
}

int lr_fault_expected(uintptr_t address)
{
	for (struct chunk *chunk = &head; chunk; chunk = after(chunk))
		for (size_t i = 0; i < SLOTS; i++)
			if (holds(&chunk->slots[i], address))
				return 1;
	return 0;
}

/*
 * Returns the slot that holds exactly this range; for an empty range, an empty slot. The lock must
 * be held, as for everything below.
 */
static struct slot *find(uintptr_t first, size_t bytes)
{
	for (struct chunk *chunk = &head; chunk; chunk = after(chunk))
		for (size_t i = 0; i < SLOTS; i++) {
			struct slot *slot = &chunk->slots[i];
			if (slot->first == first && slot->bytes == bytes)
				return slot;
		}
	return 0;
}

/* Adds a chunk. Returns its first slot, or null if out of memory. */
static struct slot *add_chunk(void)
{
	struct chunk *last = &head;
	struct chunk *added = calloc(1, sizeof *added);
	if (!added)
		return 0;
	while (after(last))
		last = after(last);
	atomic_store_explicit(&last->next, added, memory_order_release);
	return &added->slots[0];
}

int lr_fault_register(const void *first, size_t bytes)
{
	const uintptr_t at = (uintptr_t)first;
	if (!bytes || at + (bytes - 1) < at)
		return EINVAL;
	pthread_mutex_lock(&lock);
	struct slot *slot = find(0, 0);
	if (!slot)
		slot = add_chunk();
	if (slot)
		write_slot(slot, at, bytes);
	pthread_mutex_unlock(&lock);
	return slot ? 0 : ENOMEM;
}

int lr_fault_unregister(const void *first, size_t bytes)
{
	if (!bytes)
		return ENOENT;
	pthread_mutex_lock(&lock);
	struct slot *slot = find((uintptr_t)first, bytes);
	if (slot)
		write_slot(slot, 0, 0);
	pthread_mutex_unlock(&lock);
	return slot ? 0 : ENOENT;
}
#endif
