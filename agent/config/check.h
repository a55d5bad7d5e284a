/* The shape of a configuration file, checked before libconfuse sees it.
 *
 * libconfuse stops at the first mistake, takes a missing '}' and an option given twice without a word,
 * counts lines wrongly after comments, reads environment variables into strings, and ends the text at a NUL
 * byte. So the text is read here first, by libconfuse's rules for words, strings, comments and sections.
 * Every mistake is noted, reading goes on after it, and what is sound is written out anew in the plainest
 * form: libconfuse gets nothing else to read. */
#pragma once

#include <confuse.h>
#include <stdbool.h>
#include <stddef.h>

#include "config/diagnostics.h"
#include "core/limits.h"

enum {
    NODE_NAME_BYTES_MAX = 32,
    TITLE_BYTES_MAX = NAME_BYTES_MAX, /* a node's name, or what a rule is for */
    SECTION_OPTIONS_MAX = 24,
    SECTIONS_MAX = 2 + NODES_MAX + RULES_MAX, /* the top level, socket, nodes, rules */
};

/* One section as it stands in the file; the first is the top level. */
struct outline_section {
    const cfg_opt_t *kind;           /* NULL: the top level */
    const cfg_opt_t *options;        /* what it may hold */
    char title[TITLE_BYTES_MAX + 1]; /* cut if longer */
    unsigned line;
    unsigned option_lines[SECTION_OPTIONS_MAX]; /* where the option of this index is given; 0: not given */
    bool lacks_file;                            /* a credential that is one was not there to be checked */
};

struct outline {
    struct outline_section sections[SECTIONS_MAX];
    unsigned n_sections;
    unsigned n_lines;
    bool has_password; /* written out */
    bool to_use;       /* not just to be checked: credentials must be there */
    char *clean; /* for cfg_parse_buf(); sections with a title have their index in `sections` for one */
    size_t clean_length;
};

/* Checks `text` against `options`: sections and single strings. Mistakes are noted, not returned. 0 or
 * -ENOMEM. */
int outline_read(const char *text, size_t length, const cfg_opt_t *options, bool to_use,
                 struct mistakes *mistakes, struct outline *ret);

/* Wipes and frees what is inside. */
void outline_deinit(struct outline *outline);

/* The line on which `section` gives the option `name`, 0 when it does not. */
unsigned outline_line(const struct outline_section *section, const char *name);
