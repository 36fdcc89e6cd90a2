/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Checks that vector registers survive nesting, that refused callers are refused, and that guarded
 * kernels follow both. Preemption is covered by vector_nested.c and linerate's models.
 */
#include "../kernels/no_vectors.h"

#include "vector.h"

#include <linerate/guarded.h>

#include <stdio.h>
#include <string.h>

#if CHECKED

/* Depth of nested handlers. */
#define DEPTH 4

static struct registers mine, theirs[DEPTH], after;
static struct lr_vec_nest nests[DEPTH];
static struct lr_vec_area home;
static struct lr_vec_unit unit;

void leave_home(void)
{
	lr_vec_save(&home);
}

void come_home(void)
{
	lr_vec_restore(&home);
}

#if defined(__powerpc__)
static size_t used(void)
{
	return 532;
}

int vector_kind(void)
{
	return 0;
}

/* VSCR: the bits for non-Java mode and saturation, in the word of lowest significance. */
static void make_valid(struct registers *r)
{
	const uint32_t vscr = (uint32_t)(random_number() & 0x00010001);
	memset(r->bytes + 512, 0, 16);
	memcpy(r->bytes + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 524 : 512), &vscr, sizeof vscr);
}
#elif defined(__arm__)
static size_t used(void)
{
	return 260;
}

int vector_kind(void)
{
	return 0;
}

/* FPSCR: flags, saturation, rounding and the exceptions seen. */
static void make_valid(struct registers *r)
{
	const uint32_t fpscr = (uint32_t)(random_number() & 0xf8c0001f);
	memcpy(r->bytes + 256, &fpscr, sizeof fpscr);
}
#elif defined(__aarch64__)
int vector_kind(void)
{
	return lr_variant_find("sve")->supported() != 0;
}

/* Returns the size of a vector in bytes. */
static size_t vector_bytes(void)
{
	uintptr_t bytes = 16;
	if (vector_kind())
		__asm__(".arch_extension sve\n\trdvl %0,#1" : "=r"(bytes));
	return bytes;
}

static size_t used(void)
{
	const size_t bytes = vector_bytes();
	return 16 + 32 * bytes + (vector_kind() ? 17 * bytes / 8 : 0);
}

/*
 * FPCR: rounding. FPSR: saturation and the exceptions seen. FFR: ones in a random number of low
 * bits, then zeros.
 */
static void make_valid(struct registers *r)
{
	const size_t bytes = vector_bytes(), lanes = random_below(bytes + 1);
	const uint64_t control = random_number() & 0x00c00000, status = random_number() & 0x0800001f;
	memcpy(r->bytes, &control, sizeof control);
	memcpy(r->bytes + 8, &status, sizeof status);
	for (size_t lane = 0; lane < bytes; lane++) {
		uint8_t *const at = &r->bytes[16 + 32 * bytes + 2 * bytes + lane / 8];
		const unsigned bit = 1u << lane % 8;
		*at = (uint8_t)(lane < lanes ? *at | bit : *at & ~bit);
	}
}
#else
int vector_kind(void)
{
	if (__builtin_cpu_supports("avx512bw"))
		return 2;
	return __builtin_cpu_supports("avx") ? 1 : 0;
}

static size_t used(void)
{
	return vector_kind() == 2 ? 64 * 33 + 64 : 64 * 17;
}

/* MXCSR: rounding and the exceptions seen, all of them masked. Nothing after it is dumped. */
static void make_valid(struct registers *r)
{
	const uint32_t mxcsr = (uint32_t)(random_number() & 0x603f) | 0x1f80;
	const size_t width = vector_kind() == 2 ? 64 : vector_kind() == 1 ? 32 : 16;
	memset(r->bytes, 0, 64);
	memcpy(r->bytes, &mxcsr, sizeof mxcsr);
	for (size_t i = 1; i <= 16; i++)
		memset(r->bytes + 64 * i + width, 0, 64 - width);
}
#endif

void make_registers(struct registers *r)
{
	for (size_t i = 0; i < sizeof r->bytes; i++)
		r->bytes[i] = (uint8_t)random_number();
	make_valid(r);
}

int are_same(const struct registers *a, const struct registers *b)
{
	const volatile uint8_t *const x = a->bytes, *const y = b->bytes;
	const size_t bytes = used();
	for (size_t i = 0; i < bytes; i++)
		if (x[i] != y[i])
			return 0;
	return 1;
}

/*
 * Runs the handlers from a depth on: each nests, fills the registers, is interrupted, and unnests.
 */
static void handle(unsigned depth)
{
	if (depth == DEPTH)
		return;
	if (!lr_vec_nest(&unit, &nests[depth]))
		return;
	vector_fill(&theirs[depth], vector_kind());
	handle(depth + 1);
	lr_vec_unnest(&unit, &nests[depth]);
}

static void registers_survive(struct tally *tally)
{
	const int kind = vector_kind();
	for (unsigned round = 0; round < 100; round++) {
		make_registers(&mine);
		for (unsigned depth = 0; depth < DEPTH; depth++)
			make_registers(&theirs[depth]);
		memset(&after, 0, sizeof after);
		leave_home();
		const int is_in = lr_vec_enter(&unit);
		vector_fill(&mine, kind);
		handle(0);
		vector_dump(&after, kind);
		lr_vec_leave(&unit);
		come_home();
		expect(tally, is_in && !unit.owner, "enter or leave: %d, owner %#lx", is_in,
		       (unsigned long)unit.owner);
		expect(tally, are_same(&mine, &after), "nested users changed a register");
	}
}

/*
 * Expects that registers are lost if they are not saved: the comparison detects a loss.
 */
static void loss_is_seen(struct tally *tally)
{
	make_registers(&mine);
	make_registers(&theirs[0]);
	leave_home();
	vector_fill(&mine, vector_kind());
	vector_fill(&theirs[0], vector_kind());
	vector_dump(&after, vector_kind());
	come_home();
	expect(tally, !are_same(&mine, &after) && are_same(&theirs[0], &after),
	       "filling and dumping");
}

static void tasks_are_switched(struct tally *tally)
{
	static struct lr_vec_task one, two;
	const int kind = vector_kind();
	int same;

	make_registers(&mine);
	make_registers(&theirs[0]);
	make_registers(&theirs[1]);
	leave_home();
	lr_vec_task_enter(&unit, &one);
	vector_fill(&mine, kind);
	/*
	 * Switch to a task without vectors and back: the registers are saved, and still hold their
	 * values.
	 */
	lr_vec_switch(&unit, &one, 0);
	lr_vec_switch(&unit, 0, &one);
	vector_dump(&after, kind);
	same = are_same(&mine, &after);
	/*
	 * Switch to a task that enters, then to one without vectors, then back to each of the two.
	 */
	lr_vec_switch(&unit, &one, &two);
	lr_vec_task_enter(&unit, &two);
	vector_fill(&theirs[0], kind);
	lr_vec_switch(&unit, &two, 0);
	if (lr_vec_nest(&unit, &nests[0])) {
		vector_fill(&theirs[1], kind);
		lr_vec_unnest(&unit, &nests[0]);
	}
	lr_vec_switch(&unit, 0, &one);
	vector_dump(&after, kind);
	same += are_same(&mine, &after);
	lr_vec_switch(&unit, &one, &two);
	vector_dump(&after, kind);
	same += are_same(&theirs[0], &after);
	lr_vec_task_leave(&unit, &two);
	lr_vec_switch(&unit, &two, &one);
	vector_dump(&after, kind);
	same += are_same(&mine, &after);
	lr_vec_task_leave(&unit, &one);
	come_home();
	expect(tally, same == 4, "of 4 switches, %d brought back the registers", same);
	expect(tally, !unit.owner && !one.inside && !two.inside, "a user is still inside");
}

static void assembly_agrees(struct tally *tally)
{
	for (int exit = 0; exit < 2; exit++) {
		const int is_in = vector_asm_user(&unit, exit);
		expect(tally, is_in == 1 && !unit.owner, "assembly, free: %d", is_in);
		unit.owner = LR_VEC_CLAIMED;
		const int is_refused = !vector_asm_user(&unit, exit);
		expect(tally, is_refused && unit.owner == LR_VEC_CLAIMED, "assembly, taken");
		expect(tally, !lr_vec_enter(&unit), "enter, taken");
		unit.owner = 0;
	}
#ifdef __powerpc__
	for (uintptr_t owner = 0; owner < 2; owner++) {
		make_registers(&mine);
		make_registers(&theirs[0]);
		unit.owner = owner;
		leave_home();
		vector_fill(&mine, 0);
		vector_asm_handler(&unit, &nests[0], &theirs[0]);
		vector_dump(&after, 0);
		come_home();
		expect(tally, are_same(owner ? &mine : &theirs[0], &after) && unit.owner == owner,
		       "a handler in assembly, owner %lu", (unsigned long)owner);
		unit.owner = 0;
	}
#endif
}

/*
 * Calls each guarded kernel while the registers are owned, and compares its result with the
 * specification.
 */
static uint8_t source[700], copy[700];

static int kernels_work(struct lr_vec_nest *nest, size_t bytes, uint16_t sum)
{
	int works = lr_csum_fold(lr_guarded_csum_partial(&unit, nest, source, bytes, 0)) == sum;
	works &= lr_csum_fold(lr_guarded_copy_csum_partial(&unit, nest, copy, source, bytes, 0)) ==
		 sum;
	for (size_t i = 0; i < bytes; i++)
		works &= copy[i] == source[i];
	lr_guarded_fill(&unit, nest, copy, 0xc3, bytes);
	for (size_t i = 0; i < bytes; i++)
		works &= copy[i] == 0xc3;
	lr_guarded_copy(&unit, nest, copy, source, bytes);
	for (size_t i = 0; i < bytes; i++)
		works &= copy[i] == source[i];
	return works;
}

static void guarded_kernels_keep_out(struct tally *tally)
{
	fill_bytes(FILL_RANDOM, source, sizeof source);
	for (size_t bytes = 0; bytes <= sizeof source; bytes += 1 + bytes / 9) {
		const uint16_t sum = lr_csum_fold(lr_variant_find("portable")->csum_partial(
			source, bytes, 0));
		int works = 1, keeps = 1;
		make_registers(&mine);
		leave_home();
		works &= kernels_work(0, bytes, sum) && !unit.owner;
		works &= kernels_work(&nests[0], bytes, sum) && !unit.owner;
		unit.owner = LR_VEC_CLAIMED;
		for (int nesting = 0; nesting < 2; nesting++) {
			vector_fill(&mine, vector_kind());
			works &= kernels_work(nesting ? &nests[0] : 0, bytes, sum);
			vector_dump(&after, vector_kind());
			keeps &= are_same(&mine, &after);
		}
		unit.owner = 0;
		come_home();
		expect(tally, works, "guarded kernels, %zu bytes: a result", bytes);
		expect(tally, keeps, "guarded kernels, %zu bytes: a register of another", bytes);
	}
}

/*
 * Checks that on a processor without vectors, the guarded kernels neither acquire the registers nor
 * execute a vector instruction.
 */
static void guarded_kernels_do_without(struct tally *tally)
{
	fill_bytes(FILL_RANDOM, source, sizeof source);
	for (size_t bytes = 0; bytes <= sizeof source; bytes += 1 + bytes / 9) {
		const uint16_t sum = lr_csum_fold(lr_variant_find("portable")->csum_partial(
			source, bytes, 0));
		for (unit.owner = 0; unit.owner < 2; unit.owner++) {
			const uintptr_t before = unit.owner;
			int works = kernels_work(0, bytes, sum);
			works &= kernels_work(&nests[0], bytes, sum);
			expect(tally, works && unit.owner == before,
			       "guarded kernels, %zu bytes, without vectors", bytes);
		}
		unit.owner = 0;
	}
}

static unsigned print_result(const struct tally *tally)
{
	printf("%-12s %llu cases, %u failures\n", tally->name, tally->cases, tally->failures);
	return tally->failures;
}

static int has_vectors(void)
{
	for (size_t i = 0; i < lr_variant_count; i++)
		if (lr_variants[i]->vector && lr_variants[i]->supported())
			return 1;
	return 0;
}

int main(void)
{
	struct tally nested = { "nested", 0, 0 }, tasks = { "tasks", 0, 0 };
	struct tally assembly = { "assembly", 0, 0 }, guarded = { "guarded", 0, 0 };
	struct tally interrupted = { "interrupted", 0, 0 };

	if (!has_vectors()) {
		guarded_kernels_do_without(&guarded);
		return print_result(&guarded) ? 1 : 0;
	}
	printf("registers: kind %d, %zu bytes\n", vector_kind(), used());
	loss_is_seen(&nested);
	registers_survive(&nested);
	tasks_are_switched(&tasks);
	assembly_agrees(&assembly);
	guarded_kernels_keep_out(&guarded);
	check_vector_nested(&interrupted);
	const unsigned failures = print_result(&nested) + print_result(&tasks) +
				  print_result(&assembly) + print_result(&guarded) +
				  print_result(&interrupted);
	return failures ? 1 : 0;
}

#else

int main(void)
{
	printf("SKIP: sharing of vector registers cannot be checked on this architecture\n");
	return 0;
}

#endif

#include "../kernels/no_vectors_end.h"
