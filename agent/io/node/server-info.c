#include "io/node/server-info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/limits.h"

/* The value of "field:value" in INFO's text, cut to fit; "" when it is not there. */
static void info_field(const char *info, const char *field, char *ret, size_t size) {
    size_t length = strlen(field);

    ret[0] = '\0';
    for (const char *line = info; line; line = strchr(line, '\n')) {
        if (*line == '\n')
            line++;
        if (strncmp(line, field, length) == 0 && line[length] == ':') {
            (void) snprintf(ret, size, "%.*s", (int) strcspn(line + length + 1, "\r\n"), line + length + 1);
            return;
        }
    }
}

static uint64_t info_number(const char *info, const char *field) {
    char text[24];

    info_field(info, field, text, sizeof(text));
    return strtoull(text, NULL, 10);
}

/* From 7.2 on the offset also counts what goes to the append-only file. */
static bool offset_is_of_replicas(const char *version, bool aof_enabled) {
    char *end;
    unsigned long major = strtoul(version, &end, 10), minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;

    return !aof_enabled || major < 7 || (major == 7 && minor < 2);
}

static bool is_replicated(const struct server_info *facts, const char *info) {
    /* The backlog comes with the first replica and stays, for an hour at least. */
    return info_number(info, "connected_slaves") != 0 || info_number(info, "repl_backlog_active") != 0 ||
           (info_number(info, "master_repl_offset") != 0 &&
            offset_is_of_replicas(facts->version, facts->aof_enabled));
}

void server_info_read(struct server_info *facts, const char *info) {
    const struct server_info before = *facts;
    char status[8], status_of_saving[8];

    info_field(info, "run_id", facts->run_id, sizeof(facts->run_id));
    info_field(info, "redis_version", facts->version, sizeof(facts->version));
    info_field(info, "redis_mode", facts->mode, sizeof(facts->mode));
    info_field(info, "role", facts->role, sizeof(facts->role));
    info_field(info, "maxmemory_policy", facts->eviction_policy, sizeof(facts->eviction_policy));
    info_field(info, "master_replid2", facts->former_replid, sizeof(facts->former_replid));
    info_field(info, "aof_last_write_status", status, sizeof(status));
    uint64_t limit = info_number(info, "maxmemory");
    facts->full = limit > 0 &&
                  info_number(info, "used_memory") > limit + info_number(info, "mem_not_counted_for_evict");
    info_field(info, "rdb_last_bgsave_status", status_of_saving, sizeof(status_of_saving));
    facts->saving_fails = strcmp(status_of_saving, "err") == 0;
    facts->evicted_keys = info_number(info, "evicted_keys");
    facts->aof_enabled = info_number(info, "aof_enabled") == 1;
    facts->aof_failing = facts->aof_enabled && strcmp(status, "err") == 0;
    facts->aof_rewritten = info_number(info, "aof_rewrites") != 0 ||
                           info_number(info, "aof_rewrite_in_progress") != 0 ||
                           info_number(info, "aof_rewrite_scheduled") != 0;
    facts->loading = info_number(info, "loading") == 1;
    facts->replicated =
        is_replicated(facts, info) || (before.replicated && strcmp(before.run_id, facts->run_id) == 0);
}

static bool is_master(const struct server_info *facts) {
    return strcmp(facts->role, "master") == 0;
}

/* A full server is not among these: it refuses new keys by itself, and still extends what is held. */
const char *server_info_trouble(const struct server_info *facts) {
    if (strcmp(facts->mode, "sentinel") == 0)
        return "is a sentinel: give the address of a master";
    if (strcmp(facts->mode, "cluster") == 0)
        return "is a cluster node: Redlock wants independent masters";
    if (!is_master(facts))
        return "is a replica: Redlock wants independent masters";
    if (facts->loading)
        return "is loading its data";
    if (facts->eviction_policy[0] != '\0' && strcmp(facts->eviction_policy, "noeviction") != 0)
        return "may evict keys: its maxmemory-policy must be noeviction";
    if (facts->aof_failing)
        return "takes no writes: it can't write its append-only file";
    return NULL;
}

const char *server_info_refusal(const struct server_info *facts, bool *ret_sure) {
    *ret_sure = facts->full || !facts->saving_fails;
    return facts->full ? "is full: it refuses new leases, and extends those that are held" : NULL;
}

/* Zeroes: this process was never a replica. A promotion leaves the id of what it had replicated, and tells
 * even of one that began and ended between two looks. */
static bool was_promoted(const struct server_info *before, const struct server_info *after) {
    return strcmp(before->former_replid, after->former_replid) != 0 &&
           strspn(after->former_replid, "0") != strlen(after->former_replid);
}

const char *server_info_loss(const struct server_info *before, const struct server_info *after) {
    if (before->run_id[0] == '\0' || strcmp(before->run_id, after->run_id) != 0)
        return NULL;
    /* CONFIG RESETSTAT may have taken the count back to nothing meanwhile. */
    if (after->evicted_keys != before->evicted_keys && after->evicted_keys != 0)
        return "has evicted keys: its maxmemory-policy must be noeviction";
    if ((!is_master(before) && is_master(after)) || was_promoted(before, after))
        return "was a replica for a while, and may have lost its data";
    return NULL;
}

bool server_info_durable(const struct server_info *facts) {
    return !server_info_trouble(facts) && facts->aof_enabled && facts->fsync_always && !facts->replicated &&
           facts->evicted_keys == 0 && strspn(facts->former_replid, "0") == strlen(facts->former_replid);
}

bool server_info_of_file(const struct server_info *facts) {
    bool loads_file = facts->loading && facts->appends && is_master(facts);

    return facts->fsync_always && !facts->aof_rewritten && (facts->aof_enabled || loads_file);
}

bool server_info_appends(const char *const texts[], size_t n) {
    for (size_t i = 0; i + 1 < n; i += 2) {
        if (strcmp(texts[i], "appendonly") == 0)
            return strcmp(texts[i + 1], "yes") == 0;
    }
    return false;
}

bool server_info_fsync_always(const char *const texts[], size_t n) {
    bool always = false, rewriting = false;

    for (size_t i = 0; i + 1 < n; i += 2) {
        if (strcmp(texts[i], "appendfsync") == 0)
            always = strcmp(texts[i + 1], "always") == 0;
        if (strcmp(texts[i], "no-appendfsync-on-rewrite") == 0)
            rewriting = strcmp(texts[i + 1], "no") == 0;
    }
    return always && rewriting;
}
