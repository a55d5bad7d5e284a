/* Heap memory that holds secrets for a while, such as what a connection has sent: no copy stays behind when
 * the memory grows or ends. free(3) clears nothing, and realloc(3) may leave the former copy. */
#pragma once

#include <stddef.h>

/* Memory of `room` bytes with the first `used` bytes of the old one, which is cleared and freed; or NULL
 * without memory, and the old one stays. The old one may be NULL. */
void *secret_memory_grow(void *old, size_t used, size_t room);

/* A copy of a text that stays, in a page of its own that is in no core dump; or NULL without memory. */
char *secret_memory_text(const char *text, size_t length);

/* Clears and unmaps such a copy. NULL is fine. */
void secret_memory_free_text(char *text);

/* Clears the first `used` bytes, and frees. NULL is fine. */
void secret_memory_free(void *memory, size_t used);
