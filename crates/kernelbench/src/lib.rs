// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the kernels of `linerate-kernels` beside their bounds and peers, in turns, after
//! checking each of them. Printing and files are left to `cli`.
