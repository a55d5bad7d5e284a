/* A configuration file in a test: written into a directory of its own, read, and compared with what it must
 * give. All in the header, because the checks of tap.h are counted there. */
#pragma once

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "config/config.h"
#include "tap.h"

#define FILE_NAME "test.conf"
#define NODE "node \"a\" { address = \"host\" }\n"

static inline void cleanup_config(struct config **config) {
    config_free(*config);
}

/* In and out of a directory for the file. Variables such as $HOME must not be expanded. */
static inline void config_harness_begin(char directory[]) {
    (void) setenv("HOME", "expanded", 1);
    (void) umask(077);
    if (!mkdtemp(directory) || chdir(directory) < 0)
        exit(EXIT_FAILURE);
}

static inline void config_harness_end(const char *directory) {
    (void) unlink(FILE_NAME);
    (void) rmdir(directory);
}

static inline void write_file(const char *text, size_t length) {
    FILE *file = fopen(FILE_NAME, "w");

    if (!file || fwrite(text, 1, length, file) != length || fclose(file) != 0) {
        perror(FILE_NAME);
        exit(EXIT_FAILURE);
    }
}

/* Calls config_read(). The caller frees its output. */
static inline int read_path(const char *path, enum config_use use, struct config **ret, char **ret_output) {
    size_t length;
    FILE *output = open_memstream(ret_output, &length);
    int r;

    if (!output)
        exit(EXIT_FAILURE);
    r = config_read(path, use, output, ret);
    (void) fclose(output);
    return r;
}

static inline int read_bytes(const char *text, size_t length, struct config **ret, char **ret_output) {
    write_file(text, length);
    return read_path(FILE_NAME, CONFIG_RELOAD, ret, ret_output);
}

/* `expected` has a line "N: fragment" for each line of output, in order; N is the line of the file. */
static inline bool is_expected(const char *output, const char *expected) {
    char line[512], number[32];

    while (*expected) {
        size_t length = strcspn(expected, "\n"), digits = strspn(expected, "0123456789");
        size_t output_length = strcspn(output, "\n");

        (void) snprintf(line, sizeof line, "%.*s", (int) output_length, output);
        (void) snprintf(number, sizeof number, "%s:%.*s: ", FILE_NAME, (int) digits, expected);
        if (strncmp(line, number, strlen(number)) != 0)
            return false;
        if (!memmem(line, strlen(line), expected + digits + 2, length - digits - 2))
            return false;
        expected += length + (expected[length] == '\n');
        output += output_length + (output[output_length] == '\n');
    }
    return !*output;
}

static inline void refuses_with(int error, const char *what, const char *text, const char *expected) {
    _cleanup_(cleanup_config) struct config *config = NULL;
    _cleanup_free_ char *output = NULL;
    int r = read_bytes(text, strlen(text), &config, &output);

    if (!ok(r == error && !config && is_expected(output, expected), "refused: %s", what))
        (void) printf("# %d, output:\n# %s\n", r, output);
}

static inline void refuses(const char *what, const char *text, const char *expected) {
    refuses_with(-EINVAL, what, text, expected);
}

/* The configuration, or NULL if it is refused. `expected` has warnings. */
static inline struct config *accepts(const char *what, const char *text, const char *expected) {
    _cleanup_free_ char *output = NULL;
    struct config *config = NULL;
    int r = read_bytes(text, strlen(text), &config, &output);

    if (!ok(r == 0 && config && is_expected(output, expected), "accepted: %s", what))
        (void) printf("# %d, output:\n# %s\n", r, output);
    return config;
}
