/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The registered ranges, as the signal handler sees them. */
#ifndef LINERATE_HOSTED_RANGES_H
#define LINERATE_HOSTED_RANGES_H

#include <stdint.h>

/*
 * Returns nonzero if the byte at that address is in a registered range. Takes no locks, for signal
 * handlers.
 */
int lr_fault_expected(uintptr_t address);

#endif
