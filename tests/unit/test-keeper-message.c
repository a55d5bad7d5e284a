/* What a keeper tells arrives at the front in its order, extensions many at a time. */

#include "io/node/keeper-message.h"

#include <string.h>

#include "tap.h"

enum { RING_BYTES = 1 << 16 };

static struct mailbox outbox;
static struct keeper_message_queue dispatcher;
static struct keeper_message_survey survey;
static char told[256]; /* what came: "E1 E2 A1 P7 " */

static void say(enum report_kind kind, uint64_t request) {
    keeper_message_report(&dispatcher, &(struct report){.kind = kind,
                                                        .request = request,
                                                        .deadline_ns = 1000 * (instant_ns) request,
                                                        .text = kind == REPORT_LOST ? "why" : NULL,
                                                        .text_length = kind == REPORT_LOST ? 3 : 0});
}

static void note(char kind, uint64_t number) {
    size_t length = strlen(told);
    (void) snprintf(told + length, sizeof(told) - length, "%c%llu ", kind, (unsigned long long) number);
}

/* The number of extensions; -1 when one has not the deadline that it was told with. */
static int hear(void) {
    const struct keeper_message *dispatch;
    int extensions = 0;
    size_t length;

    told[0] = '\0';
    (void) keeper_message_flush(&dispatcher);
    while ((dispatch = mailbox_next(&outbox, &length))) {
        const struct extension *extension = (const void *) (dispatch + 1);
        switch (dispatch->kind) {
        case KEEPER_MESSAGE_EXTENSIONS:
            if (length != sizeof(*dispatch) + dispatch->number * sizeof(*extension))
                return -1;
            for (uint32_t i = 0; i < dispatch->number; i++, extension++, extensions++) {
                note('E', extension->request);
                if (extension->deadline_ns != 1000 * (instant_ns) extension->request)
                    return -1;
            }
            break;
        case KEEPER_MESSAGE_REPORT:
            note(dispatch->report.kind == REPORT_AT_RISK ? 'A' : 'L', dispatch->report.request);
            if (dispatch->report.text_length > 0 && memcmp(dispatch + 1, "why", 3) != 0)
                return -1;
            break;
        case KEEPER_MESSAGE_PONG:
            note('P', dispatch->number);
            break;
        case KEEPER_MESSAGE_SURVEY:
            note('S', dispatch->number);
            if (length != sizeof(*dispatch) + sizeof(survey) ||
                memcmp(dispatch + 1, &survey, sizeof(survey)) != 0)
                return -1;
            break;
        }
    }
    return extensions;
}

int main(void) {
    unsigned records = 0;
    size_t length;

    if (mailbox_init(&outbox, RING_BYTES) < 0)
        skip_all("no sockets");
    keeper_message_queue_init(&dispatcher, &outbox);
    memset(&survey, 7, sizeof(survey));

    say(REPORT_EXTENDED, 1);
    say(REPORT_EXTENDED, 2);
    say(REPORT_AT_RISK, 1);
    say(REPORT_EXTENDED, 1);
    say(REPORT_LOST, 2);
    is_int(hear(), 3, "extensions have their deadlines");
    is_string(told, "E1 E2 A1 E1 L2 ", "rule 13: what is told of a lease keeps its order");

    say(REPORT_EXTENDED, 3);
    keeper_message_pong(&dispatcher, 7);
    say(REPORT_EXTENDED, 4);
    keeper_message_survey(&dispatcher, 8, &survey);
    is_int(hear(), 2, "so does the rest");
    is_string(told, "E3 P7 E4 S8 ", "whatever it is");

    for (unsigned i = 0; i < 2 * KEEPER_MESSAGE_EXTENSIONS_MAX + 1; i++)
        say(REPORT_EXTENDED, i);
    (void) keeper_message_flush(&dispatcher);
    while (mailbox_next(&outbox, &length))
        records++;
    is_int(records, 3, "as many as a call has names travel together");
    is_int(hear(), 0, "and once");
    mailbox_deinit(&outbox);
    return done_testing();
}
