/* bench load floor|agent|relay connections|processes CLIENTS MS PLACE...: as many clients acquire and
 * release for so long, each a name of its own, in a row without a pause. Prints two lines: the begin, and
 * latencies and pairs a second.
 *
 * Clients are connections of one process, with libredlock's calls for event loops; or processes, with its
 * blocking calls. (So is a single one.) PLACE is the agent's or the relay's socket, or where the nodes are:
 * then one process has one connection to each node, whatever the number of its clients. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "floor.h"
#include "relay.h"
#include "redlock.h"

enum {
    SAMPLES_MAX = 1 << 18,
    CLIENTS_MAX = 4096,
    WARM_UP = 8, /* its part of the time */
    SPIN_WAIT_US = 10 * 1000 * 1000,
};

/* What a process has measured. */
struct record {
    size_t counts[PHASES];
    double us[PHASES][SAMPLES_MAX];
    size_t pairs, refused; /* refused: the agent has given up, as when nodes did not answer in time */
    size_t pairs_in_all;   /* with the warm-up, and what ended after the time */
};

static struct turn {
    _Atomic unsigned ready;
    _Atomic bool go;
    double from_us, until_us; /* what begins before is warm-up */
} * turn;

static struct record *record; /* this process's */

static void load_ready(void) {
    atomic_fetch_add(&turn->ready, 1);
    while (!atomic_load(&turn->go))
        (void) usleep(100);
}

/* A turn without a result is prolonged: on a busy machine short turns may have none. */
static bool load_over(void) {
    double late_us = now_us() - turn->until_us;
    bool measured = record->counts[ACQUIRE] > 0 && record->counts[RELEASE] > 0;
    return late_us >= 0 && (measured || late_us >= SPIN_WAIT_US);
}

static double load_note(enum phase phase, double begun_us) {
    double ended_us = now_us();

    record->pairs_in_all += phase == RELEASE;
    if (begun_us < turn->from_us)
        return ended_us;
    if (record->counts[phase] < SAMPLES_MAX)
        record->us[phase][record->counts[phase]++] = ended_us - begun_us;
    record->pairs += phase == RELEASE && ended_us <= turn->until_us;
    return ended_us;
}

/* --- the floor --- */

static unsigned floor_busy;

static void floor_go_on(struct floor_slot *slot) {
    (void) load_note(slot->phase, slot->begun_us);
    if (slot->phase == ACQUIRE)
        floor_ask(slot, RELEASE);
    else if (load_over())
        floor_busy--;
    else
        floor_ask(slot, ACQUIRE);
}

static void load_floor(char **places, unsigned clients) {
    static struct floor_slot slots[CLIENTS_MAX];

    floor_open(places, slots, clients, floor_go_on);
    load_ready();
    for (floor_busy = 0; floor_busy < clients; floor_busy++)
        floor_ask(&slots[floor_busy], ACQUIRE);
    while (floor_busy > 0)
        floor_turn();
}

/* --- the agent --- */

struct client {
    struct redlock *connection;
    struct redlock_lease *lease;
    char name[32];
    enum phase phase; /* under way */
    double begun_us;
    bool granted, refused;
};

static void on_granted(struct redlock_lease *lease, void *userdata) {
    struct client *client = userdata;

    (void) lease;
    client->granted = true;
}

static void on_failed(struct redlock_lease *lease, enum redlock_error error, const char *text,
                      void *userdata) {
    struct client *client = userdata;

    (void) lease;
    if (error != REDLOCK_NO_QUORUM)
        fail("a request", text);
    client->refused = true;
}

static void client_connect(struct client *client, const char *place, unsigned number) {
    const struct redlock_callbacks callbacks = {
        .size = sizeof(callbacks), .granted = on_granted, .failed = on_failed};

    if (redlock_connect(place, &client->connection) != REDLOCK_OK)
        fail(place, "can't connect");
    (void) snprintf(client->name, sizeof(client->name), "agent-%d-%u", (int) getpid(), number);
    redlock_set_callbacks(client->connection, &callbacks, client);
}

static void load_agent_blocking(const char *place) {
    struct client client;

    client_connect(&client, place, 0);
    load_ready();
    while (!load_over()) {
        double begun_us = now_us();
        int r = redlock_acquire(client.connection, client.name, NULL, &client.lease);
        if (r == REDLOCK_NO_QUORUM) {
            record->refused++;
            continue;
        }
        if (r != REDLOCK_OK)
            fail("redlock_acquire", redlock_error_text(client.connection));
        begun_us = load_note(ACQUIRE, begun_us);
        if (redlock_release(client.lease) != 1)
            fail("redlock_release", redlock_error_text(client.connection));
        (void) load_note(RELEASE, begun_us);
    }
    redlock_close(client.connection);
}

static void client_acquire(struct client *client) {
    client->granted = client->refused = false;
    client->phase = ACQUIRE;
    client->begun_us = now_us();
    if (redlock_acquire_async(client->connection, client->name, NULL, &client->lease) != REDLOCK_OK)
        fail("redlock_acquire_async", redlock_error_text(client->connection));
}

/* There is input on its connection. False: the operation is done. During a release only its reply can
 * come. */
static bool client_go_on(struct client *client) {
    if (redlock_dispatch(client->connection) != REDLOCK_OK)
        fail("redlock_dispatch", redlock_error_text(client->connection));
    if (client->phase == ACQUIRE && !client->granted && !client->refused)
        return true;
    if (client->refused)
        record->refused++;
    else
        client->begun_us = load_note(client->phase, client->begun_us);
    if (client->granted && client->phase == ACQUIRE) {
        client->phase = RELEASE;
        if (redlock_release_async(client->lease) != REDLOCK_OK)
            fail("redlock_release_async", redlock_error_text(client->connection));
        return true;
    }
    if (load_over())
        return false;
    client_acquire(client);
    return true;
}

static int epoll_new(void) {
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);

    if (epoll_fd < 0)
        fail("epoll_create1", strerror(errno));
    return epoll_fd;
}

static void load_watch(int epoll_fd, int fd, void *what) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};

    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        fail("epoll_ctl", strerror(errno));
}

static void load_agent(const char *place, unsigned clients) {
    static struct client all[CLIENTS_MAX];
    struct epoll_event events[64];
    int epoll_fd = epoll_new();
    unsigned busy;

    for (unsigned i = 0; i < clients; i++) {
        client_connect(&all[i], place, i);
        load_watch(epoll_fd, redlock_fd(all[i].connection), &all[i]);
    }
    load_ready();
    for (busy = 0; busy < clients; busy++)
        client_acquire(&all[busy]);
    while (busy > 0) {
        int n = epoll_wait(epoll_fd, events, 64, -1);
        for (int i = 0; i < n; i++)
            busy -= !client_go_on(events[i].data.ptr);
    }
    (void) close(epoll_fd); /* connections end with the process */
}

/* --- the relay --- */

struct relayed {
    int fd;
    enum phase phase;
    double begun_us;
    unsigned number;
};

static void relayed_ask(struct relayed *client, enum phase phase) {
    client->phase = phase;
    client->begun_us = now_us();
    relay_send(client->fd, phase, client->number);
}

static bool relayed_go_on(struct relayed *client) {
    relay_receive(client->fd);
    (void) load_note(client->phase, client->begun_us);
    if (client->phase == RELEASE && load_over())
        return false;
    relayed_ask(client, client->phase == ACQUIRE ? RELEASE : ACQUIRE);
    return true;
}

static void load_relay(const char *place, unsigned clients) {
    static struct relayed all[CLIENTS_MAX];
    struct epoll_event events[64];
    int epoll_fd = epoll_new();
    unsigned busy;

    for (unsigned i = 0; i < clients; i++) {
        all[i] = (struct relayed){.fd = relay_connect(place), .number = i};
        load_watch(epoll_fd, all[i].fd, &all[i]);
    }
    load_ready();
    for (busy = 0; busy < clients; busy++)
        relayed_ask(&all[busy], ACQUIRE);
    if (clients == 1) {
        while (relayed_go_on(&all[0]))
            ;
        busy = 0;
    }
    while (busy > 0) {
        int n = epoll_wait(epoll_fd, events, 64, -1);
        for (int i = 0; i < n; i++)
            busy -= !relayed_go_on(events[i].data.ptr);
    }
    (void) close(epoll_fd);
}

/* --- the turn --- */

static _Noreturn void work(const char *through, char **places, unsigned clients) {
    if (strcmp(through, "floor") == 0)
        load_floor(places, clients);
    else if (strcmp(through, "relay") == 0)
        load_relay(places[0], clients);
    else if (clients == 1)
        load_agent_blocking(places[0]);
    else
        load_agent(places[0], clients);
    _exit(0);
}

static void print_phase(enum phase phase, struct record **records, unsigned processes) {
    static const char *const names[PHASES] = {"acquire", "release"};
    size_t count = 0;

    for (unsigned i = 0; i < processes; i++)
        count += records[i]->counts[phase];
    double *all = calloc(count + 1, sizeof(*all));
    if (!all)
        fail("calloc", "no memory");
    count = 0;
    for (unsigned i = 0; i < processes; i++) {
        memcpy(all + count, records[i]->us[phase], records[i]->counts[phase] * sizeof(*all));
        count += records[i]->counts[phase];
    }
    print_percentiles(names[phase], all, count);
    (void) printf(", ");
    free(all);
}

/* The CPU time of the clients, which have ended. */
static double children_us(void) {
    struct rusage used;

    if (getrusage(RUSAGE_CHILDREN, &used) < 0)
        fail("getrusage", "failed");
    return (double) (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 +
           (double) (used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

/* Waits until all are connected. A process that can't connect prints why, and ends. */
static void await_ready(unsigned processes) {
    while (atomic_load(&turn->ready) < processes) {
        if (waitpid(-1, NULL, WNOHANG) > 0)
            fail("a client", "ended before it was connected");
        (void) usleep(1000);
    }
}

int run_load(char **arguments) {
    enum { PROCESSES_MAX = 256 };
    static struct record *records[PROCESSES_MAX];
    static pid_t pids[PROCESSES_MAX];

    for (unsigned i = 0; i < 5; i++)
        if (!arguments[i])
            fail("usage", "bench load floor|agent|relay connections|processes CLIENTS MS PLACE...");
    bool apart = strcmp(arguments[1], "processes") == 0;
    unsigned clients = number_of(arguments[2], 1, apart ? PROCESSES_MAX : CLIENTS_MAX);
    double us = number_of(arguments[3], 1, 24 * 3600 * 1000) * 1e3;
    unsigned processes = apart ? clients : 1;
    size_t pairs = 0, pairs_in_all = 0, refused = 0;

    turn = shared_memory(sizeof(*turn));
    for (unsigned i = 0; i < processes; i++) {
        records[i] = shared_memory(sizeof(struct record));
        if ((pids[i] = start_process()) == 0) {
            record = records[i];
            work(arguments[0], arguments + 4, apart ? 1 : clients);
        }
    }
    await_ready(processes);
    double begun_us = now_us();
    turn->until_us = begun_us + us;
    turn->from_us = begun_us + us / WARM_UP;
    atomic_store(&turn->go, true);
    (void) printf("{\"begun\": true}\n"); /* all are connected: from here on nodes may be stopped */
    (void) fflush(stdout);
    for (unsigned i = 0; i < processes; i++) {
        await_process(pids[i]);
        pairs += records[i]->pairs;
        pairs_in_all += records[i]->pairs_in_all;
        refused += records[i]->refused;
    }
    (void) printf("{\"cpu_us\": %.0f, \"pairs_in_all\": %zu, ", children_us(), pairs_in_all);
    print_phase(ACQUIRE, records, processes);
    print_phase(RELEASE, records, processes);
    (void) printf("\"refused\": %zu, \"pairs_per_second\": %.1f}\n", refused,
                  (double) pairs * 1e6 / (turn->until_us - turn->from_us));
    return 0;
}
