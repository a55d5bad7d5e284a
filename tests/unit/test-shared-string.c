/* Strings in a pool: short ones have room where long ones were. */

#include "base/shared-string.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"

enum { LONG = SHARED_STRING_BYTES_MAX, MANY = 4096 };

static struct shared_string_pool pool;
static struct shared_string *strings[MANY];
static char bytes[LONG];

static struct shared_string *text(size_t length) {
    return shared_string_new(&pool, bytes, length, NULL, 0);
}

/* As many as there is room for. */
static unsigned fill(size_t length) {
    unsigned n = 0;

    while (n < MANY && (strings[n] = text(length)))
        n++;
    return n;
}

static void drop(unsigned n) {
    for (unsigned i = 0; i < n; i++)
        strings[i] = shared_string_unref(&pool, strings[i]);
}

static void test_parts(void) {
    struct shared_string *string = shared_string_new(&pool, "name", 4, "of it", 5);

    ok(string && memcmp(string->bytes, "name", 4) == 0 &&
           memcmp(shared_string_tail(string), "of it", 5) == 0,
       "a string has a head and a tail");
    (void) shared_string_ref(string);
    (void) shared_string_unref(&pool, string);
    ok(string->references == 1, "and stays for its last reference");
    (void) shared_string_unref(&pool, string);
}

static void test_capacity(size_t size) {
    shared_string_pool_init(&pool, pool.memory, size);
    unsigned n = fill(LONG);
    ok(n >= 100, "a pool for 100 strings has room for so many of the longest (%u)", n);
    is_int(fill(10), 0, "a full pool has no room for a short one");
    drop(n);
}

/* A free place of a long string takes strings of every shorter length. */
static void test_classes(size_t size) {
    static const size_t lengths[] = {LONG, 900, 400, 200, 100, 50, 10, 1};
    unsigned least = MANY;

    shared_string_pool_init(&pool, pool.memory, size);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        unsigned n = fill(lengths[i]);
        least = n < least ? n : least;
        drop(n);
    }
    ok(least >= 100, "each time as many strings of another length have room (%u)", least);
    unsigned n = fill(LONG);
    ok(n >= 100, "and the longest again (%u)", n);
    drop(n);
}

int main(void) {
    size_t size = shared_string_pool_bytes(100, LONG);

    shared_string_pool_init(&pool, malloc(size), size);
    test_parts();
    test_capacity(size);
    test_classes(size);
    free(pool.memory);
    return done_testing();
}
