/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A fully associative set with many entries. It behaves like a set in array.h, but takes constant
 * time, using a hash table and a list in eviction order.
 */
#ifndef LINERATE_INDEX_H
#define LINERATE_INDEX_H

#include <stdbool.h>
#include <stdint.h>

struct index;

/* Creates a set for `entries` entries, at least 1. Returns NULL if out of memory. */
struct index *index_new(uint32_t entries);
void index_free(struct index *x);

bool index_has(const struct index *x, uint64_t entry);

/* Makes an entry the newest. Returns false if it is not present. */
bool index_renew(struct index *x, uint64_t entry);

/* Inserts an entry that is not present as the newest. The set must not be full. */
void index_insert(struct index *x, uint64_t entry);

/* Removes an entry. Returns false if it is not present. */
bool index_remove(struct index *x, uint64_t entry);

/* Returns the entry at a position, counted from the newest (0) to the oldest. */
uint64_t index_at(const struct index *x, uint32_t position);

uint64_t index_oldest(const struct index *x);
uint32_t index_count(const struct index *x);

#endif
