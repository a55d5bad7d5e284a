/* A turn ends in one system call that writes to all nodes: batcher, connections and pipelines as shipped,
 * with threads of this test as nodes, and each write counted. */

#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "io/node/batcher.h"
#include "io/node/script.h"
#include "io/loop/multi-write.h"
#include "io/node/fleet.h"
#include "io/loop/loop.h"
#include "tap.h"

enum { NODES = 3, KINDS = 4, NAMES = 40, ITEMS_MAX = 64, ITEM_BYTES_MAX = 16384 };

static const char info[] = "redis_version:7.0.0\r\nredis_mode:standalone\r\nrun_id:0123\r\nrole:master\r\n"
                           "loading:0\r\nmaxmemory_policy:noeviction\r\naof_enabled:0\r\n";
static struct config config = {.n_nodes = NODES, .fence_skew_ms = 60000, .fence_retention_ms = 3600000};
static struct redis *nodes[NODES_MAX];
static struct fleet fleets[NODES_MAX];
static struct batcher *batcher;
static sd_event *event;
static struct shared_string *names[NAMES];
static unsigned votes, wanted, cuts, turns;
static node_set ready;

/* --- the system calls that write --- */

static unsigned bursts, burst_sockets, single_writes;
static bool no_bursts; /* as on a kernel without io_submit */

ssize_t writev(int fd, const struct iovec *pieces, int n) {
    single_writes++;
    return syscall(SYS_writev, fd, pieces, n);
}

void multi_write_init(struct multi_write *burst) {
    burst->context = 0;
}

void multi_write_deinit(struct multi_write *burst) {
    (void) burst;
}

int multi_write_write(const struct multi_write *burst, struct multi_write_write *writes, size_t n) {
    (void) burst;
    if (no_bursts)
        return -ENOSYS;
    bursts++;
    burst_sockets += (unsigned) n;
    for (size_t i = 0; i < n; i++)
        writes[i].done = syscall(SYS_writev, writes[i].socket, writes[i].pieces, writes[i].n_pieces);
    return 0;
}

/* --- a node --- */

static size_t read_number(FILE *from, char sign) {
    char line[32];

    if (!fgets(line, sizeof(line), from))
        return 0;
    if (line[0] != sign)
        abort();
    return strtoul(line + 1, NULL, 10);
}

static void answer(int fd, const char *word, const char *text) {
    char reply[1024] = "-ERR no\r\n"; /* fits any call */
    const char *hash = NULL;

    for (unsigned i = 0; i < SCRIPTS_LOADED && strcmp(word, "SCRIPT") == 0; i++)
        if (strcmp(script_sources[i].text, text) == 0)
            hash = script_sources[i].hash;
    if (strcmp(word, "INFO") == 0)
        hash = info;
    if (strcmp(word, "EVAL") == 0)
        (void) strcpy(reply, "+OK\r\n");
    else if (hash)
        (void) snprintf(reply, sizeof(reply), "$%zu\r\n%s\r\n", strlen(hash), hash);
    if (send(fd, reply, strlen(reply), MSG_NOSIGNAL) < 0)
        return; /* the connection was closed */
}

struct server {
    int listening;
    char items[ITEMS_MAX][ITEM_BYTES_MAX];
};

static struct server servers[NODES];

/* Serves until the other side closes the connection. */
static void serve_one(struct server *server, int fd) {
    FILE *from = fdopen(fd, "r");

    if (!from)
        abort();
    for (size_t n; (n = read_number(from, '*')) > 0;) {
        for (size_t i = 0; i < n; i++) {
            size_t length = read_number(from, '$');
            if (n > ITEMS_MAX || length + 2 > ITEM_BYTES_MAX ||
                fread(server->items[i], 1, length + 2, from) == 0)
                abort();
            server->items[i][length] = '\0';
        }
        answer(fd, server->items[0], server->items[n - 1]);
    }
    (void) fclose(from);
}

/* Serves until the socket is shut down: on a slow machine a connection may time out and come again. */
static void *serve(void *userdata) {
    struct server *server = userdata;

    for (int fd; (fd = accept4(server->listening, NULL, NULL, SOCK_CLOEXEC)) >= 0;)
        serve_one(server, fd);
    return NULL;
}

/* --- the functions that batcher.c and redis.c call --- */

void shard_expect(const struct shard *shard, uint64_t ticket) {
    (void) shard;
    (void) ticket;
}

void shard_vote(struct shard *shard, unsigned node, uint64_t ticket, const struct vote *vote,
                instant_ns now_ns) {
    (void) shard;
    (void) node;
    (void) ticket;
    (void) now_ns;
    votes++;
    cuts += vote->kind == VOTE_CUT;
}

void node_trust_time(struct shard *shard, unsigned node, int64_t time_us, instant_ns sent_ns,
                     instant_ns now_ns) {
    (void) shard;
    (void) node;
    (void) time_us;
    (void) sent_ns;
    (void) now_ns;
}

static void on_state(void *userdata, struct redis *redis, enum redis_state state, const char *reason) {
    (void) userdata;
    ready &= (node_set) ~node_set_of(redis_index(redis));
    if (state == REDIS_READY)
        ready |= node_set_of(redis_index(redis));
    else if (state == REDIS_UNFIT)
        abort();
    (void) reason;
}

static void on_reply(void *userdata, struct redis *redis, void *tag, redisReply *reply) {
    (void) userdata;
    (void) batcher_answered(batcher, NULL, redis_index(redis), tag, reply, 0);
}

/* Comes when the test takes more than nine seconds. */
static void on_server_info(void *userdata, struct redis *redis) {
    (void) userdata;
    (void) redis;
}

static void on_inspect(void *userdata, struct redis *redis) {
    (void) userdata;
    (void) redis;
}

/* --- the turns --- */

/* Some requests of each kind, a dozen calls for each node: a query is a call for each name. */
static void ask_all(node_set to) {
    static const enum operation operations[KINDS] = {OPERATION_ACQUIRE, OPERATION_EXTEND, OPERATION_RELEASE,
                                                     OPERATION_QUERY};
    static const uint8_t secret[SECRET_BYTES];

    for (unsigned i = 0; i < NAMES; i++)
        batcher_add(batcher, &(struct send){.operation = operations[i % KINDS],
                                            .nodes = to,
                                            .ttl_ms = 1000,
                                            .ticket = i,
                                            .secret = secret,
                                            .text = names[i]});
}

static void flush(node_set to) {
    bursts = burst_sockets = single_writes = votes = cuts = 0;
    wanted = NAMES * node_set_count(to);
    batcher_flush(batcher, nodes, NULL, 0);
}

/* Runs when the nodes are ready, and then when all have answered. After a lost connection the same turn is
 * repeated. */
static int settle(void *userdata) {
    const node_set all = (1 << NODES) - 1;

    (void) userdata;
    if (ready != all || votes < wanted)
        return 0;
    turns -= cuts > 0;
    switch (turns++) {
    case 0:
        bursts = single_writes = 0;
        ask_all(all);
        is_int(single_writes + bursts, 0, "nothing is written before the end of the turn");
        flush(all);
        is_int(bursts, 1, "then one system call");
        is_int(burst_sockets, NODES, "writes to each node");
        is_int(single_writes, 0, "all of its requests");
        break;
    case 1:
        ok(true, "all are answered");
        no_bursts = true;
        ask_all(all);
        flush(all);
        is_int(single_writes, NODES, "without that call there is one write for each node");
        break;
    case 2:
        ok(true, "all are answered there, too");
        no_bursts = false;
        ask_all(1 << 1);
        flush(1 << 1);
        is_int(bursts + single_writes, 1, "a turn for a single node ends in one write");
        break;
    default:
        ok(true, "and answered");
        return loop_exit(event, 0);
    }
    return 0;
}

static void take_mail(void *userdata) {
    (void) userdata;
}

static bool mail_waits(void *userdata, bool sleeping) {
    (void) userdata;
    (void) sleeping;
    return false;
}

/* --- the world --- */

static int listen_at(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void) snprintf(address.sun_path, sizeof(address.sun_path), "%.*s", (int) sizeof(address.sun_path) - 1,
                    path);
    if (fd < 0 || bind(fd, (struct sockaddr *) &address, sizeof(address)) < 0 || listen(fd, 4) < 0)
        skip_all("no sockets");
    return fd;
}

static void make_names(void) {
    static unsigned char memory[NAMES * SHARED_STRING_BLOCK_BYTES] __attribute__((aligned(16)));
    static struct shared_string_pool texts;
    char name = '0';

    shared_string_pool_init(&texts, memory, sizeof(memory));
    for (unsigned i = 0; i < NAMES; i++, name++)
        if (!(names[i] = shared_string_new(&texts, &name, 1, NULL, 0)))
            abort();
}

int main(void) {
    static const struct poller_hooks hooks = {.mail = take_mail, .mail_waits = mail_waits, .settle = settle};
    static const struct redis_callbacks callbacks = {.on_state = on_state,
                                                     .on_reply = on_reply,
                                                     .on_server_info = on_server_info,
                                                     .on_rights = on_server_info,
                                                     .on_inspect = on_inspect};
    static char nothing[] = "", host[] = "host", node_names[NODES][8], paths[NODES][64];
    pthread_t threads[NODES];
    struct poller *poller = NULL;

    config.key_prefix = config.key_suffix = nothing;
    config.host = host;
    make_names();
    if (sd_event_new(&event) < 0 || poller_new(event, &hooks, NULL, &poller) < 0 ||
        batcher_new(&config, "0123", &batcher) < 0)
        skip_all("no event loop");
    for (unsigned i = 0; i < NODES; i++) {
        (void) snprintf(node_names[i], sizeof(node_names[i]), "%u", i);
        (void) snprintf(paths[i], sizeof(paths[i]), "/tmp/test-turn-%d-%u", (int) getpid(), i);
        config.nodes[i].name = node_names[i];
        config.nodes[i].unix_path = paths[i];
        servers[i].listening = listen_at(paths[i]);
        if (pthread_create(&threads[i], NULL, serve, &servers[i]) != 0 ||
            redis_new(event, poller, &config.nodes[i], i, &fleets[i], &callbacks, NULL, &nodes[i]) < 0)
            abort();
    }
    is_int(poller_run(poller), 0, "the turns end");
    for (unsigned i = 0; i < NODES; i++) {
        nodes[i] = redis_free(nodes[i]);
        (void) shutdown(servers[i].listening, SHUT_RDWR);
        (void) pthread_join(threads[i], NULL);
        (void) close(servers[i].listening);
        (void) unlink(paths[i]);
    }
    batcher = batcher_free(batcher);
    poller_free(poller);
    sd_event_unref(event);
    return done_testing();
}
