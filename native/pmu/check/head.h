/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One function per register access, so that a disassembler shows each by its name. Compiled but
 * never linked; the files next to this one list the expected words of each.
 */
#define READ(prefix, type, name) \
	type read_##name(void); \
	type read_##name(void) \
	{ \
		return prefix##_read_##name(); \
	}
#define WRITE(prefix, type, name) \
	void write_##name(type value); \
	void write_##name(type value) \
	{ \
		prefix##_write_##name(value); \
	}
