/* libredlock: leases from the local redlockd agent.
 *
 * A connection belongs to one thread at a time; different connections are independent, and the library has
 * no state of its own. A lease belongs to the connection that acquired it and ends with it, or when the
 * process dies. It outlives the agent: when the connection breaks and something is held or waited for, the
 * library connects to the agent's successor, resumes each lease while it is valid, and asks again for what
 * it waits for. After fork() the child has no part in it: every call there but redlock_close() returns
 * REDLOCK_FORKED, and the descriptor is closed on exec.
 *
 * Structures begin with their size, so that they can grow: REDLOCK_BAD_ARGUMENT if it is none, or if behind
 * what the library knows anything is set. NULL where it is not allowed is REDLOCK_BAD_ARGUMENT too, or what
 * stands for nothing: 0, "". A handle that was given back, and a connection that was closed, is freed: to
 * use it again is an error of the program that the library can't see.
 *
 * Calls return 0 or more for success and a negative enum redlock_error for failure; redlock_error_text() has
 * the details. Times are on CLOCK_BOOTTIME. What the agent speaks is in protocol.md. */
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
    REDLOCK_BUSY = -1,         /* held by another, and the call was not to wait */
    REDLOCK_TIMED_OUT = -2,    /* waited as long as asked; held by another all the while */
    REDLOCK_NO_QUORUM = -3,    /* the agent reaches no majority of its nodes */
    REDLOCK_DENIED = -4,       /* not allowed to this user */
    REDLOCK_QUOTA = -5,        /* a limit of the agent is reached */
    REDLOCK_BAD_NAME = -6,     /* not a name: 1 to 512 bytes of UTF-8 without control characters */
    REDLOCK_BAD_ARGUMENT = -7, /* out of range */
    REDLOCK_LOST = -8,         /* the lease is no longer held */
    REDLOCK_DRAINING = -9,     /* the agent is about to stop */
    REDLOCK_AGENT_AWAY = -10,  /* no agent to connect to, or the connection is over */
    REDLOCK_NO_ANSWER = -11,   /* the agent is connected but does not answer: stopped, or overloaded */
    REDLOCK_PROTOCOL = -12,    /* the agent said what this library does not understand */
    REDLOCK_FORKED = -13,      /* the connection belongs to the parent process */
    REDLOCK_NO_MEMORY = -14,
    REDLOCK_SYSTEM = -15, /* a system call failed */
    REDLOCK_IN_USE = -16  /* another call on this connection is not over: this one comes from one of its
                           * callbacks, or from another thread */
};

struct redlock;       /* a connection to the agent */
struct redlock_lease; /* a lease, or a request for one */

struct redlock_options {
    size_t size;          /* sizeof(struct redlock_options): lets the structure grow */
    int64_t ttl_ms;       /* 0: the agent's default */
    int64_t wait_ms;      /* 0: one try; -1: for ever */
    int64_t heartbeat_ms; /* 0: none; else redlock_beat() must be called at least this often */
    int64_t max_hold_ms;  /* 0: the agent's default */
    const void *data;     /* published with the lease, see redlock_leader() */
    size_t data_length;   /* at most 1,024 */
    int64_t linger_ms;    /* the lease goes on for so long when the process dies, or closes the connection
                           * without redlock_release(); 0: not at all */
};

#define REDLOCK_OPTIONS_INIT \
    { sizeof(struct redlock_options), 0, 0, 0, 0, 0, 0, 0 }

/* --- connections --- */

/* Connects to the agent's socket; NULL: $REDLOCK_SOCKET (not in set-user-ID programs), else
 * REDLOCK_DEFAULT_SOCKET. The connection is to be ended by redlock_close(). REDLOCK_OK, REDLOCK_AGENT_AWAY,
 * REDLOCK_NO_ANSWER, REDLOCK_QUOTA, REDLOCK_PROTOCOL, REDLOCK_NO_MEMORY or REDLOCK_SYSTEM. */
int redlock_connect(const char *socket_path, struct redlock **ret);

/* Closes the connection: its leases are released (or linger), their handles freed. NULL is fine. In a forked
 * child it only frees the child's copy: the parent's leases go on. While another call is under way, as in a
 * callback, it does nothing. */
void redlock_close(struct redlock *connection);

/* How long calls that don't wait for a lease wait for the agent, and requests that do for its return: 10,000
 * ms unless set. */
void redlock_set_answer_timeout(struct redlock *connection, int64_t timeout_ms);

/* A sentence about the last failure of this connection, "" if there was none. It stands until the next call.
 */
const char *redlock_error_text(const struct redlock *connection);

/* A short text for an enum redlock_error. Thread-safe; the text stands for ever. */
const char *redlock_strerror(int error);

/* --- leases, blocking --- */

/* Acquires the lease `name`; `options` may be NULL. REDLOCK_OK and a handle that is to be given to
 * redlock_release(), or REDLOCK_BUSY, REDLOCK_TIMED_OUT, REDLOCK_NO_QUORUM, REDLOCK_DENIED, REDLOCK_QUOTA,
 * REDLOCK_BAD_NAME, REDLOCK_BAD_ARGUMENT, REDLOCK_DRAINING, REDLOCK_LOST (the process was stopped until the
 * lease had expired) or a failure of the connection. Never longer than wait_ms and the answer time-out
 * together. */
int redlock_acquire(struct redlock *connection, const char *name, const struct redlock_options *options,
                    struct redlock_lease **ret);

/* Gives the lease up, or withdraws the request, and frees the handle in any case but REDLOCK_FORKED and
 * REDLOCK_IN_USE. 1: it
 * was held until now, or the request is withdrawn; 0: no longer; or a failure of the connection, with which
 * the lease ends too. NULL is fine and gives 0. */
int redlock_release(struct redlock_lease *lease);

/* Asks the agent: the validity in ms (more than 0), 0 when it is lost or has less than 1 ms left, which is
 * the same from then on, or a failure of the connection. */
int64_t redlock_check(struct redlock_lease *lease);

/* The holder is alive: wanted every heartbeat_ms. 1, 0 when the lease is lost, or a failure of the
 * connection. */
int redlock_beat(struct redlock_lease *lease);

/* The holder's own sight, without asking: how many ns the lease is still valid, 0 when it is not (any more).
 * Read from a page that the agent keeps up to date, and that is asked for with the connection's first lease
 * (with an agent that has none, from the last deadline that was told: then the truth may be longer, never
 * shorter). Right also when the agent is dead, stopped or slow, and in another time namespace than the
 * agent's. Once 0, always 0, in all threads: an extension that comes too late is given back. No system call;
 * from any thread, also while another one uses the connection, as long as nobody gives the handle back or
 * closes the connection meanwhile. 0 in a forked child. */
int64_t redlock_remaining_ns(const struct redlock_lease *lease);

/* redlock_remaining_ns() > 0: for just before each thing that only the holder may do. */
bool redlock_valid(const struct redlock_lease *lease);

/* The agent's number for it: 0 until it gave one, another one after the lease was resumed. */
uint64_t redlock_lease_id(const struct redlock_lease *lease);

/* The fencing token: larger than that of every holder of the name before. A resource that remembers the
 * largest one that it has seen can refuse those who don't know yet that they have lost the lease. At most
 * 53 bits; 0 until the lease is granted, or when the agent gives none. Does no I/O. */
uint64_t redlock_fence(const struct redlock_lease *lease);

const char *redlock_lease_name(const struct redlock_lease *lease); /* stands as long as the handle */

/* Who holds `name`, as a majority of the nodes says. */
struct redlock_leader {
    size_t size;      /* sizeof(struct redlock_leader), set by the caller */
    char holder[256]; /* "host:agent:pid"; another library's lock value; "" with a type */
    char data[1025];
    size_t data_length;
    int64_t validity_ms; /* -1: the key does not expire */
    uint64_t fence;      /* the holder's token; 0: none, or no majority agrees on it */
    char type[32];       /* the key's type in Redis, if it is no string and so no lock; else "" */
};

#define REDLOCK_LEADER_INIT                                 \
    {                                                       \
        sizeof(struct redlock_leader), {0}, {0}, 0, 0, 0, { \
            0                                               \
        }                                                   \
    }

/* 1 and the leader; 0 when nobody holds it; REDLOCK_NO_QUORUM, REDLOCK_BAD_NAME, REDLOCK_BAD_ARGUMENT or a
 * failure of the connection. `ret` has its size, see REDLOCK_LEADER_INIT. */
int redlock_leader(struct redlock *connection, const char *name, struct redlock_leader *ret);

/* --- observing --- */

enum redlock_leadership {
    REDLOCK_LEADER_UNKNOWN, /* no majority of the nodes, or no agent, has told for a while */
    REDLOCK_LEADER_NONE,
    REDLOCK_LEADER_HELD,
};

/* Who leads a name. What it points to stands until the callback returns. */
struct redlock_sighting {
    size_t size; /* of this structure, as the library has it: it may grow */
    const char *name;
    enum redlock_leadership leadership;
    int64_t since_ms;   /* for how long the agent has seen it so */
    const char *holder; /* this and what follows with REDLOCK_LEADER_HELD: "host:agent:pid" */
    const char *host;   /* "" when it is not known: the lock is another library's */
    uint64_t fence;     /* the holder's token; 0: none, or not known */
    const void *data;
    size_t data_length;
    const char *type; /* the key's type in Redis, if it is no string and so no lock; else "" */
};

/* Observes who leads `name`: the callback `leader` is called with what is so now, soon after, and at each
 * change, as redlock_dispatch() or a blocking call finds it. When the agent is restarted it goes on at the
 * next one, and is told only what has changed meanwhile; a connection that observes something is never over,
 * however long there is no agent. A name that is observed already is no failure. REDLOCK_OK,
 * REDLOCK_BAD_NAME, REDLOCK_QUOTA, REDLOCK_NO_MEMORY or a failure of the connection. */
int redlock_observe(struct redlock *connection, const char *name);

/* Observes it no more. 1; 0 when it was not observed; or a failure of the connection, with which the
 * observation ends too. */
int redlock_unobserve(struct redlock *connection, const char *name);

/* --- event loops --- */

struct redlock_callbacks {
    size_t size; /* sizeof(struct redlock_callbacks) */
    /* An asynchronous request got its lease. */
    void (*granted)(struct redlock_lease *lease, void *userdata);
    /* It ended without one; the handle is freed when this returns. */
    void (*failed)(struct redlock_lease *lease, enum redlock_error error, const char *text, void *userdata);
    /* An extension failed; the agent goes on trying for `left_ms`. With the reason "agent-away": there is
     * none, and the library goes on trying. */
    void (*at_risk)(struct redlock_lease *lease, int64_t left_ms, const char *reason, void *userdata);
    /* No longer at risk. */
    void (*extended)(struct redlock_lease *lease, void *userdata);
    /* The lease is over, whatever the agent's state: told once, at the latest at its deadline. `reason` is
     * the agent's word, "expired" when it gave none until the deadline, or "lost". The handle stays until
     * redlock_release(). */
    void (*lost)(struct redlock_lease *lease, const char *reason, const char *text, void *userdata);
    /* The agent is about to stop. Leases are valid until their deadlines. */
    void (*draining)(struct redlock *connection, void *userdata);
    /* The connection is over: it broke, and nothing was held, waited for or observed, or has been lost
     * since. A break that is mended is not told. */
    void (*disconnected)(struct redlock *connection, void *userdata);
    /* Who leads a name that is observed, at first and at each change: see redlock_observe(). */
    void (*leader)(struct redlock *connection, const struct redlock_sighting *sighting, void *userdata);
};

/* Any of the callbacks may be NULL; `callbacks` too: then there are none. They are called from
 * redlock_dispatch() and from blocking calls, never from elsewhere; inside of them only redlock_valid(),
 * redlock_remaining_ns(), redlock_lease_id(), redlock_lease_name(), redlock_fence() and redlock_error_text()
 * may be called: others return REDLOCK_IN_USE, and redlock_close() does nothing. REDLOCK_OK, or
 * REDLOCK_BAD_ARGUMENT, which changes nothing. */
int redlock_set_callbacks(struct redlock *connection, const struct redlock_callbacks *callbacks,
                          void *userdata);

/* A descriptor to wait on for redlock_events(); it stays the library's. One for the connection's whole life:
 * it covers the library's own timers as well. Or REDLOCK_SYSTEM: a later call may have more luck. */
int redlock_fd(struct redlock *connection);

/* The poll(2) events to wait for: POLLIN. */
int redlock_events(struct redlock *connection);

/* Does what is to be done now, without waiting: reads, calls the callbacks, keeps the deadlines fresh.
 * REDLOCK_OK, or a failure of the connection, after which only leases' ends are told. */
int redlock_dispatch(struct redlock *connection);

/* Asks for a lease; `granted` or `failed` is called later, with REDLOCK_AGENT_AWAY when the connection broke
 * and wait_ms was 0, or no agent came back in the answer time-out. The handle is to be given to
 * redlock_release(), unless `failed` came. */
int redlock_acquire_async(struct redlock *connection, const char *name,
                          const struct redlock_options *options, struct redlock_lease **ret);

/* Gives the lease up, or withdraws the request, without waiting for the answer, and frees the handle in any
 * case but REDLOCK_FORKED and REDLOCK_IN_USE. A request that is made next on this connection is dealt with
 * after it. REDLOCK_OK, or a failure of the connection, with which the lease ends too. NULL is fine. */
int redlock_release_async(struct redlock_lease *lease);

#ifdef __cplusplus
}
#endif

#endif
