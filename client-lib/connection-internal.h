/* What connection.c shares with the public calls: the connection itself, its I/O, and waiting for replies.
 * */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "client.h"
#include "connection.h"
#include "deadline-view.h"
#include "spin-wait.h"

#define EXPORT __attribute__((visibility("default")))

enum { RETRY_MS_MIN = 10 }; /* between attempts to reconnect */

/* The last attempt to connect again, since the connection broke. */
enum connection_attempt {
    CONNECTION_UNTRIED,    /* none */
    CONNECTION_REFUSED,    /* none; it was the agent that ended the connection, with a reason */
    CONNECTION_UNABLE,     /* this process could not even try */
    CONNECTION_UNANSWERED, /* no agent was there, or it has not answered yet */
};

struct redlock {
    struct client client;
    pid_t owner;
    int fd;       /* -1: not connected */
    int epoll_fd; /* for event loops: watches fd and timer_fd; -1 until requested */
    int timer_fd;
    uint32_t watched;           /* events of fd */
    int64_t timer_ns;           /* when timer_fd fires; never later than the next due time */
    struct spin_wait spin_wait; /* for replies to RELEASE */
    struct deadline_view view;
    int64_t shortage_until_ns; /* the kernel has no memory for I/O: none before then; 0: it has */
    int received_fd;           /* received with the last bytes; -1: none */
    _Atomic uintptr_t user;    /* the thread whose call is in progress; 0: none */
    _Atomic uint32_t *is_ours; /* 1; 0 in a forked child, by MADV_WIPEONFORK */
    int64_t retry_ns;          /* while disconnected: time of the next attempt */
    int64_t retry_delay_ms;
    enum connection_attempt attempt; /* while disconnected: the last one */
    int attempt_errno;               /* CONNECTION_UNABLE: why */
    int64_t connected_ns;
    char *socket_path;
};

/* CLOCK_BOOTTIME. */
int64_t connection_now_ns(void);

/* epoll_ctl() on epoll_fd. Nothing in a forked child: the copy of epoll_fd changes the parent's. */
int connection_watch(const struct redlock *connection, int operation, int fd, uint32_t events);

/* Closes the socket. The agent notices, also while a forked child has a copy; closing the child's copy
 * leaves the connection open. */
void connection_hang_up(struct redlock *connection);

/* The calling thread, as in `user`; the same in the child that it forks. */
uintptr_t connection_thread(void);

/* Sends as much output as the socket takes. False, with errno, if the connection is broken; no callbacks. A
 * lack of memory in the kernel breaks nothing: the rest is sent some milliseconds later. */
bool connection_send_some(struct redlock *connection);

/* The same; handles a broken connection, which may call callbacks. */
int connection_send(struct redlock *connection);

/* Reads and processes all available input. REDLOCK_OK, or the error with which the connection broke. */
int connection_receive(struct redlock *connection);

/* Whether this is the process that opened the connection. It may have been forked in a callback: then the
 * calls here do no I/O in the child, and the call that ran the callback returns REDLOCK_FORKED. */
bool connection_is_ours(const struct redlock *connection);

/* REDLOCK_FORKED, with a text, in a forked child; else REDLOCK_OK. */
int connection_forked(struct redlock *connection);

/* Connects a socket. While the backlog of an agent's socket is full, waits for up to `wait_ns`; 0 or less:
 * does not wait. REDLOCK_OK, REDLOCK_AGENT_AWAY, REDLOCK_NO_ANSWER or REDLOCK_SYSTEM, with errno. */
int connection_open(const char *path, int64_t wait_ns, int *ret_fd);

/* Reconnects if an attempt is due, with connection_open(). */
void connection_try_again(struct redlock *connection, int64_t at_ns, int64_t wait_ns);

/* Processes input, output and reconnects until *what equals `wanted`. REDLOCK_OK; at `until_ns`
 * REDLOCK_NO_ANSWER, or REDLOCK_AGENT_AWAY while disconnected; REDLOCK_AGENT_AWAY at once when the
 * connection is over. */
int connection_run_until(struct redlock *connection, const bool *what, bool wanted, int64_t until_ns);

/* connection_run_until() the reply is done; the reply has its own error. */
int connection_wait_for(struct redlock *connection, const struct client_reply *reply, int64_t until_ns);

/* The present time plus the answer time-out. */
int64_t connection_answer_until_ns(const struct redlock *connection);

/* Waits for a reconnect, until this instant. As connection_run_until(). */
int connection_come_back(struct redlock *connection, int64_t until_ns);

/* connection_ask() with a reply of this kind, until this instant. */
int connection_ask_until(struct redlock *connection, enum client_kind kind, const struct resp_token *items,
                         size_t n_items, struct client_reply *reply, int64_t until_ns);
