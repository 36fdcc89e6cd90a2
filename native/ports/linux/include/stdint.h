/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* For kernel builds: the kernels' headers include this file, and get Linux's own types. */
#include <linux/types.h>
