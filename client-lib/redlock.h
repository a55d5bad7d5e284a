/* libredlock: leases from the redlockd agent of this host. Manual: libredlock(3).
 *
 *     struct redlock *connection;
 *     struct redlock_lease *lease;
 *
 *     if (redlock_connect(NULL, &connection) == REDLOCK_OK &&
 *         redlock_acquire(connection, "nightly", NULL, &lease) == REDLOCK_OK)
 *         while (redlock_valid(lease))
 *             ...                                   // only the holder does this
 *
 * Leases. The agent extends a lease until the holder releases it, closes the connection or dies. The holder
 * calls redlock_valid() before each step that only the holder may do: a lease can expire, for example when
 * the agent reaches no majority of its nodes. Work that outlasts that check needs the fencing token
 * (redlock_fence()) at the resource.
 *
 * Restarts. A lease outlives its agent. When the connection breaks while a lease is held, a request waits or
 * a name is observed, the library reconnects to the next agent and resumes them. Otherwise the connection is
 * over: every call returns REDLOCK_AGENT_AWAY, and the caller opens another connection.
 *
 * Threads. A connection and its leases belong to one thread at a time; a concurrent call returns
 * REDLOCK_IN_USE. redlock_valid(), redlock_remaining_ns() and redlock_strerror() may be called from any
 * thread. Different connections are independent: the library has no global state, and changes no signal
 * handlers.
 *
 * Processes. After fork() the connection stays with the parent. In the child every call returns
 * REDLOCK_FORKED, except redlock_close(), which frees the child's copy. Descriptors are closed on exec.
 *
 * Results. Calls return 0 or a positive value on success and a negative enum redlock_error on failure.
 * "A connection error" below is REDLOCK_AGENT_AWAY, REDLOCK_NO_ANSWER, REDLOCK_PROTOCOL, REDLOCK_FORKED,
 * REDLOCK_IN_USE, REDLOCK_NO_MEMORY or REDLOCK_SYSTEM. An output is only written on success. NULL for a
 * pointer that must not be NULL is REDLOCK_BAD_ARGUMENT, or 0 or "" from calls that return no error.
 *
 * Versions. Structures begin with their size, so that they can grow. A size smaller than that of the first
 * version, or a set member that the library does not know, is REDLOCK_BAD_ARGUMENT.
 *
 * Times are on CLOCK_BOOTTIME. The protocol is described in protocol.md. */
#ifndef REDLOCK_H
#define REDLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef REDLOCK_DEFAULT_SOCKET
#define REDLOCK_DEFAULT_SOCKET "/run/redlockd/redlockd.sock"
#endif

enum redlock_error {
    REDLOCK_OK = 0,
    REDLOCK_BUSY = -1,         /* another holder has the lease, and wait_ms was 0 */
    REDLOCK_TIMED_OUT = -2,    /* another holder had the lease for all of wait_ms, or no agent was there */
    REDLOCK_NO_QUORUM = -3,    /* the agent reaches no majority of its nodes */
    REDLOCK_DENIED = -4,       /* the agent's configuration does not allow it to this user */
    REDLOCK_QUOTA = -5,        /* a limit of the agent is reached */
    REDLOCK_BAD_NAME = -6,     /* a name has 1 to 512 bytes of UTF-8 without control characters */
    REDLOCK_BAD_ARGUMENT = -7, /* out of range, NULL, or a wrong structure size */
    REDLOCK_LOST = -8,         /* the lease is no longer held */
    REDLOCK_DRAINING = -9,     /* the agent is stopping */
    REDLOCK_AGENT_AWAY = -10,  /* no agent listens, or the connection is over */
    REDLOCK_NO_ANSWER = -11,   /* the agent is connected, but did not reply in time: stopped or overloaded */
    REDLOCK_PROTOCOL = -12,    /* the agent's reply violates the protocol */
    REDLOCK_FORKED = -13,      /* the connection belongs to the parent process */
    REDLOCK_NO_MEMORY = -14,   /* the process has no memory left */
    REDLOCK_SYSTEM = -15,      /* a system call failed */
    REDLOCK_IN_USE = -16 /* another call on this connection is in progress: this call came from one of its
                          * callbacks, or from another thread */
};

struct redlock;       /* a connection to the agent */
struct redlock_lease; /* a handle of a lease, or of a request for one */

struct redlock_options {
    size_t size;          /* sizeof(struct redlock_options) */
    int64_t ttl_ms;       /* time to live without extension; 0: the agent's default */
    int64_t wait_ms;      /* how long to wait for the lease; 0: one attempt; -1: without limit */
    int64_t heartbeat_ms; /* the lease ends unless redlock_beat() is called this often; 0: no heartbeat */
    int64_t max_hold_ms;  /* the lease ends this long after the grant; 0: the agent's default */
    const void *data;     /* published with the lease, see redlock_leader() */
    size_t data_length;   /* at most 1,024 bytes */
    int64_t linger_ms;    /* the lease stays held this long after the process dies, or closes the connection
                           * without redlock_release(); 0: it is released at once */
    int64_t cooldown_ms;  /* the name stays taken this long from the attempt that acquires the lease, however
                           * the lease ends; 0: it does not */
};

#define REDLOCK_OPTIONS_INIT \
    { sizeof(struct redlock_options), 0, 0, 0, 0, 0, 0, 0, 0 }

/* --- connections: redlock_connect(3) --- */

/* Connects to the agent at `socket_path`; NULL: the path in $REDLOCK_SOCKET (ignored if it is empty, and
 * in set-user-ID programs), else REDLOCK_DEFAULT_SOCKET. While the socket's backlog is full, waits for a
 * place, at most for 1.5 seconds. The caller closes the connection with redlock_close(). REDLOCK_OK,
 * REDLOCK_AGENT_AWAY, REDLOCK_NO_ANSWER, REDLOCK_QUOTA, REDLOCK_PROTOCOL, REDLOCK_NO_MEMORY or
 * REDLOCK_SYSTEM. */
int redlock_connect(const char *socket_path, struct redlock **ret);

/* Closes the connection and frees its handles; its leases are released, or linger, also while a forked child
 * lives. NULL is fine. In a forked child only the child's copy is freed: its descriptors alone if another
 * thread of the parent was in a call during the fork. During another call, as in a callback, redlock_close()
 * does nothing. */
void redlock_close(struct redlock *connection);

/* Sets the answer time-out, 10,000 ms by default, at least 1: how long calls that do not wait for a lease
 * wait for the agent's reply, how long others wait beyond wait_ms, and how long waiting requests survive
 * without an agent. */
void redlock_set_answer_timeout(struct redlock *connection, int64_t timeout_ms);

/* A sentence on the last failure on this connection, "" if there was none; valid until the next call. */
const char *redlock_error_text(const struct redlock *connection);

/* A short text for an enum redlock_error; static. Thread-safe. */
const char *redlock_strerror(int error);

/* --- leases: redlock_acquire(3), redlock_valid(3) --- */

/* Acquires the lease `name`; `options` may be NULL. Takes at most wait_ms and the answer time-out together.
 * REDLOCK_OK, with a handle that the caller releases with redlock_release(); or REDLOCK_BUSY,
 * REDLOCK_TIMED_OUT, REDLOCK_NO_QUORUM, REDLOCK_DENIED, REDLOCK_QUOTA, REDLOCK_BAD_NAME,
 * REDLOCK_BAD_ARGUMENT, REDLOCK_DRAINING, REDLOCK_LOST (the process was stopped until the lease expired) or
 * a connection error. */
int redlock_acquire(struct redlock *connection, const char *name, const struct redlock_options *options,
                    struct redlock_lease **ret);

/* Releases the lease, or withdraws the request, and frees the handle, except on REDLOCK_FORKED and
 * REDLOCK_IN_USE. Neither `granted` nor `failed` is called for a withdrawn request. 1: the lease was held
 * until now, or the request was withdrawn; 0: the lease was already lost, or `lease` is NULL; or a
 * connection error, and the lease ends too. */
int redlock_release(struct redlock_lease *lease);

/* Asks the agent for the remaining validity in ms. 0: lost, or less than 1 ms left, and so lost from now on;
 * or not granted yet, and the request waits on; or a connection error. */
int64_t redlock_check(struct redlock_lease *lease);

/* Reports to the agent that the holder is alive; due at least every heartbeat_ms. 1; 0: the lease is lost,
 * or not granted yet; or a connection error. */
int redlock_beat(struct redlock_lease *lease);

/* The remaining validity in ns, 0: not held. Reads memory that the agent keeps up to date (protocol.md,
 * section 8) and the clock: no system call, no waiting, correct even if the agent is dead, stopped or in
 * another time namespace. From an agent without such memory: the last deadline received, which may be too
 * early but never too late.
 *
 * After the grant, 0 is final for this lease in all threads: an extension that arrives later is released.
 * From any thread, also during other calls on the connection, as long as no thread releases the handle or
 * closes the connection meanwhile. 0 in a forked child. */
int64_t redlock_remaining_ns(const struct redlock_lease *lease);

/* redlock_remaining_ns() > 0: to be called just before each step that only the holder may do. */
bool redlock_valid(const struct redlock_lease *lease);

/* The agent's id of the lease; 0 while no agent has assigned one. After a restart of the agent the id is 0
 * again, until the new agent assigns another. */
uint64_t redlock_lease_id(const struct redlock_lease *lease);

/* The fencing token, at most 53 bits: larger than the token of every earlier holder of the name. A resource
 * that rejects tokens smaller than the largest one seen is safe from holders that have lost the lease
 * without noticing. 0 until the grant, and if the agent assigns no tokens. Does no I/O. */
uint64_t redlock_fence(const struct redlock_lease *lease);

/* The lease's name; valid as long as the handle. */
const char *redlock_lease_name(const struct redlock_lease *lease);

/* --- leaders: redlock_observe(3) --- */

/* The holder of a name, as a majority of the nodes reports it. */
struct redlock_leader {
    size_t size;      /* sizeof(struct redlock_leader), set by the caller */
    char holder[256]; /* "host:agent:pid", or another Redlock library's lock value; "" with a type */
    char data[1025];  /* what the holder published, with a NUL behind it */
    size_t data_length;
    int64_t validity_ms; /* until the key expires; -1: never, so it is not a lease */
    uint64_t fence;      /* the holder's token; 0: none, or no majority agrees on it */
    char type[32];       /* the key's type in Redis if it is not a string, and so not a lock; else "" */
    int64_t since_ms;    /* how long the holder has had the lease; 0: unknown, as for another host's */
    int64_t cooling_ms;  /* the lease has ended, and its cooldown keeps the name taken for this long; 0: it
                          * has not ended, or is another host's */
};

#define REDLOCK_LEADER_INIT \
    { sizeof(struct redlock_leader), {0}, {0}, 0, 0, 0, {0}, 0, 0 }

/* Queries the nodes for the holder of `name`, on any host. `ret` is initialized with REDLOCK_LEADER_INIT. 1:
 * *ret is filled; 0: the name is free; REDLOCK_NO_QUORUM, REDLOCK_DENIED, REDLOCK_QUOTA, REDLOCK_BAD_NAME,
 * REDLOCK_BAD_ARGUMENT or a connection error. */
int redlock_leader(struct redlock *connection, const char *name, struct redlock_leader *ret);

enum redlock_leadership {
    REDLOCK_LEADER_UNKNOWN, /* no majority of the nodes for 5 s, no agent for the answer time-out, or the
                               agent hangs */
    REDLOCK_LEADER_NONE,
    REDLOCK_LEADER_HELD,
};

/* The leader of an observed name; valid until the callback returns. Members after since_ms are only set with
 * REDLOCK_LEADER_HELD. */
struct redlock_sighting {
    size_t size; /* of this structure in the library: later versions may be larger */
    const char *name;
    enum redlock_leadership leadership;
    int64_t since_ms;   /* how long the agent has seen this leadership */
    const char *holder; /* "host:agent:pid" */
    const char *host;   /* "": unknown, because the lock is another library's */
    uint64_t fence;     /* the holder's token; 0: none, or unknown */
    const void *data;   /* what the holder published */
    size_t data_length;
    const char *type; /* the key's type in Redis if it is not a string, and so not a lock; else "" */
};

/* Observes the leader of `name`. The callback `leader`, to be set before, gets the present leader soon, and
 * then each change; calls to redlock_dispatch() or blocking calls run it. Observing survives restarts of the
 * agent, after which only changes are reported; a connection that observes a name is never over. REDLOCK_OK,
 * also if the name is already observed; REDLOCK_DENIED, REDLOCK_BAD_NAME, REDLOCK_BAD_ARGUMENT,
 * REDLOCK_QUOTA, REDLOCK_NO_MEMORY or a connection error. */
int redlock_observe(struct redlock *connection, const char *name);

/* Stops observing. 1; 0: the name was not observed; or a connection error, and observing stops too. */
int redlock_unobserve(struct redlock *connection, const char *name);

/* --- event loops: redlock_acquire_async(3) --- */

struct redlock_callbacks {
    size_t size; /* sizeof(struct redlock_callbacks) */
    /* An asynchronous request got its lease. */
    void (*granted)(struct redlock_lease *lease, void *userdata);
    /* An asynchronous request ended without a lease. The handle is freed when the callback returns. */
    void (*failed)(struct redlock_lease *lease, enum redlock_error error, const char *text, void *userdata);
    /* The lease ends in `left_ms`, unless it is extended before. With the reason "no-quorum" the agent
     * retries, "heartbeat" ends with a redlock_beat(), and "max-hold" and "unread" are final. With
     * "agent-away" there is no agent, and the library tries to reconnect. */
    void (*at_risk)(struct redlock_lease *lease, int64_t left_ms, const char *reason, void *userdata);
    /* The lease is no longer at risk. */
    void (*extended)(struct redlock_lease *lease, void *userdata);
    /* The lease ended. Called once, at the deadline at the latest, whatever the agent's state, by
     * redlock_dispatch(); within a blocking call only then if the lease has a place in the agent's page
     * (redlock_valid(3)), or is being resumed. `reason` is the agent's word, "expired" if the agent gave
     * none until the deadline, or "lost" if it only reports the end, or the library ends the connection
     * (libredlock(3)). The handle stays until redlock_release(). */
    void (*lost)(struct redlock_lease *lease, const char *reason, const char *text, void *userdata);
    /* The agent is stopping. Leases stay valid until their deadlines. */
    void (*draining)(struct redlock *connection, void *userdata);
    /* The connection is over: it broke, and no lease, waiting request or observed name was left. A break
     * that the library repairs is not reported. */
    void (*disconnected)(struct redlock *connection, void *userdata);
    /* The leader of an observed name, see redlock_observe(). */
    void (*leader)(struct redlock *connection, const struct redlock_sighting *sighting, void *userdata);
};

/* Sets the callbacks; members may be NULL, and `callbacks` too, for none. Only redlock_dispatch() and
 * blocking calls run callbacks. A callback may call redlock_valid(), redlock_remaining_ns(),
 * redlock_lease_id(), redlock_lease_name(), redlock_fence() and redlock_error_text(); other calls return
 * REDLOCK_IN_USE, and redlock_close() does nothing. REDLOCK_OK, or REDLOCK_BAD_ARGUMENT, which changes
 * nothing. */
int redlock_set_callbacks(struct redlock *connection, const struct redlock_callbacks *callbacks,
                          void *userdata);

/* The descriptor to poll for redlock_events(). The same for the connection's whole life, also across
 * reconnects; covers the library's timers; owned by the library. REDLOCK_SYSTEM, for example without free
 * descriptors: a later call may succeed. */
int redlock_fd(struct redlock *connection);

/* The poll(2) events to wait for: POLLIN. */
int redlock_events(struct redlock *connection);

/* Processes what is due without waiting: reads, runs callbacks, reconnects, ends expired leases. REDLOCK_OK,
 * or a connection error; then the connection is over, and only ends of leases are still reported. */
int redlock_dispatch(struct redlock *connection);

/* Requests a lease without waiting; `granted` or `failed` follows. `failed` has REDLOCK_AGENT_AWAY if the
 * connection broke and wait_ms was 0, or if no agent returned within the answer time-out after the break, or
 * after the request if that was later; and REDLOCK_NO_ANSWER if the agent did not answer within wait_ms and
 * the answer time-out together. The caller releases the handle with redlock_release() or
 * redlock_release_async(), unless `failed` was called; without that callback the handle of a failed request
 * stays, too. REDLOCK_OK, or an error, and no callback follows: without an agent REDLOCK_AGENT_AWAY if
 * wait_ms is 0. */
int redlock_acquire_async(struct redlock *connection, const char *name,
                          const struct redlock_options *options, struct redlock_lease **ret);

/* redlock_release() without waiting for the reply. Requests made later on this connection are processed
 * after the release; without an id (redlock_lease_id()) only those made after a later call has read the
 * id, with which the release follows. REDLOCK_OK, also for NULL; or a connection error, and the lease ends
 * too. */
int redlock_release_async(struct redlock_lease *lease);

#ifdef __cplusplus
}
#endif

#endif
