#include "scripted-agent.h"

#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "resp.h"

#define NS_PER_MS INT64_C(1000000)

enum { DEADLINE_PAGE_BYTES = 4096, HEADER_BYTES = 24, BUFFER_BYTES = 16384, ITEMS_MAX = 32 };

struct slot {
    _Atomic uint64_t id;
    _Atomic int64_t deadline_ns;
};

struct scripted scripted;

static pthread_t thread;
static atomic_bool stop;
static int listen_fd = -1, page_fd = -1;
static _Atomic int socket_fd = -1;
static pthread_mutex_t socket_lock = PTHREAD_MUTEX_INITIALIZER; /* the test sends, too */
static char *page;
static bool is_observed; /* the one name */

int64_t boottime_ns(void) {
    struct timespec now;

    (void) clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t agent_now_ns(void) {
    return boottime_ns() + scripted.clock_ns;
}

static struct slot *slot(void) {
    return (struct slot *) (void *) (page + HEADER_BYTES);
}

void scripted_show(int64_t deadline_ns) {
    atomic_store(&slot()->id, scripted.id);
    atomic_store(&slot()->deadline_ns, deadline_ns == 0 ? 0 : deadline_ns + scripted.clock_ns);
}

int64_t scripted_shown_ns(void) {
    return atomic_load(&slot()->deadline_ns) - scripted.clock_ns;
}

static void send_bytes(const char *bytes, size_t length, int fd) {
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec part = {.iov_base = (char *) (uintptr_t) bytes, .iov_len = length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    if (fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof(control.bytes);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &fd, sizeof(int));
    }
    (void) pthread_mutex_lock(&socket_lock);
    (void) sendmsg(socket_fd, &message, MSG_NOSIGNAL);
    (void) pthread_mutex_unlock(&socket_lock);
}

void scripted_send(const char *format, ...) {
    char text[1024];
    va_list arguments;

    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    assert(length > 0 && (size_t) length < sizeof(text));
    send_bytes(text, (size_t) length, -1);
}

static bool is(const struct resp_token *token, const char *word) {
    return token->length == strlen(word) && memcmp(token->text, word, token->length) == 0;
}

static void make_page(void) {
    const uint32_t header[] = {0x4b434c52, 1, 1, sizeof(struct slot), HEADER_BYTES};

    if (page_fd >= 0)
        (void) close(page_fd);
    page_fd = memfd_create("page", MFD_CLOEXEC);
    assert(page_fd >= 0 && ftruncate(page_fd, DEADLINE_PAGE_BYTES) == 0);
    page = mmap(NULL, DEADLINE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, page_fd, 0);
    assert(page != MAP_FAILED);
    memcpy(page, header, sizeof(header));
}

static void send_page(void) {
    static const char reply[] = "%3\r\n$7\r\nversion\r\n:1\r\n$5\r\nbytes\r\n:4096\r\n$5\r\nslots\r\n:1\r\n";

    if (!scripted.has_page) {
        scripted_send("-QUOTA no page\r\n");
        return;
    }
    make_page();
    send_bytes(reply, sizeof(reply) - 1, page_fd);
}

/* The pushes that end a lease. */
static void put_end(char *text, size_t size) {
    unsigned long long id = scripted.id;

    (void) snprintf(text, size,
                    ">4\r\n$7\r\nat-risk\r\n:%llu\r\n:50\r\n$6\r\nunread\r\n"
                    ">4\r\n$8\r\nextended\r\n:%llu\r\n:50\r\n:1\r\n"
                    ">4\r\n$4\r\nlost\r\n:%llu\r\n$6\r\nunread\r\n$1\r\nx\r\n",
                    id, id, id);
}

/* A map, which follows `head`. */
static void send_grant(const char *head) {
    char end[256] = "";
    int64_t deadline_ns = agent_now_ns() + scripted.ttl_ms * NS_PER_MS;
    char name[] = "x";

    if (scripted.loses_grants)
        put_end(end, sizeof(end));
    if (scripted.has_page && page)
        scripted_show(deadline_ns - scripted.clock_ns);
    scripted_send(
        "%s%%7\r\n$2\r\nid\r\n:%llu\r\n$4\r\nname\r\n$1\r\n%s\r\n$5\r\nfence\r\n:7\r\n$8\r\nvalidity\r\n"
        ":%lld\r\n$8\r\ndeadline\r\n:%lld\r\n$4\r\nslot\r\n:%d\r\n$6\r\nsecret\r\n$1\r\ns\r\n%s",
        head, (unsigned long long) scripted.id, name, (long long) scripted.ttl_ms, (long long) deadline_ns,
        scripted.has_page ? 0 : -1, end);
}

void scripted_grant(void) {
    char head[64];

    (void) snprintf(head, sizeof(head), ">3\r\n$7\r\ngranted\r\n:%llu\r\n",
                    (unsigned long long) scripted.id);
    send_grant(head);
}

static void answer_request(bool async) {
    atomic_fetch_add(&scripted.id, 1);
    if (!async) {
        send_grant("");
        return;
    }
    scripted_send("*2\r\n$7\r\nwaiting\r\n:%llu\r\n", (unsigned long long) scripted.id);
    if (!scripted.keeps_waiting)
        scripted_grant();
}

static void answer_observe(const struct resp_token *name) {
    bool is_new = !is_observed;

    atomic_fetch_add(&scripted.observes, 1); /* before the client knows */
    is_observed = scripted.pushes_leader;
    scripted_send(":%d\r\n", is_new);
    if (is_new && scripted.pushes_leader)
        scripted_send(">3\r\n$6\r\nleader\r\n$%zu\r\n%.*s\r\n%%1\r\n$5\r\nstate\r\n$4\r\nfree\r\n",
                      name->length, (int) name->length, name->text);
}

static void answer(const struct resp_token *items, size_t n) {
    bool async = is(&items[n - 1], "ASYNC");

    if (is(&items[0], "HELLO") && scripted.refuses_clients) {
        scripted_send("-QUOTA user 1000 has 64 of 64 sessions\r\n");
        (void) shutdown(socket_fd, SHUT_WR);
    } else if (is(&items[0], "HELLO") && scripted.sends_clock) {
        scripted_send("%%1\r\n$3\r\nnow\r\n:%lld\r\n", (long long) agent_now_ns());
    } else if (is(&items[0], "HELLO")) {
        scripted_send("%%1\r\n$5\r\nproto\r\n:3\r\n");
    } else if (is(&items[0], "PAGE")) {
        send_page();
    } else if (is(&items[0], "ACQUIRE")) {
        answer_request(async);
        atomic_fetch_add(&scripted.acquires, 1);
    } else if (is(&items[0], "RESUME")) {
        if (scripted.refuses_resume)
            scripted_send("-NOTHELD it has ended\r\n");
        else
            answer_request(async);
        atomic_fetch_add(&scripted.resumes, 1);
    } else if (is(&items[0], "CHECK")) {
        int64_t left_ms = (scripted_shown_ns() - boottime_ns()) / NS_PER_MS;
        left_ms = left_ms > 0 ? left_ms : 0;
        scripted_send(":%lld\r\n", (long long) (scripted.check_ms >= 0 ? scripted.check_ms : left_ms));
        atomic_fetch_add(&scripted.checks, 1);
    } else if (is(&items[0], "LEADER") && is(&items[1], "hash")) {
        scripted_send("%%6\r\n$6\r\nholder\r\n$0\r\n\r\n$4\r\nhost\r\n$0\r\n\r\n$5\r\nfence\r\n:0\r\n"
                      "$4\r\ndata\r\n$0\r\n\r\n$8\r\nvalidity\r\n:-1\r\n$4\r\ntype\r\n$4\r\nhash\r\n");
    } else if (is(&items[0], "LEADER") && is(&items[1], "cooling")) {
        scripted_send("%%4\r\n$6\r\nholder\r\n$16\r\nweb1:00c0ffee:42\r\n$8\r\nvalidity\r\n:10\r\n"
                      "$5\r\nsince\r\n:1500\r\n$7\r\ncooling\r\n:700\r\n");
    } else if (is(&items[0], "LEADER")) {
        scripted_send("%%2\r\n$6\r\nholder\r\n$16\r\nweb1:00c0ffee:42\r\n$8\r\nvalidity\r\n:10\r\n");
    } else if (is(&items[0], "OBSERVE")) {
        answer_observe(&items[1]);
    } else if (is(&items[0], "UNOBSERVE")) {
        atomic_fetch_add(&scripted.unobserves, 1);
        is_observed = false;
        scripted_send(":1\r\n");
    } else if (is(&items[0], "BEAT")) {
        scripted_send(":%lld\r\n", (long long) scripted.beat);
    } else if (is(&items[0], "RELEASE") && scripted.breaks_at_release) {
        scripted_grant();
        (void) shutdown(socket_fd, SHUT_RDWR);
    } else if (is(&items[0], "RELEASE")) {
        scripted_send(":%lld\r\n", (long long) scripted.release);
        atomic_fetch_add(&scripted.releases, 1);
    } else {
        scripted_send("-ERR unknown command\r\n");
    }
}

static void serve(void) {
    static const struct resp_limits limits = {
        .bulk_bytes_max = 4096, .tokens_max = ITEMS_MAX, .depth_max = 1};
    struct resp_token items[ITEMS_MAX];
    char bytes[BUFFER_BYTES];
    size_t length = 0, n;

    is_observed = false;
    while (!stop) {
        struct pollfd fd = {.fd = socket_fd, .events = POLLIN};
        if (poll(&fd, 1, 1) <= 0 || scripted.is_silent)
            continue;
        ssize_t got = recv(socket_fd, bytes + length, sizeof(bytes) - length, 0);
        if (got <= 0) {
            atomic_fetch_add(&scripted.hang_ups, 1);
            return;
        }
        length += (size_t) got;
        for (long used; length > 0; length -= (size_t) used) {
            used = resp_parse_request(bytes, length, &limits, items, &n);
            if (used < 0 || (used == 0 && n == 0))
                break;
            answer(items, n);
            memmove(bytes, bytes + used, length - (size_t) used);
        }
    }
}

static void *run(void *userdata) {
    (void) userdata;
    while (!stop) {
        struct pollfd fd = {.fd = listen_fd, .events = POLLIN};
        if (poll(&fd, 1, 1) <= 0)
            continue;
        socket_fd = accept(listen_fd, NULL, NULL);
        serve();
        (void) pthread_mutex_lock(&socket_lock);
        (void) close(socket_fd);
        socket_fd = -1;
        (void) pthread_mutex_unlock(&socket_lock);
    }
    return NULL;
}

void scripted_again(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    memcpy(address.sun_path, scripted.path, sizeof(address.sun_path));
    (void) unlink(scripted.path);
    listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listen_fd, (const struct sockaddr *) &address, sizeof(address)) < 0 || listen(listen_fd, 8) < 0)
        abort();
    stop = false;
    if (pthread_create(&thread, NULL, run, NULL) != 0)
        abort();
}

void scripted_die(void) {
    if (listen_fd < 0)
        return;
    stop = true;
    (void) pthread_join(thread, NULL);
    (void) close(listen_fd);
    listen_fd = -1;
    (void) unlink(scripted.path);
}

void scripted_start(void) {
    static unsigned serial;

    scripted_die();
    scripted = (struct scripted){
        .ttl_ms = 60000, .check_ms = -1, .beat = 1, .release = 1, .has_page = true, .sends_clock = true};
    scripted.id = 100;
    (void) snprintf(scripted.path, sizeof(scripted.path), "/tmp/redlock-scripted-%ld-%u", (long) getpid(),
                    serial++);
    scripted_again();
}
