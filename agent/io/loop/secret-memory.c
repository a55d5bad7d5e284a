#include "io/loop/secret-memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/secret.h"
#include "io/loop/core-dump.h"

void *secret_memory_grow(void *old, size_t used, size_t room) {
    void *larger = malloc(room);

    assert(used <= room);
    if (!larger)
        return NULL;
    if (used > 0)
        memcpy(larger, old, used);
    secret_memory_free(old, used);
    return larger;
}

enum { TEXT_BYTES = 4096 };

char *secret_memory_text(const char *text, size_t length) {
    assert(length < TEXT_BYTES);

    char *copy = mmap(NULL, TEXT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return NULL;
    core_dump_exclude(copy, TEXT_BYTES);
    return memcpy(copy, text, length);
}

void secret_memory_free_text(char *text) {
    if (!text)
        return;
    secret_clear(text, TEXT_BYTES);
    (void) munmap(text, TEXT_BYTES);
}

void secret_memory_free(void *memory, size_t used) {
    if (!memory)
        return;
    secret_clear(memory, used);
    free(memory);
}
