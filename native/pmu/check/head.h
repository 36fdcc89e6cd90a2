/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One function per access to a register, so that a disassembler shows each by its name. Compiled
 * and never linked; the files beside this one say which words each must consist of.
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
