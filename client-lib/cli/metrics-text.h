/* Reads the agent's OpenMetrics text, sample by sample. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct metrics_text {
    const char *at, *end;
};

/* name{labels} value */
struct metrics_text_sample {
    const char *name, *labels;
    size_t name_length, labels_length;
    double value;
};

void metrics_text_init(struct metrics_text *text, const char *bytes, size_t length);

/* The next sample. False: there is none. */
bool metrics_text_next(struct metrics_text *text, struct metrics_text_sample *ret);

bool metrics_text_is(const struct metrics_text_sample *sample, const char *name);

/* The value of this label, cut to `size` - 1 bytes; "" without it. Returns `buffer`. */
const char *metrics_text_label(const struct metrics_text_sample *sample, const char *label, char *buffer,
                               size_t size);
