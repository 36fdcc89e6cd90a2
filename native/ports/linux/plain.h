/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Undefines macros that Linux defines before every file and whose names are also names of compiler
 * attributes: the kernels write __attribute__((noinline)). Include it with -include, only for the
 * files of the kernels.
 */
#undef fallthrough
#undef inline
#undef noinline
