/* The memory of a ledger (local/recovery/ledger.h): a memfd, which the service manager keeps for the next
 * process. */
#pragma once

#include "io/restart/inherited-fds.h"
#include "local/front-state.h"
#include "local/recovery/ledger-reader.h"

struct ledger_memory {
    void *memory; /* NULL: none */
    size_t bytes;
    int fd; /* -1: in the store, or the caller's */
};

/* Makes a ledger whose sequence is one more than those of the former processes. 0 or a negative errno. */
int ledger_memory_new(const struct ledger_size *size, const struct front_state_identity *of,
                      const struct inherited_fds *inherited, struct ledger *ledger,
                      struct ledger_memory *ret);

/* Puts the complete ledger into the store. 0 or a negative errno. */
int ledger_memory_publish(struct ledger_memory *memory, const struct ledger *ledger);

/* The newest ledger of a former process: a ledger is stored only when it is complete. False: there is
 * none. */
bool ledger_memory_find(const struct inherited_fds *inherited, struct ledger_memory *ret,
                        struct ledger_reader *ret_reader);

/* The keys of leases name the host. The host name of the newest ledger, a copy to free, if it differs from
 * the present one and the former process had leases or waiting requests; NULL: otherwise, or no memory. */
char *ledger_memory_host(const struct inherited_fds *inherited, const char *host_now);

/* Fine for all zeroes. */
void ledger_memory_deinit(struct ledger_memory *memory);
