/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "machine.h"

#include <stdlib.h>
#include <string.h>

enum { NUMBERS = 5 };

/* Parses 1 to NUMBERS colon-separated numbers. Returns how many, or -1 if the text is invalid. */
static int numbers(const char *text, uint64_t *to)
{
	int n = 0;

	for (;;) {
		char *end;
		if (n == NUMBERS || *text < '0' || *text > '9')
			return -1;
		to[n++] = strtoull(text, &end, 10);
		if (!*end)
			return n;
		if (*end != ':')
			return -1;
		text = end + 1;
	}
}

static int shift_of(uint64_t bytes)
{
	int shift = 0;

	if (!bytes || bytes & (bytes - 1))
		return -1;
	while (bytes >> shift != 1)
		shift++;
	return shift;
}

static const char *take_cache(struct cache *c, const uint64_t *n, int count)
{
	if (count < 4 || n[3] > RANDOM)
		return "expected SETS:WAYS:LINE:POLICY";
	if (!n[0] || !n[1] || n[1] > 1 << 20 || n[0] > UINT64_C(1) << 32 || shift_of(n[2]) < 0)
		return "sets and ways must be above 0, and the line size must be a power of two";
	c->sets = n[0];
	c->ways = (uint32_t)n[1];
	c->shift = (uint8_t)shift_of(n[2]);
	c->policy = (enum policy)n[3];
	return NULL;
}

static const char *take_tlb(struct tlb *t, const uint64_t *n, int count)
{
	if (count != 3 || !n[0] || !n[1] || n[0] * n[1] > 1 << 20 || n[2] > RANDOM)
		return "expected SETS:WAYS:POLICY";
	t->sets = n[0];
	t->ways = (uint32_t)n[1];
	t->policy = (enum policy)n[2];
	return NULL;
}

static const char *take_level(struct machine *m, int level, const uint64_t *n, int count)
{
	struct cache *const c = &m->data[level];
	const char *const wrong = take_cache(c, n, count);

	if (wrong)
		return wrong;
	if (count == 5 && n[4] > (uint64_t)(level ? VICTIM : (enum contents)THROUGH))
		return "the last number is too high";
	if (count == 5 && level)
		c->contents = (enum contents)n[4];
	else if (count == 5)
		m->writes = (enum writes)n[4];
	return NULL;
}

static const char *value_of(const char *item, const char *key)
{
	const size_t length = strlen(key);

	return strncmp(item, key, length) || item[length] != '=' ? NULL : item + length + 1;
}

const char *machine_take(struct machine *m, const char *item)
{
	static const char *const keys[] = { "l1i", "l1d", "l2", "l3", "itlb", "dtlb", "tlb2",
					    "page" };
	uint64_t n[NUMBERS];

	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		const char *const value = value_of(item, keys[i]);
		const int count = value ? numbers(value, n) : 0;
		if (!value)
			continue;
		if (count < 1)
			return "expected numbers";
		switch (i) {
		case 0: return take_cache(&m->l1i, n, count);
		case 1:
		case 2:
		case 3: return take_level(m, (int)i - 1, n, count);
		case 4: return take_tlb(&m->itlb, n, count);
		case 5: return take_tlb(&m->dtlb, n, count);
		case 6: return take_tlb(&m->tlb2, n, count);
		default:
			if (count != 1 || shift_of(n[0]) < 0)
				return "expected a power of two";
			m->page_shift = (uint8_t)shift_of(n[0]);
			return NULL;
		}
	}
	return "unknown key";
}

const char *machine_check(const struct machine *m)
{
	if (!m->l1i.ways || !m->data[0].ways || !m->page_shift)
		return "l1i, l1d and page are required";
	if (m->data[2].ways && !m->data[1].ways)
		return "an L3 needs an L2";
	if (m->tlb2.ways && !m->itlb.ways && !m->dtlb.ways)
		return "a second TLB level needs a first one";
	if (m->writes == THROUGH && m->data[1].ways && m->data[1].contents > INCLUSIVE)
		return "an L1D that writes through needs an L2 that is not filled by its victims";
	if (m->page_shift < m->l1i.shift || m->page_shift < m->data[0].shift)
		return "a page must not be shorter than a cache line";
	for (int level = 1; level < LEVELS && m->data[level].ways; level++) {
		const struct cache *const c = &m->data[level];
		const struct cache *const before = &m->data[level - 1];
		const bool is_filled_by_victims = c->contents > INCLUSIVE;
		if (c->shift < before->shift || (level == 1 && c->shift < m->l1i.shift))
			return "lines must not be shorter than those of the previous level";
		if (is_filled_by_victims &&
		    (c->shift != before->shift || (level == 1 && c->shift != m->l1i.shift)))
			return "levels that exchange lines must have the same line size";
	}
	return NULL;
}
