/* What a Redis server says of itself: INFO's text taken apart, and judged. */
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
    char former_replid[48]; /* of the data set it had as a replica, before it was promoted; zeroes: never */
    uint64_t evicted_keys;
    bool aof_enabled;
    bool aof_failing;
    bool aof_rewritten; /* since the process began, or soon */
    bool loading;
    bool full, saving_fails;    /* it refuses new keys; it may do so */
    bool replicated;            /* another server has, or may have, its data */
    bool appends, fsync_always; /* not of INFO: CONFIG says so */
};

/* `facts` has those of the last look, or zeroes. */
void server_info_read(struct server_info *facts, const char *info);

/* What keeps this server from voting, or NULL. It may end while the server runs. */
const char *server_info_trouble(const struct server_info *facts);

/* Why it takes no new keys although it votes on those that it has, or NULL; `ret_sure` false: if it has
 * refused one, it still may. */
const char *server_info_refusal(const struct server_info *facts, bool *ret_sure);

/* How the process has lost keys between the two, although its epoch key may stand; or NULL. Another process
 * is another matter: its epoch tells. */
const char *server_info_loss(const struct server_info *before, const struct server_info *after);

/* Whether all that the process has answered to is on its disk, and nowhere else: then one that comes up with
 * these data remembers all. */
bool server_info_durable(const struct server_info *facts);

/* Whether nothing speaks against the process having begun with its append-only file, of which each write is
 * on the disk before it is answered. INFO calls that file off as long as a server loads it, and CONFIG does
 * not; a file that is switched on later is rewritten first (by Redis 8 when it has loaded a snapshot). */
bool server_info_of_file(const struct server_info *facts);

/* Whether what CONFIG GET has answered, n names and values in turn, says that there is an append-only file.
 */
bool server_info_appends(const char *const texts[], size_t n);

/* Whether what CONFIG GET has answered, n names and values in turn, says that each write is on the disk
 * before it is answered, also while the append-only file is being rewritten. */
bool server_info_fsync_always(const char *const texts[], size_t n);
