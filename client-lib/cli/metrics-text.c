#include "metrics-text.h"

#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES = 64 };

void metrics_text_init(struct metrics_text *text, const char *bytes, size_t length) {
    *text = (struct metrics_text){.at = bytes, .end = bytes + length};
}

/* False: the line is a comment, or no sample. */
static bool read_line(const char *line, size_t length, struct metrics_text_sample *ret) {
    char number[NUMBER_BYTES], *rest;
    struct metrics_text_sample sample = {.name = line};

    if (length == 0 || line[0] == '#')
        return false;
    const char *blank = memrchr(line, ' ', length);
    if (!blank)
        return false;
    size_t digits = length - (size_t) (blank + 1 - line);
    if (digits == 0 || digits >= sizeof(number))
        return false;
    memcpy(number, blank + 1, digits);
    number[digits] = '\0';
    sample.value = strtod(number, &rest);
    sample.name_length = strcspn(line, "{ ");
    if (line[sample.name_length] == '{' && blank[-1] == '}') {
        sample.labels = line + sample.name_length + 1;
        sample.labels_length = (size_t) (blank - 1 - sample.labels);
    }
    *ret = sample;
    return *rest == '\0';
}

bool metrics_text_next(struct metrics_text *text, struct metrics_text_sample *ret) {
    while (text->at < text->end) {
        const char *line = text->at, *end = memchr(line, '\n', (size_t) (text->end - line));
        if (!end)
            return false; /* a line has its end, or is cut off */
        text->at = end + 1;
        if (read_line(line, (size_t) (end - line), ret))
            return true;
    }
    return false;
}

bool metrics_text_is(const struct metrics_text_sample *sample, const char *name) {
    return sample->name_length == strlen(name) && memcmp(sample->name, name, sample->name_length) == 0;
}

/* Behind the value that begins at `at`, with the quote; escapes are left out of `buffer`. */
static const char *read_value(const char *at, const char *end, char *buffer, size_t size) {
    size_t used = 0;

    for (; at < end && *at != '"'; at++) {
        if (*at == '\\' && at + 1 < end)
            at++;
        if (used + 1 < size)
            buffer[used++] = *at;
    }
    buffer[used] = '\0';
    return at < end ? at + 1 : end;
}

const char *metrics_text_label(const struct metrics_text_sample *sample, const char *label, char *buffer,
                               size_t size) {
    const char *at = sample->labels, *end = at ? at + sample->labels_length : NULL;
    size_t length = strlen(label);

    while (at < end) {
        const char *equals = memchr(at, '=', (size_t) (end - at));
        if (!equals || equals + 1 >= end)
            break;
        bool found = (size_t) (equals - at) == length && memcmp(at, label, length) == 0;
        at = read_value(equals + 2, end, buffer, size);
        if (found)
            return buffer;
        at += at < end && *at == ',';
    }
    buffer[0] = '\0';
    return buffer;
}
