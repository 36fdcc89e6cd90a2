/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A plugin for QEMU's translator that counts executed instructions: all of them, those within a
 * range of addresses, and of the latter those that are vector instructions.
 *
 * Arguments, numbers as strtoull reads them:
 *
 *	low=, high=	the range: low <= address < high
 *	mark=		an address: each time the instruction there is executed, one line is
 *			written, "ALL IN_RANGE VECTOR", what was counted since the one before it,
 *			the mark included; what follows the last mark is not written
 *	out=		the file for the lines
 *	mnemonic=	a vector instruction begins with this; may be given often
 *	register=	or has an operand that begins with this and a digit; may be given often
 *	bits=, opcode=	or has, of these bits of its four bytes in little-endian order, those of
 *			opcode: for extensions that the disassembler has no words for
 *
 * For one thread, in user or system emulation. Leaves out what the words of the disassembly mean:
 * the caller knows the architecture. Counts repeat exactly; time means nothing under a translator.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../crates/cachesim/plugin/qemu_plugin.h"

int qemu_plugin_version = 1;

/* Classification of an instruction, as the data of its callback. */
enum { OTHER, IN_RANGE, VECTOR, KINDS };

enum { WORDS = 16 };

struct words {
	const char *at[WORDS];
	size_t count;
};

static struct words mnemonics, registers;
static uint64_t low, high, mark, bits, opcode;
static uint64_t executed[KINDS];
static FILE *out;

static int begins_with(const char *text, const char *word)
{
	return !strncmp(text, word, strlen(word));
}

/* Whether some word of the text, after its first, is one of the registers with its number. */
static int names_register(const char *text)
{
	for (const char *at = text + 1; *at; at++) {
		if (isalnum((unsigned char)at[-1]) || !isalnum((unsigned char)*at))
			continue;
		for (size_t i = 0; i < registers.count; i++)
			if (begins_with(at, registers.at[i]) &&
			    isdigit((unsigned char)at[strlen(registers.at[i])]))
				return 1;
	}
	return 0;
}

static int has_opcode(const struct qemu_plugin_insn *insn)
{
	const unsigned char *const byte = qemu_plugin_insn_data(insn);
	uint32_t word = 0;

	for (unsigned i = 0; bits && i < 4; i++)
		word |= (uint32_t)byte[i] << 8 * i;
	return bits && (word & bits) == opcode;
}

static int is_vector(const struct qemu_plugin_insn *insn)
{
	char *const text = qemu_plugin_insn_disas(insn);
	int found = has_opcode(insn) || (text && names_register(text));

	for (size_t i = 0; text && i < mnemonics.count; i++)
		found |= begins_with(text, mnemonics.at[i]);
	free(text);
	return found;
}

static void count(unsigned vcpu, void *data)
{
	(void)vcpu;
	executed[(uintptr_t)data]++;
}

static void report(unsigned vcpu, void *data)
{
	const uint64_t in_range = executed[IN_RANGE] + executed[VECTOR];

	(void)vcpu;
	(void)data;
	fprintf(out, "%llu %llu %llu\n", (unsigned long long)(executed[OTHER] + in_range),
		(unsigned long long)in_range, (unsigned long long)executed[VECTOR]);
	fflush(out);
	memset(executed, 0, sizeof executed);
}

static void on_translation(uint64_t id, struct qemu_plugin_tb *tb)
{
	const size_t insns = qemu_plugin_tb_n_insns(tb);

	(void)id;
	for (size_t i = 0; i < insns; i++) {
		struct qemu_plugin_insn *const insn = qemu_plugin_tb_get_insn(tb, i);
		const uint64_t address = qemu_plugin_insn_vaddr(insn);
		uintptr_t kind = OTHER;
		if (address >= low && address < high)
			kind = is_vector(insn) ? VECTOR : IN_RANGE;
		qemu_plugin_register_vcpu_insn_exec_cb(insn, count, 0, (void *)kind);
		if (address == mark)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, report, 0, NULL);
	}
}

/* 0 if the argument was understood. */
static int take(const char *argument)
{
	const char *const value = strchr(argument, '=');
	struct words *words = NULL;

	if (!value)
		return -1;
	if (begins_with(argument, "low="))
		low = strtoull(value + 1, NULL, 0);
	else if (begins_with(argument, "high="))
		high = strtoull(value + 1, NULL, 0);
	else if (begins_with(argument, "mark="))
		mark = strtoull(value + 1, NULL, 0);
	else if (begins_with(argument, "bits="))
		bits = strtoull(value + 1, NULL, 0);
	else if (begins_with(argument, "opcode="))
		opcode = strtoull(value + 1, NULL, 0);
	else if (begins_with(argument, "out="))
		out = fopen(value + 1, "w");
	else if (begins_with(argument, "mnemonic="))
		words = &mnemonics;
	else if (begins_with(argument, "register="))
		words = &registers;
	else
		return -1;
	if (words) {
		if (words->count == WORDS)
			return -1;
		words->at[words->count++] = value + 1;
	}
	return 0;
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
	(void)info;
	for (int i = 0; i < argc; i++) {
		if (take(argv[i])) {
			fprintf(stderr, "icount: cannot use '%s': see the head of %s\n", argv[i],
				__FILE__);
			return -1;
		}
	}
	if (!out || !mark) {
		fprintf(stderr, "icount: needs mark=ADDRESS and out=FILE to be written (%s)\n",
			out ? "it can" : strerror(errno));
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	return 0;
}
