/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Executes its arguments in order, so that a test can predict the counts:
     lN  N loads of one word                 sN  N stores to this word
     pN  one load from each of the first N 64-byte lines
     wN  N iterations of a loop with one branch
     f...  the rest in a forked child, which then exits; F  a forked child whose exec fails
     e   exec this program again with the remaining arguments
     d   leave a sleeping child behind       c  close all descriptors
     o   write "out" and "err"
     kN  kill itself with signal N           xN  exit with status N */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <signal.h>

static volatile char lines[4096 * 64] __attribute__((aligned(64)));
static volatile int word;

static void act(char what, int n);

static void as_child(const char *arguments)
{
    if (fork() == 0) {
        for (const char *a = arguments; *a; a++)
            act(*a, 100000);
        _exit(0);
    }
    wait(NULL);
}

static void act(char what, int n)
{
    switch (what) {
    case 'l': for (int i = 0; i < n; i++) (void)word; break;
    case 's': for (int i = 0; i < n; i++) word = i; break;
    case 'p': for (int i = 0; i < n; i++) (void)lines[i * 64]; break;
    case 'w': for (int i = 0; i < n; i++) __asm__ volatile("" ::: "memory"); break;
    case 'F':
        if (fork() == 0) {
            execl("/nonexistent", "nonexistent", (char *)NULL);
            _exit(127);
        }
        wait(NULL);
        break;
    case 'd': if (fork() == 0) { sleep(5); _exit(0); } break;
    case 'c': for (int i = 0; i < 1024; i++) close(i); break;
    case 'o': (void)!write(1, "out\n", 4); (void)!write(2, "err\n", 4); break;
    case 'k': kill(getpid(), n); break;
    case 'x': exit(n);
    }
}

int main(int count, char **arguments)
{
    for (int i = 1; i < count; i++) {
        if (arguments[i][0] == 'f') {
            as_child(arguments[i] + 1);
        } else if (arguments[i][0] == 'e') {
            arguments[i] = arguments[0];
            execv(arguments[0], arguments + i);
        } else {
            act(arguments[i][0], atoi(arguments[i] + 1));
        }
    }
    return 0;
}
