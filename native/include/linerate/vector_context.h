/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sharing of vector registers, where no operating system saves them: interrupt handlers, tasks of a
 * small kernel, signal handlers, fibres.
 *
 * A unit represents the vector registers of one processor, and there is one struct lr_vec_unit for
 * each. Its owner field shows whether the registers hold values that are still needed. Code that
 * uses vectors is enclosed by a call that acquires the registers and one that releases them. There
 * are three pairs of these, for three kinds of callers:
 *
 *	lr_vec_enter, lr_vec_leave	any context. Returns 0 while another has the registers: use
 *					scalar code then. Saves nothing, ever.
 *	lr_vec_nest, lr_vec_unnest	contexts that end before the interrupted one resumes: interrupt
 *					handlers, signal handlers. Saves the registers, if in
 *					use, into an area of the caller's.
 *	lr_vec_task_enter, _task_leave	tasks of a scheduler that calls lr_vec_switch. Never refused;
 *					saved only if preempted between the two.
 *
 * The first two pairs may be mixed on one unit, and so may the last two. The first and the last may
 * not: lr_vec_task_enter never refuses, and would take the registers from a user inside.
 *
 * Which is right under which preemption is explored state by state by linerate's models, step by
 * step as LR_VEC_STEP names them; docs/vector-context.md has the verdicts. What must hold:
 *
 *   - All users of a unit run on its processor while using it. With several processors, code
 *     between enter and leave must not migrate.
 *   - A caller of lr_vec_nest ends before the interrupted code resumes. A handler that lets a
 *     scheduler switch tasks before its lr_vec_unnest is not such a caller, and neither is a task.
 *   - The registers are usable: enabling them is up to the system. PowerPC disables them for every
 *     handler (MSR[VEC]): there lr_vec_on and lr_vec_off enclose everything else.
 *   - PowerPC: interrupts and switches end with a stwcx., so that no reservation outlives its
 *     context. Processors need not compare its address with that of the lwarx.
 *   - No code may touch vectors outside, but compilers do: a function that they compile with vectors
 *     may store and load some wherever it begins and ends. So the function that makes these calls is
 *     compiled without (native/kernels/no_vectors.h, -mno-altivec, -mgeneral-regs-only, or assembly),
 *     and calls another that uses vectors. So is everything else, the scheduler included.
 *   - AArch64 with SVE, not under Linux: lr_processor_tell (variant.h) has declared LR_HAS_SVE
 *     before the first save. Otherwise only the first 128 bits of each vector are saved.
 *
 * The calls are inline; lr_vec_save and lr_vec_restore, which lr_vec_nest, lr_vec_unnest and
 * lr_vec_switch call, are in liblr.a.
 *
 * Saved registers: PowerPC, v0 to v31, VSCR and VRSAVE. ARMv7, d0 to d31 and FPSCR. AArch64, v0 to
 * v31, or z0 to z31, p0 to p15 and FFR with SVE, FPCR and FPSR. x86-64, the available XMM, YMM, ZMM
 * and opmask registers, and MXCSR. Not saved: floating-point registers that are not vector
 * registers (x87, those of PowerPC), ZA of SME, AMX.
 *
 * LR_VEC is 1 where all this is, and elsewhere 0: nothing is declared then.
 */
#ifndef LINERATE_VECTOR_CONTEXT_H
#define LINERATE_VECTOR_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__powerpc__) && !defined(__SPE__)
#define LR_VEC 1
#define LR_VEC_ALIGNMENT 16
/* 32 vectors, VSCR, VRSAVE and what is left of its 16 bytes. */
#define LR_VEC_AREA_BYTES (34 * 16)
#elif defined(__x86_64__)
#define LR_VEC 1
#define LR_VEC_ALIGNMENT 64
/* The standard form of XSAVE up to the registers ZMM16 to ZMM31 (Intel SDM volume 1, 13.4). */
#define LR_VEC_AREA_BYTES 2688
#elif defined(__aarch64__)
#define LR_VEC 1
#define LR_VEC_ALIGNMENT 16
/*
 * The bytes of the longest vector of SVE among the processors this will run on, 16 where there is
 * none: it makes the area smaller, and must be the same in everything that is linked together. A
 * processor whose vectors are longer is refused by lr_vec_nest.
 */
#ifndef LR_VEC_SVE_BYTES
#define LR_VEC_SVE_BYTES 256
#endif
/* FPCR and FPSR; 32 vectors; 16 predicates and FFR, of one bit for each byte. */
#define LR_VEC_AREA_BYTES (16 + 32 * LR_VEC_SVE_BYTES + 17 * LR_VEC_SVE_BYTES / 8 + 14)
#elif defined(__arm__) && __ARM_ARCH >= 7
#define LR_VEC 1
#define LR_VEC_ALIGNMENT 8
/* 32 registers of 8 bytes, FPSCR and as much again. */
#define LR_VEC_AREA_BYTES (32 * 8 + 8)
#else
#define LR_VEC 0
#endif

/*
 * Marks points between steps where an interrupt may occur; tests define it to hook in there. A step
 * is the code after its name, up to the next.
 */
#ifndef LR_VEC_STEP
#define LR_VEC_STEP(name)
#endif

#if LR_VEC

#ifdef __cplusplus
extern "C" {
#endif

/* Room for all vector registers. */
struct lr_vec_area {
	uint8_t bytes[LR_VEC_AREA_BYTES];
} __attribute__((aligned(LR_VEC_ALIGNMENT)));

/* The vector registers of one processor. All zero: not owned. */
struct lr_vec_unit {
	/* 0 if no value in the registers is wanted; else a task's address, or LR_VEC_CLAIMED. */
	uintptr_t owner;
};

#define LR_VEC_CLAIMED ((uintptr_t)1)

/* State of the interrupted user, on the handler's stack from nest to unnest. */
struct lr_vec_nest {
	uintptr_t owner;
	struct lr_vec_area area;
};

/* State that a scheduler keeps for each task that uses vectors. Initially all zero. */
struct lr_vec_task {
	/* Whether the task is between lr_vec_task_enter and lr_vec_task_leave. */
	uintptr_t inside;
	struct lr_vec_area area;
};

/*
 * Saves all vector registers. 1; or 0 if the area is too small for those of this processor (see
 * LR_VEC_SVE_BYTES), and then nothing was done. The registers keep their values.
 */
int lr_vec_save(struct lr_vec_area *area);

/* Gives the registers the values they had when area was saved. */
void lr_vec_restore(const struct lr_vec_area *area);

/* Keeps the compiler from moving what it has in memory across; the processor sees its own order. */
#define LR_VEC_ORDER() __atomic_signal_fence(__ATOMIC_SEQ_CST)
#define LR_VEC_LOAD(from) __atomic_load_n(from, __ATOMIC_RELAXED)
#define LR_VEC_STORE(to, value) __atomic_store_n(to, value, __ATOMIC_RELAXED)

/* 1 if there was no owner, and the owner is LR_VEC_CLAIMED now. */
static inline int lr_vec_claim(uintptr_t *owner)
{
#if defined(__aarch64__) && defined(__LP64__)
	/* In instructions: what compilers make of the builtin is, by default, a call of their library. */
	uintptr_t found;
	uint32_t failed;
	__asm__ volatile("1:\tldxr %0,%2\n\tcbnz %0,2f\n\tstxr %w1,%3,%2\n\tcbnz %w1,1b\n2:"
			 : "=&r"(found), "=&r"(failed), "+Q"(*owner)
			 : "r"(LR_VEC_CLAIMED));
	return !found;
#else
	uintptr_t nobody = 0;
	return __atomic_compare_exchange_n(owner, &nobody, LR_VEC_CLAIMED, 0, __ATOMIC_RELAXED,
					   __ATOMIC_RELAXED);
#endif
}

/*
 * Acquires the registers, unless they are owned: returns 1 if they may be used until lr_vec_leave;
 * 0 if not, and then lr_vec_leave must not be called. Correct under any preemption, because a
 * preempted owner finds the registers unchanged: no other user was admitted, except those that nest
 * and restore what they found.
 */
static inline int lr_vec_enter(struct lr_vec_unit *unit)
{
	LR_VEC_STEP(claim);
	if (!lr_vec_claim(&unit->owner))
		return 0;
	LR_VEC_ORDER();
	return 1;
}

static inline void lr_vec_leave(struct lr_vec_unit *unit)
{
	LR_VEC_ORDER();
	LR_VEC_STEP(release);
	LR_VEC_STORE(&unit->owner, 0);
}

/*
 * Acquires the registers, and saves the values that another user still needs. Returns 1; or 0 if
 * lr_vec_save does: use scalar code, and do not call lr_vec_unnest. Code interrupted anywhere here,
 * or between the two calls, is not affected: an interrupting user either finds the unit owned and
 * restores the registers, or finds it free without needed values.
 */
static inline int lr_vec_nest(struct lr_vec_unit *unit, struct lr_vec_nest *nest)
{
	LR_VEC_STEP(look);
	const uintptr_t owner = LR_VEC_LOAD(&unit->owner);
	nest->owner = owner;
	LR_VEC_ORDER();
	if (owner) {
		LR_VEC_STEP(save);
		return lr_vec_save(&nest->area);
	}
	LR_VEC_STEP(occupy);
	LR_VEC_STORE(&unit->owner, LR_VEC_CLAIMED);
	LR_VEC_ORDER();
	return 1;
}

static inline void lr_vec_unnest(struct lr_vec_unit *unit, const struct lr_vec_nest *nest)
{
	LR_VEC_ORDER();
	if (nest->owner) {
		LR_VEC_STEP(restore);
		lr_vec_restore(&nest->area);
		return;
	}
	LR_VEC_STEP(vacate);
	LR_VEC_STORE(&unit->owner, 0);
}

/*
 * Acquires the registers for the calling task. First the task declares itself, then it becomes the
 * owner: in the reverse order, a task preempted between the two would resume undeclared, no longer
 * own the unit, and write to registers that count as another task's.
 */
static inline void lr_vec_task_enter(struct lr_vec_unit *unit, struct lr_vec_task *task)
{
	LR_VEC_STEP(declare);
	LR_VEC_STORE(&task->inside, 1);
	LR_VEC_ORDER();
	LR_VEC_STEP(own);
	LR_VEC_STORE(&unit->owner, (uintptr_t)task);
	LR_VEC_ORDER();
}

static inline void lr_vec_task_leave(struct lr_vec_unit *unit, struct lr_vec_task *task)
{
	LR_VEC_ORDER();
	LR_VEC_STEP(withdraw);
	LR_VEC_STORE(&task->inside, 0);
	LR_VEC_ORDER();
	LR_VEC_STEP(disown);
	LR_VEC_STORE(&unit->owner, 0);
}

/*
 * For a scheduler, whenever the processor goes from one task to another, on whatever stack, before
 * to runs; either may be null: a task without vectors. It is not called again before it returns, but
 * handlers that nest may come anywhere in it: hence a task owns the registers before they are filled.
 * 1; or 0 if lr_vec_save answers so, which no processor does whose vectors fit LR_VEC_SVE_BYTES.
 *
 * Values that a task left in the registers stay there, if no other user owned them meanwhile.
 */
static inline int lr_vec_switch(struct lr_vec_unit *unit, struct lr_vec_task *from,
				struct lr_vec_task *to)
{
	LR_VEC_STEP(keep);
	if (from && LR_VEC_LOAD(&from->inside) && !lr_vec_save(&from->area))
		return 0;
	LR_VEC_STEP(compare);
	if (!to || !LR_VEC_LOAD(&to->inside) || LR_VEC_LOAD(&unit->owner) == (uintptr_t)to)
		return 1;
	LR_VEC_STEP(give);
	LR_VEC_STORE(&unit->owner, (uintptr_t)to);
	LR_VEC_ORDER();
	LR_VEC_STEP(fill);
	lr_vec_restore(&to->area);
	return 1;
}

#if defined(__powerpc__)
/*
 * For privileged code of PowerPC that may run with vectors disabled, as handlers do: enables them,
 * and returns the machine state for lr_vec_off. Around the calls above, not within.
 */
static inline uintptr_t lr_vec_on(void)
{
	const uintptr_t vec = (uintptr_t)1 << 25;
	uintptr_t state;
	__asm__ volatile("mfmsr %0" : "=r"(state));
	if (!(state & vec))
		__asm__ volatile("mtmsr %0\n\tisync" : : "r"(state | vec) : "memory");
	return state;
}

static inline void lr_vec_off(uintptr_t state)
{
	__asm__ volatile("mtmsr %0\n\tisync" : : "r"(state) : "memory");
}
#endif

#ifdef __cplusplus
}
#endif
#endif
#endif
