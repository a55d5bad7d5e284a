#include "io/node/server-info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/limits.h"

/* The value of "field:value" in INFO's text, cut to fit; "" without the field. */
static void info_field(const char *text, const char *field, char *ret, size_t size) {
    size_t length = strlen(field);

    ret[0] = '\0';
    for (const char *line = text; line; line = strchr(line, '\n')) {
        if (*line == '\n')
            line++;
        if (strncmp(line, field, length) == 0 && line[length] == ':') {
            (void) snprintf(ret, size, "%.*s", (int) strcspn(line + length + 1, "\r\n"), line + length + 1);
            return;
        }
    }
}

static uint64_t info_number(const char *text, const char *field) {
    char number[24];

    info_field(text, field, number, sizeof(number));
    return strtoull(number, NULL, 10);
}

/* From 7.2 on the offset also counts writes to the append-only file. */
static bool offset_is_of_replicas(const char *version, bool aof_enabled) {
    char *end;
    unsigned long major = strtoul(version, &end, 10), minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;

    return !aof_enabled || major < 7 || (major == 7 && minor < 2);
}

static bool is_replicated(const struct server_info *info, const char *text) {
    /* The backlog comes with the first replica and stays, for an hour at least. */
    return info_number(text, "connected_slaves") != 0 || info_number(text, "repl_backlog_active") != 0 ||
           (info_number(text, "master_repl_offset") != 0 &&
            offset_is_of_replicas(info->version, info->aof_enabled));
}

void server_info_read(struct server_info *info, const char *text) {
    const struct server_info before = *info;
    char status[8], status_of_saving[8];

    info_field(text, "run_id", info->run_id, sizeof(info->run_id));
    info_field(text, "redis_version", info->version, sizeof(info->version));
    info_field(text, "redis_mode", info->mode, sizeof(info->mode));
    info_field(text, "role", info->role, sizeof(info->role));
    info_field(text, "maxmemory_policy", info->eviction_policy, sizeof(info->eviction_policy));
    info_field(text, "master_replid2", info->former_replid, sizeof(info->former_replid));
    info_field(text, "aof_last_write_status", status, sizeof(status));
    uint64_t limit = info_number(text, "maxmemory");
    info->full = limit > 0 &&
                 info_number(text, "used_memory") > limit + info_number(text, "mem_not_counted_for_evict");
    info_field(text, "rdb_last_bgsave_status", status_of_saving, sizeof(status_of_saving));
    info->saving_fails = strcmp(status_of_saving, "err") == 0;
    info->evicted_keys = info_number(text, "evicted_keys");
    info->aof_enabled = info_number(text, "aof_enabled") == 1;
    info->aof_failing = info->aof_enabled && strcmp(status, "err") == 0;
    info->aof_rewritten = info_number(text, "aof_rewrites") != 0 ||
                          info_number(text, "aof_rewrite_in_progress") != 0 ||
                          info_number(text, "aof_rewrite_scheduled") != 0;
    info->loading = info_number(text, "loading") == 1;
    info->replicated =
        is_replicated(info, text) || (before.replicated && strcmp(before.run_id, info->run_id) == 0);
}

static bool is_master(const struct server_info *info) {
    return strcmp(info->role, "master") == 0;
}

/* Not for a full server: it rejects new keys by itself, and still extends leases. */
const char *server_info_trouble(const struct server_info *info) {
    if (strcmp(info->mode, "sentinel") == 0)
        return "is a sentinel: give the address of a master";
    if (strcmp(info->mode, "cluster") == 0)
        return "is a cluster node: Redlock wants independent masters";
    if (!is_master(info))
        return "is a replica: Redlock wants independent masters";
    if (info->loading)
        return "is loading its data";
    if (info->eviction_policy[0] != '\0' && strcmp(info->eviction_policy, "noeviction") != 0)
        return "may evict keys: its maxmemory-policy must be noeviction";
    if (info->aof_failing)
        return "takes no writes: it can't write its append-only file";
    return NULL;
}

const char *server_info_refusal(const struct server_info *info, bool *ret_sure) {
    *ret_sure = info->full || !info->saving_fails;
    return info->full ? "is full: it refuses new leases, and extends those that are held" : NULL;
}

/* After a promotion INFO has the id of the data set that the server had as a replica. So a time as a replica
 * shows even if it lay between two inspections. Zeroes: never a replica. */
static bool was_promoted(const struct server_info *before, const struct server_info *after) {
    return strcmp(before->former_replid, after->former_replid) != 0 &&
           strspn(after->former_replid, "0") != strlen(after->former_replid);
}

const char *server_info_loss(const struct server_info *before, const struct server_info *after) {
    if (before->run_id[0] == '\0' || strcmp(before->run_id, after->run_id) != 0)
        return NULL;
    /* CONFIG RESETSTAT may have reset the count meanwhile. */
    if (after->evicted_keys != before->evicted_keys && after->evicted_keys != 0)
        return "has evicted keys: its maxmemory-policy must be noeviction";
    if ((!is_master(before) && is_master(after)) || was_promoted(before, after))
        return "was a replica for a while, and may have lost its data";
    return NULL;
}

bool server_info_durable(const struct server_info *info) {
    return !server_info_trouble(info) && info->aof_enabled && info->fsync_always && !info->replicated &&
           info->evicted_keys == 0 && strspn(info->former_replid, "0") == strlen(info->former_replid);
}

bool server_info_of_file(const struct server_info *info) {
    bool loads_file = info->loading && info->appends && is_master(info);

    return info->fsync_always && !info->aof_rewritten && (info->aof_enabled || loads_file);
}

static bool is_set(const char *const texts[], size_t n, const char *option, const char *value) {
    for (size_t i = 0; i + 1 < n; i += 2)
        if (strcmp(texts[i], option) == 0)
            return strcmp(texts[i + 1], value) == 0;
    return false;
}

bool server_info_appends(const char *const texts[], size_t n) {
    return is_set(texts, n, "appendonly", "yes");
}

bool server_info_fsync_always(const char *const texts[], size_t n) {
    return is_set(texts, n, "appendfsync", "always") && is_set(texts, n, "no-appendfsync-on-rewrite", "no");
}
