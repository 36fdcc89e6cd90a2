/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Vector features of this processor and its operating system, for architectures where user programs
 * cannot query the processor.
 */
#ifndef LINERATE_PROCESSOR_H
#define LINERATE_PROCESSOR_H

#include <linerate/variant.h>

/*
 * Returns LR_RUNS_WELL if all of these LR_HAS_ features are available, otherwise 0. Features are
 * those declared by lr_processor_tell; without a declaration, those in the auxiliary vector of a
 * Linux process; elsewhere none.
 */
int lr_processor_runs(unsigned features);

#endif
