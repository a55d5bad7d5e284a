#include "leadership.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "json.h"
#include "listing.h"
#include "printable.h"

enum { TIME_BYTES = 40 };

int64_t leadership_wall_clock_us(int64_t ago_ms) {
    struct timespec now;

    (void) clock_gettime(CLOCK_REALTIME, &now);
    int64_t now_us = (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
    if (ago_ms < 0 || now_us < 0)
        return now_us;
    return ago_ms < now_us / 1000 ? now_us - ago_ms * 1000 : 0;
}

/* A token is the time of the grant in µs since 1970, unless clocks were set. After all nodes have lost their
 * data, tokens run ahead of time: then the present time is the latest possible. */
static int64_t since_us(const struct leadership *leadership) {
    int64_t now_us = leadership_wall_clock_us(0);
    int64_t fence_us = (int64_t) leadership->fence < now_us ? (int64_t) leadership->fence : now_us;

    if (leadership->fence > 0 && !leadership->since_is_known &&
        (leadership->since_us < 0 || fence_us < leadership->since_us))
        return fence_us;
    return leadership->since_us;
}

static const char *time_text(int64_t us, char buffer[TIME_BYTES]) {
    time_t seconds = (time_t) (us / 1000000);
    struct tm at;
    char day[TIME_BYTES / 2 + 1];

    if (!gmtime_r(&seconds, &at) || strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &at) == 0)
        return "";
    (void) snprintf(buffer, TIME_BYTES, "%s.%03dZ", day, (int) (us / 1000 % 1000));
    return buffer;
}

static void print_json(const struct leadership *leadership) {
    int64_t us = since_us(leadership);
    char since[TIME_BYTES];

    (void) fputs("{\"name\":", stdout);
    json_string(stdout, leadership->name, strlen(leadership->name));
    if (leadership->state)
        (void) printf(",\"state\":\"%s\"", leadership->state);
    (void) fputs(",\"holder\":", stdout);
    json_string(stdout, leadership->holder, leadership->holder_length);
    (void) fputs(",\"host\":", stdout);
    json_string(stdout, leadership->host, leadership->host_length);
    (void) printf(",\"fence\":%" PRIu64 ",\"since\":", leadership->fence);
    if (us >= 0)
        (void) printf("\"%s\"", time_text(us, since));
    else
        (void) fputs("null", stdout);
    (void) fputs(",\"data\":", stdout);
    json_string(stdout, leadership->data, leadership->data_length);
    if (leadership->type_length > 0) {
        (void) fputs(",\"type\":", stdout);
        json_string(stdout, leadership->type, leadership->type_length);
    }
    if (leadership->cooling_ms > 0)
        (void) printf(",\"cooling\":%" PRId64, leadership->cooling_ms);
    if (leadership->validity_ms != LEADERSHIP_UNTIMED)
        (void) printf(",\"validity\":%" PRId64, leadership->validity_ms);
    (void) fputs("}\n", stdout);
}

static void print_text(const struct leadership *leadership) {
    int64_t us = since_us(leadership);
    char since[TIME_BYTES];

    (void) printf("%s  ", printable_text(leadership->name, strlen(leadership->name)));
    if (leadership->holder_length > 0)
        (void) fputs(printable_text(leadership->holder, leadership->holder_length), stdout);
    else if (leadership->type_length > 0)
        (void) printf("no lock: its Redis key is of type %s",
                      printable_text(leadership->type, leadership->type_length));
    else
        (void) fputs(leadership->state && strcmp(leadership->state, "free") == 0 ? "nobody" : "unknown",
                     stdout);
    if (leadership->host_length > 0)
        (void) printf("  on %s", printable_text(leadership->host, leadership->host_length));
    if (leadership->fence != 0)
        (void) printf("  fence %" PRIu64, leadership->fence);
    if (us >= 0)
        (void) printf("  since %s", time_text(us, since));
    if (leadership->cooling_ms > 0)
        (void) printf("  cooling: ended, and taken for %" PRId64 " ms more", leadership->cooling_ms);
    else if (leadership->validity_ms >= 0)
        (void) printf("  %" PRId64 " ms left", leadership->validity_ms);
    else if (leadership->validity_ms != LEADERSHIP_UNTIMED)
        (void) fputs("  without an expiry", stdout);
    if (leadership->data_length > 0) {
        (void) fputs("  ", stdout);
        json_string(stdout, leadership->data, leadership->data_length); /* any bytes: quoted */
    }
    (void) putchar('\n');
}

void leadership_print(const struct leadership *leadership, bool json) {
    if (json)
        print_json(leadership);
    else
        print_text(leadership);
}

struct answer {
    const char *name;
    bool json, held;
    struct leadership_facts facts;
};

static void print_answer(void *userdata, const struct resp_token *tokens, size_t n_tokens) {
    struct answer *answer = userdata;

    (void) n_tokens;
    answer->held = tokens[0].type == RESP_MAP;
    if (!answer->held) {
        (void) puts(answer->json ? "null" : "nobody");
        return;
    }
    const struct resp_token *holder = listing_get_text(tokens, "holder"),
                            *host = listing_get_text(tokens, "host"),
                            *data = listing_get_text(tokens, "data"),
                            *type = listing_get_text(tokens, "type");
    struct leadership leadership = {.name = answer->name,
                                    .holder = holder ? holder->text : "",
                                    .holder_length = holder ? holder->length : 0,
                                    .host = host ? host->text : "",
                                    .host_length = host ? host->length : 0,
                                    .data = data ? data->text : "",
                                    .data_length = data ? data->length : 0,
                                    .type = type ? type->text : "",
                                    .type_length = type ? type->length : 0,
                                    .fence = (uint64_t) listing_integer(tokens, "fence"),
                                    .since_us = -1,
                                    .cooling_ms = listing_integer(tokens, "cooling"),
                                    .validity_ms = listing_integer(tokens, "validity")};
    int64_t since_ms = listing_integer(tokens, "since");
    if (since_ms > 0) {
        leadership.since_us = leadership_wall_clock_us(since_ms);
        leadership.since_is_known = true;
    }
    answer->facts = (struct leadership_facts){.fence = leadership.fence,
                                              .cooling_ms = leadership.cooling_ms,
                                              .is_agents = leadership.host_length > 0};
    leadership_print(&leadership, answer->json);
}

int leadership_show(struct redlock *connection, const char *name, bool json, struct leadership_facts *ret) {
    struct answer answer = {.name = name, .json = json};
    int error = listing_request(connection, (const char *const[]){"LEADER", name, NULL}, LISTING_HOLDER,
                                print_answer, &answer);

    if (error != REDLOCK_OK)
        return cli_failed(connection, error, name);
    if (ret)
        *ret = answer.facts;
    return answer.held ? STATUS_DONE : STATUS_HELD;
}
