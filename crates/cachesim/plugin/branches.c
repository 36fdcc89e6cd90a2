/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "branches.h"

#include <string.h>

enum { WORD = 16 };

static bool begins(const char *text, const char *start)
{
	return !strncmp(text, start, strlen(start));
}

/* Copies the first word of a string and returns what follows it. */
static const char *first_word(const char *text, char *word)
{
	size_t length;

	text += strspn(text, " \t");
	length = strcspn(text, " \t");
	if (length >= WORD)
		length = WORD - 1;
	memcpy(word, text, length);
	word[length] = 0;
	text += length;
	return text + strspn(text, " \t");
}

static enum branch of_x86(const char *text)
{
	char word[WORD];
	const char *operands = first_word(text, word);

	if (!strcmp(word, "notrack") || !strcmp(word, "bnd") || begins(word, "rep"))
		operands = first_word(operands, word);
	if (begins(word, "jmp"))
		return *operands == '*' ? INDIRECT : DIRECT;
	if (*word == 'j' || begins(word, "loop"))
		return CONDITIONAL;
	if (begins(word, "call"))
		return *operands == '*' ? INDIRECT_CALL : CALL;
	return begins(word, "ret") ? RETURN : NO_BRANCH;
}

/* Removes an ARM condition suffix from a mnemonic. Returns false if there is none. */
static bool remove_condition(char *word)
{
	static const char conditions[] = "eqnecshscclomiplvsvchilsgeltgtle";
	const size_t length = strlen(word);

	if (length < 3)
		return false;
	for (const char *at = conditions; *at; at += 2) {
		if (!strncmp(word + length - 2, at, 2)) {
			word[length - 2] = 0;
			return true;
		}
	}
	return false;
}

/* Classifies an ARM mnemonic without a condition suffix. */
static enum branch arm_branch(const char *word, const char *operands)
{
	const bool has_link_register = begins(operands, "lr");

	if (!strcmp(word, "b"))
		return DIRECT;
	if (!strcmp(word, "bl"))
		return CALL;
	if (!strcmp(word, "blx"))
		return *operands == '#' ? CALL : INDIRECT_CALL;
	if (!strcmp(word, "bx") || !strcmp(word, "bxj"))
		return has_link_register ? RETURN : INDIRECT;
	if (!strcmp(word, "tbb") || !strcmp(word, "tbh"))
		return INDIRECT;
	if ((begins(word, "pop") || begins(word, "ldm")) && strstr(operands, "pc}"))
		return RETURN;
	if (begins(operands, "pc,") && !begins(word, "cmp") && !begins(word, "str"))
		return strcmp(word, "mov") || !strstr(operands, "lr") ? INDIRECT : RETURN;
	return NO_BRANCH;
}

static enum branch of_arm(const char *text)
{
	char word[WORD];
	const char *const operands = first_word(text, word);
	char *const dot = strchr(word, '.');
	enum branch whole;

	if (dot)
		*dot = 0;
	if (!strcmp(word, "cbz") || !strcmp(word, "cbnz"))
		return CONDITIONAL;
	whole = arm_branch(word, operands);
	if (whole != NO_BRANCH)
		return whole;
	return remove_condition(word) && arm_branch(word, operands) != NO_BRANCH ? CONDITIONAL :
										   NO_BRANCH;
}

static enum branch of_aarch64(const char *text)
{
	char word[WORD];

	first_word(text, word);
	if (!strcmp(word, "b"))
		return DIRECT;
	if (!strcmp(word, "bl"))
		return CALL;
	if (begins(word, "b.") || begins(word, "cbz") || begins(word, "cbnz") ||
	    begins(word, "tbz") || begins(word, "tbnz"))
		return CONDITIONAL;
	if (begins(word, "blr"))
		return INDIRECT_CALL;
	if (!strcmp(word, "br") || begins(word, "braa") || begins(word, "brab"))
		return INDIRECT;
	return !strcmp(word, "ret") || begins(word, "reta") ? RETURN : NO_BRANCH;
}

static enum branch of_ppc(const char *text)
{
	char word[WORD];

	first_word(text, word);
	if (*word != 'b' || begins(word, "brinc") || begins(word, "brd") || begins(word, "brw") ||
	    begins(word, "brh") || begins(word, "bperm"))
		return NO_BRANCH;
	if (!strcmp(word, "b") || !strcmp(word, "ba"))
		return DIRECT;
	if (!strcmp(word, "bl") || !strcmp(word, "bla"))
		return CALL;
	if (!strcmp(word, "blr"))
		return RETURN;
	if (!strcmp(word, "bctr"))
		return INDIRECT;
	return strcmp(word, "bctrl") && strcmp(word, "blrl") ? CONDITIONAL : INDIRECT_CALL;
}

bool has_repeat_prefix(const char *disassembly)
{
	return begins(disassembly + strspn(disassembly, " \t"), "rep");
}

branch_reader *branches_of(const char *target)
{
	static const struct {
		const char *target;
		branch_reader *reader;
	} readers[] = {
		{ "x86_64", of_x86 },	    { "i386", of_x86 }, { "arm", of_arm },
		{ "armeb", of_arm },	    { "ppc", of_ppc },	{ "ppc64", of_ppc },
		{ "aarch64", of_aarch64 },  { "ppc64le", of_ppc },
	};

	for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
		if (!strcmp(readers[i].target, target))
			return readers[i].reader;
	return NULL;
}
