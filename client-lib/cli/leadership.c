#include "leadership.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "json.h"

enum { TIME_BYTES = 40 };

int64_t wall_clock_us(void) {
    struct timespec now;

    (void) clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* A token is the time of the grant in µs since 1970, as long as no clock was set. Tokens run ahead after all
 * nodes have lost their data; but nobody leads since a time that is yet to come. */
static int64_t since_us(const struct leadership *leadership) {
    int64_t now_us = wall_clock_us();
    int64_t fence_us = (int64_t) leadership->fence < now_us ? (int64_t) leadership->fence : now_us;

    if (leadership->fence > 0 && (leadership->since_us < 0 || fence_us < leadership->since_us))
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
    if (leadership->validity_ms >= 0)
        (void) printf(",\"validity\":%" PRId64, leadership->validity_ms);
    (void) fputs("}\n", stdout);
}

static void print_text(const struct leadership *leadership) {
    int64_t us = since_us(leadership);
    char since[TIME_BYTES];

    (void) printf("%s  ", leadership->name);
    if (leadership->holder_length > 0)
        (void) fwrite(leadership->holder, 1, leadership->holder_length, stdout);
    else if (leadership->type_length > 0)
        (void) printf("no lock: its Redis key is of type %.*s", (int) leadership->type_length,
                      leadership->type);
    else
        (void) fputs(leadership->state && strcmp(leadership->state, "free") == 0 ? "nobody" : "unknown",
                     stdout);
    if (leadership->host_length > 0)
        (void) printf("  on %.*s", (int) leadership->host_length, leadership->host);
    if (leadership->fence != 0)
        (void) printf("  fence %" PRIu64, leadership->fence);
    if (us >= 0)
        (void) printf("  since %s", time_text(us, since));
    if (leadership->validity_ms >= 0)
        (void) printf("  %" PRId64 " ms left", leadership->validity_ms);
    if (leadership->data_length > 0) {
        (void) fputs("  ", stdout);
        json_string(stdout, leadership->data, leadership->data_length); /* anything may be in it: quoted */
    }
    (void) putchar('\n');
}

void leadership_print(const struct leadership *leadership, bool json) {
    if (json)
        print_json(leadership);
    else
        print_text(leadership);
}
