/* INFO parsed, and whether such a server may vote. */

#include "io/node/server-info.h"

#include "tap.h"

#define GOOD                                                                                    \
    "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:aaaa\r\n# Memory\r\n"  \
    "maxmemory_policy:noeviction\r\n# Persistence\r\nloading:0\r\naof_enabled:1\r\n"            \
    "aof_last_write_status:ok\r\n# Stats\r\nevicted_keys:0\r\n# Replication\r\nrole:master\r\n" \
    "master_replid2:0000000000000000\r\n"

/* The first field of a name counts: differences go in front. */
static struct server_info facts_of(const char *info) {
    struct server_info facts = {0};

    server_info_read(&facts, info);
    return facts;
}

static void test_read(void) {
    const struct server_info facts = facts_of(GOOD);

    is_string(facts.run_id, "aaaa", "run_id");
    is_string(facts.version, "7.0.15", "version");
    is_string(facts.role, "master", "role, and no \\r behind it");
    ok(facts.aof_enabled && !facts.aof_failing && !facts.loading, "flags");
    const struct server_info none = facts_of("");
    is_string(none.version, "", "an empty INFO has no fields");
    is_int(facts_of("x_evicted_keys:3\nevicted_keys:18446744073709551615").evicted_keys, UINT64_MAX,
           "a field is known by its whole name");
}

static void refuses(const char *what, const char *info, const char *want) {
    const struct server_info facts = facts_of(info);
    const char *trouble = server_info_trouble(&facts);
    ok(trouble && strstr(trouble, want), "%s: %s", what, trouble ? trouble : "(voting)");
}

static void test_trouble(void) {
    const struct server_info good = facts_of(GOOD);

    ok(!server_info_trouble(&good), "a proper master may vote");
    refuses("a replica", "role:slave\r\n" GOOD, "replica");
    refuses("a sentinel", "redis_mode:sentinel\r\n" GOOD, "sentinel");
    refuses("a cluster node", "redis_mode:cluster\r\n" GOOD, "cluster");
    refuses("a loading server", "loading:1\r\n" GOOD, "loading");
    refuses("volatile-ttl", "maxmemory_policy:volatile-ttl\r\n" GOOD, "noeviction");
    refuses("a failing AOF", "aof_last_write_status:err\r\n" GOOD, "append-only");
    const struct server_info off = facts_of("aof_enabled:0\r\naof_last_write_status:err\r\n" GOOD);
    ok(!server_info_trouble(&off), "but not an AOF that is off");
}

static void test_refusal(void) {
    const struct server_info good = facts_of(GOOD),
                             full = facts_of("maxmemory:100\r\nused_memory:101\r\n" GOOD),
                             room = facts_of("maxmemory:100\r\nused_memory:99\r\n" GOOD),
                             unsaved = facts_of("rdb_last_bgsave_status:err\r\n" GOOD);
    bool sure = false;

    ok(!server_info_refusal(&good, &sure) && sure, "a proper master accepts keys");
    ok(!server_info_refusal(&room, &sure) && sure, "and so does one with memory left");
    ok(server_info_refusal(&full, &sure) && sure && !server_info_trouble(&full),
       "a full server rejects new keys, and extends");
    ok(!server_info_refusal(&unsaved, &sure) && !sure, "a server that can't save may reject them");
}

static bool lost(const char *before, const char *after) {
    const struct server_info first = facts_of(before), second = facts_of(after);
    return server_info_loss(&first, &second) != NULL;
}

static bool durable(const char *info, bool fsync_always) {
    struct server_info facts = facts_of(info);

    facts.fsync_always = fsync_always;
    return server_info_durable(&facts);
}

#define LOADING "loading:1\r\naof_enabled:0\r\n" GOOD

static bool of_file(const char *info, bool appends, bool fsync_always) {
    struct server_info facts = facts_of(info);

    facts.appends = appends;
    facts.fsync_always = fsync_always;
    return server_info_of_file(&facts);
}

static void test_of_file(void) {
    ok(of_file(GOOD, true, true), "a server began with its append-only file");
    ok(of_file(LOADING, true, true), "also while it loads the file, which INFO reports as off");
    ok(!of_file(LOADING, false, true), "not a server that loads a snapshot without such a file");
    ok(!of_file("aof_enabled:0\r\n" GOOD, true, true), "nor a server that has loaded, with the file off");
    ok(!of_file("role:slave\r\n" LOADING, true, true), "nor a replica that loads its master's data");
    ok(!of_file("aof_rewrite_in_progress:1\r\n" GOOD, true, true),
       "nor a server that rewrites its file, as after it was switched on");
    ok(!of_file("aof_rewrites:1\r\n" GOOD, true, true), "or was");
    ok(!of_file("aof_rewrite_scheduled:1\r\n" GOOD, true, true), "or will be");
    ok(!of_file(GOOD, true, false) && !of_file(LOADING, true, false),
       "nor a server that may answer before it writes to disk");
}

static void test_durable(void) {
    static const char *const file[] = {"appenddirname", "d",   "appendfsync", "always",
                                       "appendonly",    "yes", "x",           "y"};
    static const char *const always[] = {"appendfsync", "always", "no-appendfsync-on-rewrite", "no"},
                             *const second[] = {"no-appendfsync-on-rewrite", "no", "appendfsync",
                                                "everysec"},
                             *const rewrite[] = {"no-appendfsync-on-rewrite", "yes", "appendfsync",
                                                 "always"},
                             *const none[] = {"appendfilename", "yes", "appendonly", "no"};

    ok(durable(GOOD, true), "a master with an append-only file is durable");
    ok(!durable(GOOD, false), "not a server that may answer before it writes to disk");
    ok(!durable("aof_enabled:0\r\n" GOOD, true), "nor one without the file");
    ok(!durable("aof_last_write_status:err\r\n" GOOD, true), "or that can't write the file");
    ok(!durable("loading:1\r\n" GOOD, true), "or is still loading");
    ok(!durable("evicted_keys:1\r\n" GOOD, true), "or has evicted keys");
    ok(!durable("connected_slaves:1\r\n" GOOD, true), "or has a replica, which may replace it");
    ok(!durable("repl_backlog_active:1\r\n" GOOD, true), "or had one");
    ok(!durable("master_repl_offset:5\r\n" GOOD, true), "or had one in the past");
    ok(!durable("redis_version:7.1.240\r\nmaster_repl_offset:5\r\n" GOOD, true), "according to its offset");
    ok(durable("redis_version:7.2.0\r\nmaster_repl_offset:5\r\n" GOOD, true),
       "from 7.2 on the append-only file moves the offset, too");
    ok(durable("redis_version:8.0.2\r\nmaster_repl_offset:5\r\n" GOOD, true), "and in 8");
    struct server_info looked = facts_of("redis_version:8.0.2\r\nconnected_slaves:1\r\n" GOOD);
    server_info_read(&looked, "redis_version:8.0.2\r\n" GOOD);
    ok(looked.replicated, "there a replica seen once counts for the life of the process");
    server_info_read(&looked, "run_id:bbbb\r\nredis_version:8.0.2\r\n" GOOD);
    ok(!looked.replicated, "and not for the next process");
    ok(!durable("master_replid2:00ab\r\n" GOOD, true), "or was one");
    ok(server_info_fsync_always(always, 4), "appendfsync always");
    ok(!server_info_fsync_always(always, 2), "must also hold during a rewrite of the file");
    ok(!server_info_fsync_always(rewrite, 4), "said clearly");
    ok(!server_info_fsync_always(second, 4), "every second is not always");
    ok(!server_info_fsync_always(NULL, 0), "no answer is no");
    ok(server_info_appends(file, 8),
       "an append-only file according to CONFIG, whatever INFO says while loading");
    ok(!server_info_appends(none, 4), "none");
    ok(!server_info_appends(file, 5), "an incomplete answer is no");
}

static void test_loss(void) {
    ok(!lost(GOOD, GOOD), "nothing changed, nothing lost");
    ok(!lost("", "evicted_keys:3\r\n" GOOD), "the first INFO has nothing to compare with");
    ok(lost(GOOD, "evicted_keys:1\r\n" GOOD), "evictions");
    ok(!lost("evicted_keys:3\r\n" GOOD, "evicted_keys:3\r\n" GOOD), "old evictions do not count again");
    ok(!lost("evicted_keys:3\r\n" GOOD, GOOD), "CONFIG RESETSTAT is no eviction");
    ok(lost("evicted_keys:3\r\n" GOOD, "evicted_keys:2\r\n" GOOD), "but evictions after it are");
    ok(!lost(GOOD, "role:slave\r\n" GOOD), "a replica has not lost its data yet");
    ok(lost("role:slave\r\n" GOOD, GOOD), "it may have lost them when it is a master again");
    ok(lost(GOOD, "master_replid2:00ab\r\n" GOOD), "even if no INFO showed the replica");
    ok(!lost("master_replid2:00ab\r\n" GOOD, "master_replid2:00ab\r\n" GOOD), "which counts once");
    ok(!lost("master_replid2:00ab\r\n" GOOD, GOOD), "a first replica of this master is no loss");
    ok(!lost(GOOD, "run_id:bbbb\r\nevicted_keys:3\r\n" GOOD), "another process is judged by its epoch");
}

int main(void) {
    test_read();
    test_trouble();
    test_refusal();
    test_of_file();
    test_durable();
    test_loss();
    return done_testing();
}
