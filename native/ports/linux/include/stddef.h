/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* For files of a kernel that include the kernels' headers: the kernel's own types by these names. */
#include <linux/stddef.h>
#include <linux/types.h>
