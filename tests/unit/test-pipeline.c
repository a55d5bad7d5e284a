/* Commands and answers on a real socket. The test has the other end. */

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "io/loop/multi-write.h"
#include "io/node/pipeline.h"
#include "tap.h"

enum { LARGE = 100 * 1000, MANY = 40 };

static struct pipeline pipeline;
static redisAsyncContext *context;
static int server = -1;
static bool connected, disconnected, closes;
static char answers[4096]; /* each followed by a blank */

static void on_connect(const redisAsyncContext *which, int status) {
    (void) which;
    connected = status == REDIS_OK;
    pipeline_connected(&pipeline);
}

static void on_disconnect(const redisAsyncContext *which, int status) {
    (void) which;
    (void) status;
    disconnected = true;
    pipeline_drop(&pipeline);
}

static void on_answer(redisReply *reply, void *userdata) {
    const char *text = !reply                               ? "cut"
                       : reply->type == REDIS_REPLY_ARRAY   ? reply->element[1]->str
                       : reply->type == REDIS_REPLY_INTEGER ? "number"
                                                            : reply->str;
    size_t length = strlen(answers);

    (void) snprintf(answers + length, sizeof(answers) - length, "%s:%.20s ", (const char *) userdata, text);
    if (closes)
        pipeline_close(&pipeline);
}

static void begin(int listening, const char *path) {
    answers[0] = '\0';
    connected = disconnected = closes = false;
    context = redisAsyncConnectUnix(path);
    if (!context || context->err || pipeline_attach(&pipeline, context, false) < 0)
        skip_all("can't connect");
    (void) redisAsyncSetConnectCallback(context, on_connect);
    (void) redisAsyncSetDisconnectCallback(context, on_disconnect);
    server = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    pipeline.adapter.target.on_events(&pipeline.adapter.target, EPOLLOUT);
    ok(connected && server >= 0, "connected");
}

static void serve(const char *text) {
    if (write(server, text, strlen(text)) != (ssize_t) strlen(text))
        skip_all("the socket is full");
    pipeline.adapter.target.on_events(&pipeline.adapter.target, EPOLLIN);
}

static void test_order(void) {
    static char one[] = "one", two[] = "two", three[] = "three";
    char bytes[256];

    (void) pipeline_ask(&pipeline, on_answer, one, "PING %s", "1");
    (void) pipeline_ask(&pipeline, on_answer, two, "PING %s", "2");
    (void) pipeline_ask(&pipeline, on_answer, three, "PING %s", "3");
    ok(read(server, bytes, sizeof(bytes)) < 0, "nothing is sent before the end of the turn");
    pipeline_flush(&pipeline);
    is_int(read(server, bytes, sizeof(bytes)), 3 * (ssize_t) strlen("*2\r\n$4\r\nPING\r\n$1\r\n1\r\n"),
           "then everything at once");
    serve("+a\r\n*2\r\n:1\r\n$1\r\n");
    is_string(answers, "one:a ", "complete answers are delivered");
    serve("b\r\n:7\r\n");
    is_string(answers, "one:a two:b three:number ", "in the order of the commands");
}

/* Far more than a socket buffers. */
static void test_large(void) {
    static char large[LARGE + 1], bytes[LARGE], who[] = "x";
    size_t total = 0, wanted = MANY * strlen("*2\r\n$4\r\nPING\r\n$100000\r\n\r\n") + MANY * (size_t) LARGE;
    unsigned marks = 0;

    memset(large, 'x', LARGE);
    large[LARGE - 1] = '!';
    for (unsigned i = 0; i < MANY; i++)
        (void) pipeline_ask(&pipeline, on_answer, who, "PING %s", large);
    pipeline_flush(&pipeline);
    ok(pipeline.adapter.polls_write, "bytes that a full socket does not take wait for room");
    for (ssize_t n; (n = read(server, bytes, sizeof(bytes))) > 0;) {
        for (ssize_t i = 0; i < n; i++)
            marks += bytes[i] == '!';
        total += (size_t) n;
        pipeline.adapter.target.on_events(&pipeline.adapter.target, EPOLLOUT);
    }
    is_int(total, wanted, "all bytes arrive");
    is_int(marks, MANY, "whole");
    ok(!pipeline.adapter.polls_write && !pipeline.unsent, "then writability is no longer awaited");
    answers[0] = '\0';
    for (unsigned i = 0; i < MANY; i++)
        serve("+y\r\n");
    is_int(strlen(answers), MANY * strlen("x:y "), "each is answered");
}

static void on_piece_answer(redisReply *reply, void *userdata) {
    (void) reply;
    pending_call_free(userdata);
}

/* Commands in pieces, and their answers. */
static struct stream {
    size_t sent, got;
    char wanted[400 * 1500], bytes[400 * 1500];
} streams[2];

/* Commands that share head and tail, in many sizes. */
static void send_pieces(struct pipeline *through, struct stream *stream, size_t records) {
    enum { SHARED = 700 };
    static char shared[SHARED];
    struct list none;

    list_init(&none);
    for (size_t i = 0; i < SHARED; i++)
        shared[i] = (char) ('a' + i % 23);
    for (size_t i = 0; i < records; i++) {
        struct pending_call *record = pending_call_new(&none, 1 + i % 50);
        size_t split = i * 37 % SHARED, end = i % 7 == 6 ? split : SHARED - i % 11;
        record->length = i % 5 == 4 ? 0 : 1 + i % 50;
        memset(record->bytes, 'A' + (int) (i % 26), record->length);
        record->head = (struct pending_call_piece){shared, split};
        record->tail = (struct pending_call_piece){shared + split, end > split ? end - split : 0};
        record->on_reply = on_piece_answer;
        memcpy(stream->wanted + stream->sent, shared, split);
        stream->sent += split;
        memcpy(stream->wanted + stream->sent, record->bytes, record->length);
        stream->sent += record->length;
        memcpy(stream->wanted + stream->sent, record->tail.bytes, record->tail.length);
        stream->sent += record->tail.length;
        (void) pipeline_send(through, record);
    }
}

/* Reads a few bytes at a time, so that writing continues. */
static void take(struct pipeline *through, struct stream *stream, int fd, size_t at_most) {
    for (ssize_t n; (n = read(fd, stream->bytes + stream->got, at_most)) > 0;) {
        stream->got += (size_t) n;
        through->adapter.target.on_events(&through->adapter.target, EPOLLOUT);
    }
}

static bool is_whole(const struct stream *stream) {
    return stream->got == stream->sent && memcmp(stream->bytes, stream->wanted, stream->sent) == 0;
}

/* Writes stop at each boundary of a piece. */
static void test_pieces(void) {
    enum { RECORDS = 400 };
    struct stream *stream = &streams[0];

    (void) setsockopt(pipeline.adapter.fd, SOL_SOCKET, SO_SNDBUF, &(int){4096}, sizeof(int));
    send_pieces(&pipeline, stream, RECORDS);
    pipeline_flush(&pipeline);
    ok(pipeline.adapter.polls_write, "a small socket buffer does not take them at once");
    take(&pipeline, stream, server, 113);
    ok(is_whole(stream), "commands in pieces arrive complete");
    for (unsigned i = 0; i < RECORDS; i++)
        serve("+y\r\n");
    ok(!list_first(&pipeline.sent), "each is answered");
}

static struct pipeline other;

static void on_other_connect(const redisAsyncContext *which, int status) {
    (void) which;
    (void) status;
    pipeline_connected(&other);
}

static void on_other_disconnect(const redisAsyncContext *which, int status) {
    (void) which;
    (void) status;
    pipeline_drop(&other);
}

/* A second connection and its server's end. With `tls`, hiredis writes, encrypted or not. */
static int other_begin(int listening, const char *path, bool tls) {
    redisAsyncContext *second = redisAsyncConnectUnix(path);

    if (!second || second->err || pipeline_attach(&other, second, tls) < 0)
        skip_all("can't connect");
    (void) redisAsyncSetConnectCallback(second, on_other_connect);
    (void) redisAsyncSetDisconnectCallback(second, on_other_disconnect);
    int fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    other.adapter.target.on_events(&other.adapter.target, EPOLLOUT);
    return fd;
}

/* One system call writes to both, as far as possible. */
static void test_burst(int listening, const char *path) {
    struct pipeline *const both[] = {&pipeline, &other};
    int fds[] = {server, other_begin(listening, path, false)};
    struct multi_write burst;

    multi_write_init(&burst);
    for (size_t records = 1; records < 40; records += 6) {
        memset(streams, 0, sizeof(streams));
        for (unsigned i = 0; i < 2; i++)
            send_pieces(both[i], &streams[i], records + i);
        pipeline_burst(&burst, both, 2);
        for (unsigned i = 0; i < 2; i++) {
            pipeline_flush(both[i]);
            take(both[i], &streams[i], fds[i], 4096);
            for (size_t answers_left = records + i; answers_left > 0; answers_left--)
                if (write(fds[i], "+y\r\n", 4) != 4)
                    skip_all("the socket is full");
            both[i]->adapter.target.on_events(&both[i]->adapter.target, EPOLLIN);
        }
        ok(is_whole(&streams[0]) && is_whole(&streams[1]), "%zu commands in a burst arrive complete",
           records);
    }
    multi_write_deinit(&burst);
    pipeline_close(&other);
    (void) close(fds[1]);
}

/* hiredis parses the bytes, so this is a command. */
static void test_hiredis(int listening, const char *path) {
    static const char begin[] = "*2\r\n$4\r\nPI", own[] = "NG\r\n$3", end[] = "\r\nall\r\n";
    static const char wanted[] = "*2\r\n$4\r\nPING\r\n$3\r\nall\r\n";
    int fd = other_begin(listening, path, true);
    struct list none;
    char got[64] = "";

    list_init(&none);
    struct pending_call *record = pending_call_new(&none, sizeof(own));
    memcpy(record->bytes, own, sizeof(own) - 1);
    record->length = sizeof(own) - 1;
    record->head = (struct pending_call_piece){begin, sizeof(begin) - 1};
    record->tail = (struct pending_call_piece){end, sizeof(end) - 1};
    record->on_reply = on_piece_answer;
    (void) pipeline_send(&other, record);
    pipeline_flush(&other);
    ssize_t n = read(fd, got, sizeof(got) - 1);
    ok(n == (ssize_t) strlen(wanted) && strcmp(got, wanted) == 0,
       "a command in pieces arrives complete through the queue of hiredis, as with TLS");
    ok(write(fd, "+y\r\n", 4) == 4, "the other end answers");
    other.adapter.target.on_events(&other.adapter.target, EPOLLIN);
    ok(!list_first(&other.sent), "and its answer arrives");
    pipeline_close(&other);
    (void) close(fd);
}

static unsigned callbacks;

static void on_counted_answer(redisReply *reply, void *userdata) {
    on_piece_answer(reply, userdata);
    callbacks++;
}

static struct pending_call *ping(struct list *none) {
    static const char begin[] = "*1\r\n$4\r\nPING\r\n";
    struct pending_call *record = pending_call_new(none, 1);

    record->head = (struct pending_call_piece){begin, sizeof(begin) - 1};
    record->length = 0;
    record->on_reply = on_counted_answer;
    return record;
}

/* hiredis takes no command without memory, nor while it disconnects. */
static void test_refused_by_hiredis(int listening, const char *path) {
    int fd = other_begin(listening, path, true);
    struct list none;

    list_init(&none);
    is_int(pipeline_send(&other, ping(&none)), 0, "hiredis takes a command");
    redisAsyncDisconnect(other.adapter.context);
    struct pending_call *record = ping(&none);
    ok(pipeline_send(&other, record) < 0, "and refuses the next");
    is_int(callbacks, 0, "which is returned, without a callback");
    pending_call_free(record);
    static char who[] = "r";
    answers[0] = '\0';
    ok(pipeline_ask(&other, on_answer, who, "PING") < 0 && answers[0] == '\0', "like a rare one");
    pipeline_close(&other);
    is_int(callbacks, 1, "the first one is cut off");
    (void) close(fd);
}

static void test_close_in_callback(void) {
    static char who[] = "c";

    answers[0] = '\0';
    closes = true;
    for (unsigned i = 0; i < 3; i++)
        (void) pipeline_ask(&pipeline, on_answer, who, "PING");
    pipeline_flush(&pipeline);
    serve("+a\r\n+b\r\n+c\r\n");
    closes = false;
    ok(disconnected, "a callback may close the connection");
    is_string(answers, "c:a c:cut c:cut ", "and its later answers are dropped");
}

static void test_unasked(const char *text, const char *want) {
    static char who[] = "u";

    (void) pipeline_ask(&pipeline, on_answer, who, "PING");
    pipeline_flush(&pipeline);
    serve("+a\r\n");
    serve(text);
    ok(disconnected, "an answer without a command ends the connection");
    is_string(answers, want, "and is delivered to no command");
}

/* From a server of another protocol, perhaps before the connect callback. */
static void test_banner(int listening, const char *path) {
    connected = disconnected = false;
    context = redisAsyncConnectUnix(path);
    if (!context || context->err || pipeline_attach(&pipeline, context, false) < 0)
        skip_all("can't connect");
    (void) redisAsyncSetConnectCallback(context, on_connect);
    (void) redisAsyncSetDisconnectCallback(context, on_disconnect);
    (void) close(server);
    server = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (write(server, "+OK\r\n", 5) != 5)
        skip_all("the socket is full");
    pipeline.adapter.target.on_events(&pipeline.adapter.target, EPOLLIN | EPOLLOUT);
    ok(connected && disconnected, "a server that speaks first is disconnected");
}

int main(void) {
    static const struct poller_hooks hooks = {0};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct poller *poller = NULL;
    sd_event *event = NULL;
    int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void) snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/test-pipeline-%d", (int) getpid());
    if (listening < 0 || bind(listening, (struct sockaddr *) &address, sizeof(address)) < 0 ||
        listen(listening, 4) < 0 || sd_event_new(&event) < 0 || poller_new(event, &hooks, NULL, &poller) < 0)
        skip_all("no sockets");
    pipeline_init(&pipeline, poller);
    begin(listening, address.sun_path);
    test_order();
    test_large();
    test_pieces();
    pipeline_init(&other, poller);
    test_burst(listening, address.sun_path);
    test_hiredis(listening, address.sun_path);
    test_refused_by_hiredis(listening, address.sun_path);
    pipeline_deinit(&other);
    test_close_in_callback();
    begin(listening, address.sun_path);
    test_unasked("+b\r\n", "u:a ");
    begin(listening, address.sun_path);
    test_unasked("*1000000000\r\n", "u:a ");
    test_banner(listening, address.sun_path);
    begin(listening, address.sun_path);
    (void) close(server);
    (void) pipeline_ask(&pipeline, on_answer, (char[]){"gone"}, "PING");
    pipeline.adapter.target.on_events(&pipeline.adapter.target, EPOLLIN);
    is_string(answers, "gone:cut ", "when the server closes, commands under way are cut off");
    pipeline_deinit(&pipeline);
    poller_free(poller);
    sd_event_unref(event);
    (void) unlink(address.sun_path);
    return done_testing();
}
