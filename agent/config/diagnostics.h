/* What is wrong with a configuration file: collected while it is read, told all at once in the order of the
 * lines. */
#pragma once

#include <confuse.h>
#include <stdbool.h>
#include <stdio.h>

enum {
    MISTAKES_MAX = 100,      /* more are counted, not told */
    MISTAKE_BYTES_MAX = 400, /* text of one */
};

struct mistakes;

struct mistakes *mistakes_new(void);
struct mistakes *mistakes_free(struct mistakes *mistakes);

/* Notes one. The text may quote the file: it is made printable, but has to be kept short ("%.40s"). */
void mistake_add(struct mistakes *mistakes, unsigned line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for what is no mistake but worth a word. */
void mistake_warn(struct mistakes *mistakes, unsigned line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Whether there is one, warnings aside. */
bool mistakes_any(const struct mistakes *mistakes);

/* Writes "PATH:LINE: text" for each; warnings only when there is no mistake. */
void mistakes_print(struct mistakes *mistakes, const char *path, FILE *output);

/* The option or section that the writer of `name` most likely meant, or NULL. */
const char *nearest_option(const cfg_opt_t *options, const char *name);
