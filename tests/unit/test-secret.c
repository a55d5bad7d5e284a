/* Secrets: comparisons that read each byte, and memory that is cleared. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/secret.h"
#include "io/loop/secret-memory.h"
#include "tap.h"

enum { LENGTH = 40 };

static void test_equal(void) {
    char one[LENGTH], other[LENGTH];
    int different = 0;

    memset(one, 'x', LENGTH);
    memcpy(other, one, LENGTH);
    ok(secret_equal(one, other, LENGTH), "equal secrets");
    for (int i = 0; i < LENGTH; i++) {
        other[i] ^= (char) (1 << i % 8);
        different += !secret_equal(one, other, LENGTH);
        other[i] = one[i];
    }
    is_int(different, LENGTH, "a bit in any byte makes another secret");
    ok(secret_equal(NULL, NULL, 0), "nothing equals nothing");
}

static void test_texts(void) {
    ok(secret_equal_text("abc", "abc") && !secret_equal_text("abc", "abd"), "texts are compared");
    ok(!secret_equal_text("abc", "abcd") && !secret_equal_text("abcd", "abc"), "of different length, too");
    ok(secret_equal_text(NULL, NULL) && !secret_equal_text(NULL, "") && !secret_equal_text("", NULL),
       "no password is equal to none only");
}

static void test_memory(void) {
    char *memory = secret_memory_grow(NULL, 0, LENGTH);

    memset(memory, 'x', LENGTH);
    memory = secret_memory_grow(memory, 3, 4 * LENGTH);
    ok(memory && memcmp(memory, "xxx", 3) == 0, "growing memory keeps its used bytes");
    secret_clear(memory, 2);
    ok(memcmp(memory, "\0\0x", 3) == 0, "a secret is cleared");
    secret_memory_free(memory, 4 * LENGTH);
    secret_memory_free(NULL, 0);
}

/* Whether the mapping at this address is left out of core dumps. */
static bool is_excluded(const void *address) {
    FILE *maps = fopen("/proc/self/smaps", "re");
    unsigned long begin, end;
    bool inside = false, excluded = false;
    char line[512];

    while (maps && fgets(line, sizeof(line), maps)) {
        char *rest;
        begin = strtoul(line, &rest, 16);
        end = *rest == '-' ? strtoul(rest + 1, NULL, 16) : 0;
        if (end > begin)
            inside = (unsigned long) address >= begin && (unsigned long) address < end;
        excluded |= inside && strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " dd");
    }
    if (maps)
        (void) fclose(maps);
    return excluded;
}

static void test_text(void) {
    char *text = secret_memory_text("a password", 1);

    is_string(text, "a", "a text that stays");
    ok(is_excluded(text), "is in no core dump");
    secret_memory_free_text(text);
    ok(msync(text, 1, MS_ASYNC) < 0 && errno == ENOMEM, "and its memory is gone at its end");
    secret_memory_free_text(NULL);
}

int main(void) {
    test_equal();
    test_texts();
    test_memory();
    test_text();
    return done_testing();
}
