/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One fully associative set of many entries: the same rules as a set of array.h, in constant time
 * by a hash table and a list in order of eviction.
 */
#ifndef LINERATE_INDEX_H
#define LINERATE_INDEX_H

#include <stdbool.h>
#include <stdint.h>

struct index;

/* NULL if there is no memory. `entries` is at least 1. */
struct index *index_new(uint32_t entries);
void index_free(struct index *x);

bool index_has(const struct index *x, uint64_t entry);

/* Makes a present entry the newest; false if it is not present. */
bool index_renew(struct index *x, uint64_t entry);

/* Inserts an entry that is not present as the newest. The set must not be full. */
void index_insert(struct index *x, uint64_t entry);

/* Removes an entry; false if it is not present. */
bool index_remove(struct index *x, uint64_t entry);

/* The entry at a position from the newest, 0, to the oldest. */
uint64_t index_at(const struct index *x, uint32_t position);

uint64_t index_oldest(const struct index *x);
uint32_t index_count(const struct index *x);

#endif
