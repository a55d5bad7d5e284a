#include "io/loop/memory.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "io/loop/log.h"

enum { MEMORY_WAIT_MS = 1000, PAUSE_MS = 10 };

void *memory_await(void *memory, size_t bytes) {
    for (unsigned waited_ms = 0; waited_ms <= MEMORY_WAIT_MS; waited_ms += PAUSE_MS) {
        void *larger = realloc(memory, bytes);
        if (larger)
            return larger;
        (void) malloc_trim(0);
        (void) usleep(waited_ms > 0 ? PAUSE_MS * 1000 : 0);
    }
    log_error("no memory for %zu bytes within %d ms: leases can't be extended, so the agent ends here",
              bytes, MEMORY_WAIT_MS);
    _exit(EX_OSERR);
}

void *memory_await_zeroed(size_t bytes) {
    return memset(memory_await(NULL, bytes), 0, bytes);
}
