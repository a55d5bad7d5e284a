/* redlock history: what happened to a name on this host, and how each node answered. */

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "duration.h"
#include "json.h"
#include "leadership.h"
#include "listing.h"
#include "options.h"
#include "printable.h"

enum { TIME_BYTES = 40, LINE_COLUMNS = 100 };

struct history {
    bool json;
    bool any;
};

/* The local wall-clock time, so long ago. */
static const char *wall_time(int64_t ago_ms, char buffer[TIME_BYTES]) {
    int64_t us = leadership_wall_clock_us(ago_ms);
    time_t seconds = (time_t) (us / 1000000);
    struct tm parts;

    size_t length = localtime_r(&seconds, &parts) ? strftime(buffer, TIME_BYTES, "%F %T", &parts) : 0;
    (void) snprintf(buffer + length, TIME_BYTES - length, ".%03d", (int) (us / 1000 % 1000));
    return buffer;
}

/* "a yes 0.20 ms", "c silent"; "b not-asked" goes without saying when others were asked. Returns the next
 * column. */
static int print_answer(const struct resp_token *node, int column) {
    const struct resp_token *name = listing_get_text(node, "name"),
                            *answer = listing_get_text(node, "answer");
    char after[DURATION_BYTES], text[160];
    int64_t us = listing_integer(node, "after");

    if (!name || !answer)
        return column;
    int length = snprintf(
        text, sizeof(text), us >= 0 ? "%s %s %s ms" : "%s %s", printable_text(name->text, name->length),
        printable_text(answer->text, answer->length), us == 0 ? "0.00" : duration_milliseconds(us, after));
    printable_clean(text, strlen(text)); /* it may be cut within a character */
    if (column > 0 && column + 2 + length > LINE_COLUMNS) {
        (void) putchar('\n');
        column = 0;
    }
    return column + printf("%s%s", column == 0 ? "    " : ", ", text);
}

static void print_answers(const struct resp_token *nodes) {
    struct listing_items maps = listing_items(nodes);
    int column = 0;

    for (const struct resp_token *node; (node = listing_next_map(&maps));)
        column = print_answer(node, column);
    if (column > 0)
        (void) putchar('\n');
}

/* "  waits up to 5.0 s; behind process 4711 of user 33, which holds the name" */
static void print_asked(const struct resp_token *map) {
    const struct resp_token *text = listing_get_text(map, "text");
    int64_t wait_ms = listing_integer(map, "wait");
    char wait[DURATION_BYTES];

    if (wait_ms > 0)
        (void) printf("  waits up to %s", duration_text(wait_ms, wait));
    else
        (void) printf("  %s", wait_ms == 0 ? "does not wait" : "waits without limit");
    if (text && text->length > 0)
        (void) printf("; %s", printable_text(text->text, text->length));
    (void) putchar('\n');
}

/* How long the request had waited, or the holder had had the lease since its request. */
static void print_details(const struct resp_token *map) {
    const struct resp_token *reason = listing_get_text(map, "reason");
    int64_t after_us = listing_integer(map, "after"), left_ms = listing_integer(map, "left");
    bool answers = listing_is(map, "event", "granted") || listing_is(map, "event", "handed-off") ||
                   listing_is(map, "event", "resumed") || listing_is(map, "event", "failed") ||
                   listing_is(map, "event", "contended");
    char after[DURATION_BYTES], left[DURATION_BYTES];

    (void) printf("  %s %s ms", answers ? "after" : "asked for",
                  after_us <= 0 ? "0" : duration_milliseconds(after_us, after));
    (void) printf(answers ? "" : " before");
    if (left_ms > 0)
        (void) printf(", %s left", duration_text(left_ms, left));
    if (reason && reason->length > 0)
        (void) printf("; %s: %s", printable_text(reason->text, reason->length), listing_text(map, "text"));
    (void) putchar('\n');
}

static void print_event(const struct resp_token *map) {
    char wall[TIME_BYTES], ago[DURATION_BYTES];
    int64_t ago_ms = listing_integer(map, "ago"), fence = listing_integer(map, "fence");

    (void) printf("%s  %8s ago  %-10s pid %" PRId64 " uid %" PRId64, wall_time(ago_ms, wall),
                  duration_text(ago_ms, ago), listing_text(map, "event"), listing_integer(map, "pid"),
                  listing_integer(map, "uid"));
    if (fence > 0)
        (void) printf(" fence %" PRId64, fence);
    if (listing_is(map, "event", "asked"))
        print_asked(map);
    else
        print_details(map);
    const struct resp_token *nodes = listing_get(map, "nodes");
    if (nodes && nodes->type == RESP_ARRAY)
        print_answers(nodes);
}

static void print_events(void *userdata, const struct resp_token *tokens, size_t n_tokens) {
    struct history *history = userdata;
    struct listing_items events = listing_items(tokens);

    history->any = n_tokens > 1;
    if (history->json) {
        (void) json_value(stdout, tokens);
        (void) putchar('\n');
        return;
    }
    for (const struct resp_token *event; (event = listing_next(&events));)
        print_event(event);
}

static int show(struct redlock *connection, struct history *history, const char *name, long count) {
    char number[DURATION_BYTES];
    const char *const words[] = {"HISTORY", name, count > 0 ? "COUNT" : NULL, number, NULL};

    (void) snprintf(number, sizeof(number), "%ld", count);
    int error = listing_request(connection, words, LISTING_MAPS, print_events, history);
    if (error != REDLOCK_OK)
        return cli_failed(connection, error, name);
    if (!history->any && !history->json)
        cli_complain("%s: no events on this host since the agent's start, or only other users'", name);
    return STATUS_DONE;
}

int cli_history(const struct cli *cli, int argc, char **argv) {
    static const char usage[] =
        "redlock history [--json] [--count N] NAME\n"
        "What happened to NAME on this host, the oldest first: who asked for it, behind whom, who was\n"
        "granted it after how long, why an attempt failed, when and why a lease was at risk or lost, and\n"
        "how each node answered. At most 32 events since the agent's start; those of other users for root,\n"
        "the agent's own user, and where a rule allows 'history'.\n";
    struct redlock *connection = NULL;
    struct history history = {0};
    const char *count_text = NULL;
    long count = 0;
    char *end;
    const struct options_row rows[] = {{"json", 0, OPTIONS_FLAG, &history.json},
                                       {"count", 0, OPTIONS_TEXT, &count_text}};

    int status = options_read(rows, 2, true, usage, argc, argv);
    if (status != 0)
        return status - 1;
    if (optind == argc) {
        cli_complain("history: expected NAME; see 'redlock history --help'");
        return STATUS_USAGE;
    }
    if (!options_end(argc, argv, 1))
        return STATUS_USAGE;
    if (count_text && ((count = strtol(count_text, &end, 10)) < 1 || *end != '\0')) {
        cli_complain("history: --count %s: expected a number from 1", count_text);
        return STATUS_USAGE;
    }
    status = cli_connect(cli, &connection);
    if (status != STATUS_DONE)
        return status;
    status = show(connection, &history, argv[optind], count < INT32_MAX ? count : INT32_MAX);
    redlock_close(connection);
    return status;
}
