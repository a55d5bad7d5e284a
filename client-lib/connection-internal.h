/* What connection.c and the public calls share. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "client.h"
#include "connection.h"
#include "spin-wait.h"
#include "deadline-view.h"

enum { RETRY_MS_MIN = 10 }; /* between attempts to connect again */

struct redlock {
    struct client client;
    pid_t owner;
    int fd;
    int epoll_fd; /* for event loops: the socket and the timer; -1 until asked for */
    int timer_fd;
    bool watches_write;
    int64_t timer_ns; /* when it will ring; never later than anything is due */
    int64_t answer_timeout_ms;
    struct spin_wait spin_wait; /* with the answers to releases */
    struct deadline_view view;
    int received_fd;           /* that came with the last reply; -1: none */
    _Atomic bool in_use;       /* a call is under way */
    _Atomic uint32_t *is_ours; /* 1; 0 in a forked child, which the kernel sees to */
    int64_t retry_ns;          /* while the connection is gone: when to connect again */
    int64_t retry_delay_ms;
    int64_t connected_ns;
    int64_t away_until_ns; /* and until when requests wait for it */
    char *socket_path;
};

/* CLOCK_BOOTTIME. */
int64_t connection_now_ns(void);

int connection_watch(const struct redlock *connection, int operation, int fd, uint32_t events);

/* Arms the library's timer and asks for writability, as far as needed. */
void connection_rearm(struct redlock *connection);

/* Sends what the socket takes. False when it is broken, with errno: without callbacks. */
bool connection_send_some(struct redlock *connection);

/* The same, and what follows when it is broken. */
int connection_send(struct redlock *connection);

/* Reads what is there. */
int connection_receive(struct redlock *connection);

/* REDLOCK_FORKED, with its text, in a child of the connection's process. */
int connection_forked(struct redlock *connection);

int connection_open(const char *path, int *ret_fd);

/* Connects again when it is time to. */
void connection_try_again(struct redlock *connection, int64_t at_ns);

/* Works on the connection, which may be gone and come back, until *what is `wanted`, or until `until_ns`. */
int connection_run_until(struct redlock *connection, const bool *what, bool wanted, int64_t until_ns);

/* Waits for the reply until `until_ns`. The reply's own error is in it. */
int connection_wait_for(struct redlock *connection, const struct client_reply *reply, int64_t until_ns);

/* As long as an answer is waited for, from now on. */
int64_t connection_answer_until_ns(const struct redlock *connection);

/* The agent may be away for the moment. */
int connection_come_back(struct redlock *connection);

/* connection_ask() with a reply of this kind. */
int connection_ask_as(struct redlock *connection, enum client_kind kind, const struct resp_token *items,
                      size_t n_items, struct client_reply *reply);
