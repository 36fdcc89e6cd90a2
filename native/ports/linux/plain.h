/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Takes back macros that Linux includes before every file and that are words of the compiler: the
 * kernels write __attribute__((noinline)) and mean it. To be included by -include, for the files of
 * the kernels only.
 */
#undef fallthrough
#undef inline
#undef noinline
