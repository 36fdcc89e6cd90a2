/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What this processor and its operating system offer, where the processor cannot be asked. */
#ifndef LINERATE_PROCESSOR_H
#define LINERATE_PROCESSOR_H

#include <linerate/variant.h>

/*
 * LR_RUNS_WELL if all of these LR_HAS_ are there, else 0. What lr_processor_tell was told; if
 * nothing, what Linux says to a process; if there is none, nothing is there.
 */
int lr_processor_runs(unsigned features);

#endif
