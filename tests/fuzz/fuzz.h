/* What all fuzz targets share. A target is one file with LLVMFuzzerTestOneInput(): the fuzzer's build links
 * it with libFuzzer, all others with replay.c, which runs the corpus. A target aborts when a promise is
 * broken.
 *
 * Source: "libFuzzer – a library for coverage-guided fuzz testing", llvm.org. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

#define must(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void) fprintf(stderr, "%s:%d: broken promise: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* What the corpus must reach: a corpus of a former format would reach nothing, and the fuzzer begin at
 * nothing. Each target defines the names, with NULL at the end, and the set of those that inputs have
 * reached. */
extern const char *const fuzz_goals[];
extern uint32_t fuzz_reached;

static inline void fuzz_reach(unsigned goal) {
    fuzz_reached |= UINT32_C(1) << goal;
}

/* The input, taken from its front. An input that has ended gives zeros. */
struct fuzz_input {
    const uint8_t *bytes;
    size_t length;
};

static inline uint8_t fuzz_byte(struct fuzz_input *input) {
    if (input->length == 0)
        return 0;
    input->length--;
    return *input->bytes++;
}

/* Below `limit`. */
static inline unsigned fuzz_below(struct fuzz_input *input, unsigned limit) {
    return fuzz_byte(input) % limit;
}

static inline uint64_t fuzz_number(struct fuzz_input *input, unsigned n_bytes) {
    uint64_t number = 0;

    while (n_bytes-- > 0)
        number = number << 8 | fuzz_byte(input);
    return number;
}

/* At most `length` bytes, as they are in the input. Returns their number. */
static inline size_t fuzz_take(struct fuzz_input *input, size_t length, const char **ret) {
    size_t taken = length < input->length ? length : input->length;

    *ret = (const char *) input->bytes;
    input->bytes += taken;
    input->length -= taken;
    return taken;
}

/* A copy in memory of exactly this length, so that a sanitizer notices each byte that is read beyond it. The
 * caller frees it. */
static inline char *fuzz_copy(const void *bytes, size_t length) {
    char *copy = malloc(length > 0 ? length : 1);

    must(copy);
    if (length > 0)
        memcpy(copy, bytes, length);
    return copy;
}

/* The same with a NUL at the end. */
static inline char *fuzz_string(const void *bytes, size_t length) {
    char *copy = malloc(length + 1);

    must(copy);
    if (length > 0)
        memcpy(copy, bytes, length);
    copy[length] = '\0';
    return copy;
}
