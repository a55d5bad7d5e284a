/* What the parts of the benchmark share. Each part is a command of the program `bench`; each prints one
 * object of JSON, which drive.py reads. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum phase { ACQUIRE, RELEASE, PHASES };

_Noreturn void fail(const char *what, const char *why);
double now_us(void); /* CLOCK_MONOTONIC, as Python's time.monotonic() */

/* Sorts them. */
double percentile(double *samples, size_t count, double p);

/* "a": {"p50": …, "p99": …, "p999": …, "max": …, "count": …} */
void print_percentiles(const char *key, double *samples, size_t count);

/* A number from the command line. */
unsigned number_of(const char *text, unsigned least, unsigned most);

/* Ends with its parent. */
pid_t start_process(void);
void await_process(pid_t pid);

void *shared_memory(size_t bytes);

/* The commands. `arguments` begin behind the command's name and end with NULL. */
int run_load(char **arguments);    /* load.c */
int run_relay(char **arguments);   /* relay.c */
int run_delay(char **arguments);   /* delay.c */
int run_handoff(char **arguments); /* handoff.c */
int run_held(char **arguments);    /* handoff.c */
int run_remote(char **arguments);  /* remote.c */
int run_hold(char **arguments);    /* hold.c */
int run_await(char **arguments);   /* hold.c */
int run_idle(char **arguments);    /* hold.c */
int run_renew(char **arguments);   /* renew.c */
int run_valid(char **arguments);   /* valid.c */
