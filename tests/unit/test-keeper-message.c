/* A keeper's messages arrive at the front in order, many extensions in one message. */

#include "io/node/keeper-message.h"

#include <string.h>

#include "tap.h"

enum { RING_BYTES = 1 << 16 };

static struct mailbox outbox;
static struct keeper_message_queue queue;
static struct keeper_message_survey survey;
static char received[256]; /* the messages received: "E1 E2 A1 P7 " */

static void report(enum report_kind kind, uint64_t request) {
    keeper_message_report(&queue, &(struct report){.kind = kind,
                                                   .request = request,
                                                   .deadline_ns = 1000 * (instant_ns) request,
                                                   .text = kind == REPORT_LOST ? "why" : NULL,
                                                   .text_length = kind == REPORT_LOST ? 3 : 0});
}

static void note(char kind, uint64_t number) {
    size_t length = strlen(received);
    (void) snprintf(received + length, sizeof(received) - length, "%c%llu ", kind,
                    (unsigned long long) number);
}

/* The number of extensions; -1 when one has another deadline than it was sent with. */
static int receive(void) {
    const struct keeper_message *message;
    int extensions = 0;
    size_t length;

    received[0] = '\0';
    (void) keeper_message_flush(&queue);
    while ((message = mailbox_next(&outbox, &length))) {
        const struct extension *extension = (const void *) (message + 1);
        switch (message->kind) {
        case KEEPER_MESSAGE_EXTENSIONS:
            if (length != sizeof(*message) + message->number * sizeof(*extension))
                return -1;
            for (uint32_t i = 0; i < message->number; i++, extension++, extensions++) {
                note('E', extension->request);
                if (extension->deadline_ns != 1000 * (instant_ns) extension->request)
                    return -1;
            }
            break;
        case KEEPER_MESSAGE_REPORT:
            note(message->report.kind == REPORT_AT_RISK ? 'A' : 'L', message->report.request);
            if (message->report.text_length > 0 && memcmp(message + 1, "why", 3) != 0)
                return -1;
            break;
        case KEEPER_MESSAGE_PONG:
            note('P', message->number);
            break;
        case KEEPER_MESSAGE_SURVEY:
            note('S', message->number);
            if (length != sizeof(*message) + sizeof(survey) ||
                memcmp(message + 1, &survey, sizeof(survey)) != 0)
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
    keeper_message_queue_init(&queue, &outbox);
    memset(&survey, 7, sizeof(survey));

    report(REPORT_EXTENDED, 1);
    report(REPORT_EXTENDED, 2);
    report(REPORT_AT_RISK, 1);
    report(REPORT_EXTENDED, 1);
    report(REPORT_LOST, 2);
    is_int(receive(), 3, "extensions have their deadlines");
    is_string(received, "E1 E2 A1 E1 L2 ", "rule 13: the messages of a lease keep their order");

    report(REPORT_EXTENDED, 3);
    keeper_message_pong(&queue, 7);
    report(REPORT_EXTENDED, 4);
    keeper_message_survey(&queue, 8, &survey);
    is_int(receive(), 2, "so do other messages");
    is_string(received, "E3 P7 E4 S8 ", "of any kind");

    for (unsigned i = 0; i < 2 * KEEPER_MESSAGE_EXTENSIONS_MAX + 1; i++)
        report(REPORT_EXTENDED, i);
    (void) keeper_message_flush(&queue);
    while (mailbox_next(&outbox, &length))
        records++;
    is_int(records, 3, "as many extensions as a call has names share a message");
    is_int(receive(), 0, "and once");
    mailbox_deinit(&outbox);
    return done_testing();
}
