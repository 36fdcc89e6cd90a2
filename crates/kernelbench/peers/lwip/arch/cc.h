/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Nothing: lwIP's defaults fit a hosted GCC or Clang. It insists on the file. */
