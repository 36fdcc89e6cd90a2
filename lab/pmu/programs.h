/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The programs of the tutorial "Performance Counters on the RPi 2"; programs.S has their counts. */
#ifndef LAB_PMU_PROGRAMS_H
#define LAB_PMU_PROGRAMS_H

#include <stdint.h>

/* Number of values to sum. */
#define PROGRAM_NUMBERS 1000

/* For n from 1; program_sum_average up to PROGRAM_NUMBERS. */
typedef unsigned long lab_program(unsigned long n);
lab_program program_empty, program_loop, program_two_branches, program_sum_average, program_c_loop;

/* The numbers 1, 4, 7 and so on, once program_prepare has been called; the sum of the last call. */
extern uint32_t program_numbers[PROGRAM_NUMBERS], program_sum;
void program_prepare(void);

#endif
