#include "io/restart/ledger-memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "io/loop/core-dump.h"
#include "io/loop/log.h"
#include "io/loop/sealed-memfd.h"
#include "io/restart/fd-store.h"
#include "local/recovery/recovery.h"

static uint64_t next_sequence(const struct inherited_fds *inherited) {
    uint64_t sequence = 0;

    for (size_t i = 0; i < inherited->n_ledgers; i++)
        if (inherited->ledgers[i].sequence > sequence)
            sequence = inherited->ledgers[i].sequence;
    return sequence + 1;
}

int ledger_memory_new(const struct ledger_size *size, const struct front_state_identity *of,
                      const struct inherited_fds *inherited, struct ledger *ledger,
                      struct ledger_memory *ret) {
    const struct ledger_identity identity = {.agent = of->agent,
                                             .host = of->host,
                                             .key_format = of->key_format,
                                             .sequence = next_sequence(inherited)};
    size_t bytes = ledger_bytes(size);
    _cleanup_close_ int fd = sealed_memfd_new("redlockd-ledger", bytes);

    if (fd < 0)
        return fd;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (memory == MAP_FAILED)
        return -errno;
    core_dump_exclude(memory, bytes);
    ledger_init(ledger, size, offsetof(struct mmsghdr, msg_len), &identity, memory);
    *ret = (struct ledger_memory){.memory = memory, .bytes = bytes, .fd = cleanup_steal_fd(&fd)};
    return 0;
}

int ledger_memory_publish(struct ledger_memory *memory, const struct ledger *ledger) {
    int r = fd_store_put_ledger(ledger->header->sequence, memory->fd);

    if (r < 0)
        return r;
    (void) close(memory->fd);
    memory->fd = -1;
    return 0;
}

/* False for another version, or anything else that is not a ledger. */
static bool map(int fd, struct ledger_memory *ret, struct ledger_reader *ret_reader) {
    ssize_t bytes = sealed_memfd_bytes(fd);

    if (bytes <= 0)
        return false;
    struct ledger_memory found = {.bytes = (size_t) bytes, .fd = -1};
    void *memory = mmap(NULL, found.bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return false;
    core_dump_exclude(memory, found.bytes);
    found.memory = memory;
    if (!ledger_reader_init(ret_reader, memory, found.bytes)) {
        ledger_memory_deinit(&found);
        return false;
    }
    *ret = found;
    return true;
}

bool ledger_memory_find(const struct inherited_fds *inherited, struct ledger_memory *ret,
                        struct ledger_reader *ret_reader) {
    struct ledger_memory newest = {0}, other;
    struct ledger_reader reader;

    for (size_t i = 0; i < inherited->n_ledgers; i++) {
        if (!map(inherited->ledgers[i].fd, &other, &reader))
            continue;
        if (newest.memory && reader.header->sequence < ret_reader->header->sequence) {
            ledger_memory_deinit(&other);
            continue;
        }
        ledger_memory_deinit(&newest);
        newest = other;
        *ret_reader = reader;
    }
    if (newest.memory)
        *ret = newest;
    return newest.memory;
}

char *ledger_memory_host(const struct inherited_fds *inherited, const char *host_now) {
    struct ledger_memory newest = {0};
    struct ledger_reader reader;
    char *host = NULL;

    if (ledger_memory_find(inherited, &newest, &reader) && strcmp(reader.header->host, host_now) != 0 &&
        recovery_slots(&reader) > 0)
        host = strdup(reader.header->host);
    ledger_memory_deinit(&newest);
    return host;
}

void ledger_memory_deinit(struct ledger_memory *memory) {
    if (memory->memory) {
        (void) munmap(memory->memory, memory->bytes);
        if (memory->fd >= 0)
            (void) close(memory->fd);
    }
    memory->memory = NULL;
}
