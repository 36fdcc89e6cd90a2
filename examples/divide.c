/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sums the quotients of 64-bit divisions for 10 s, so that a profile has one known hot spot. */
#include <stdio.h>
#include <time.h>

enum { SECONDS = 10, TERMS = 1000000 };

static unsigned long divide(unsigned long terms)
{
    unsigned long sum = 0;
    for (unsigned long divisor = 1; divisor <= terms; divisor++)
        sum += (divisor << 40 | terms) / divisor;
    return sum;
}

int main(void)
{
    unsigned long sum = 0;
    time_t end = time(NULL) + SECONDS;
    while (time(NULL) < end)
        sum += divide(TERMS);
    printf("%lu\n", sum);
    return 0;
}
