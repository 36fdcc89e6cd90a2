/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Executes its arguments in order, so that a test can predict the counts:
     lN  N loads of one word                 sN  N stores to this word
     pN  one load from each of the first N 64-byte lines
     wN  N iterations of a loop with one branch
     f...  the rest in a forked child, which then exits; F  a forked child whose exec fails
     e   exec this program again with the remaining arguments
     d   leave a sleeping child behind       c  close all descriptors
     o   write "out" and "err"
     kN  kill itself with signal N           xN  exit with status N
     uN  become user N                       t   trap
     rN  N repetitions of one x86 instruction that stores a byte
     b   exec this program with as many arguments as the kernel accepts
     B   exec this program with an argument that is too long */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <signal.h>

static volatile char lines[4096 * 64] __attribute__((aligned(64)));
static volatile int word;
static char *self;

static void act(char what, int n);

static void as_child(const char *arguments)
{
    int status;

    if (fork() == 0) {
        for (const char *a = arguments; *a; a++)
            act(*a, 100000);
        _exit(0);
    }
    wait(&status);
    if (status)
        exit(99);
}

static void repeat(unsigned long n)
{
#if defined(__x86_64__)
    void *to = (void *)lines;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(0) : "memory");
#else
    (void)n;
#endif
}

/* Executes this program with `bytes` bytes of arguments; returns if these are too many. */
static void exec_with(long bytes, long each)
{
    static char text[1 << 18];
    char *arguments[256] = { self };
    int n = 1;

    memset(text, '-', sizeof text - 1);
    for (long part; bytes > 0 && n < 255; bytes -= part) {
        part = bytes < each ? bytes : each;
        arguments[n++] = text + sizeof text - 1 - part;
    }
    execv(self, arguments);
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
    case 'u': if (setuid(n)) exit(98); break;
    case 't': __builtin_trap();
    case 'r': repeat(n); break;
    case 'b':
        for (long most = sysconf(_SC_ARG_MAX), less = 0; less < most / 2; less += 256)
            exec_with(most - less, 100000);
        exit(97);
    case 'B': exec_with(200000, 200000); break;
    }
}

int main(int count, char **arguments)
{
    self = arguments[0];
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
