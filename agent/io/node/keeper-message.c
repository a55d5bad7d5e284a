#include "io/node/keeper-message.h"

static_assert(sizeof(struct keeper_message) + KEEPER_MESSAGE_EXTENSIONS_MAX * sizeof(struct extension) <=
                  MAILBOX_RECORD_BYTES_MAX,
              "extensions fit into a record");
static_assert(sizeof(struct keeper_message) + sizeof(struct keeper_message_survey) <=
                  MAILBOX_RECORD_BYTES_MAX,
              "a survey fits into a record");

static void post_extensions(struct keeper_message_queue *queue) {
    const struct keeper_message message = {.kind = KEEPER_MESSAGE_EXTENSIONS, .number = queue->n_extensions};

    if (queue->n_extensions > 0)
        mailbox_post(queue->outbox, &message, sizeof(message), queue->extensions,
                     queue->n_extensions * sizeof(queue->extensions[0]));
    queue->n_extensions = 0;
}

/* After the pending extensions: the messages of one lease keep their order, or a lease at risk would count
 * as extended since. */
static void post(struct keeper_message_queue *queue, const struct keeper_message *message, const void *tail,
                 size_t tail_length) {
    post_extensions(queue);
    mailbox_post(queue->outbox, message, sizeof(*message), tail, tail_length);
}

void keeper_message_queue_init(struct keeper_message_queue *queue, struct mailbox *outbox) {
    queue->outbox = outbox;
    queue->n_extensions = 0;
}

void keeper_message_report(struct keeper_message_queue *queue, const struct report *report) {
    const struct keeper_message message = {.kind = KEEPER_MESSAGE_REPORT, .report = *report};

    if (report->kind != REPORT_EXTENDED) {
        post(queue, &message, report->text, report->text_length);
        return;
    }
    if (queue->n_extensions == KEEPER_MESSAGE_EXTENSIONS_MAX)
        post_extensions(queue);
    queue->extensions[queue->n_extensions++] =
        (struct extension){.request = report->request, .deadline_ns = report->deadline_ns};
}

void keeper_message_survey(struct keeper_message_queue *queue, uint32_t number,
                           const struct keeper_message_survey *survey) {
    const struct keeper_message message = {.kind = KEEPER_MESSAGE_SURVEY, .number = number};

    post(queue, &message, survey, sizeof(*survey));
}

void keeper_message_pong(struct keeper_message_queue *queue, uint32_t number) {
    const struct keeper_message message = {.kind = KEEPER_MESSAGE_PONG, .number = number};

    post(queue, &message, NULL, 0);
}

bool keeper_message_flush(struct keeper_message_queue *queue) {
    post_extensions(queue);
    return mailbox_flush(queue->outbox);
}
