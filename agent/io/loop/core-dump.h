/* Core dumps: the memory of the agent has the lock values of all leases, the resume tokens of their holders
 * and the passwords of the nodes. */
#pragma once

#include <stddef.h>

/* Before any secret is read: from here on the process writes no core dump, passes none to a handler, and is
 * closed to the debuggers of its own user (PR_SET_DUMPABLE). A dump that root makes of the running process
 * (gcore) has no memory in it. Logs what the system rejects. Children get the limit, too. */
void core_dump_prevent(void);

/* Keeps this memory of whole pages out of every dump (MADV_DONTDUMP). Memory is as usable without. */
void core_dump_exclude(void *memory, size_t bytes);
