/* Reads the shape of a configuration file: which option stands where. config-read.c knows what a value
 * means.
 *
 * There is one level of sections. A section whose place is wrong (given twice, one too many) is still read
 * for mistakes, but as `refused`: nothing of it is kept or written out. */
#include "config/check.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "config/credential.h"
#include "config/token.h"

struct checker {
    struct tokenizer tokenizer;
    struct token token; /* the next one */
    struct mistakes *mistakes;
    struct outline *outline;
    struct outline_section *section; /* the one being read */
    struct outline_section refused;
    FILE *clean;
    unsigned clean_line;
    const cfg_opt_t *last_option; /* whose value ended on last_line */
    unsigned last_line;
};

static void next(struct checker *c) {
    tokenizer_next(&c->tokenizer, &c->token);
}

static const cfg_opt_t *find_option(const cfg_opt_t *options, const char *name) {
    for (const cfg_opt_t *option = options; option->name; option++)
        if (strcmp(option->name, name) == 0)
            return option;
    return NULL;
}

static bool at_top(const struct checker *c) {
    return !c->section->kind;
}

static const cfg_opt_t *top_options(const struct checker *c) {
    return c->outline->sections[0].options;
}

/* From '{' to the '}' that belongs to it. */
static void skip_block(struct checker *c) {
    unsigned line = c->token.line, depth = 0;

    do {
        if (c->token.kind == TOKEN_OPEN)
            depth++;
        else if (c->token.kind == TOKEN_CLOSE)
            depth--;
        next(c);
    } while (depth > 0 && c->token.kind != TOKEN_END);
    if (depth > 0)
        mistake_add(c->mistakes, line, "'{' is not closed: expected '}' before the end of the file");
}

/* What is left on a line on which something was wrong. */
static void skip_line(struct checker *c, unsigned line) {
    while (c->token.line == line && c->token.kind != TOKEN_END && c->token.kind != TOKEN_CLOSE) {
        if (c->token.kind == TOKEN_OPEN)
            skip_block(c);
        else
            next(c);
    }
}

/* What follows a name that can't be used: a value, a block, or words. */
static void skip_statement(struct checker *c, unsigned line) {
    if (c->token.kind == TOKEN_EQUALS || c->token.kind == TOKEN_APPEND) {
        unsigned equals_line = c->token.line;

        next(c);
        if (c->token.kind == TOKEN_OPEN)
            skip_block(c);
        else if (token_is_text(&c->token) && c->token.line == equals_line)
            next(c);
        return;
    }
    if (token_is_text(&c->token) && c->token.line == line)
        next(c);
    if (c->token.kind == TOKEN_OPEN)
        skip_block(c);
    else
        skip_line(c, line);
}

/* Lines of the clean text are those of the file, so that libconfuse counts like an editor. */
static void write_to_line(struct checker *c, unsigned line) {
    for (; c->clean_line < line; c->clean_line++)
        (void) fputc('\n', c->clean);
    (void) fputc(' ', c->clean);
}

static void write_option(struct checker *c, const char *name, const struct token *value) {
    write_to_line(c, value->line);
    (void) fprintf(c->clean, "%s = \"", name);
    for (size_t i = 0; i < value->length; i++) {
        char byte = value->text[i];

        if (byte < ' ' || byte > '~' || strchr("\"\\$", byte))
            (void) fprintf(c->clean, "\\x%02x", (unsigned char) byte);
        else
            (void) fputc(byte, c->clean);
    }
    (void) fputc('"', c->clean);
}

static void close_section(struct checker *c, unsigned line) {
    if (c->section != &c->refused) {
        write_to_line(c, line);
        (void) fputc('}', c->clean);
    }
    c->section = &c->outline->sections[0];
}

static bool is_node_name(const struct token *token) {
    if (token->length < 1 || token->length > NODE_NAME_BYTES_MAX)
        return false;
    for (const char *p = token->text; *p; p++)
        if (!(*p >= 'a' && *p <= 'z') && !(*p >= 'A' && *p <= 'Z') && !(*p >= '0' && *p <= '9') &&
            !strchr("._-", *p))
            return false;
    return true;
}

static bool is_pattern(const struct token *token) {
    if (token->length < 1 || token->length > TITLE_BYTES_MAX)
        return false;
    for (const char *p = token->text; *p; p++)
        if ((unsigned char) *p < ' ' || *p == 0x7f)
            return false;
    return true;
}

/* A section that may be given more than once, each time with a title of its own. */
struct multiple {
    const char *name;
    unsigned max;
    bool (*is_title)(const struct token *token);
    const char *expected, *example;
};

static const struct multiple *multiple_of(const cfg_opt_t *kind) {
    static const struct multiple multiples[] = {
        {"node", NODES_MAX, is_node_name, "1 to 32 letters, digits, '.', '_' or '-'", "a"},
        {"rule", RULES_MAX, is_pattern, "1 to 512 bytes of printable text", "backup-*"},
    };
    static_assert(NODE_NAME_BYTES_MAX == 32 && TITLE_BYTES_MAX == 512, "as the messages say");

    for (size_t i = 0; i < sizeof multiples / sizeof multiples[0]; i++)
        if (strcmp(multiples[i].name, kind->name) == 0)
            return &multiples[i];
    assert(!(kind->flags & (CFGF_MULTI | CFGF_TITLE)));
    return NULL;
}

/* How a section begins, for messages. */
static const char *beginning_of(const cfg_opt_t *kind, char buffer[static 64]) {
    const struct multiple *multiple = multiple_of(kind);

    (void) snprintf(buffer, 64, multiple ? "%s \"%s\"" : "%s", kind->name,
                    multiple ? multiple->example : "");
    return buffer;
}

static void take_title(struct checker *c, const cfg_opt_t *kind, unsigned line,
                       char title[static TITLE_BYTES_MAX + 1]) {
    bool text = token_is_text(&c->token) && c->token.line == line;
    const struct multiple *multiple = multiple_of(kind);
    char beginning[64];

    if (!multiple) {
        if (text)
            mistake_add(c->mistakes, line, "'%s' has no name of its own: expected %s { ... }", kind->name,
                        kind->name);
    } else if (!text) {
        mistake_add(c->mistakes, line, "no name after '%s': expected %s { ... }", kind->name,
                    beginning_of(kind, beginning));
    } else if (!c->token.bad) {
        if (!multiple->is_title(&c->token))
            mistake_add(c->mistakes, line, "%s name '%.40s': expected %s", kind->name, c->token.text,
                        multiple->expected);
        (void) snprintf(title, TITLE_BYTES_MAX + 1, "%.*s", TITLE_BYTES_MAX, c->token.text);
    }
    if (text)
        next(c);
}

/* Finds a place for a section that is about to begin: the next free one, or `refused`. */
static struct outline_section *place_section(struct checker *c, const cfg_opt_t *kind, const char *title,
                                             unsigned line) {
    unsigned n_same = 0;
    const struct multiple *multiple = multiple_of(kind);
    unsigned max = multiple ? multiple->max : 1;

    for (unsigned i = 1; i < c->outline->n_sections; i++) {
        const struct outline_section *other = &c->outline->sections[i];

        if (other->kind != kind)
            continue;
        n_same++;
        if (!multiple)
            mistake_add(c->mistakes, line, "'%s' is given twice: expected once, the first is on line %u",
                        kind->name, other->line);
        else if (title[0] && strcmp(title, other->title) == 0)
            mistake_add(c->mistakes, line,
                        "%s \"%s\" is given twice: expected another name, the first is on line %u",
                        kind->name, title, other->line);
    }
    if (multiple && n_same == max)
        mistake_add(c->mistakes, line, "one %s too many: expected at most %u", kind->name, max);
    if (n_same == max)
        return &c->refused;
    return &c->outline->sections[c->outline->n_sections++];
}

static void open_section(struct checker *c, const cfg_opt_t *kind, const char *title, unsigned line) {
    struct outline_section *section = place_section(c, kind, title, line);

    *section = (struct outline_section){.kind = kind, .options = kind->subopts, .line = line};
    memcpy(section->title, title, sizeof section->title);
    c->section = section;
    if (section == &c->refused)
        return;
    write_to_line(c, line);
    if (kind->flags & CFGF_TITLE)
        (void) fprintf(c->clean, "%s \"%td\" {", kind->name, section - c->outline->sections);
    else
        (void) fprintf(c->clean, "%s {", kind->name);
}

static void read_section(struct checker *c, const cfg_opt_t *kind, unsigned line) {
    char title[TITLE_BYTES_MAX + 1] = "", beginning[64];

    if (c->token.kind == TOKEN_EQUALS || c->token.kind == TOKEN_APPEND) {
        mistake_add(c->mistakes, line, "'%s' is a section: expected %s { ... }", kind->name,
                    beginning_of(kind, beginning));
        skip_statement(c, line);
        return;
    }
    take_title(c, kind, line, title);
    if (c->token.kind == TOKEN_OPEN) {
        next(c);
    } else {
        mistake_add(c->mistakes, line, "no '{' after '%s': expected %s { ... }", kind->name,
                    beginning_of(kind, beginning));
        if (c->token.kind != TOKEN_WORD || !find_option(kind->subopts, c->token.text))
            return; /* it seems to have no content either */
    }
    open_section(c, kind, title, line);
}

static bool wants_file(const char *option) {
    return strncmp(option, "tls_", strlen("tls_")) == 0 && strcmp(option, "tls_name") != 0;
}

/* The value of the credential with this name. An option that wants a file gets its path. */
static void read_credential(struct checker *c, const char *option, const char *name, struct token *value) {
    char text[CREDENTIAL_BYTES_MAX + 1] = "";
    const char *expected;

    if (!credentials_passed() && !c->outline->to_use) {
        mistake_warn(c->mistakes, value->line,
                     "%s = credential(\"%.40s\"): not checked, since it is there only "
                     "while systemd runs the service",
                     option, name);
        (void) strcpy(text, wants_file(option) ? "/unknown" : "unknown");
        c->section->lacks_file |= wants_file(option);
        expected = NULL;
    } else if (!credentials_passed()) {
        expected = "expected to be run by systemd with LoadCredential=NAME:/path in the service";
    } else {
        expected =
            wants_file(option) ? credential_path(name, text, sizeof text) : credential_read(name, text);
    }
    if (expected)
        mistake_add(c->mistakes, value->line, "%s = credential(\"%.40s\"): %s", option, name, expected);
    value->bad = expected != NULL;
    value->length = strlen(text);
    memcpy(value->text, text, value->length + 1);
    explicit_bzero(text, sizeof text);
}
static_assert((int) CREDENTIAL_BYTES_MAX <= (int) TOKEN_BYTES_MAX, "a credential fits where a value does");

/* From '(' on: ("name"). */
static void take_credential(struct checker *c, const char *option, struct token *value) {
    unsigned line = value->line;

    value->kind = TOKEN_STRING;
    value->bad = true;
    next(c);
    if (c->token.kind == TOKEN_STRING && c->token.line == line) {
        struct token name = c->token;

        next(c);
        if (c->token.kind == TOKEN_OTHER && c->token.text[0] == ')' && c->token.line == line) {
            next(c);
            if (!name.bad)
                read_credential(c, option, name.text, value);
            return;
        }
    }
    mistake_add(c->mistakes, line, "credential( after '%s =': expected credential(\"name\")", option);
    skip_line(c, line);
}

/* Reads what follows the name of an option. However wrong that is, the option counts as given from then on.
 */
static void read_option(struct checker *c, const cfg_opt_t *option, unsigned line) {
    unsigned *given = &c->section->option_lines[option - c->section->options];
    unsigned first = *given;

    if (first)
        mistake_add(c->mistakes, line, "'%s' is given twice: expected once, the first is on line %u",
                    option->name, first);
    else
        *given = line;

    if (c->token.kind == TOKEN_APPEND)
        mistake_add(c->mistakes, line, "'+=' after '%s': expected '=', it takes one value", option->name);
    if (c->token.kind != TOKEN_EQUALS && c->token.kind != TOKEN_APPEND) {
        mistake_add(c->mistakes, line, "no '=' after '%s': expected %s = \"...\"", option->name,
                    option->name);
        skip_statement(c, line);
        return;
    }
    line = c->token.line;
    next(c);
    if (c->token.kind == TOKEN_OPEN) {
        mistake_add(c->mistakes, line, "a list after '%s =': expected one value", option->name);
        skip_block(c);
        return;
    }
    if (!token_is_text(&c->token) || c->token.line != line) {
        mistake_add(c->mistakes, line, "no value after '%s =': expected one on the same line", option->name);
        if (c->token.kind == TOKEN_STRING)
            next(c);
        return;
    }
    struct token value = c->token;
    next(c);
    if (value.kind == TOKEN_WORD && strcmp(value.text, "credential") == 0 && c->token.kind == TOKEN_OTHER &&
        c->token.text[0] == '(')
        take_credential(c, option->name, &value);
    else if (strcmp(option->name, "password") == 0)
        c->outline->has_password = true;
    if (value.kind == TOKEN_WORD && value.text[value.length - 1] == ';') {
        mistake_add(c->mistakes, line,
                    "';' after the value of '%s': expected none, blanks or a new line separate options",
                    option->name);
    } else if (!first && !value.bad && c->section != &c->refused) {
        *given = line;
        write_option(c, option->name, &value);
    }
    explicit_bzero(&value, sizeof value);
    c->last_option = option;
    c->last_line = line;
}

/* The section that has an option of this name, NULL if none has. */
static const cfg_opt_t *home_of(const struct checker *c, const char *name) {
    for (const cfg_opt_t *option = top_options(c); option->name; option++)
        if (option->type == CFGT_SEC && find_option(option->subopts, name))
            return option;
    return NULL;
}

static void note_unknown(struct checker *c, const char *name, unsigned line) {
    const cfg_opt_t *options = c->section->options, *home = home_of(c, name);
    const char *nearest = nearest_option(options, name);
    char list[256] = "", beginning[64];
    size_t length = 0;

    if (!at_top(c) && find_option(top_options(c), name)) {
        mistake_add(c->mistakes, line,
                    "'%s' within '%s', which was opened on line %u: expected it outside; is a '}' missing?",
                    name, c->section->kind->name, c->section->line);
    } else if (home) {
        mistake_add(c->mistakes, line, "'%s' does not belong here: expected it within %s { ... }", name,
                    beginning_of(home, beginning));
    } else if (nearest) {
        mistake_add(c->mistakes, line, "unknown option '%.40s': expected '%s'?", name, nearest);
    } else {
        for (const cfg_opt_t *option = options; option->name && length < sizeof list; option++)
            length += (size_t) snprintf(list + length, sizeof list - length, "%s%s", length ? ", " : "",
                                        option->name);
        mistake_add(c->mistakes, line, "unknown option '%.40s': expected one of %s", name, list);
    }
}

static void read_statement(struct checker *c) {
    struct token name = c->token;
    const cfg_opt_t *option = find_option(c->section->options, name.text);

    if (!option && !at_top(c)) {
        const cfg_opt_t *kind = find_option(top_options(c), name.text);

        if (kind && kind->type == CFGT_SEC) {
            mistake_add(c->mistakes, name.line,
                        "'%s' within '%s', which was opened on line %u: expected '}' before it", kind->name,
                        c->section->kind->name, c->section->line);
            close_section(c, name.line);
            option = kind;
        }
    }
    next(c);
    if (name.bad) {
        skip_statement(c, name.line);
    } else if (option && option->type == CFGT_SEC) {
        read_section(c, option, name.line);
    } else if (option) {
        read_option(c, option, name.line);
    } else if (c->last_option && name.line == c->last_line && name.text[0] != ';' &&
               c->token.kind != TOKEN_EQUALS && c->token.kind != TOKEN_APPEND &&
               c->token.kind != TOKEN_OPEN) {
        /* Not quoted: it may be the rest of a password. */
        mistake_add(c->mistakes, name.line,
                    "more text after the value of '%s': expected one value, in quotes if it has blanks",
                    c->last_option->name);
        skip_line(c, name.line);
    } else if (name.text[0] == ';') {
        mistake_add(c->mistakes, name.line, "';': expected none, blanks or a new line separate options");
        if (name.length > 1)
            skip_statement(c, name.line);
    } else {
        note_unknown(c, name.text, name.line);
        skip_statement(c, name.line);
    }
}

static void note_unexpected(struct checker *c) {
    unsigned line = c->token.line;
    const char *sign = c->token.kind == TOKEN_EQUALS   ? "="
                       : c->token.kind == TOKEN_APPEND ? "+="
                       : c->token.kind == TOKEN_OPEN   ? "{"
                                                       : c->token.text;

    if (c->token.kind == TOKEN_STRING && c->last_option && line == c->last_line)
        mistake_add(c->mistakes, line, "a second value after that of '%s': expected one",
                    c->last_option->name);
    else if (c->token.kind == TOKEN_STRING)
        mistake_add(c->mistakes, line, "a string by itself: expected the name of an option");
    else if ((unsigned char) sign[0] <= ' ' || (unsigned char) sign[0] > '~')
        mistake_add(c->mistakes, line, "byte 0x%02x: expected the name of an option",
                    (unsigned char) sign[0]);
    else
        mistake_add(c->mistakes, line, "'%s': expected the name of an option", sign);
    skip_line(c, line);
}

static void read_all(struct checker *c) {
    for (next(c); c->token.kind != TOKEN_END;) {
        if (c->token.kind == TOKEN_WORD) {
            read_statement(c);
        } else if (c->token.kind != TOKEN_CLOSE) {
            note_unexpected(c);
        } else if (at_top(c)) {
            mistake_add(c->mistakes, c->token.line,
                        "'}' with no section open: expected the name of an option");
            next(c);
        } else {
            close_section(c, c->token.line);
            next(c);
        }
    }
    if (!at_top(c)) {
        mistake_add(c->mistakes, c->section->line,
                    "'%s' is not closed: expected '}' before the end of the file", c->section->kind->name);
        close_section(c, c->token.line);
    }
}

int outline_read(const char *text, size_t length, const cfg_opt_t *options, bool to_use,
                 struct mistakes *mistakes, struct outline *ret) {
    struct outline outline = {
        .to_use = to_use, .n_sections = 1, .sections[0] = {.options = options, .line = 1}};
    struct checker checker = {
        .mistakes = mistakes,
        .outline = &outline,
        .section = &outline.sections[0],
        .clean_line = 1,
    };
    bool failed;

    checker.clean = open_memstream(&outline.clean, &outline.clean_length);
    if (!checker.clean)
        return -ENOMEM;
    tokenizer_init(&checker.tokenizer, text, length, mistakes);
    read_all(&checker);
    (void) fputc('\n', checker.clean);
    outline.n_lines = checker.tokenizer.line;
    failed = ferror(checker.clean);
    failed = fclose(checker.clean) != 0 || failed;
    explicit_bzero(&checker.token, sizeof checker.token);
    if (failed) {
        outline_deinit(&outline);
        return -ENOMEM;
    }
    *ret = outline;
    return 0;
}

void outline_deinit(struct outline *outline) {
    if (outline->clean)
        explicit_bzero(outline->clean, outline->clean_length);
    free(outline->clean);
    outline->clean = NULL;
}

unsigned outline_line(const struct outline_section *section, const char *name) {
    const cfg_opt_t *option = find_option(section->options, name);

    return option ? section->option_lines[option - section->options] : 0;
}
