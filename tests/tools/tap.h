/* A producer of the Test Anything Protocol (version 13), one header. Each check is one line; the plan comes
 * at the end. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct { unsigned checks, failures; } tap;

__attribute__((format(printf, 4, 5), unused)) static bool tap_check(bool good, const char *file, int line,
                                                                    const char *format, ...) {
    va_list arguments;

    (void) printf("%s %u - ", good ? "ok" : "not ok", ++tap.checks);
    va_start(arguments, format);
    (void) vprintf(format, arguments);
    va_end(arguments);
    (void) putchar('\n');
    if (!good) {
        tap.failures++;
        (void) printf("# failed at %s:%d\n", file, line);
    }
    (void) fflush(stdout);
    return good;
}

__attribute__((unused)) static bool tap_is_int(long long got, long long want, const char *file, int line,
                                               const char *what) {
    bool good = tap_check(got == want, file, line, "%s", what);

    if (!good)
        (void) printf("#   got %lld, want %lld\n", got, want);
    return good;
}

__attribute__((unused)) static bool tap_is_string(const char *got, const char *want, const char *file,
                                                  int line, const char *what) {
    bool good = tap_check(got && want ? strcmp(got, want) == 0 : got == want, file, line, "%s", what);

    if (!good)
        (void) printf("#   got '%s', want '%s'\n", got ? got : "(null)", want ? want : "(null)");
    return good;
}

/* `format` may have arguments in ok() only. */
#define ok(good, ...) tap_check(good, __FILE__, __LINE__, __VA_ARGS__)
#define is_int(got, want, what) tap_is_int((long long) (got), (long long) (want), __FILE__, __LINE__, what)
#define is_string(got, want, what) tap_is_string(got, want, __FILE__, __LINE__, what)

/* The plan; the exit status of main(). */
__attribute__((unused)) static int done_testing(void) {
    (void) printf("1..%u\n", tap.checks);
    return tap.failures > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Instead of all checks; ends the process. */
__attribute__((unused, noreturn)) static void skip_all(const char *why) {
    (void) printf("1..0 # SKIP %s\n", why);
    exit(EXIT_SUCCESS);
}
