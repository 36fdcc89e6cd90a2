/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Lookup of events by their names in native/pmu/events, for the modules, with suggestions for
 * unknown names.
 */
#ifndef LINERATE_KMOD_EVENT_NAMES_H
#define LINERATE_KMOD_EVENT_NAMES_H

#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/printk.h>
#include <linux/string.h>

struct event_name {
	const char *name;
	unsigned int code;
};

/* Expands an entry of the lists in native/pmu/events. */
#define EVENT_NAME(name, code, prose) { #name, code },

/* Longer than any name. */
#define EVENT_NAME_MAX 40

static inline const struct event_name *event_named(const struct event_name *events, size_t count,
						   const char *name)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (!strcasecmp(events[i].name, name))
			return &events[i];
	return NULL;
}

/* Returns the name of the event with this code, or "-". */
static inline const char *event_name_of(const struct event_name *events, size_t count,
					unsigned int code)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (events[i].code == code)
			return events[i].name;
	return "-";
}

/*
 * Number of letters to change, insert or delete to turn one name into the other (Levenshtein
 * distance), row by row: row[j] is the distance of the first i letters of a from the first j of b.
 */
static inline unsigned int event_name_distance(const char *a, const char *b)
{
	const size_t width = min_t(size_t, strlen(b), EVENT_NAME_MAX);
	unsigned int row[EVENT_NAME_MAX + 1];
	size_t i, j;

	for (j = 0; j <= width; j++)
		row[j] = j;
	for (i = 1; a[i - 1] && i <= EVENT_NAME_MAX; i++) {
		unsigned int diagonal = row[0];

		row[0] = i;
		for (j = 1; j <= width; j++) {
			const unsigned int changed =
				diagonal + !!strncasecmp(&a[i - 1], &b[j - 1], 1);

			diagonal = row[j];
			row[j] = min3(changed, row[j] + 1, row[j - 1] + 1);
		}
	}
	return row[width];
}

/* Prints all names and the one closest to an unknown name; count must be above 0. */
static inline void event_name_help(const struct event_name *events, size_t count, const char *name)
{
	size_t i, nearest = 0, used = 0;
	char line[100];

	for (i = 1; i < count; i++)
		if (event_name_distance(events[i].name, name) <
		    event_name_distance(events[nearest].name, name))
			nearest = i;
	pr_err("there are:\n");
	for (i = 0; i < count; i++) {
		if (used + 1 + strlen(events[i].name) >= sizeof(line)) {
			pr_err("%s\n", line);
			used = 0;
		}
		used += scnprintf(line + used, sizeof(line) - used, " %s", events[i].name);
	}
	pr_err("%s\n", line);
	/* Printed last, where it is seen first. */
	pr_err("no event `%s`; the nearest is %s\n", name, events[nearest].name);
}

#endif
