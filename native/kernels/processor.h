/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Features of this processor and its operating system, if the processor cannot be queried. */
#ifndef LINERATE_PROCESSOR_H
#define LINERATE_PROCESSOR_H

#include <linerate/variant.h>

/*
 * LR_RUNS_WELL if all of these LR_HAS_ are available, else 0. Source: lr_processor_tell; otherwise
 * the auxiliary vector of a Linux process; otherwise nothing is available.
 */
int lr_processor_runs(unsigned features);

#endif
