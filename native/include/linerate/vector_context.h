/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sharing of vector registers where no operating system saves them: among interrupt handlers, tasks
 * of a small kernel, signal handlers, fibers.
 *
 * A unit represents the vector registers of one processor, and there is one struct lr_vec_unit for
 * each. Its owner field shows whether the registers hold values that are still needed. Code that
 * uses vectors is enclosed by a call that acquires the registers and one that releases them. There
 * are three pairs of these, for three kinds of callers:
 *
 *	lr_vec_enter, lr_vec_leave	any context. Returns 0 while another context owns the
 *					registers: use scalar code then. Never saves registers.
 *	lr_vec_nest, lr_vec_unnest	contexts that end before the interrupted one resumes:
 *					interrupt handlers, signal handlers. Saves registers in
 *					use to an area that the caller provides.
 *	lr_vec_task_enter, _task_leave	tasks of a scheduler that calls lr_vec_switch. Never
 *					refused; registers are saved only if the task is preempted
 *					between the two.
 *
 * The first two pairs may be mixed on one unit, and so may the last two. The first and the last may
 * not: lr_vec_task_enter never refuses, and would take the registers from a caller between
 * lr_vec_enter and lr_vec_leave.
 *
 * linerate's models check each pair under each kind of preemption exhaustively, state by state, in
 * the steps named by LR_VEC_STEP; docs/vector-context.md has the results. Requirements:
 *
 *   - All users of a unit run on its processor while using it. With several processors, code
 *     between enter and leave must not migrate.
 *   - A caller of lr_vec_nest ends before the interrupted code resumes. A handler that lets a
 *     scheduler switch tasks before its lr_vec_unnest is not such a caller, and neither is a task.
 *   - The registers are usable: enabling them is up to the system. PowerPC disables them for every
 *     handler (MSR[VEC]): there lr_vec_on and lr_vec_off enclose everything else.
 *   - PowerPC: interrupts and switches end with a stwcx., so that no reservation outlives its
 *     context. Processors need not compare its address with that of the lwarx.
 *   - No code may use vector registers outside these pairs. But in a function compiled with vectors
 *     enabled, compilers may save and restore some on entry and exit. Therefore the function that
 *     makes these calls is compiled with vectors disabled (native/kernels/no_vectors.h,
 *     -mno-altivec, -mgeneral-regs-only, or assembly) and calls another function that uses them.
 *     Everything else is compiled with vectors disabled too, including the scheduler.
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
 * LR_VEC is 1 on the supported architectures; elsewhere it is 0 and nothing is declared.
 */
#ifndef LINERATE_VECTOR_CONTEXT_H
#define LINERATE_VECTOR_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__powerpc__) && !defined(__SPE__)
#define LR_VEC 1
#define LR_VEC_ALIGNMENT 16
/* 32 vectors, VSCR, and VRSAVE padded to 16 bytes. */
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
 * Length in bytes of the longest SVE vector of all processors that this will run on; 16 if none has
 * SVE. A smaller value makes the save area smaller. It must be the same in everything that is
 * linked together. On a processor with longer vectors, lr_vec_save returns 0, and so does
 * lr_vec_nest if it has to save.
 */
#ifndef LR_VEC_SVE_BYTES
#define LR_VEC_SVE_BYTES 256
#endif
/* FPCR and FPSR; 32 vectors; 16 predicates and FFR, of one bit for each byte. */
#define LR_VEC_AREA_BYTES (16 + 32 * LR_VEC_SVE_BYTES + 17 * LR_VEC_SVE_BYTES / 8 + 14)
#elif defined(__arm__) && __ARM_ARCH >= 7
#define LR_VEC 1
#define LR_VEC_ALIGNMENT 8
/* 32 registers of 8 bytes, and FPSCR padded to 8 bytes. */
#define LR_VEC_AREA_BYTES (32 * 8 + 8)
#else
#define LR_VEC 0
#endif

/*
 * Names the step that begins here and extends to the next LR_VEC_STEP. Interrupts may occur between
 * any two steps; tests define this macro to inject them there.
 */
#ifndef LR_VEC_STEP
#define LR_VEC_STEP(name)
#endif

#if LR_VEC

#ifdef __cplusplus
extern "C" {
#endif

/* Save area for all vector registers. */
struct lr_vec_area {
	uint8_t bytes[LR_VEC_AREA_BYTES];
} __attribute__((aligned(LR_VEC_ALIGNMENT)));

/* The vector registers of one processor. All zero means not owned. */
struct lr_vec_unit {
	/*
	 * 0 if no value in the registers is still needed; otherwise the address of the owning task,
	 * or LR_VEC_CLAIMED.
	 */
	uintptr_t owner;
};

#define LR_VEC_CLAIMED ((uintptr_t)1)

/*
 * State of the interrupted context, kept on the handler's stack from lr_vec_nest to lr_vec_unnest.
 */
struct lr_vec_nest {
	uintptr_t owner;
	struct lr_vec_area area;
};

/* State that a scheduler keeps for each task that uses vectors. Initially all zero. */
struct lr_vec_task {
	/* Nonzero while the task is between lr_vec_task_enter and lr_vec_task_leave. */
	uintptr_t inside;
	struct lr_vec_area area;
};

/*
 * Saves all vector registers, without changing their values. Returns 1 on success. Returns 0 and
 * does nothing if the area is too small for the registers of this processor (see LR_VEC_SVE_BYTES).
 */
int lr_vec_save(struct lr_vec_area *area);

/* Restores the values that the registers had when area was saved. */
void lr_vec_restore(const struct lr_vec_area *area);

/*
 * Compiler barrier. No hardware barrier is needed: a processor sees its own accesses in program
 * order.
 */
#define LR_VEC_ORDER() __atomic_signal_fence(__ATOMIC_SEQ_CST)
#define LR_VEC_LOAD(from) __atomic_load_n(from, __ATOMIC_RELAXED)
#define LR_VEC_STORE(to, value) __atomic_store_n(to, value, __ATOMIC_RELAXED)

/* Atomically makes LR_VEC_CLAIMED the owner if there is none. Returns 1 if it did, else 0. */
static inline int lr_vec_claim(uintptr_t *owner)
{
#if defined(__aarch64__) && defined(__LP64__)
	/*
	 * In assembly, because by default compilers turn the builtin into a call of their library.
	 */
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
 * Acquires the registers unless they are owned. Returns 1 if they may be used until lr_vec_leave;
 * otherwise 0, and then lr_vec_leave must not be called. Correct under any preemption, because a
 * preempted owner finds the registers unchanged: no other context could acquire them, except callers of
 * lr_vec_nest, which restore what they found.
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
 * Acquires the registers and saves the values that another context still needs. Returns 1; or 0 if
 * lr_vec_save fails: use scalar code then, and do not call lr_vec_unnest. An interrupt anywhere in
 * here, or between the two calls, does no harm: its handler either finds the unit owned, and then
 * saves and restores the registers, or finds it free while they hold no needed values.
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
 * Acquires the registers for the calling task. The task first sets inside, then becomes the owner.
 * In the reverse order, a task preempted between the two would resume with inside not set and no
 * longer own the unit, and would write to registers that belong to another task.
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
 * For a scheduler to call, on any stack, whenever the processor switches from one task to another,
 * before to runs. Either task may be null, which stands for a task without vectors. It must not be
 * called again before it returns, but handlers that nest may interrupt it anywhere; therefore, it
 * sets the owner before it loads the registers. Returns 1, or 0 if lr_vec_save fails, which cannot
 * happen if the processor's vectors fit LR_VEC_SVE_BYTES.
 *
 * If no other context has owned the registers since to last ran, they still hold its values and are
 * not reloaded.
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
 * For privileged PowerPC code that may run with vectors disabled, as handlers do: enables them and
 * returns the previous machine state for lr_vec_off. These two calls enclose the ones above.
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
