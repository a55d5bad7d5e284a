/* A server's INFO, parsed, and whether such a server may vote. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct server_info {
    char run_id[48]; /* "" before the first INFO */
    char version[32];
    char mode[16];
    char role[16];
    char eviction_policy[32];
    char former_replid[48]; /* its data set's id as a replica, before a promotion; zeroes: never a replica */
    uint64_t evicted_keys;
    bool aof_enabled;
    bool aof_failing;
    bool aof_rewritten; /* since the process began, or scheduled */
    bool loading;
    bool full, saving_fails;    /* rejects new keys; may reject them */
    bool replicated;            /* another server has or had its data */
    bool appends, fsync_always; /* from CONFIG, not INFO */
};

/* `info` has the values of the last inspection, or zeroes; `text` is INFO's. */
void server_info_read(struct server_info *info, const char *text);

/* Why this server must not vote, or NULL. The reason may end while the server runs. */
const char *server_info_trouble(const struct server_info *info);

/* Why the server rejects new keys although it extends others, or NULL. *ret_sure false: a server that
 * rejected a key may still do so. */
const char *server_info_refusal(const struct server_info *info, bool *ret_sure);

/* How the process lost keys between the two although its epoch key may survive, or NULL. NULL also for
 * another process, which the epoch key does not name. */
const char *server_info_loss(const struct server_info *before, const struct server_info *after);

/* Whether all acknowledged writes are on this server's disk and nowhere else: then the next process
 * with these data has all of them. */
bool server_info_durable(const struct server_info *info);

/* Whether the process may have begun with its append-only file, each write of which was on the disk before
 * the answer. While a server loads that file, INFO reports it as off, and CONFIG as on; a file switched on
 * later is rewritten first (by Redis 8 after a snapshot was loaded). */
bool server_info_of_file(const struct server_info *info);

/* Whether CONFIG GET's answer, n names and values in turn, has an append-only file. */
bool server_info_appends(const char *const texts[], size_t n);

/* Whether by the same answer each write is on the disk before its answer, also during a rewrite of the
 * append-only file. */
bool server_info_fsync_always(const char *const texts[], size_t n);
