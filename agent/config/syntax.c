#include "config/syntax.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

struct scan {
    char *at;
    char *section, *list; /* the braces that are open; NULL: none */
    char last;            /* byte outside comments that is not blank; '"' for a string */
};

static const char bad_call[] = "a call after '=': expected credential(\"name\")";
static const char open_section[] =
    "the section is not closed: expected '}' before the next one, or the end of the file";
static const char no_value[] = "no value after '=': expected one on the same line";

static const char *mask_comment(struct scan *scan) {
    bool block = scan->at[1] == '*';
    char *end = block ? strstr(scan->at + 2, "*/") : strchrnul(scan->at, '\n');

    if (!end)
        return "the comment that begins here does not end: expected '*/'";
    for (end += block ? 2 : 0; scan->at < end; scan->at++)
        *scan->at = *scan->at == '\n' ? '\n' : ' ';
    return NULL;
}

/* The length of the escape sequence at `at`; 1 if there is none; 0 if it is not allowed. */
static size_t escape_length(const char *at, char quote) {
    if (at[0] != '\\')
        return 1;
    if (quote == '\'')
        return at[1] == '\\' || at[1] == '\'' ? 2 : 1;
    if (at[1] == 'x')
        return at[2] >= '2' && isxdigit(at[2]) && isxdigit(at[3]) && strncasecmp(at + 2, "7f", 2) != 0 ? 4
                                                                                                       : 0;
    return at[1] && strchr("\\\"'$", at[1]) ? 2 : 0;
}

static const char *mask_string(struct scan *scan) {
    char quote = *scan->at++;

    while (*scan->at != quote) {
        size_t length = escape_length(scan->at, quote);

        if (!*scan->at || *scan->at == '\n' || *scan->at == '\r')
            return "the string on this line is not closed: expected a quote at its end";
        if ((unsigned char) *scan->at < ' ' || *scan->at == 0x7f)
            return "a control character in a string: expected none";
        if (length == 0)
            return "a backslash in a string: expected \\\\, \\\", \\', \\$ or \\xHH, and no control "
                   "character";
        if (*scan->at == '$' && quote == '"')
            *scan->at = SYNTAX_DOLLAR;
        scan->at += length;
    }
    scan->at++;
    scan->last = '"';
    return NULL;
}

/* Makes "\3\3…name" of credential("name"). */
static const char *mask_call(struct scan *scan) {
    size_t length = strlen("credential(");
    char *call = scan->at;

    scan->at += length;
    const char *error = *scan->at == '"' ? mask_string(scan) : bad_call;
    if (error || *scan->at != ')')
        return error ? error : bad_call;
    *scan->at++ = ' ';
    memset(call, SYNTAX_CREDENTIAL, length + 1);
    call[0] = '"';
    return NULL;
}

/* Of a list, or of a section. */
static const char *check_brace(struct scan *scan) {
    bool opens = *scan->at == '{';
    char **open = scan->list || (opens && scan->last == '=') ? &scan->list : &scan->section;

    if (opens && open == &scan->section && *open)
        return open_section;
    if (!opens && !*open)
        return "'}' with no section open: expected the name of an option";
    *open = opens ? scan->at : NULL;
    return NULL;
}

/* A byte outside of strings and comments. */
static const char *check_byte(struct scan *scan) {
    char c = *scan->at;
    const char *error = c == '{' || c == '}' ? check_brace(scan) : NULL;

    if (c == '\n' && scan->last == '=')
        return no_value;
    if (c == '*' && scan->list)
        *scan->at = SYNTAX_STAR;
    else if (!c || strchr("$*+", c) || ((unsigned char) c < ' ' && !strchr("\t\r\n", c)))
        return "'$', '*', '+' or a control character outside quotes: expected the whole value in quotes";
    if (c == '(')
        return "credential(...): expected OPTION = credential(\"name\")";
    scan->last = isspace(c) ? scan->last : c;
    scan->at++;
    return error;
}

const char *syntax_mask(char *text, size_t length, unsigned *ret_line) {
    struct scan scan = {.at = text};
    const char *error = NULL;

    if (strncmp(text, "\xef\xbb\xbf", 3) == 0)
        memset(text, ' ', 3); /* a byte order mark */
    while (!error && scan.at < text + length) {
        const char *at = scan.at;

        if (at[0] == '#' || (at[0] == '/' && (at[1] == '/' || at[1] == '*')))
            error = mask_comment(&scan);
        else if (at[0] == '"' || at[0] == '\'')
            error = mask_string(&scan);
        else if (scan.last == '=' && strncmp(at, "credential(", strlen("credential(")) == 0)
            error = mask_call(&scan);
        else
            error = check_byte(&scan);
    }
    if (!error)
        error = scan.section ? open_section : scan.last == '=' ? no_value : NULL;
    *ret_line = 1;
    for (const char *end = error == open_section ? scan.section : scan.at; text < end; text++)
        *ret_line += *text == '\n';
    return error;
}
