/* bench COMMAND ARGUMENT...: the load generators of the benchmark; tests/bench/run starts them. */

#include "bench.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

_Noreturn void fail(const char *what, const char *why) {
    (void) fprintf(stderr, "bench: %s: %s\n", what, why);
    exit(1);
}

double now_us(void) {
    struct timespec t;

    (void) clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec * 1e6 + (double) t.tv_nsec / 1e3;
}

static int by_size(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double rank(const double *sorted, size_t count, double p) {
    return sorted[(size_t) ((double) (count - 1) * p)];
}

double percentile(double *samples, size_t count, double p) {
    if (count == 0)
        fail("samples", "there are none");
    qsort(samples, count, sizeof(samples[0]), by_size);
    return rank(samples, count, p);
}

void print_percentiles(const char *key, double *samples, size_t count) {
    double p50 = percentile(samples, count, 0.5);

    (void) printf("\"%s\": {\"p50\": %.3f, \"p99\": %.3f, \"p999\": %.3f, \"max\": %.3f, \"count\": %zu}",
                  key, p50, rank(samples, count, 0.99), rank(samples, count, 0.999), rank(samples, count, 1),
                  count);
}

unsigned number_of(const char *text, unsigned least, unsigned most) {
    char *end;
    unsigned long number = text ? strtoul(text, &end, 10) : 0;

    if (!text || *end != '\0' || number < least || number > most)
        fail(text ? text : "an argument", "is not a number in its range");
    return (unsigned) number;
}

pid_t start_process(void) {
    (void) fflush(stdout);
    pid_t pid = fork();

    if (pid < 0)
        fail("fork", "failed");
    if (pid == 0)
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
    return pid;
}

void await_process(pid_t pid) {
    int status;

    if (waitpid(pid, &status, 0) != pid || status != 0)
        fail("a process", "failed");
}

void *shared_memory(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        fail("mmap", "failed");
    return memory;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(char **arguments);
    } commands[] = {
        {"load", run_load}, {"relay", run_relay},   {"delay", run_delay}, {"handoff", run_handoff},
        {"held", run_held}, {"remote", run_remote}, {"hold", run_hold},   {"await", run_await},
        {"idle", run_idle}, {"renew", run_renew},   {"valid", run_valid},
    };

    (void) signal(SIGPIPE, SIG_IGN);
    for (unsigned i = 0; argc > 1 && i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argv + 2);
    fail("usage",
         "bench load|relay|delay|handoff|held|remote|hold|await|idle|renew|valid ...; tests/bench/run "
         "starts it");
}
